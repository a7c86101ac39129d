"""The frontier: which requests wait, which are out, which are done; see `contract`."""
