"""Scrapy's own tests, of the version that is pinned, with the add-on as everybody's default setting.

make test-scrapy                                                  # all of it
.venv/bin/python -m tests.scrapys_own --only stock                # as they come, without the add-on
.venv/bin/python -m tests.scrapys_own --only bare -- -k cb_kwargs # what follows goes to pytest
"""
