-- Tells which specifications are not stored yet.
--
-- %(digests)b  digests, each once
--
-- Rows: digest of each that is missing. Writes nothing.

SELECT wanted.digest
FROM unnest(%(digests)b::bytea[]) AS wanted (digest)
WHERE NOT EXISTS (SELECT FROM specs WHERE specs.digest = wanted.digest)
