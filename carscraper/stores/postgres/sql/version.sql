-- Tells the version of the layout.
--
-- No arguments. One row: the number of the last step, 0 for none. Writes nothing.

SELECT coalesce(max(version), 0) FROM cars_schema
