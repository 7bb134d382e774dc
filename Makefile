# make review [REPO=path]   review a repository (examples/ by default), in an environment of its own
# make test                 the tests; make lint: style and types

REPO ?= examples
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: review test lint clean

# status 1 means findings, which is what the examples are for
review: $(VENV)/.installed
	@$(BIN)/prelaunch review $(REPO); status=$$?; [ $$status -le 1 ] || exit $$status

test: $(VENV)/.tested
	$(BIN)/pytest -q -n $(WORKERS)

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	.ci/venv $(VENV)

$(VENV)/.installed: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# the second reader's compiler (extra "sass") is for some platforms only: tests that need it are skipped without
$(VENV)/.tested: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[sass]' \
	  || echo 'extra "sass" does not install here; its tests will be skipped'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
