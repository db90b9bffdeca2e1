# Everything a newcomer needs: `make run` and `make test` do all set-up by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# LAB=0 leaves out the tests on real clusters; FULL=1 adds those that take many minutes.
LAB    ?= 1
FULL   ?= 0
# How many examples of each kind `make hostile` tries.
HOSTILE ?= 500
COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11
# Bytecode is made at set-up, so that the first start is as fast as the second.
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help run test test-full setup lint types imports unit search hostile fuzz chaos load agree lab lab-full lab-wanted browser lock clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run $(VENV)/.kernels ## set up, start Dure with its embedded fleet, print the dashboard's address
	@exec $(BIN)/dure up $(ARGS)

test: lint types imports unit ## set up, then lint, type check, import contract and all tests

test-full: lint types imports lab-full ## all of that, and Dure beside the real KEDA, Prometheus and Karpenter, about 40 minutes more
	$(MAKE) unit FULL=1

setup: $(VENV)/.dev browser ## set up everything, run nothing

lint: $(VENV)/.dev ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy --strict
	$(BIN)/mypy

imports: $(VENV)/.dev ## the layer contract
	$(BIN)/lint-imports

unit: $(VENV)/.dev $(VENV)/.kernels browser lab-wanted ## the tests alone; ARGS="-k word" narrows them, LAB=0 leaves out real clusters
	DURE_LAB=$(LAB) DURE_FULL=$(FULL) $(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

lab: $(VENV)/.dev ## build the real Kubernetes of the tests into ~/.cache/dure (the first time about 20 minutes)
	$(BIN)/python -m lab build

lab-full: $(VENV)/.dev ## the same with what only `make test-full` needs: KEDA, Karpenter (about 15 minutes more the first time)
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
