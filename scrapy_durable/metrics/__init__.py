"""A crawl as metrics for Prometheus, and whether it is healthy: another view of `status/`."""
