"""What a crawl leaves on disk: committed batches, and what is published from them."""
