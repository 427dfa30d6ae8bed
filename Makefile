# demo · test · soak · check: each sets up all it needs in .venv, from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test soak check golden clean

# torch first and by its exact version, so that no other install step pulls another build.
$(VENV)/torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $$(grep '^torch==' constraints.txt)
	touch $@

$(VENV)/demo: $(VENV)/torch pyproject.toml
	$(PIP) -e '.[demo]'
	touch $@

$(VENV)/dev: $(VENV)/torch pyproject.toml
	$(PIP) -e '.[dev]'
	touch $@

demo: $(VENV)/demo  ## the main job on real text: tokenizer, pretraining, comparison, report
	$(BIN)/greffon demo

test: $(VENV)/dev  ## all tests, two at a time
	$(BIN)/python -m pytest -n 2

soak: $(VENV)/dev  ## the long tests of reliability; their figures go into RELIABILITY.md
	$(BIN)/python tests/soak.py

check: $(VENV)/dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

golden: $(VENV)/dev  ## record the golden losses anew; say why in the commit
	$(BIN)/python tests/golden.py --record > /dev/null

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
