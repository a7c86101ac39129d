"""Records in MongoDB: one document per listing."""
