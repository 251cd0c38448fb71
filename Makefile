# Two commands are all the set-up there is: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Statistical tests compare distributions, not speed: one BLAS thread per worker is fairest.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-slow lint types check benchmark figures figures-check docs clean

# A stamp per extra: installing happens once, and again when pyproject.toml changes.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.demo: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot,pandas]'
	@touch $@

$(VENV)/.test: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot,pandas,test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot,pandas,test,dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

# A peer has an environment of its own, with the packages that its script names.
PEERS := diffprivlib ebm
$(VENV)/%/.created: examples/benchmarks/peers/%_peer.py | $(VENV)/.created
	$(PYTHON) -m venv $(VENV)/$*
	$(VENV)/$*/bin/python -m pip install --quiet $$(sed -n 's/^# needs: //p' $<)
	@touch $@

$(VENV)/.docs: $(VENV)/.test pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot,pandas,test,docs]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/python -m skdp

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Goes on where it was stopped. Needs SKDP_DATA; e.g. BENCHMARK="--repeats 5 --sets adult".
benchmark: $(VENV)/.bench $(PEERS:%=$(VENV)/%/.created)
	$(BIN)/python -m examples.benchmarks.peers.everything --peers $(VENV) $(BENCHMARK)

# Every table and picture of figures. Goes on where it was stopped; FIGURES="--list" tells the times.
figures: $(VENV)/.bench $(PEERS:%=$(VENV)/%/.created)
	$(BIN)/python -m examples.figures $(FIGURES)

# A part of them in a minute, without data files: cells that are not what the pages say are errors.
figures-check: $(VENV)/.test
	$(BIN)/python -m examples.figures --fast $(FIGURES)

# The site, and a look at all its pages with Debian's chromium and chromium-driver where they are.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -E -a -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	SKDP_SITE=$(CURDIR)/docs/_build/html $(BIN)/python -m pytest -q -m slow tests/docs/test_docs_site.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

check: lint types test test-slow

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
