"""A function for each data set: ``load_`` from scikit-learn, ``fetch_`` from a folder or OpenML.

Their documentation comes from the declarations of the data sets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from skdp._checks import check_choice
from skdp.datasets._bundled import load
from skdp.datasets._dataset import Dataset
from skdp.datasets._declared import declaration
from skdp.datasets._fetch import fetch

_AS_FRAME = """as_frame : bool or None, default=None
    Whether X is a DataFrame. None makes it one if pandas is installed."""
_AS_FETCH = """folder, data_home, as_frame
    As in `fetch`."""
_DOC = """Return the {task} data set "{title}" ({rows} rows, {columns} columns).

Parameters
----------
{parameters}

Returns
-------
Dataset
    {notes}

Examples
--------
{example}
"""
_LOADED = """>>> from skdp.datasets import {function}
>>> X, y, domain = {function}()
>>> X.shape
({rows}, {columns})"""
# The data may not be here, but the declaration is.
_FETCHED = """>>> from skdp.datasets import domain_of, {function}
>>> X, y, domain = {function}()  # doctest: +SKIP
>>> domain_of({name!r}).n_columns
{columns}"""


class Loader(Protocol):
    """A function for a data set that is part of scikit-learn."""

    def __call__(self, *, as_frame: bool | None = None) -> Dataset:
        """Return the data set."""


class Fetcher(Protocol):
    """A function for a data set from a folder or from OpenML."""

    def __call__(
        self,
        *,
        folder: str | os.PathLike[str] | None = None,
        data_home: str | os.PathLike[str] | None = None,
        as_frame: bool = True,
    ) -> Dataset:
        """Return the data set; see `fetch`."""


F = TypeVar("F", bound=Callable[..., Dataset])


def _named(function: F, function_name: str, name: str, parameters: str, note: str) -> F:
    """Return a function under its public name, with its documentation."""
    declared = declaration(name)
    example = _FETCHED if declared.file else _LOADED
    only = "" if declared.openml or not declared.file else "It is read from a folder only."
    function.__name__ = function.__qualname__ = function_name
    function.__doc__ = _DOC.format(
        task=declared.task,
        title=declared.title,
        rows=declared.rows,
        columns=len(declared.columns),
        parameters=parameters,
        notes="\n    ".join(filter(None, (note, declared.caution, only))),
        example=example.format(
            function=function_name, name=name, rows=declared.rows, columns=len(declared.columns)
        ),
    ).rstrip()
    return function


def _loader(name: str, note: str = "", **options: Any) -> Loader:
    """Return the function ``load_<name>``; scikit-learn's function is called with the options."""

    def function(*, as_frame: bool | None = None) -> Dataset:
        return load(name, as_frame, **options)

    return _named(function, f"load_{name}", name, _AS_FRAME, note)


def _fetcher(short: str, name: str, note: str = "") -> Fetcher:
    """Return the function ``fetch_<short>``, which fetches the data set ``name``."""

    def function(
        *,
        folder: str | os.PathLike[str] | None = None,
        data_home: str | os.PathLike[str] | None = None,
        as_frame: bool = True,
    ) -> Dataset:
        return fetch(name, folder=folder, data_home=data_home, as_frame=as_frame)

    return _named(function, f"fetch_{short}", name, _AS_FETCH, note)


load_breast_cancer: Loader = _loader("breast_cancer", 'Labels are "benign" and "malignant".')
load_diabetes: Loader = _loader("diabetes", scaled=False)
load_digits: Loader = _loader("digits")
load_iris: Loader = _loader("iris")
load_wine: Loader = _loader("wine")

fetch_adult: Fetcher = _fetcher("adult", "adult", 'A missing answer is a level, "?".')
fetch_airfoil: Fetcher = _fetcher("airfoil", "airfoil_self_noise")
fetch_bike_sharing: Fetcher = _fetcher("bike_sharing", "bike_sharing_hour")
fetch_california_housing: Fetcher = _fetcher("california_housing", "california_housing")
fetch_concrete: Fetcher = _fetcher("concrete", "concrete_strength")
fetch_credit_default: Fetcher = _fetcher("credit_default", "credit_default_taiwan")
fetch_electricity: Fetcher = _fetcher("electricity", "electricity")
fetch_german_credit: Fetcher = _fetcher(
    "german_credit", "german_credit", "Levels are UCI's codes, such as A11."
)
fetch_heart: Fetcher = _fetcher("heart", "heart_statlog")
fetch_ionosphere: Fetcher = _fetcher("ionosphere", "ionosphere")
fetch_king_county: Fetcher = _fetcher("king_county", "king_county_house_sales")
fetch_magic: Fetcher = _fetcher("magic", "magic_gamma_telescope")
fetch_mushroom: Fetcher = _fetcher("mushroom", "mushroom")
fetch_nyc_flights: Fetcher = _fetcher("nyc_flights", "nyc_flights_2013")
fetch_pima: Fetcher = _fetcher("pima", "pima_diabetes")
fetch_protein: Fetcher = _fetcher("protein", "protein_casp")
fetch_pumpkin_seeds: Fetcher = _fetcher("pumpkin_seeds", "pumpkin_seeds")
fetch_spambase: Fetcher = _fetcher("spambase", "spambase")


def fetch_bank_marketing(version: str = "full", **options: Any) -> Dataset:
    """Return the data set on subscriptions to a deposit after a call (classification).

    Parameters
    ----------
    version : {"full", "additional"}, default="full"
        "full" has 45211 rows and 16 columns. "additional" has 41188 rows and 20 columns, among
        them indicators of the economy, and is read from a folder only.
    **options
        As in `fetch`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from skdp.datasets import fetch_bank_marketing, names
    >>> X, y, domain = fetch_bank_marketing("additional")  # doctest: +SKIP
    >>> sorted(name for name in names() if name.startswith("bank"))
    ['bank_marketing_additional', 'bank_marketing_full']
    """
    check_choice("version", version, ("full", "additional"))
    return fetch(f"bank_marketing_{version}", **options)


def fetch_wine_quality(color: str = "red", **options: Any) -> Dataset:
    """Return the data set on the quality of vinho verde (regression, 11 columns).

    Parameters
    ----------
    color : {"red", "white"}, default="red"
        Red has 1599 rows, white has 4898.
    **options
        As in `fetch`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from skdp.datasets import fetch_wine_quality, names
    >>> X, y, domain = fetch_wine_quality("white")  # doctest: +SKIP
    >>> sorted(name for name in names() if name.startswith("wine_quality"))
    ['wine_quality_red', 'wine_quality_white']
    """
    check_choice("color", color, ("red", "white"))
    return fetch(f"wine_quality_{color}", **options)
