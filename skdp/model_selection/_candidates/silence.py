"""Silence: what happens inside a search shows nothing that the guarantee does not count."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from threading import Lock


class _Nowhere(io.TextIOBase):
    """A stream that keeps nothing. It is never closed, since threads may share it."""

    def write(self, text: str) -> int:
        return len(text)


class _Process:
    """The silence of the whole process, which threads enter and leave in any order.

    Output, warnings and log records are settings of the process. Only the first thread saves
    them and only the last restores them: any other would save or end the silence of another.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._saved = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._saved = _silenced()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._saved.close()


_PROCESS = _Process()


@contextmanager
def silence() -> Iterator[None]:
    """Show no warnings, log records or output of Python code, in the whole process.

    A search by random stopping may not show how many fits it makes, and scores that are computed
    record by record may not show how many records there are. It ends with the last of those
    that asked for it.
    """
    _PROCESS.enter()
    try:
        yield
    finally:
        _PROCESS.leave()


def _silenced() -> ExitStack:
    """Silence the process; closing what is returned restores it."""
    saved, nowhere = ExitStack(), _Nowhere()
    saved.callback(logging.disable, logging.root.manager.disable)
    for one in (redirect_stdout(nowhere), redirect_stderr(nowhere), warnings.catch_warnings()):
        saved.enter_context(one)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    return saved
