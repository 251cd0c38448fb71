"""The page for auditors names every file that is marked as trusted, and no other one."""

import ast
import re
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

import skdp

ROOT = Path(skdp.__file__).parent
TRUSTED = sorted((ROOT / "trusted").glob("*.py"))
MODULES = [".".join(p.relative_to(ROOT.parent).with_suffix("").parts) for p in ROOT.rglob("*.py")]
PAGE = ROOT.parent / "docs" / "development" / "audit.md"


def test_the_table_has_the_marked_files():
    listed = re.findall(r"^\| \d+ \| `([^`]+)`", PAGE.read_text(encoding="utf-8"), re.M)
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    marked = {
        path.relative_to(ROOT).as_posix()
        for path, text in texts.items()
        if text.lstrip("r").startswith('"""Trusted. ') or path.parent.name == "trusted"
    }
    assert set(listed) == marked - {"trusted/__init__.py"}
    assert len(set(listed)) == len(listed)


def test_the_folder_has_at_most_5000_lines():
    assert sum(len(p.read_text(encoding="utf-8").splitlines()) for p in TRUSTED) <= 5000


def test_the_folder_uses_numpy_scipy_and_itself():
    """The layers' test has the package; here are the names of other packages."""
    found = set()
    for path in TRUSTED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
    assert found - set(sys.stdlib_module_names) == {"numpy", "scipy", "randomgen", "skdp"}


def test_one_place_makes_guarantees():
    """`guarantee_of` returns what the checker states; the other place is an example of a claim."""
    places = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Guarantee", "Statement")
    ]
    assert places == ["privacy/guarantee.py", "testing/examples.py", "trusted/certify.py"]


PROOFS = sorted((PAGE.parents[1] / "proofs").glob("*.md"))


@pytest.mark.parametrize("page", [page for page in PROOFS if page.stem != "index"], ids=str)
def test_a_page_names_the_function_that_evaluates_its_statement(page):
    """The function exists and, if the audit reads the page, in a file that is read with it."""
    line = re.search(r"^\*\*In the code:\*\* (.*)\.$", page.read_text(encoding="utf-8"), re.M)
    audit = PAGE.read_text(encoding="utf-8")
    rows = [row for row in audit.splitlines() if f"/{page.name}" in row]
    for name in re.findall("`([^`]+)`", line[1]):
        module = max((m for m in MODULES if name.startswith(f"{m}.")), key=len)
        attrgetter(name.removeprefix(f"{module}."))(import_module(module))
        file = f"{module.removeprefix('skdp.').replace('.', '/')}.py"
        assert not rows or any(f"`{file}`" in row for row in rows)
