"""`python -m carscraper.demo`: the stand-in where Scrapy has no project around it."""

from __future__ import annotations

import argparse
import sys

from carscraper.demo.launch import add_options, run
from scrapy_durable.exceptions import ConfigurationError

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m carscraper.demo", description=__doc__)
    add_options(parser)
    try:
        run(parser.parse_args())
    except ConfigurationError as error:
        sys.exit(f"error: {error}")
