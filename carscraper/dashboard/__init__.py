"""The dashboard's page about cars, from `cars.json` and `changes.jsonl`."""
