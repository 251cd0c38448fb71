"""What is stated in several places agrees."""

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


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


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


def test_groups_that_are_installed_exist():
    """Of developers, and no extra of users has the same name."""
    groups = {*lower_bounds.project("dependency-groups")}
    used = {
        name
        for file in ("Makefile", "docs/install.md", "pyproject.toml")
        for name in re.findall(r"--group (\w+)", text_of(file))
    }
    assert {"test"} < used <= groups
    assert groups.isdisjoint(FACTS["optional-dependencies"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github").glob("workflows/*.yml")), ids=str)
def test_actions_are_pinned_by_the_hash_of_a_commit(path):
    """With the version as a comment, which a tool raises together with the hash."""
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert re.search(r"^permissions:", path.read_text(encoding="utf-8"), re.M)


USES = {
    "plot": ("matplotlib", "from skdp.inspection import NormBallDisplay as D; D.from_balls([B])"),
    "pandas": ("pandas", "M.fit({'x0': [0.0] * 9, 'x1': [0.0] * 9}, [0, 1, 0] * 3)"),
    "arrow": ("pyarrow", "M.fit('people.parquet', target='y')"),
    "onnx": ("onnx", "M.fit([[0.0, 0.0]] * 9, [0, 1, 0] * 3).to_onnx()"),
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
