"""What `scrapyd-deploy` makes its egg with; all of it stands in pyproject.toml."""

from setuptools import setup

setup()
