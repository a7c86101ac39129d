-- Waits until no other worker makes or changes the layout, and tells whether there is one.
--
-- %(lock)s  number of the lock
--
-- One row: whether there is a table `cars_schema`. The lock ends with the transaction.

SELECT to_regclass('cars_schema') IS NOT NULL FROM pg_advisory_xact_lock(%(lock)s)
