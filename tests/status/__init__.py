"""What there is to see of a crawl: the arithmetic, the views, and the commands, on real crawls."""
