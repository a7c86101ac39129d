"""The history of runs: a line for each, which the next does not overwrite."""
