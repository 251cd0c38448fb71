"""A progress bar on standard error."""

from __future__ import annotations

import sys
from typing import TypeVar

Item = TypeVar("Item")

_WIDTH = 30


class Bar:
    """Count public steps; nothing is shown unless it is asked for.

    Parameters
    ----------
    total : int >= 1
    label : str
        What a step is.
    verbose : int
        0 shows nothing.
    """

    def __init__(self, total: int, label: str, verbose: int) -> None:
        self.total, self.label, self.verbose = total, label, verbose
        self.done = 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.verbose:
            print(file=sys.stderr)

    def passed(self, item: Item) -> Item:
        """Return what is given, having counted it."""
        self.step()
        return item

    def step(self) -> None:
        """Count one more step, and draw the bar."""
        self.done += 1
        if self.verbose:
            filled = "#" * (_WIDTH * self.done // self.total)
            text = f"\r[{filled:<{_WIDTH}}] {self.label} {self.done} of {self.total}"
            print(text, end="", file=sys.stderr, flush=True)
