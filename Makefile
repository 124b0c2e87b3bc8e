# Every target works on a fresh machine with Python 3.11+ and make; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SDK := $(wildcard worker_sdk/setup.cfg worker_sdk/pyproject.toml)
TESTS ?=
WORKERS ?= 4
RATE ?= 500
GATE ?=
BENCH ?=
FAULTS ?= 30
FRAMING ?= 100000
PEERS ?=
PEERS_PYTHON := .venv-peers/.installed
PEERS_NODE := bench/peers/node/node_modules/.installed

# For an account without a home: pip would keep its cache in a folder named `~` here.
ifndef HOME
export HOME := $(CURDIR)/$(VENV)
endif

.DEFAULT_GOAL := help
.PHONY: help install test faults framing lint format schema demo up hostile kills bench-core gate gate-search peers clean

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP) ## make .venv with everything that running and testing need

$(STAMP): setup.cfg pyproject.toml $(SDK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "RVQ needs Python 3.11 or newer: make PYTHON=python3.x")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[embedded,test,bench]' $(if $(SDK),-e ./worker_sdk)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[fast]' || \
	    echo 'The C parser of Gunicorn could not be built: its own threads serve instead.'
	@touch $@

test: install ## all tests on PostgreSQL 16, then a short run on 18 and (where installed) 15; TESTS=... picks
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)
ifeq ($(TESTS),)
	RVQ_TEST_POSTGRES=18 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m versions
	@if test -x /usr/lib/postgresql/15/bin/initdb; then \
	    set -x; RVQ_TEST_POSTGRES=15 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m versions; \
	else echo 'PostgreSQL 15 is not installed: its short run is left out'; fi
endif

faults: install ## kills at random and overlapping batches for FAULTS=30 seconds each, then the other outages
	RVQ_FAULTS_SECONDS=$(FAULTS) RVQ_ADVERSARIAL_SECONDS=$(FAULTS) $(BIN)/python -m pytest tests/e2e tests/faults

framing: install ## 100 000 requests whose HTTP framing is wrong, or nearly, under both servers: some minutes
	RVQ_FRAMING=$(FRAMING) $(BIN)/python -m pytest -q tests/app/server/test_framing.py

lint: install ## ruff, mypy and the other guards
	$(BIN)/python -m pytest -q tests/guards

format: install ## let ruff rewrite what it can
	$(BIN)/ruff format --quiet . ; $(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format --quiet .

schema: install ## regenerate sql/schema.sql from the migrations and functions
	$(BIN)/python -m tests.support.schema_dump sql/schema.sql

demo: install ## the whole path on this machine, from POST to verified webhook
	$(BIN)/rvq demo

up: install ## a local stack that stays, until Ctrl-C
	$(BIN)/rvq up

hostile: install ## the real dispatcher among hostile receivers, with its real deadline: two minutes
	$(BIN)/rvq hostile

kills: install ## two dispatchers, killed 200 times at random moments
	RVQ_KILLS=200 $(BIN)/python -m pytest -q -rP tests/dispatcher/test_kills.py

bench-core: install ## the SQL functions alone, by pgbench: about an hour; BENCH="--size 0.01" for a taste
	$(BIN)/python -m bench.core $(BENCH)

gate: install ## load on a whole RVQ here, PASS or FAIL; RATE=500 ticks a second; GATE="--warmup 10" for more options
	$(BIN)/python -m bench.gate --rate $(RATE) $(GATE)

gate-search: install ## the highest rate that passes the gate on this machine
	$(BIN)/python -m bench.gate --search $(GATE)

peers: install ## RVQ beside other task queues: a quarter of an hour; PEERS="--rounds 1 --size 0.1" for a taste
	@$(MAKE) --no-print-directory --keep-going $(PEERS_PYTHON) $(PEERS_NODE) || echo 'Some of them could not be installed.'
	$(BIN)/python -m bench.peers $(PEERS)

$(PEERS_PYTHON): bench/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@

$(PEERS_NODE): bench/peers/node/package-lock.json
	cd bench/peers/node && npm ci --silent
	@touch $@

clean: ## remove what install and the tests made
	rm -rf $(VENV) .venv-peers bench/peers/node/node_modules *.egg-info worker_sdk/*.egg-info build .mypy_cache .pytest_cache .ruff_cache .hypothesis
