"""Print the lower bounds of the dependencies in pyproject.toml as pins, for `pip install`.

With the names of extras or groups, also theirs; with ``--ranges`` requirements and not pins:
python lower_bounds.py [--ranges] plot pandas
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def project(table: str = "project") -> dict[str, Any]:
    """Return a table of pyproject.toml."""
    return tomllib.loads(PROJECT.read_text(encoding="utf-8"))[table]


def requirements(extras: Iterable[str] = ()) -> Iterator[str]:
    """Yield the requirements of the package, and of extras or groups with the extras in them."""
    yield from project()["dependencies"]
    for extra in extras:
        yield from of_extra(extra)


def of_extra(extra: str) -> Iterator[str]:
    """Yield the requirements of an extra or group, with those of the extras that it names."""
    for needed in (project()["optional-dependencies"] | project("dependency-groups"))[extra]:
        if own := re.fullmatch(r"skdp\[(.*)\]", needed):
            for name in own[1].split(","):
                yield from of_extra(name)
        else:
            yield needed


def pinned(requirement: str) -> str:
    """Return name==version of name>=version."""
    name, bound = requirement.split(">=")
    return f"{name}=={bound}"


if __name__ == "__main__":
    extras = [name for name in sys.argv[1:] if name != "--ranges"]
    found = dict.fromkeys(requirements(extras))
    print("\n".join(found if "--ranges" in sys.argv else map(pinned, found)))
