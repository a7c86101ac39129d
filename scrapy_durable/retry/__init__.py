"""When a failed request is tried again."""
