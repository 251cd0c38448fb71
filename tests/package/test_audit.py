"""The page for auditors names every file that is marked as trusted, and no other one."""

import ast
import re
import sys
from pathlib import Path

import skdp

ROOT = Path(skdp.__file__).parent
TRUSTED = sorted((ROOT / "trusted").glob("*.py"))
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


def test_the_reading_takes_a_day():
    """The folder, and what belongs to one guarantee: at most half of the second table."""
    rows = re.findall(r"^\| (\d+) \| `([^`]+)`", PAGE.read_text(encoding="utf-8"), re.M)
    core = sum(int(minutes) for minutes, name in rows if name.startswith("trusted/"))
    beside = sum(int(minutes) for minutes, name in rows if not name.startswith("trusted/"))
    assert 240 < core <= 5 * 60
    assert core + beside / 2 <= 8 * 60


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
