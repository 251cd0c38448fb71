"""Larger data sets: from a folder, or from OpenML."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from skdp._checks import fail
from skdp.datasets import _folder, _openml
from skdp.datasets._dataset import Dataset, dataset
from skdp.datasets._declared import Declaration, declaration


class DataNotFound(ValueError):
    """Error for a data set that is neither in a folder nor at OpenML.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from skdp.datasets import DataNotFound, fetch
    >>> try:
    ...     fetch("king_county_house_sales", folder=mkdtemp())
    ... except DataNotFound:
    ...     print("download the file first")
    download the file first
    """


def fetch(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
) -> Dataset:
    """Return a data set by its name, from a folder or from OpenML; this needs pandas.

    Parameters
    ----------
    name : str
        One of `names`. Data sets that are part of scikit-learn have a ``load_`` function instead.
    folder : path, default=None
        Folder with the CSV files and their SHA256SUMS. None takes the environment variable
        SKDP_DATA. If that is not set, or the folder lacks the file, the data come from OpenML.
    data_home : path, default=None
        Folder for scikit-learn's downloads; None is its usual one.
    as_frame : bool, default=True
        Whether X is a DataFrame and not an array.

    Returns
    -------
    Dataset

    Raises
    ------
    DataNotFound
        If neither the folder nor OpenML has the data.
    ValueError
        If the name is unknown, a file does not have the checksum in SHA256SUMS, or OpenML's data
        differ from the declaration.

    Examples
    --------
    >>> from skdp.datasets import domain_of, fetch
    >>> X, y, domain = fetch("adult")  # doctest: +SKIP
    >>> domain_of("adult").target  # the declaration needs no data
    ['<=50K', '>50K']
    """
    declared, place = declaration(name), _folder.folder_of(folder)
    if declared.file is None:
        raise fail("name", "be a set that is fetched", name, f"Call load_{name}().")
    if place is not None and _folder.holds(place, declared):
        return _as_dataset(declared, _folder.read(place, declared), as_frame)
    if declared.openml is None:
        raise DataNotFound(_nowhere(declared, place, "OpenML's copy of it is not known here"))
    try:
        table = _openml.read(declared, data_home)
    except _openml.Unreachable as error:
        why = f"OpenML did not give it ({error})"
        raise DataNotFound(_nowhere(declared, place, why)) from None
    return _as_dataset(declared.without(declared.openml.lacks), table, as_frame)


def _as_dataset(declared: Declaration, table: Any, as_frame: bool) -> Dataset:
    columns = [column.name for column in declared.columns]
    numbers = all(column.is_number for column in declared.columns)
    X = table[columns]
    if not as_frame:
        X = X.to_numpy(dtype=float if numbers else object)
    kind: type = float if declared.target.is_number else str
    return dataset(declared, X, table[declared.target.name].to_numpy(dtype=kind))


def _nowhere(declared: Declaration, place: Path | None, why: str) -> str:
    searched = "no folder is named"
    if place is not None:
        searched = f"the folder {str(place)!r} has no such file"
    network = " Or connect to the network and try again." if declared.openml else ""
    return (
        f"The data set {declared.name!r} was not found: {searched}, and {why}. "
        f"Put {declared.file} and its line of {_folder.SUMS} into a folder and name it by the "
        f"environment variable {_folder.VARIABLE} or by folder=....{network}"
    )
