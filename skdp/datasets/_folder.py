"""Data from a folder of CSV files, checked against its list of checksums."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from skdp._checks import fail
from skdp.datasets._dataset import pandas
from skdp.datasets._declared import Declaration

VARIABLE = "SKDP_DATA"
SUMS = "SHA256SUMS"


def folder_of(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return the given folder, or the one that the environment variable names, or None."""
    found = os.fspath(folder) if folder is not None else os.environ.get(VARIABLE)
    if not found:
        return None
    if not Path(found).is_dir():
        name = "folder" if folder is not None else VARIABLE
        remedy = f"Give the folder of the CSV files and {SUMS}, or leave it out to use OpenML."
        raise fail(name, "name a folder that exists", found, remedy)
    return Path(found)


def holds(folder: Path, declared: Declaration) -> bool:
    """Return whether the folder has the file of the data set."""
    return declared.file is not None and (folder / declared.file).is_file()


def read(folder: Path, declared: Declaration) -> Any:
    """Return the table of a data set, with the target among its columns.

    Raises
    ------
    ValueError
        If the checksum of the file is not the listed one, or columns are missing.
    """
    assert declared.file is not None
    path = _checked(folder, declared.file)
    columns = (*declared.columns, declared.target)
    kinds = {column.name: float if column.is_number else str for column in columns}
    # "NA" and "None" are levels like any other: no cell of these files is empty.
    table = pandas().read_csv(path, dtype=kinds, keep_default_na=False)
    lacking = [name for name in kinds if name not in table.columns]
    if lacking:
        raise fail(str(path), f"have the columns {lacking}", list(table.columns))
    return table[list(kinds)]


def _checked(folder: Path, file: str) -> Path:
    path = folder / file
    if hashlib.sha256(path.read_bytes()).hexdigest() != _sums(folder).get(file):
        remedy = "Copy the file again: results on other data are not comparable."
        raise fail(str(path), f"have the checksum that {SUMS} lists", remedy=remedy)
    return path


@lru_cache(maxsize=8)
def _sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    if not path.is_file():
        remedy = "Create it with: sha256sum * > SHA256SUMS"
        raise fail(str(folder), f"hold {SUMS}, a line 'checksum  file' for each", remedy=remedy)
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {file.strip().lstrip("*"): digest for digest, file in pairs}
