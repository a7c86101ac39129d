"""Single listings erased wherever they are kept."""
