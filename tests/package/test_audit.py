"""The page for auditors names every file that is marked as trusted, and no other one."""

import re
from pathlib import Path

import skdp

ROOT = Path(skdp.__file__).parent
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
    minutes = re.findall(r"^\| (\d+) \| `", PAGE.read_text(encoding="utf-8"), re.M)
    assert 300 < sum(map(int, minutes)) <= 9 * 60
