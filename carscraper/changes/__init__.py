"""What changed between two complete catalogues: changes.jsonl, written with each cars.json, and read back."""
