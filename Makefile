# Two commands do everything on a fresh machine with Python and make:
#   make demo    see the project at work
#   make test    check it
# Each makes its own virtual environment in .venv and installs what it needs.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed

.PHONY: demo test test-slow check format benchmark clean

demo: $(INSTALLED)
	$(BIN)/delayzero demo --folder demo

test: check
	$(BIN)/python -m pytest -n auto

test-slow: $(INSTALLED)  # with the code emitters that users have, see tests/conftest.py
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

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("delayzero needs Python 3.11 or later; type: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) demo delays-demo compare build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
