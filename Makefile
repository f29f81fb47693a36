# Every target makes the virtual environment it needs, from pinned versions.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench clean

demo: $(READY)  ## a real model, four tasks, one figure
	$(BIN)/headcount pull smollm2
	$(BIN)/headcount run heads-kept --quick

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

bench: $(READY)  ## cost in multiples of one Hugging Face forward; writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/costs.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) headcount-results
