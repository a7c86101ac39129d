"""The shop's spiders."""
