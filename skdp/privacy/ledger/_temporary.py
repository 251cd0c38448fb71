"""The folder of a temporary ledger, which is removed when its process exits."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# Where Linux has files in memory, in place of /tmp.
_MEMORY, _DEFAULT = "/dev/shm", "/tmp"


def temporary_folder() -> str:
    """Return a new folder that only its owner can use, in memory if the system has such folders.

    In memory a transaction waits for no disk. A restart of the machine removes the file, but it
    never removes the last spends only. If the user chose a place for temporary files, it is used.
    """
    memory = tempfile.gettempdir() == _DEFAULT and os.access(_MEMORY, os.W_OK | os.X_OK)
    # A separate folder, so that nobody else can put a journal beside the ledger's file.
    folder = tempfile.mkdtemp(prefix="skdp-ledger-", dir=_MEMORY if memory else None)
    atexit.register(_remove, folder, os.getpid())
    return os.path.realpath(folder)


def _remove(folder: str, owner: int) -> None:
    # A forked child inherits the exit handlers, but does not own the ledger.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
