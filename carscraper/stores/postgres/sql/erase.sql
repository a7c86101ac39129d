-- Deletes listings with the history of their prices.
--
-- %(ids)s  their ids, a list of text
--
-- One row: how many listings there were. One statement, one transaction: a crash leaves all or none.

WITH gone AS (
    DELETE FROM cars WHERE id = ANY(%(ids)s) RETURNING id
), prices AS (
    DELETE FROM price_history USING gone WHERE price_history.listing_id = gone.id
)
SELECT count(*) FROM gone
