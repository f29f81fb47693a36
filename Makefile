# Every target makes the virtual environment it needs, from pinned versions.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH ?= .venv-bench

.PHONY: demo figures screenshots test lint bench rankings seeds tiny page crash fuzz clean

demo: $(READY)  ## a real model, four tasks, one figure and its report; OPEN=1 opens it in the browser
	$(BIN)/headcount run heads-kept --quick --model smollm2 $(if $(OPEN),--open)
	@echo
	@echo "Next:  $(BIN)/headcount run heads-kept --model smollm2   the same with more prompts and narrower intervals"
	@echo "       $(BIN)/headcount run head-roles --quick           which heads help, which hurt"
	@echo "       $(BIN)/headcount run edges-kept --quick           which edges carry the behaviour"
	@echo "       $(BIN)/headcount view                             browse the results"

figures: $(READY)  ## the figures of README and docs and the numbers beside them, drawn again; ARGS="heads-kept" for some
	HF_HUB_OFFLINE=1 $(BIN)/python recipes/figures.py $(ARGS)

screenshots: $(READY)  ## the pictures of pages in README and docs, taken again; needs a Chromium
	HF_HUB_OFFLINE=1 $(BIN)/python recipes/screenshots.py

# What Python has compiled is kept, whatever the user's habit: each worker and each process of a test would do it again.
test: $(VENV)/.ready-for-tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks recipes examples
	$(BIN)/ruff format --check src tests benchmarks recipes examples
	$(BIN)/mypy

bench: $(BENCH)/.ready  ## cost in multiples of one Hugging Face forward, beside other tools; writes benchmarks/RESULTS.md
	HF_HUB_OFFLINE=1 $(BENCH)/bin/python benchmarks/costs.py

rankings: $(READY)  ## every scoring method on models with known circuits and on trained ones; writes benchmarks/RANKINGS.md
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rankings.py $(ARGS)

seeds: $(READY)  ## does heads-kept give the same number with another seed? adds to benchmarks/SEEDS.md; ARGS="--models smollm2 --quick"
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python benchmarks/seeds.py $(ARGS)

fuzz: $(READY)  ## 20,000 mutated inputs of every reader, with a new seed each time, which is printed
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz $(ARGS)

tiny: $(READY)  ## train the bundled models tiny and tiny-sparse again, from nothing: under an hour on two cores
	$(BIN)/python recipes/tiny.py

crash: $(READY)  ## kills, damage, races, a full disk, interrupts: docs/promises.md; ARGS="--share 0.1 --only kills" for a part
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns $(ARGS)

page:  ## build report and switchboard from frontend/ into the package; needs node, which users do not
	cd frontend && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# The real weights that the tests run, and the real COMET in an environment of its own.
$(VENV)/.ready-for-tests: $(READY)
	$(BIN)/headcount pull smollm2
	HEADCOUNT_CACHE=$(VENV)/cache $(BIN)/headcount comet setup
	touch $@

$(BENCH)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,peers]"
	touch $@

clean:
	rm -rf $(VENV) $(BENCH) headcount-results
