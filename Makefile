# Everything lives in .venv: nothing is installed outside this folder.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: install run test lint bench clean

install: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gossamer needs Python 3.11 or newer; set PYTHON=/path/to/python3")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,pipeline]'
	@touch $(READY)

run: install
	$(BIN)/gossamer demo

test: install
	$(BIN)/python -m pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python benchmarks/throughput.py

clean:
	rm -rf .venv
