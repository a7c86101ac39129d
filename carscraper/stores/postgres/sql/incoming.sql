-- Makes the table that `write` reads, with the columns of `cars`; each transaction finds it empty.
--
-- No arguments, no rows. Ends with the connection.
--
-- toast_tuple_target is the largest: what only passes through is not compressed.

CREATE TEMPORARY TABLE incoming WITH (toast_tuple_target = 8160) ON COMMIT DELETE ROWS AS
SELECT * FROM cars WITH NO DATA
