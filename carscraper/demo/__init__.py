"""The stand-in for the listing API: deterministic, of any size, with faults on request."""
