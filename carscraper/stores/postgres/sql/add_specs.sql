-- Adds specifications; those that are there already stay as they are, since the digest is of their content.
--
-- %(digests)b  digests, each once
-- %(groups)b   the JSON of each
--
-- No rows. One statement, one transaction: a crash leaves all or none; one that no listing leads to does no harm.

INSERT INTO specs (digest, groups)
SELECT digest, groups
FROM unnest(%(digests)b::bytea[], %(groups)b::jsonb[]) AS given (digest, groups)
ORDER BY digest
ON CONFLICT (digest) DO NOTHING
