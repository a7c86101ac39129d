"""The records of a crawl made once more from the responses that it has stored."""
