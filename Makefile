# Commands that need nothing but Python 3.11 and make: `make demo`, `make test`, `make test-slow`. With another Python:
# `make test PYTHON=python3.13 VENV=.venv-3.13`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
# A file goes to one worker, which sets up once what its tests share: ranks, records, a browser.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile $(if $(filter random,$(ORDER)),-p randomly)

.PHONY: demo test test-slow chromium lint docs bench guard mutants dist wheel-test clean

demo: $(READY)
	$(BIN)/rapidbm demo

# In another order each time: `make test ORDER=random`; the order's seed is printed.
test: lint
	$(PYTEST)

# What is slow by nature: many kills, all cuts of all kernels, the whole tour in a browser, long tutorials.
test-slow: $(DEV)
	$(PYTEST) -m slow

# For the studio's tests in a browser, which are skipped without.
chromium:
	.ci/chromium

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages in site/; `python -m http.server -d site` serves them with their search.
docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(DEV)
	$(BIN)/python -m benchmarks

# Is anything slower than it was?
guard: $(DEV)
	$(BIN)/python -m benchmarks guard

# Another SEED draws other mutations.
SEED ?= 0
mutants: $(DEV)
	$(BIN)/python -m mutants --seed $(SEED)

# The same bytes each time: hatchling writes one date, SOURCE_DATE_EPOCH or its own, and one set of modes.
dist: $(DEV)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	cd dist && sha256sum *

# The wheel alone, in an empty environment outside of the repository.
wheel-test: dist
	rm -rf dist/alone
	$(PYTHON) -m venv dist/alone
	dist/alone/bin/python -m pip install --quiet --constraint constraints.txt torch
	dist/alone/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	@ALONE=$$PWD/dist/alone/bin/rapidbm; cd $$(mktemp -d) && pwd && $$ALONE demo && $$ALONE sample pretrained:mnist
	rm -rf dist/alone

clean:
	rm -rf $(VENV) dist

# What the command needs (`make demo`), then what its tests need beside it: two stamps in one environment.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV): PyTorch and eight other packages, 1.3 GB with PyTorch's CPU build (that for GPUs is"
	@echo "larger). It takes about a minute where pip has them in its cache, else as long as their download."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rapidbm needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt torch
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	@touch $@

$(DEV): $(READY)
	@echo "Adding to $(VENV) what the tests, the documentation and the benchmarks need: 1.8 GB more, about a minute from pip's cache."
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@
