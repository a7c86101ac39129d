-- The tables of a frontier in one SQLite file.
--
-- `application_id` says that the file is ours, `user_version` which schema it has; both are read before anything else.
-- A file is made under another name and renamed when it is whole, so that it is never seen half made.
-- Times are seconds since the epoch; durations are seconds.

PRAGMA application_id = 0x63617266;  -- "carf"
PRAGMA user_version = 7;

-- The crawl: one row, or none when no crawl has begun or the last one was forgotten.
CREATE TABLE crawl (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    crawl_id   TEXT NOT NULL,
    identity   TEXT NOT NULL DEFAULT '',    -- what the crawl is of, in words; '': nothing was noted
    next_id    INTEGER NOT NULL,            -- of the next element to arrive
    next_token INTEGER NOT NULL,            -- of the next lease
    next_turn  INTEGER NOT NULL,            -- of the next slot to go to the end of the rotation
    unfinished INTEGER NOT NULL,            -- elements queued, delayed or leased
    stale      INTEGER NOT NULL,            -- messages refused because of a stale token
    clock      REAL NOT NULL DEFAULT 0,     -- the latest time that was set by
    ahead      REAL NOT NULL DEFAULT 0,     -- seconds that this is ahead of the machine's clock, which was set back
    finisher    TEXT                         -- worker that may finish it, while it gives signs of life
);

-- Elements that are not done. State: 0 queued, 1 delayed, 2 leased, 3 dead.
CREATE TABLE work (
    id         INTEGER PRIMARY KEY,         -- order of arrival
    key        INTEGER NOT NULL UNIQUE,
    state      INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    callback   INTEGER NOT NULL,
    priority   INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,  -- leases that count
    failures   INTEGER NOT NULL DEFAULT 0,  -- of these, how many ended in a retry
    born       REAL NOT NULL,               -- when it was pushed
    not_before REAL NOT NULL DEFAULT 0,     -- 0: no time was set since it was last leased
    token      INTEGER NOT NULL DEFAULT 0,
    deadline   REAL NOT NULL DEFAULT 0,     -- of the lease; time of death of a dead one
    since      REAL NOT NULL DEFAULT 0,     -- when it was leased
    worker     TEXT,
    downloaded     INTEGER NOT NULL DEFAULT 0,  -- 1: leased, but no longer in flight, or never sent
    reason     TEXT                         -- of death
);

-- Leasing is a walk along this index, however many elements wait.
CREATE INDEX ready    ON work (slot, priority DESC, id) WHERE state = 0;
CREATE INDEX past_due ON work (not_before)              WHERE state = 0 AND not_before > 0;
CREATE INDEX delayed  ON work (not_before)              WHERE state = 1;
CREATE INDEX leased   ON work (deadline)                WHERE state = 2;
CREATE INDEX in_flight ON work (slot)                    WHERE state = 2 AND downloaded = 0;
CREATE INDEX dead     ON work (deadline, id)            WHERE state = 3;

-- The payloads lie apart, so that a change of state does not copy them.
CREATE TABLE body (
    id      INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
);

-- Of what is done only the key is kept.
CREATE TABLE done (
    key INTEGER PRIMARY KEY
);

-- A slot that may have something ready is in exactly one place: in the rotation (`turn`), held back by its pause or its
-- interval (`held_until`), or nowhere because it is at its cap, until one of its leases is no longer in flight.
CREATE TABLE slot (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    paused_until REAL NOT NULL DEFAULT 0,
    pause_reason TEXT NOT NULL DEFAULT '',
    spaced_until REAL NOT NULL DEFAULT 0,   -- end of the interval after the last lease
    last_token   INTEGER NOT NULL DEFAULT 0,-- of that lease
    turn         INTEGER,
    held_until   REAL,
    pace_version INTEGER NOT NULL DEFAULT 0,-- changes of the learned interval; 0: nothing was learned
    pace         REAL NOT NULL DEFAULT 0    -- learned interval between two leases
);
CREATE INDEX rotation ON slot (turn)       WHERE turn IS NOT NULL;
CREATE INDEX held     ON slot (held_until) WHERE held_until IS NOT NULL;

CREATE TABLE callback (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- How many elements were ever pushed, how many are done, delayed and dead; the other counts are walks along an index.
CREATE TABLE tally (
    slot     INTEGER NOT NULL,
    callback INTEGER NOT NULL,
    pushed   INTEGER NOT NULL,
    done     INTEGER NOT NULL,
    delayed  INTEGER NOT NULL,              -- those whose time has come and that no exchange has seen since, too
    dead     INTEGER NOT NULL,
    PRIMARY KEY (slot, callback)
) WITHOUT ROWID;

-- How often requests were queued again ("retry") and given up ("dead") since the crawl began, by the kind of reason.
CREATE TABLE reason (
    what   TEXT NOT NULL,
    kind   TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (what, kind)
) WITHOUT ROWID;

-- The limits of whoever began last, for those who look; '' has those of all slots without their own.
CREATE TABLE slot_limit (
    name     TEXT PRIMARY KEY,
    cap      INTEGER NOT NULL,              -- 0: none
    interval REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE worker (
    name      TEXT PRIMARY KEY,
    last_seen REAL NOT NULL,
    report    BLOB                          -- its own numbers, as it wrote them; NULL: none
) WITHOUT ROWID;

-- The item logs that have joined the crawl; none leaves it before it is forgotten.
CREATE TABLE log (
    name      TEXT PRIMARY KEY,
    worker    TEXT NOT NULL,                -- that joined it last
    closed    INTEGER NOT NULL DEFAULT 0,   -- 1: nothing is unconfirmed, and its feeds are stored; or it was abandoned
    abandoned INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Tokens of acknowledgements that were accepted and that their log has not confirmed.
CREATE TABLE accepted (
    id    INTEGER PRIMARY KEY,              -- order of acceptance
    token INTEGER NOT NULL UNIQUE,
    log   TEXT NOT NULL
);

-- What workers have left for the end of the crawl.
CREATE TABLE part (
    name    TEXT PRIMARY KEY,
    content BLOB NOT NULL
);

-- Verdicts outlive their crawl, for a time.
CREATE TABLE verdict (
    crawl_id TEXT PRIMARY KEY,
    verdict  BLOB NOT NULL,
    expires  REAL NOT NULL
) WITHOUT ROWID;
