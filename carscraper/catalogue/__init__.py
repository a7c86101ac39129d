"""The way over the catalogue: what is asked for, how a page is read, which requests follow."""
