# Everything here makes the virtual environment it needs, so each target works in a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Libraries of other people that ask our server, in tests; they need an environment of their own.
CLIENTS   := .venv-clients
LIBRARIES := openai langchain-openai cohere huggingface_hub infinity_client requests \
  llama-index-embeddings-text-embeddings-inference "lm-eval[api]" transformers

.DEFAULT_GOAL := help
.PHONY: help setup clients test test-all check static format bench docs quickstart clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev  ## make .venv with the package and what its tests need

clients: $(CLIENTS)/.made  ## make .venv-clients with the libraries that ask the server in tests

test: $(VENV)/.dev  ## the fast tests (a few minutes on two cores)
	$(BIN)/python -m pytest -n auto --dist loadfile

test-all: $(VENV)/.peers $(VENV)/.docs $(VENV)/.browser $(CLIENTS)/.made  ## every test that can run here: also slow, parity, distributed and browser ones
	$(BIN)/python -m pytest -m "not gpu and not network"

static: $(VENV)/.dev  ## formatting, lint, types, direction of imports, the map
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/map.py --check

check: static test  ## the static checks, then the fast tests

format: $(VENV)/.dev  ## put the code in its standard shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.peers  ## every benchmark, side by side with its peer (QUICK=--quick for a minute)
	@set -e; for script in $(filter-out benchmarks/measuring.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script $(QUICK); done

docs: $(VENV)/.docs  ## the site of guides, API and decisions, in site/ (a broken link is an error)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Look at it with: python -m http.server --directory site"

quickstart: $(VENV)/.dev  ## from a text everybody has to a trained model that fills gaps
	$(BIN)/clozeworks quickstart

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) $(CLIENTS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache quickstart-out site

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Clozeworks needs Python 3.11 or newer; name one with: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/.peers: $(VENV)/.dev
	$(PIP) -e ".[peers]"
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[docs]"
	@touch $@

# What cannot be installed is no failure: tests that need it say that it is missing, and are skipped.
$(VENV)/.browser: $(VENV)/.dev
	@rm -f $@
	@$(PIP) -e ".[browser]" \
	  && { command -v chromium || command -v google-chrome \
	    || { apt-get -qq update && apt-get -qq -y install chromium fonts-noto-cjk; }; } >/dev/null \
	  && touch $@ \
	  || echo "Playwright or Chromium could not be installed; tests of the page are skipped."

$(CLIENTS)/.made: constraints-clients.txt | $(BIN)/python
	@rm -f $@
	@$(BIN)/python -m venv $(CLIENTS) \
	  && $(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints-clients.txt $(LIBRARIES) \
	  && touch $@ \
	  || echo "The client libraries could not be installed; tests with them are skipped."
