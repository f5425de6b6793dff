# Two commands do everything: `make demo` and `make test`. Each makes the environment first where there is none.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PEERS := $(VENV)/ready-peers
DOCS := $(VENV)/ready-docs
OLDEST := $(VENV)-oldest/ready
WHEEL := build/wheel
OF_THE_SOURCE := tests/packaging tests/test_architecture.py tests/test_docstrings.py tests/test_portability.py \
  tests/test_walks.py tests/docs
ON_A_GPU := tests/crf tests/models tests/nn tests/prediction tests/training tests/benchmarks
TORCH ?= $(shell sed -n 's/^torch==//p' constraints-oldest.txt)

.PHONY: demo test test-all test-bounds test-cuda test-emulated-cuda test-browser test-dist test-wheel test-oldest lint docs dist benchmark clean

demo: $(READY)
	$(BIN)/spansieve demo

test: $(READY) lint
	$(BIN)/python -m pytest -n 2 -m "not slow and not browser"

test-all: $(READY) lint
	$(BIN)/python -m pytest -n 2 -m "not browser"

# The kernels with Numba's checks of every index, compiled apart from the others.
test-bounds: $(READY)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/numba-bounds $(BIN)/python -m pytest -n 2 -m "not slow and not browser" \
	  tests/crf tests/decoding tests/data/test_block_tokenizer.py tests/nn/test_span_hidden_layer.py

# What runs on a GPU, with one.
test-cuda: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not browser" $(ON_A_GPU)

# The same without one, on a device that the CPU stands for. Wants g++ and the torch of constraints.txt.
test-emulated-cuda: $(READY)
	$(BIN)/python -m pytest -p tests.emulated_cuda.plugin -n 2 -m "not slow and not browser" $(ON_A_GPU)

# The page in a real Chromium, which must be there: on Debian the packages chromium and chromium-driver.
test-browser: $(READY)
	$(BIN)/python -m pytest -m browser tests/serving/browser

# What is built is installed in an empty environment, where the demo and every command run; as root also as another user
# who may write nothing and has neither network nor compiler. Some minutes, and 1.5 GB for as long.
test-dist: $(READY)
	$(BIN)/python -m pytest tests/packaging

# The suite on the wheel, in a folder without the source and with packages that cannot be written. Tests that read the
# source are left out. Root can write anything, and so has another user run it, with a Python and a folder in reach of that
# user: `make test-wheel AS="runuser -u nobody --" PYTHON=/usr/bin/python3 WHEEL=/tmp/wheel`.
test-wheel: dist
	rm -rf $(WHEEL)
	mkdir -p $(WHEEL)/tree
	$(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/python -m pip install --quiet --upgrade pip
	$(WHEEL)/venv/bin/python -m pip install --quiet --constraint constraints.txt "$$(ls $(CURDIR)/dist/*.whl)[dev]"
	cp -R benchmarks docs examples results tests *.md *.toml *.txt *.yml *.cff Makefile Dockerfile .ci .github $(WHEEL)/tree
	chmod -R a+rwX $(WHEEL)/tree
	chmod -R a+rX,a-w $(WHEEL)/venv/lib/python3*/site-packages
	cd $(WHEEL)/tree && $(AS) ../venv/bin/python -m pytest -n 2 -m "not slow and not browser" tests benchmarks \
	  $(addprefix --ignore=,$(OF_THE_SOURCE)); status=$$?; chmod -R u+w ../venv; exit $$status

# The suite on the oldest versions that pyproject.toml admits, in an environment of its own; they are of a time when
# Python 3.13 was not, so it wants 3.10 to 3.12: `make test-oldest PYTHON=python3.10`. TORCH=2.8.0 takes that torch, which
# is the oldest that models are exported with: with less, the tests of exports are skipped.
test-oldest: $(OLDEST)
	$(VENV)-oldest/bin/python -m pytest -n 2 -m "not slow and not browser"

lint: $(READY)
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/mypy

# A wheel and an sdist, in dist/.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# The pages, in build/site. A link, an anchor or a name in the reference that leads nowhere is an error.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

benchmark: $(PEERS)
	$(BIN)/python -m benchmarks core

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@

$(PEERS): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[peers]"
	touch $@

$(OLDEST): pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade pip
	grep -v "^torch==" constraints-oldest.txt > $(VENV)-oldest/constraints.txt
	echo "torch==$(TORCH)" >> $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint $(VENV)-oldest/constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
