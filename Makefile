# Two commands are all the set-up there is: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Statistical tests compare distributions, not speed: one BLAS thread per worker is fairest.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# git tells its hooks where their repository is; tests make repositories of their own.
unexport GIT_DIR GIT_INDEX_FILE

.PHONY: demo test test-slow test-examples lint types check upkeep benchmark figures figures-check docs \
  docs-versions dist sbom test-oldest test-newest test-prereleases clean

# A stamp per group: installing happens once, and again when pyproject.toml changes.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip # groups need 25.1
	@touch $@

$(VENV)/.demo: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot,pandas]'
	@touch $@

$(VENV)/.test: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group test
	@touch $@

$(VENV)/.dev: $(VENV)/.test pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group test --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group bench
	@touch $@

# A peer has an environment of its own, with the packages that its script names.
PEERS := diffprivlib ebm aim
$(VENV)/%/.created: examples/benchmarks/peers/%_peer.py | $(VENV)/.created
	$(PYTHON) -m venv $(VENV)/$*
	$(VENV)/$*/bin/python -m pip install --quiet $$(sed -n 's/^# needs: //p' $<)
	@touch $@

$(VENV)/.docs: $(VENV)/.test pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group test --group docs
	$(BIN)/python -m pip install --quiet --no-deps axe-playwright-python # for its file of axe-core
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Without the tests of the site, which are part of `make docs`.
test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow --ignore-glob='*/test_docs_*.py'

# The tests of the examples, of the notebooks, of the benchmarks and of the figures.
test-examples: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal examples/tests

# Goes on where it was stopped. Needs SKDP_DATA; e.g. BENCHMARK="--repeats 5 --sets adult".
benchmark: $(VENV)/.bench $(PEERS:%=$(VENV)/%/.created)
	$(BIN)/python -m examples.benchmarks.peers.everything --peers $(VENV) $(BENCHMARK)

# Every table and picture of figures. Goes on where it was stopped; FIGURES="--list" tells the times.
figures: $(VENV)/.bench $(if $(findstring --list,$(FIGURES)),,$(PEERS:%=$(VENV)/%/.created))
	$(BIN)/python -m examples.figures $(FIGURES)

# A part of them in a minute, without data files: cells that are not what the pages say are errors.
figures-check: $(VENV)/.test
	$(BIN)/python -m examples.figures --fast $(FIGURES)

# The site, and a look at all its pages with Debian's chromium and chromium-driver where they are.
docs: $(VENV)/.docs
	rm -rf docs/_build/html # pages of source code are not written again
	$(BIN)/python -m sphinx -q -E -a -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	SKDP_SITE=$(CURDIR)/docs/_build/html $(BIN)/python -m pytest -q -m slow tests/docs/test_docs_*.py

# The site of each release and of the head, below docs/_build/versions.
docs-versions: $(VENV)/.docs
	$(BIN)/python docs/_versions.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/mypy --strict tests/package/distribution/typed_use.py
	$(BIN)/pyright --pythonpath $(BIN)/python

# Both archives, and a use of the wheel in an empty environment far from this folder.
DISTRIBUTION := tests/package/distribution
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist/tree .
	$(BIN)/twine check --strict dist/*.tar.gz dist/*.whl
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python $(DISTRIBUTION)/archives.py dist dist/tree
	rm -r dist/tree
	sh $(DISTRIBUTION)/use_wheel.sh $(PYTHON) dist/*.whl

# A bill of materials (CycloneDX) of the wheel with its dependencies, as pip installs them today.
sbom: $(VENV)/.created
	$(PYTHON) -m venv --clear --without-pip $(VENV)/sbom
	$(BIN)/python -m pip --python $(VENV)/sbom install --quiet dist/*.whl
	$(BIN)/python -m pip install --quiet 'cyclonedx-bom>=5'
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file sbom.cdx.json $(VENV)/sbom/bin/python

# What depends most on other packages: scikit-learn's conventions, tables, files, solvers, laws, drawings.
SUBSET := README.md tests/linear_model/test_estimators.py tests/package/conventions \
	tests/linear_model/test_export.py tests/rows/test_tables.py tests/rows/test_streams.py \
	tests/geometry/hull/test_hull_conic.py tests/linear_model/_inference/test_inference_release.py \
	tests/package/test_meta_estimators.py tests/inspection/test_*_display.py
test-oldest test-newest test-prereleases:
	sh $(DISTRIBUTION)/with_versions.sh $(PYTHON) $(@:test-%=%) $(SUBSET)

# What needs care: coverage by file, slow tests, mutations that survived. UPKEEP="--count 50".
upkeep: $(VENV)/.dev
	$(BIN)/python -m examples.benchmarks.upkeep.upkeep $(UPKEEP)

# All that CI runs, in its order: .ci/run reads this line. A scheduled workflow tests pre-releases.
check: lint types test-slow test test-examples docs figures-check dist test-oldest

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist sbom.cdx.json
