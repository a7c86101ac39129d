"""There is no pydantic where carscraper is installed; the tests' environment has it to try its items."""

raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)
