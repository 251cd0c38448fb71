"""The figures of the pages: the command behind each, its time, and where its numbers stand."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.figures.layout import Layout
from examples.figures.pages import Item, items, pages

HERE = Path(__file__).parent
RECORDS = HERE / "records.json"
KINDS = {
    "exact": "computed without randomness",
    "measured": "follows from seeds and repetitions",
    "time": "seconds or bytes: shown, never compared",
    "picture": "drawn, never compared",
    "facts": "facts or closed forms, which the named test checks",
}


@dataclass(frozen=True)
class Figure:
    """A table or picture of a page.

    Parameters
    ----------
    name, page, kind : str
    command : str
        What follows ``python``; "{out}" is the file of a picture, "{folder}" its folder. Commands
        of several figures are equal, and run once. Seed and repetitions are options of it.
    minutes : float
        Of the command on two cores, about.
    needs : tuple of str
        "SKDP_DATA" (the folder of data sets), "peers" (environments of peers).
    fast : str
        A command with part of the table, in seconds, without data files.
    sample : str
        A function of ``samples.py``: a few cells from fewer repetitions.
    layout : Layout or None
        Where the numbers of a table stand. Facts have none, nor tables of a page that the command
        writes.
    file : str
        What is copied from "{folder}": a picture, or a page that the command writes.
    note : str
        What to know, such as a difference between the command and the table.
    """

    name: str
    page: str
    kind: str
    command: str
    minutes: float
    needs: tuple[str, ...] = ()
    fast: str = ""
    sample: str = ""
    layout: Layout | None = None
    file: str = ""
    note: str = ""

    @property
    def is_compared(self) -> bool:
        """Whether numbers of the page are compared with those of the command."""
        return self.layout is not None and self.kind in ("exact", "measured")


def figures() -> dict[str, Figure]:
    """Return the figures of the manifest by name."""
    with (HERE / "figures.toml").open("rb") as file:
        entries = tomllib.load(file)
    return {name: _figure(name, facts) for name, facts in entries.items()}


def _figure(name: str, facts: dict[str, Any]) -> Figure:
    layout = facts.pop("layout", None)
    needs = tuple(facts.pop("needs", ()))
    if layout is not None:
        settings: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in layout.items()
        }
        layout = Layout(**settings)
    return Figure(name=name, needs=needs, layout=layout, **facts)


def placed() -> dict[str, Item]:
    """Return the tables and pictures of the pages that have a comment, by its name."""
    found: dict[str, Item] = {}
    for path in pages():
        for item in items(path):
            if item.name in found:
                raise ValueError(f"{item.page}: the name {item.name!r} is used twice.")
            if item.name:
                found[item.name] = item
    return found


def records() -> dict[str, dict[str, Any]]:
    """Return when, at which commit, and with which versions each figure was last written."""
    return dict(json.loads(RECORDS.read_text(encoding="utf-8")))


def write_records(found: dict[str, dict[str, Any]]) -> None:
    """Keep the records in the repository."""
    text = json.dumps(dict(sorted(found.items())), indent=1)
    RECORDS.write_text(text + "\n", encoding="utf-8")
