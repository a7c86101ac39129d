-- Deletes the listings that were removed a while ago, with the history of their prices.
--
-- %(until)s  those that were marked at that time or before
--
-- The count of changed rows tells how many prices went, not how many listings. One statement, one transaction: a crash leaves
-- all or none.

WITH gone AS (
    DELETE FROM cars WHERE removed_at <= %(until)s RETURNING id
)
DELETE FROM price_history USING gone
WHERE price_history.listing_id = gone.id
