-- Puts another body in the place of that of an answer of a crawl, which stays as old as it was.
--
-- :crawl_id text, :key text, :body frame
--
-- What was made of the body that it had goes with that.

UPDATE response SET body = :body, derived = NULL WHERE key = :key AND crawl_id = :crawl_id
