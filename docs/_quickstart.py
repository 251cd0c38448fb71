"""The picture of the quickstart: ``python docs/_quickstart.py --out docs/quickstart_effects.png``.

The noise of a fit is new each time. Here it comes from given keys instead, so that the first pages
can show numbers and their tests can repeat them.
"""

from __future__ import annotations

import argparse
import doctest
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

from randomgen import ChaCha

from skdp.trusted import randomness

DOCS = Path(__file__).resolve().parent
# The pages whose numbers are shown.
PAGES = ("index.md", "quickstart.md")


@contextmanager
def known_noise() -> Iterator[None]:
    """Take the keys 0, 1, 2, ... and not those of the operating system."""
    keys = count()
    with patch.object(randomness, "_fresh_chacha", lambda: ChaCha(key=next(keys), rounds=20)):
        yield


def main() -> None:
    """Run the code of the page, and save the figure that it draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the file of the picture")
    out = parser.parse_args().out
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    page = doctest.DocTestParser().get_doctest(text, names, "quickstart.md", None, 0)
    with known_noise():
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        runner = doctest.DocTestRunner(optionflags=flags)
        if runner.run(page, clear_globs=False).failed:
            raise SystemExit("The page does not show what its code prints.")
    page.globs["display"].figure_.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
