"""What an operator sees of a crawl: progress, completeness, verdict."""
