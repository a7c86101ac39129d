"""The response store: what was fetched, kept so that it is not asked for again."""
