# The verbs of this project; CI uses the same ones.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# A key in the environment is not spent by the demo or the tests, unless told to: make demo LIVE=1
ifndef LIVE
QUIET := env -u ANTHROPIC_API_KEY -u ANTHROPIC_AUTH_TOKEN -u ANTHROPIC_BASE_URL
endif

# Each of the many processes of a test would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-long check fix bench clean

help:
	@echo "make demo     set up, and write the brief of a sample day (LIVE=1 spends your ANTHROPIC_API_KEY)"
	@echo "make test     set up, and run the tests"
	@echo "make test-long  the tests that take longer: a quarter of an hour"
	@echo "make install  set up: a .venv here, with pinned versions"
	@echo "make check    ruff, mypy"
	@echo "make fix      let ruff mend what it can"
	@echo "make bench    measure (about ten minutes)"
	@echo "make clean    remove the .venv and caches"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dayflow needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@echo "Installing into $(VENV) (about half a minute) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "No venv module here; on Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: install
	@$(QUIET) $(BIN)/dayflow brief --verbose
	@echo
	@echo "\`dayflow\` is $(BIN)/dayflow here; after \`source $(BIN)/activate\` it is just that."
	@echo "Temporal is still up for a look at the web UI: $(BIN)/dayflow open"
	@echo "Stop it with: $(BIN)/dayflow down"

test: install
	$(QUIET) $(BIN)/pytest -q -n 3 --dist loadfile -m "not long"

test-long: install
	$(QUIET) $(BIN)/pytest -q -m long

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(QUIET) $(BIN)/python -m bench

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info
