"""Where the numbers of a command stand in the table of a page.

A layout says which fields of the command's rows identify a row of the page, and which fields fill
the cells of a column. Cells that it does not mention keep their text. A cell has the numbers of its
fields, in the form of those that were there, or the text of one field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from examples.figures.outputs import Output, Row, is_same
from examples.figures.pages import NUMBER, Table, restyled, unit_of, value_of


@dataclass(frozen=True)
class Layout:
    """How a table of a page is filled.

    Parameters
    ----------
    table : str
        Part of the title of the command's table; the only one if left out.
    where : dict
        Values of fields of the rows that are used.
    rows : list of str
        Fields that the first columns of the page name. Two fields may share a column, as in
        ".01, .3". An empty cell of a page has the text of the cell above it.
    pivot : str
        A field whose values are the numbers in the headings of the page, or headings as a whole.
    cells : list of str
        Fields of the numbers in a cell below such a heading; "" for a number that is kept.
    headings : dict
        For other headings: the fields of the numbers in a cell.
    labels : dict
        For tables with a field for each row: the fields by the text of the first cell.
    aliases : dict
        Values by the text that stands for them on the page.
    digits : int
        Significant digits of printed numbers, whose last zeros are left out; 0 if they are not.
    """

    table: str = ""
    where: dict[str, Any] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    pivot: str = ""
    cells: tuple[str, ...] = ()
    headings: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    aliases: dict[str, Any] = field(default_factory=dict)
    digits: int = 0

    def values(self, table: Table, found: Sequence[Output]) -> Iterator[tuple[int, int, list[Any]]]:
        """Yield row, column and values of the cells for which the command has a row."""
        rows = [r for o in found if self.table in o.title for r in o.rows if self._is_used(r)]
        index = self._columns_of_labels(table)
        labels = [""] * index
        for k, cells in enumerate(table.rows):
            labels = [new or old for new, old in zip(cells[:index], labels, strict=True)]
            own = [row for row in rows if self._is_row(", ".join(labels), row)]
            for j, heading in enumerate(table.headings[index:], index):
                fields = self._fields(heading, labels)
                chosen = [row for row in own if self._is_column(heading, row)]
                values = {
                    tuple(row.get(f) for f in fields) for row in chosen if has_all(row, fields)
                }
                if fields and len(values) == 1:
                    yield k, j, list(*values)

    def _columns_of_labels(self, table: Table) -> int:
        if self.labels or not self.rows:
            return 1
        return 1 if ", " in table.rows[0][0] and len(self.rows) > 1 else len(self.rows)

    def _is_used(self, row: Row) -> bool:
        return all(is_same(str(value), row.get(name)) for name, value in self.where.items())

    def _is_row(self, label: str, row: Row) -> bool:
        if not self.rows:
            return True
        # A number may have commas between thousands; those between labels have a space.
        parts = label.split(", ") if len(self.rows) > 1 else [label]
        parts = [str(self.aliases.get(part, part)) for part in parts]
        return len(parts) == len(self.rows) and all(
            is_same(part, row[name]) for part, name in zip(parts, self.rows, strict=True)
        )

    def _fields(self, heading: str, labels: Sequence[str]) -> Sequence[str]:
        if heading in self.headings:
            return self.headings[heading]
        if not self.pivot:
            return ()
        return self.labels.get(labels[0], ()) if self.labels else self.cells

    def _is_column(self, heading: str, row: Row) -> bool:
        if heading in self.headings or not self.pivot:
            return True
        shown = NUMBER.search(heading)
        name = self.aliases.get(heading, shown[0] if shown else heading)
        return is_same(str(name), row[self.pivot])


def has_all(row: Row, fields: Sequence[str]) -> bool:
    """Whether a row has a number or a text in each field that has a name."""
    return all(row.get(name) not in (None, "") for name in fields if name)


def filled(table: Table, layout: Layout, found: Sequence[Output]) -> Table:
    """Return the table of a page with the numbers of a command."""
    for row, column, values in layout.values(table, found):
        cell = table.rows[row][column]
        if is_text(values):
            table = table.with_cell(row, column, values[0])
            continue
        numbers = [
            None if agree(one, value, layout.digits) else float(value)
            for one, value in zip(NUMBER.findall(cell), values, strict=True)
        ]
        table = table.with_cell(row, column, restyled(cell, numbers))
    return table


def differences(table: Table, layout: Layout, found: Sequence[Output]) -> tuple[int, list[str]]:
    """Return how many cells a command has, and those whose shown digits are not its own."""
    count, wrong = 0, []
    for row, column, values in layout.values(table, found):
        count += 1
        if not is_shown(table.rows[row][column], values, layout.digits):
            place = f"row {row + 1} ({table.rows[row][0]}), column {table.headings[column]!r}"
            text = ", ".join(map(str, values))
            wrong.append(f"{place}: the page has {table.rows[row][column]!r}, computed: {text}")
    return count, wrong


def is_text(values: Sequence[Any]) -> bool:
    """Whether the values of a cell are one text that is not a number."""
    if len(values) != 1 or not isinstance(values[0], str):
        return False
    try:
        float(values[0])
    except ValueError:
        return True
    return False


def is_shown(cell: str, values: Sequence[Any], digits: int) -> bool:
    """Whether a cell has the text, or numbers that are the values to the digits shown."""
    if is_text(values):
        return cell == str(values[0])
    shown = NUMBER.findall(cell)
    return len(shown) == len(values) and all(
        agree(one, value, digits) for one, value in zip(shown, values, strict=True)
    )


def agree(shown: str, value: Any, digits: int = 0) -> bool:
    """Whether a number of a page is a computed one, rounded to the digits that are shown.

    A number that was printed with fewer digits is only known up to half a unit of its last one.
    """
    if value is None:
        return True
    difference, half = abs(value_of(shown) - float(value)), 0.5 * unit_of(shown)
    if not isinstance(value, str):
        return difference <= half * (1 + 1e-9)
    # Ties are left out: two numbers with equally many digits have to be the same.
    known = 0.5 * (last_digit(float(value), digits) if digits else unit_of(value))
    return difference < (half + known) * (1 - 1e-9)


def last_digit(value: float, digits: int) -> float:
    """Return the unit of the last of the significant digits of a number."""
    return float(10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)) if value else 0.0
