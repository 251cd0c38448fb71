"""Silence: what happens inside a search shows nothing that the guarantee does not count."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


class _Nowhere(io.TextIOBase):
    """A stream that keeps nothing. It is never closed, since threads may share it."""

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def silence() -> Iterator[None]:
    """Show no warnings, log records or output of Python code, in the whole process.

    A search by random stopping may not show how many fits it makes, and scores that are computed
    record by record may not show how many records there are.
    """
    nowhere, level = _Nowhere(), logging.root.manager.disable
    with redirect_stdout(nowhere), redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)
