-- Tells what the role may not do, though it has to.
--
-- No arguments
--
-- Rows: a right, and on what; none when all is well. Writes nothing. Fails when a table is gone.

SELECT privilege, relation
FROM (VALUES
    ('cars', 'SELECT'), ('cars', 'INSERT'), ('cars', 'UPDATE'),
    ('specs', 'SELECT'), ('specs', 'INSERT'),
    ('price_history', 'SELECT'), ('price_history', 'INSERT'), ('price_history', 'UPDATE'),
    ('price_history', 'DELETE'),
    ('car_records', 'SELECT')
) AS needed (relation, privilege)
WHERE NOT has_table_privilege(relation, privilege)
UNION ALL
SELECT 'TEMPORARY', 'the database'
WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')
