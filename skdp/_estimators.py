"""What estimators of several folders share: links to their documentation, progress bars, tables."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# As the documentation's address in the project's metadata, which a test compares. A constant does
# not depend on how the package was installed.
DOCUMENTATION = "https://skdp.readthedocs.io/en/stable/"
_WIDTH = 30


# Browsers do not pass colours on to tables in pages without a doctype.
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;color:inherit"
_CELL = "padding:0.15em 0.6em;text-align:right;border:none"
_NAME = "padding:0.15em 0.6em;text-align:left;border:none;font-weight:normal"
_RULE = "border:none;border-bottom:1px solid currentColor"


def text_lines(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return a table as lines; columns are aligned to the right, but those at ``left``."""
    columns = []
    for k, column in enumerate(zip(*rows, strict=True)):
        align, width = str.ljust if k in left else str.rjust, max(map(len, column))
        columns.append([align(cell, width) for cell in column])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def html_table(header: Sequence[str], *rows: Sequence[str]) -> str:
    """Return a table as HTML, with inline styles and the colours of the page."""
    top = "".join(f'<th style="{_CELL};{_RULE}">{html.escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{html.escape(row[0])}</th>'
        + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div style="overflow-x:auto"><table style="{_TABLE}">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


class Documented:
    """Base of estimators whose diagram leads to the documentation of their class."""

    # Names of scikit-learn, which reads them in `_get_doc_link`.
    _doc_link_module = "skdp"
    _doc_link_template = DOCUMENTATION + "reference/estimators/{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"name": type(self).__name__}


def draw_bar(done: int, total: int, label: str) -> None:
    """Draw a bar on standard error over the one before it; after the last step the line ends."""
    filled = "#" * (_WIDTH * done // total)
    end = "\n" if done == total else ""
    text = f"\r[{filled:<{_WIDTH}}] {label} {done} of {total}"
    print(text, end=end, file=sys.stderr, flush=True)


def with_bar(items: Iterable[Item], total: int, label: str, verbose: int = 1) -> Iterator[Item]:
    """Yield ``total`` items; if verbose, draw a bar before the first and after each of them."""
    if not verbose:
        yield from items
        return
    done = 0
    draw_bar(done, total, label)
    try:
        for done, item in enumerate(items, 1):
            yield item
            draw_bar(done, total, label)
    except BaseException:
        print(file=sys.stderr)  # the note on an error begins on a line of its own
        raise
