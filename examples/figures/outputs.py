"""What a command prints: its tables, with a title and rows.

Most commands save their rows, to all digits, in the folder ``results`` and say so; the others print
tables in Markdown or in columns that are two spaces apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from examples.figures.pages import ROOT, cells_of, unique, value_of

SAVED = re.compile(r"^Saved (results/[^\n]+\.json)\.$", re.MULTILINE)
Row = dict[str, Any]


@dataclass(frozen=True)
class Output:
    """A table of a command. Numbers of a printed one are kept as texts, with their digits."""

    title: str
    rows: list[Row]


def outputs(printed: str, errors: str) -> list[Output]:
    """Return the tables of a command from what it wrote to standard output and error."""
    if paths := SAVED.findall(errors):
        return [Output(path, json.loads((ROOT / path).read_text())["rows"]) for path in paths]
    return list(printed_tables(printed))


def printed_tables(text: str) -> Iterator[Output]:
    """Yield the tables of a text: blocks of lines, with the line before the headings as title."""
    title = ""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not re.fullmatch(r"[\s|:-]*", line)]
        while lines and len(columns(lines[0])) < 2:
            title = lines.pop(0).strip()
        if lines:
            headings = unique(columns(lines[0]))
            found = [columns(line) for line in lines[1:]]
            rows = [dict(zip(headings, r, strict=True)) for r in found if len(r) == len(headings)]
            yield Output(title, rows)


def columns(line: str) -> tuple[str, ...]:
    """Return the cells of a printed line."""
    return cells_of(line) if line.startswith("|") else tuple(re.split(r"\s{2,}", line.strip()))


def is_same(label: str, value: Any) -> bool:
    """Whether a label of a page names a value: as a number, or as a text."""
    try:
        return value_of(label) == float(value)
    except (TypeError, ValueError):
        return label.replace("`", "").strip("*$ ").lower() == str(value).lower()
