# `make crawl` and `make test` do all the set-up by themselves, on a Debian 12 with Python >= 3.11 and make.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON   ?= python3
VENV     := .venv
BIN      := $(VENV)/bin
LISTINGS ?= 71290
# Of the catalogue whose crawl shows that memory does not grow with it; it takes minutes.
MANY     ?= 1000000
# Tests at once: more than two cores, since most of them wait for clocks and servers.
JOBS     ?= 4

# Full speed, which only a site of one's own can take: no throttling, 32 requests at once.
FULL_SPEED := -s CONCURRENT_REQUESTS=32 -s CONCURRENT_REQUESTS_PER_DOMAIN=32 -s AUTOTHROTTLE_ENABLED=False

# Files one after the other, in the order of tests/conftest.py.
AT_ONCE := --dist loadfile --no-loadscope-reorder

# Shell commands that install packages of Debian.
define debian
echo "installing $(1)"; as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); $$as_root apt-get update -qq && \
  $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null
endef

# Shell commands, while no package that they install may start a service: policy-rc.d is asked by Debian's packages.
define without_services
as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); policy=/usr/sbin/policy-rc.d; made=; \
  [ -e $$policy ] || { printf '#!/bin/sh\nexit 101\n' | $$as_root install -m 755 /dev/stdin $$policy && made=yes; }; \
  ( $(1) ); status=$$?; [ -z "$$made" ] || $$as_root rm -f $$policy; (exit $$status)
endef

.PHONY: help
help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.run: requirements.txt
	$(PYTHON) -m venv $(VENV) 2>/dev/null || { $(call debian,python3-venv); $(PYTHON) -m venv --clear $(VENV); }
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements-operate.txt requirements-parquet.txt requirements-scrapyd.txt $(VENV)/.run
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

.PHONY: install
install: $(VENV)/.run  ## install what the crawler needs, into .venv

.PHONY: crawl
crawl: $(VENV)/.run  ## read a whole stand-in catalogue into data/cars.json
	@set -eu; address=$$(mktemp); \
	$(BIN)/scrapy demo --listings $(LISTINGS) >$$address & demo=$$!; \
	trap 'kill $$demo 2>/dev/null; rm -f $$address' EXIT; \
	until [ -s $$address ]; do kill -0 $$demo; sleep 0.1; done; \
	CARS_API_URL=$$(cat $$address) $(BIN)/scrapy crawl cars $(FULL_SPEED)

.PHONY: test
test: $(VENV)/.dev servers  ## run all tests; starts every server that it needs
	$(BIN)/pytest $(AT_ONCE) -p no:randomly -n $(JOBS) --durations 10

.PHONY: test-fast
test-fast: $(VENV)/.dev  ## under two minutes: the tests that start no server and no crawl, and what they cover
	$(BIN)/pytest $(AT_ONCE) -n 2 --fast --cov --cov-report term

.PHONY: test-crash
test-crash: $(VENV)/.dev servers  ## the random kills with 20 seeds instead of 3
	CRASH_SEEDS=20 $(BIN)/pytest -n $(JOBS) tests/crash/test_random_kills.py tests/any_project

.PHONY: test-scrapy
test-scrapy: $(VENV)/.dev  ## Scrapy's own tests, as they come and with the add-on; downloads its source
	$(BIN)/python -m tests.scrapys_own --jobs $(JOBS)

.PHONY: test-whole
test-whole: $(VENV)/.dev servers  ## the databases' history with the whole catalogue instead of 1,200 listings
	HISTORY_LISTINGS=71290 $(BIN)/pytest --timeout 3600 tests/databases/test_history.py

.PHONY: servers
servers:
	@command -v redis-server >/dev/null && command -v tinyproxy >/dev/null || { $(call debian,redis-server tinyproxy-bin); }
	@compgen -G '/usr/lib/*/libcurl.so.4' >/dev/null || { $(call debian,libcurl4 libssl3 liblzma5); }  # for mongod
	@command -v promtool >/dev/null || { $(call without_services,$(call debian,prometheus)); }  # its server is not started
	@command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || { $(call debian,postgresql); }

.PHONY: check
check: $(VENV)/.dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: lock
lock:  ## write requirements*.txt from requirements*.in, with the hashes of every file
	$(PYTHON) -m venv --clear .lock && .lock/bin/pip install --quiet pip-tools==7.6.2
	PATH=$$PWD/.lock/bin:$$PATH .lock/bin/python .ci/lock
	rm -rf .lock

.PHONY: bench
bench: $(VENV)/.dev servers  ## this crawl against the durable floor, again, with databases, reparsed, and others
	$(BIN)/python -m benchmarks.bench --only floor,ours,refresh --runs 3 --listings $(LISTINGS)
	$(BIN)/python -m benchmarks.bench --only ours,databases,reparse --runs 3 --listings $(LISTINGS)
	$(BIN)/python -m benchmarks.bench --only ours,stock,bare --listings $(LISTINGS)
	$(BIN)/python -m benchmarks.bench --only ours --listings $(MANY)  # for its peak memory

.PHONY: bench-frontier
bench-frontier: $(VENV)/.dev servers  ## the queue against scrapy-redis' queue, on one Redis
	$(BIN)/python -m benchmarks.frontier

.PHONY: columns
columns: $(VENV)/.dev  ## the typed columns as api/columns.py declares them, into docs/columns.md
	$(BIN)/python -m benchmarks.columns docs/columns.md

.PHONY: coverage
coverage: $(VENV)/.dev  ## how much of data/cars.json the typed columns cover, into docs/columns.md
	$(BIN)/python -m benchmarks.coverage data/cars.json --into docs/columns.md

.PHONY: clean
clean:  ## remove what was built and crawled; the environment stays
	rm -rf data build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
