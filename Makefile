# demo · test · soak · mutants · check · bench · docs · notebook: each sets up all it needs in .venv, from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test soak mutants check golden bench bench-learning bench-scaling bench-growth docs notebook clean

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

$(VENV)/bench: $(VENV)/torch pyproject.toml
	$(PIP) -e '.[bench]'
	touch $@

$(VENV)/docs: $(VENV)/torch pyproject.toml
	$(PIP) -e '.[docs]'
	touch $@

$(VENV)/notebook: $(VENV)/torch pyproject.toml
	$(PIP) -e '.[notebook]'
	touch $@

demo: $(VENV)/demo  ## the main job on real text: tokenizer, pretraining, comparison, report
	$(BIN)/greffon demo

test: $(VENV)/dev  ## all tests, two at a time
	$(BIN)/python -m pytest -n 2

soak: $(VENV)/dev  ## the long tests of reliability; their figures go into RELIABILITY.md
	$(BIN)/python tests/reliability/soak.py

mutants: $(VENV)/dev  ## which changes of the source no test notices, on a sample of files: an hour at most
	$(BIN)/python tests/reliability/mutants.py --minutes 60

check: $(VENV)/dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

golden: $(VENV)/dev  ## record the golden losses anew; say why in the commit
	$(BIN)/python tests/reliability/golden.py --record > /dev/null

bench: $(VENV)/bench  ## Greffon and its peers side by side: BENCHMARKS.md; let nothing else run
	$(BIN)/python -m bench

bench-learning: $(VENV)/bench  ## how soon compact has learnt what the lab's loop learns in five minutes
	$(BIN)/python -m bench.learning

bench-scaling: $(VENV)/bench  ## speed and memory against context, vocabulary, width and corpus size
	$(BIN)/python -m bench.scaling --gigabyte

bench-growth: $(VENV)/bench  ## time and memory against the number of texts
	$(BIN)/python -m bench.growth

docs: $(VENV)/docs  ## the site, into build/site; a link that leads nowhere is an error
	$(BIN)/sphinx-build -q -W --keep-going docs build/site

notebook: $(VENV)/notebook  ## notebooks/lab.ipynb anew from lab.py, executed: under ten minutes on two cores
	$(BIN)/jupytext --quiet --to ipynb --execute notebooks/lab.py

clean:
	rm -rf $(VENV) docs/generated build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
