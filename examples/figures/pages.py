"""Tables of pages in Markdown: where they are, their numbers, and numbers put in their place.

A table or picture of measured figures follows a comment that names it:

    <!-- figure: name -->

The page is the record of its figures. A number that is put into a cell gets the form of the number
that was there: as many decimals, with or without a leading zero, with the same words around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKER = re.compile(r"^<!-- figure: ([\w-]+) -->$")
RULE = re.compile(r"^\|[-: |]+\|$")
PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)")
NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?(?![\w/])"
)
# A table is one of figures if more than this share of its cells begins with a number.
FIGURES = 0.25


@dataclass(frozen=True)
class Table:
    """A table of a page: the number of its first line from 0, headings, and cells as texts."""

    line: int
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def has_figures(self) -> bool:
        """Whether many of its cells begin with a number."""
        cells = [cell.strip("*<≤~ ") for row in self.rows for cell in row]
        return sum(bool(NUMBER.match(cell)) for cell in cells) > FIGURES * len(cells)

    def with_cell(self, row: int, column: int, text: str) -> Table:
        """Return a table with another text in one cell."""
        cells = list(self.rows[row])
        cells[column] = text
        return replace(self, rows=(*self.rows[:row], tuple(cells), *self.rows[row + 1 :]))


@dataclass(frozen=True)
class Item:
    """A table or a picture of a page, and the name in the comment before it, if there is one."""

    page: str
    line: int
    name: str | None
    table: Table | None = None
    picture: str | None = None


def pages() -> list[Path]:
    """Return the README and all pages of the documentation."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(p for p in found if "_build" not in p.parts)]


def items(path: Path) -> Iterator[Item]:
    """Yield the tables and pictures of a page, outside of blocks of code."""
    lines, page = path.read_text(encoding="utf-8").splitlines(), path.relative_to(ROOT).as_posix()
    is_code, end, name = False, 0, None
    for k, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if is_code or k < end:
            continue
        if marker := MARKER.match(line):
            name = marker[1]
        elif line.startswith("|") and RULE.match("".join(lines[k + 1 : k + 2])):
            table = table_at(lines, k)
            end = k + 2 + len(table.rows)
            yield Item(page, k, name, table=table)
            name = None
        elif picture := PICTURE.match(line):
            yield Item(page, k, name, picture=picture[1])
            name = None
        elif line and name:
            raise ValueError(f"{page}: the comment of {name!r} is not before a table or picture.")


def table_at(lines: Sequence[str], start: int) -> Table:
    """Return the table that starts at a line."""
    end = start
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    headings, _, *rows = (cells_of(line) for line in lines[start:end])
    return Table(start, unique(headings), tuple(rows))


def cells_of(line: str) -> tuple[str, ...]:
    """Return the cells of a line of a table."""
    return tuple(
        cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")
    )


def unique(headings: Sequence[str]) -> tuple[str, ...]:
    """Return headings with a number where one occurs again: "soft", "soft 2"."""
    seen: dict[str, int] = {}
    found = []
    for heading in headings:
        seen[heading] = count = seen.get(heading, 0) + 1
        found.append(heading if count == 1 else f"{heading} {count}")
    return tuple(found)


def written(table: Table, lines: list[str]) -> list[str]:
    """Return the lines of a page with the cells of a table; lines without a change stay."""
    lines = list(lines)
    for k, row in enumerate(table.rows, table.line + 2):
        if cells_of(lines[k]) != row:
            lines[k] = "| " + " | ".join(row) + " |"
    return lines


# Numbers in cells


def value_of(text: str) -> float:
    """Return the number that a text is, such as ".5", "1/16" or "10,000"."""
    over, _, under = text.replace(",", "").replace("−", "-").partition("/")
    return float(over) / float(under or 1)


def unit_of(text: str) -> float:
    """Return the unit of the last digit that is shown, such as .01 for "1.25"."""
    digits, _, exponent = text.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))


def restyled(text: str, values: Sequence[float | None]) -> str:
    """Return a cell with other numbers, in the form of those that are there; None keeps one."""
    numbers = NUMBER.findall(text)
    if len(numbers) != len(values):
        raise ValueError(f"The cell {text!r} must have {len(values)} numbers.")
    left = iter(values)
    return NUMBER.sub(lambda found: in_form_of(found[0], next(left)), text)


def in_form_of(text: str, value: float | None) -> str:
    """Return a number in the form of another: decimals, commas, leading zero, sign, exponent."""
    if value is None or abs(value - value_of(text)) <= 0.5 * unit_of(text):
        return text
    if "e" in text:
        digits = len(text.partition("e")[0].partition(".")[2])
        return f"{value:.{digits}e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    decimals = len(text.partition(".")[2])
    found = f"{value:,.{decimals}f}" if "," in text else f"{value:.{decimals}f}"
    if text.lstrip("+-").startswith("."):
        found = re.sub(r"^(-?)0\.", r"\1.", found)
    if not float(found.replace(",", "")):
        found = found.lstrip("-")
    return "+" + found if text.startswith("+") and value >= 0 else found
