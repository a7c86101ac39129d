"""The egg that scrapyd runs: the package with its Lua and SQL, and where its settings are."""

from setuptools import find_packages, setup

setup(
    name="carscraper",
    version="0.1.0",
    packages=find_packages(include=["carscraper", "carscraper.*", "scrapy_durable", "scrapy_durable.*"]),
    package_data={"carscraper": ["**/*.lua", "**/*.sql"], "scrapy_durable": ["**/*.lua", "**/*.sql"]},
    entry_points={"scrapy": ["settings = carscraper.settings"]},
    python_requires=">=3.11",
    extras_require={"parquet": ["pyarrow>=26"]},
)
