# Two commands do everything: `make demo` and `make test`. Each makes the environment first where there is none.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PEERS := $(VENV)/ready-peers

.PHONY: demo test test-all test-browser lint benchmark clean

demo: $(READY)
	$(BIN)/spansieve demo

test: $(READY) lint
	$(BIN)/python -m pytest -n 2 -m "not slow and not browser"

test-all: $(READY) lint
	$(BIN)/python -m pytest -n 2 -m "not browser"

# The page in a real Chromium, which must be there: on Debian the packages chromium and chromium-driver.
test-browser: $(READY)
	$(BIN)/python -m pytest -m browser tests/serving/browser

lint: $(READY)
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

benchmark: $(PEERS)
	$(BIN)/spansieve benchmark core

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

$(PEERS): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[peers]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
