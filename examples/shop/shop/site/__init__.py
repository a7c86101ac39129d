"""A stand-in for a shop on three hosts: the same pages each time, a journal of what was asked, and a gate."""
