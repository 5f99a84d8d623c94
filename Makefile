# make install      only the package and its command: .venv/bin/rlvr
# make quickstart   train the small model from nothing and watch it learn (runs/quickstart/report.html)
# make test         the default test run
# make slow         the tests that are too long for it
# make sweep        every algorithm on the quickstart, three seeds each (hours); writes docs/sweep.md
# make format       let ruff mend and format the code
# make clean        remove .venv
# All build .venv when pyproject.toml has changed; nothing but Python 3.11+ and make is needed.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help install quickstart test slow sweep format clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.installed

quickstart: $(VENV)/.installed
	$(BIN)/rlvr run --config=configs/quickstart.py --workdir=runs/quickstart

test: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow

sweep: $(VENV)/.installed
	$(BIN)/python benchmarks/sweep.py

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlvr_jax needs Python 3.11 or newer; this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV)
