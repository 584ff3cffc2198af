# On a fresh machine with Python 3.11 or later and make, two commands do everything:
#   make demo    train four small agents under delay; print a table and draw pictures
#   make test    run ruff, mypy and all fast tests
# They install what they need into the virtual environment .venv. `make dist` builds the package.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
PACKAGING = build/packaging/bin
WHEEL = build/wheel/bin

.PHONY: demo test test-slow check format benchmark dist clean

demo: $(INSTALLED)
	$(BIN)/delayzero demo --folder demo

test: check
	$(BIN)/python -m pytest -n auto

# Slow tests use XLA's default fusion emitters, as users do; tests/conftest.py turns them off.
test-slow: $(INSTALLED)
	XLA_FLAGS=--xla_backend_optimization_level=0 $(BIN)/python -m pytest -n auto -m slow

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

benchmark: $(INSTALLED)
	$(BIN)/python benchmarks/delays.py

# Build the distributions into dist/, check them, and try the wheel without extras.
dist:
	rm -rf dist build/packaging build/wheel
	$(PYTHON) -m venv build/packaging
	$(PACKAGING)/python -m pip install --quiet 'build>=1.2,<2' 'twine>=6.1,<8'
	$(PACKAGING)/python -m build
	$(PACKAGING)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/wheel
	$(WHEEL)/python -m pip install --quiet dist/*.whl
	cd build/wheel && bin/python -c 'import delayzero.delays; from delayzero.evaluation.paper import tables; assert tables.reference("Asterix")'
	cd build/wheel && bin/delayzero --help
	cd build/wheel && bin/delayzero report ../../results/atari --out report.html
	cd build/wheel && bin/delayzero delays show walk:5

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("delayzero needs Python 3.11 or later; type: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) demo delays-demo compare campaigns build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
