"""Sites whose answers have another shape than the known one, crawled by the real command line."""
