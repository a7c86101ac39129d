-- Keeps what was made of a shared answer beside it, unless another one has come meanwhile.
--
-- :key text, :fetched_at seconds since the epoch, of that answer, :derived what was made of it, behind a checksum
--
-- One statement; its caller puts many into one transaction. A crash leaves all of them or none.

UPDATE response SET derived = :derived
WHERE key = :key AND fetched_at = :fetched_at AND crawl_id IS NULL
