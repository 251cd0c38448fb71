"""What estimators of several folders share: the link to their documentation, progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

# As the documentation's address in the project's metadata, which a test compares. A constant does
# not depend on how the package was installed.
DOCUMENTATION = "https://skdp.readthedocs.io/en/stable/"
_WIDTH = 30


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
