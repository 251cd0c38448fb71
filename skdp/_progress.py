"""Progress bars on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_WIDTH = 30


def draw_bar(done: int, total: int, label: str) -> None:
    """Draw a bar over the one before it; after the last step the line ends."""
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
