"""Records in PostgreSQL: one typed row per listing."""
