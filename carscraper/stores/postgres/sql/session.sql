-- Prepares a new connection.
--
-- %(timeout)s  how long a statement may take, and a transaction wait for its next one, as in `30000ms`
--
-- One row: the server's encoding, and whether it takes no writes (`on`, `off`).
--
-- A commit is acknowledged when it is on disk, even where the default is not to wait for that. Statements are planned
-- for the tables as they are then: a plan made for an empty one reads all of it for each batch.
--
-- Ends with the connection.

SELECT
    current_setting('server_encoding'),
    current_setting('transaction_read_only'),
    set_config('TimeZone', 'UTC', false),
    set_config('statement_timeout', %(timeout)s, false),
    set_config('idle_in_transaction_session_timeout', %(timeout)s, false),
    set_config('plan_cache_mode', 'force_custom_plan', false),
    set_config('jit', 'off', false),
    set_config(
        'synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false
    )
