"""What is stated in several places agrees, and every extra is used."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import takewhile

import lower_bounds
import pytest

import skdp

ROOT = lower_bounds.PROJECT.parent
FACTS = lower_bounds.project()
EXTRAS = FACTS["optional-dependencies"]
# Modules of packages that have other names, and programs that a command runs.
MODULES = {"scikit-learn": "sklearn", "sphinxext-opengraph": "sphinxext.opengraph"}
PROGRAMS = {
    "ruff": "Makefile",
    "mypy": "Makefile",
    "pyright": "Makefile",
    "build": "Makefile",
    "twine": "Makefile",
    "check-wheel-contents": "Makefile",
    "sphinx": "Makefile",
    "pre-commit": "CONTRIBUTING.md",
    "pytest-xdist": "Makefile",
    "pytest-cov": "examples/benchmarks/upkeep/mutations.py",
    "pandas-stubs": None,  # mypy finds both by themselves
    "scipy-stubs": None,
    "furo": "docs/conf.py",
    "numpydoc": "docs/conf.py",
}
WORDS = {"pytest-xdist": "-n 2", "pytest-cov": "--cov=skdp", "sphinx": "-m sphinx"}


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def sources():
    for folder in ("skdp", "tests", "examples", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            yield path.read_text(encoding="utf-8")


def names_of(extra):
    return {re.split(r"[\[>]", needed)[0] for needed in lower_bounds.of_extra(extra)}


def test_the_version_is_the_same_everywhere():
    """In the metadata, the module, the citation and the recipe."""
    stated = FACTS["version"]
    assert skdp.__version__ == version("skdp") == stated
    assert re.search(r"^version: (.*)$", text_of("CITATION.cff"), re.M)[1] == stated
    assert re.search(r'^  version: "(.*)"$', text_of("conda/recipe.yaml"), re.M)[1] == stated


def test_the_recipe_has_what_builds_the_package():
    """`pip install --no-build-isolation` installs nothing of it."""
    needed = tomllib.loads(text_of("pyproject.toml"))["build-system"]["requires"]
    assert {"pip", *needed} <= {*of_recipe("host")}


def of_recipe(kind):
    """Return the requirements of a kind in the recipe."""
    lines = text_of("conda/recipe.yaml").partition(f"  {kind}:\n")[2].splitlines()
    listed = takewhile(lambda line: line.startswith("    - "), lines)
    return [line.removeprefix("    - ").replace(" ", "") for line in listed]


def test_the_recipe_has_the_dependencies_of_the_package():
    """conda-forge's cvxpy has all solvers, and cvxpy-base is what pip's cvxpy needs at least."""
    python, *others = [one.replace("cvxpy-base", "cvxpy") for one in of_recipe("run")]
    assert python == "python>=${{python_min}}"
    assert others == FACTS["dependencies"]
    least = FACTS["requires-python"].removeprefix(">=")
    assert f'python_min: "{least}"' in text_of("conda/recipe.yaml")
    assert f"Programming Language :: Python :: {least}" in FACTS["classifiers"]


def test_every_lower_bound_is_a_pin():
    """So that `make test-oldest` can install exactly these."""
    pins = list(map(lower_bounds.pinned, lower_bounds.requirements(["test"])))
    assert len(pins) > 10
    assert all(re.fullmatch(r"[\w\[\],-]+==[\d.]+", pin) for pin in pins), pins


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_package_of_an_extra_is_used(extra):
    """It is imported, or a program of it is run."""
    everything = "\n".join(sources())
    for name in names_of(extra):
        if name in PROGRAMS:
            place = PROGRAMS[name]
            assert place is None or WORDS.get(name, name) in text_of(place), name
        else:
            module = MODULES.get(name, name).replace("-", "_")
            used = rf"""(import {module}\b|from {module}\b|["']{module}[.\w]*["'])"""
            assert re.search(used, everything), name


USES = {
    "plot": ("matplotlib", "from skdp.inspection import NormBallDisplay as D; D.from_balls([B])"),
    "pandas": ("pandas", "M.fit({'x0': [0.0] * 9, 'x1': [0.0] * 9}, [0, 1, 0] * 3)"),
    "arrow": ("pyarrow", "M.fit('people.parquet', target='y')"),
}


@pytest.mark.parametrize("extra", USES)
def test_the_error_without_a_package_names_the_extra(extra, tmp_path):
    """The extras fast and dask have no such error: without numba, or dask's tables, none is due."""
    package, use = USES[extra]
    (tmp_path / "people.parquet").write_bytes(b"")
    script = f"""
import sys
sys.modules[{package!r}] = None
from skdp import Domain, DPLogisticRegression
from skdp.geometry import LpBall
B, M = LpBall(2), DPLogisticRegression(domain=Domain.unit_box(2, target=[0, 1]))
{use}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"pip install 'skdp[{extra}]'" in done.stderr, done.stderr


def test_the_archive_lists_the_folders_that_there_are():
    """A renamed folder would silently be left out."""
    project = tomllib.loads(text_of("pyproject.toml"))
    for pattern in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert list(ROOT.glob(pattern.removeprefix("/"))), pattern


def test_ci_runs_what_make_check_runs():
    """It reads the line of the Makefile, and every target of it exists."""
    makefile, program = text_of("Makefile"), ROOT / ".ci" / "run"
    targets = re.search(r"^check: (.*)$", makefile, re.M)[1].split()
    assert {"lint", "types", "test"} <= {*targets}
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.M)[1].split()
    assert {*targets} <= {*phony}
    if not program.exists():
        pytest.skip("the source archive has no .ci")
    assert "sed -n 's/^check: //p' Makefile" in program.read_text(encoding="utf-8")
