"""Any Scrapy project, made by `scrapy startproject`: what becomes of its crawls when they are killed.

`ANY_PROJECT_PYTHON` names the interpreter of an environment with nothing but the installed package, for
`python -m scrapy`; without it, this environment and this checkout are used.
"""
