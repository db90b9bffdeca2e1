# Everything a newcomer needs: `make run` and `make test` do all set-up by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# LAB=0 leaves out the tests on real clusters.
LAB    ?= 1
# How many examples of each kind `make hostile` tries.
HOSTILE ?= 500
# What `make shuffled` and `make mutants` draw by, and how many faults each package gets.
SEED   ?= 1
SAMPLE ?= 100
COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11
# Bytecode is made at set-up, so that the first start is as fast as the second.
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python

ENGINE ?= podman
BASE   ?= python:3.11-slim
# The date of what is published is that of its commit.
DATE = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.DEFAULT_GOAL := help
.PHONY: help run test test-full full setup lint types imports unit shuffled mutants figures cycle search hostile fuzz chaos load requests agree lab lab-full lab-wanted browser lock clean \
        dist dist-try audit-deps audit-newest docs docs-serve chart image image-try

help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run $(VENV)/.kernels ## set up, start Dure with its embedded fleet, print the dashboard's address
	@exec $(BIN)/dure up $(ARGS)

test: lint types imports unit ## set up, then lint, type check, import contract and all tests

test-full: lab-full test full ## all of that, then Dure beside the real KEDA, Prometheus and Karpenter: about an hour once they are built

full: lab-full ## only what `make test-full` adds, one test after the other: they compare moments, and two labs at once would disturb them
	DURE_LAB=1 DURE_FULL=1 $(BIN)/python -m pytest -m full $(ARGS)

setup: $(VENV)/.dev browser ## set up everything, run nothing

lint: $(VENV)/.dev ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy --strict
	$(BIN)/mypy

imports: $(VENV)/.dev ## the layer contract
	$(BIN)/lint-imports

unit: $(VENV)/.dev $(VENV)/.kernels browser lab-wanted ## the tests alone; ARGS="-k word" narrows them, LAB=0 leaves out real clusters
	DURE_LAB=$(LAB) $(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

shuffled: $(VENV)/.dev ## the tests without real clusters, in an order that SEED draws
	DURE_LAB=0 $(BIN)/python -m pytest -n 2 --dist loadgroup --shuffle=$(SEED) tests/unit tests/contract $(ARGS)

mutants: $(VENV)/.dev ## how many small faults in the core its tests notice; SAMPLE faults for each package, drawn by SEED
	$(BIN)/python -m tests.house.mutants --seed $(SEED) --sample $(SAMPLE) $(ARGS)

figures: $(VENV)/.dev ## what the codebase measures; ARGS=--types adds the share of typed expressions
	$(BIN)/python -m tests.house.figures $(ARGS)

cycle: $(VENV)/.dev ## what one turn of the plane costs with 1,000 devices and 10,000 jobs; ARGS=--profile tells where
	$(BIN)/python -m tests.house.cycle $(ARGS)

lab: $(VENV)/.dev ## build the real Kubernetes of the tests into ~/.cache/dure (long the first time; it says how long is left)
	$(BIN)/python -m lab build

lab-full: $(VENV)/.dev ## the same with what only `make test-full` needs: KEDA, Karpenter, Helm (longer the first time)
	$(BIN)/python -m lab build --full

search: $(VENV)/.dev ## the property tests with fresh random examples; ARGS="--hypothesis-seed=N" repeats a run
	DURE_LAB=0 $(BIN)/python -m pytest -n 2 --dist loadgroup -m hypothesis --hypothesis-profile=search $(ARGS)

hostile: $(VENV)/.dev ## hostile input for the whole API and every parser, fresh each time; HOSTILE=N examples of each kind
	DURE_LAB=0 DURE_HOSTILE=$(HOSTILE) $(BIN)/python -m pytest -n 2 --hypothesis-profile=search tests/unit/api/test_openapi.py tests/unit/api/test_hostile.py tests/unit/files/test_fuzz.py $(ARGS)

fuzz: $(VENV)/.dev ## 1,000,000 hostile inputs over every parser; goes on where it was interrupted
	$(BIN)/python -m tests.fuzz $(ARGS)

chaos: $(VENV)/.dev ## kill -9 plane, agent, API server and etcd under load; ARGS="--world embedded --kills 1000" without a lab; resumes
	$(BIN)/python -m tests.chaos $(ARGS)

load: $(VENV)/.dev ## 10,000 submissions a minute for 10 minutes, 1,000 devices, 100 listeners; ARGS="--minutes 1" is shorter
	$(BIN)/python -m tests.load $(ARGS)

requests: $(VENV)/.dev ## 20,000 requests to a model on a real node (root) that the autoscaler makes larger and smaller: none may fail; resumes
	$(BIN)/python -m tests.node.scaling $(ARGS)

agree: $(VENV)/.dev ## Dure's autoscaler against the real kube-controller-manager: 10 traces of 1,000 ticks, about 35 minutes
	$(BIN)/python -m tests.kube.hpa_agreement $(ARGS)

lab-wanted: $(VENV)/.dev
	@if [ "$(LAB)" = 0 ]; then echo "lab: LAB=0, tests on real clusters are left out"; \
	else $(BIN)/python -m lab build --if-go; fi

browser: $(VENV)/.dev ## find a Chromium for the dashboard tests, or install the system's package
	@$(BIN)/python tests/browser/find_chromium.py --install

lock: $(VENV)/.uv ## pin the dependencies anew, with hashes
	$(COMPILE) pyproject.toml -o requirements/run.txt
	$(COMPILE) pyproject.toml requirements/dev.in -o requirements/dev.txt

docs: $(VENV)/.dev ## the documentation site into build/site, with the reference made from the code
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/.dev ## the same on http://127.0.0.1:8000, renewed while you write
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve -a 127.0.0.1:8000

chart: $(VENV)/.dev ## write the agent of the Helm chart anew, out of what `dure render agent` prints
	$(BIN)/python -m deploy.chart_agent

dist: $(VENV)/.dev ## wheel, source archive, bill of materials and digests into dist/; same commit, same bytes
	rm -rf dist
	SOURCE_DATE_EPOCH=$(DATE) $(BIN)/python -m hatchling build -d dist
	SOURCE_DATE_EPOCH=$(DATE) $(BIN)/python -m deploy.sbom -o dist/dure.cdx.json
	cp requirements/run.txt dist/requirements.txt
	cd dist && sha256sum * > SHA256SUMS

dist-try: dist ## install that wheel with its locked dependencies into an environment of its own, and use it
	rm -rf build/try
	$(BIN)/uv venv -q build/try
	$(BIN)/uv pip install -q --python build/try/bin/python --require-hashes -r dist/requirements.txt
	$(BIN)/uv pip install -q --python build/try/bin/python --no-deps dist/*.whl
	build/try/bin/dure --version
	build/try/bin/dure sim --days 1

image: dist ## the container image dure:VERSION out of that wheel; ENGINE=docker, BASE=registry/python:3.11-slim
	$(ENGINE) build -f Containerfile --build-arg BASE=$(BASE) -t dure:$$($(BIN)/python -c 'import dure; print(dure.__version__)') .

image-try: dist ## the same without a registry (buildah, debootstrap, root), for the test that starts the chart's pods
	$(BIN)/python -m tests.ship.image

audit-deps: $(VENV)/.dev ## ask the advisory service for known holes in the locked dependencies; fails where it cannot be asked
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/run.txt -r requirements/dev.txt

audit-newest: $(VENV)/.dev ## the same from the registry's page of each package, which knows newest releases only; REGISTRY=address of its JSON pages
	@test -n "$(REGISTRY)" || { echo "Which registry? Try: make audit-newest REGISTRY=https://HOST/pypi, where https://HOST/pypi/NAME/json is the page of a package" >&2; exit 2; }
	$(BIN)/python -m deploy.advisories --registry $(REGISTRY) requirements/run.txt requirements/dev.txt

clean: ## remove the virtual environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist

# Compiled kernels are kept beside their sources, but do not notice a change in a source that they inline.
$(VENV)/.kernels: $(shell find src/dure -name '*.py') | $(VENV)/.uv
	@find src -name '*.nb[ci]' -delete
	@touch $@

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Dure needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@touch $@

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/.uv
	@test -e $(VENV)/.dev || $(INSTALL) --require-hashes -r requirements/run.txt
	@$(INSTALL) --no-deps -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/.uv
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(INSTALL) --no-deps -e .
	@$(BIN)/python -m compileall -q src
	@touch $@ $(VENV)/.run
