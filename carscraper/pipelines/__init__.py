"""Where records go: one file per stage."""
