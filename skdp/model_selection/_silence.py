"""Suppression of output during a search: it may show only what the guarantee covers."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from threading import Lock


class _NullStream(io.TextIOBase):
    """A stream that discards everything. Threads may share it, so it is never closed."""

    def write(self, text: str) -> int:
        return len(text)


# Output, warnings and log records are settings of the process. Threads may enter and leave in any
# order, so the first one saves the settings and the last one restores them.
_lock = Lock()
_n_inside = 0
_saved = ExitStack()


@contextmanager
def silence() -> Iterator[None]:
    """Suppress warnings, log records and output of Python code in the whole process.

    A search by random stopping must not show how many fits it makes; nothing else uses this. Nested
    and concurrent uses are allowed; the settings are restored when the last one ends.
    """
    global _n_inside, _saved
    with _lock:
        if _n_inside == 0:
            _saved = _silenced()
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                _saved.close()


def _silenced() -> ExitStack:
    """Suppress everything; closing the returned stack restores the settings."""
    saved, nowhere = ExitStack(), _NullStream()
    saved.callback(logging.disable, logging.root.manager.disable)
    for one in (redirect_stdout(nowhere), redirect_stderr(nowhere), warnings.catch_warnings()):
        saved.enter_context(one)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    return saved
