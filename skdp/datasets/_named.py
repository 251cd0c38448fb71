"""A function for each data set: ``load_`` from scikit-learn, ``fetch_`` from a folder or OpenML."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from skdp._checks import check_choice
from skdp.datasets._bundled import load
from skdp.datasets._dataset import Dataset
from skdp.datasets._fetch import fetch

_LOAD = """Return {what}.

Parameters
----------
as_frame : bool or None, default=None
    Whether X is a DataFrame. None makes it one if pandas is installed.

Returns
-------
Dataset
    {note}
"""
_FETCH = """Return {what}.

Parameters
----------
folder, data_home, as_frame
    As in `fetch`.

Returns
-------
Dataset
    {note}
"""
_FOLDER_ONLY = "It is read from a folder only: OpenML's copy is not known here."


def _named(
    function: Callable[..., Dataset], name: str, doc: str, what: str, note: str
) -> Callable[..., Dataset]:
    """Return a function under its public name, with its documentation."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc.format(what=what, note=note).rstrip() + "\n"
    return function


def _loader(name: str, what: str, note: str = "", **options: Any) -> Callable[..., Dataset]:
    """Return the function ``load_<name>``; scikit-learn's function is called with the options."""

    def function(*, as_frame: bool | None = None) -> Dataset:
        return load(name, as_frame, **options)

    return _named(function, f"load_{name}", _LOAD, what, note)


def _fetcher(short: str, name: str, what: str, note: str = "") -> Callable[..., Dataset]:
    """Return the function ``fetch_<short>``, which fetches the data set ``name``."""

    def function(
        *,
        folder: str | os.PathLike[str] | None = None,
        data_home: str | os.PathLike[str] | None = None,
        as_frame: bool = True,
    ) -> Dataset:
        return fetch(name, folder=folder, data_home=data_home, as_frame=as_frame)

    return _named(function, f"fetch_{short}", _FETCH, what, note)


load_breast_cancer = _loader(
    "breast_cancer",
    "the Wisconsin breast cancer data (classification, 569 rows, 30 numbers)",
    'Labels are "benign" and "malignant".',
)
load_diabetes = _loader(
    "diabetes",
    "the diabetes data (regression, 442 rows, 10 columns)",
    "Columns are in raw units: the columns are not standardised by the rows.",
    scaled=False,
)
load_digits = _loader(
    "digits", "handwritten digits (classification, 1797 rows, 64 grey values, ten digits)"
)
load_iris = _loader("iris", "Fisher's irises (classification, 150 rows, 4 numbers, three species)")
load_wine = _loader("wine", "the wine data (classification, 178 rows, 13 numbers, three growers)")

fetch_adult = _fetcher(
    "adult",
    "adult",
    "Adult, income above 50000 dollars (classification, 48842 rows, 14 columns)",
    'A missing answer is a level, "?".',
)
fetch_airfoil = _fetcher(
    "airfoil",
    "airfoil_self_noise",
    "the noise of airfoils in a wind tunnel (regression, 1503 rows, 5 columns)",
)
fetch_bike_sharing = _fetcher(
    "bike_sharing",
    "bike_sharing_hour",
    "bicycles rented in each hour (regression, 17379 rows, 13 columns)",
    "From OpenML it has 12 columns: the day of the month is missing.",
)
fetch_california_housing = _fetcher(
    "california_housing",
    "california_housing",
    "house values in California (regression, 20640 rows, 8 columns)",
    "Columns are totals of block groups; scikit-learn's data of this name has averages.",
)
fetch_concrete = _fetcher(
    "concrete", "concrete_strength", "the strength of concrete (regression, 1030 rows, 8 columns)"
)
fetch_credit_default = _fetcher(
    "credit_default",
    "credit_default_taiwan",
    "defaults on credit card payments (classification, 30000 rows, 23 columns)",
)
fetch_electricity = _fetcher(
    "electricity",
    "electricity",
    "rises of the price of electricity (classification, 45312 rows, 8 columns)",
)
fetch_german_credit = _fetcher(
    "german_credit",
    "german_credit",
    "good and bad credit risks (classification, 1000 rows, 20 columns)",
    "Levels are UCI's codes, such as A11.",
)
fetch_heart = _fetcher(
    "heart", "heart_statlog", "heart disease (classification, 270 rows, 13 columns)"
)
fetch_ionosphere = _fetcher(
    "ionosphere", "ionosphere", "radar returns (classification, 351 rows, 34 columns)"
)
fetch_king_county = _fetcher(
    "king_county",
    "king_county_house_sales",
    "house sales around Seattle (regression, 21613 rows, 20 columns)",
    _FOLDER_ONLY,
)
fetch_magic = _fetcher(
    "magic",
    "magic_gamma_telescope",
    "gamma rays and other particles (classification, 19020 rows, 10 columns)",
)
fetch_mushroom = _fetcher(
    "mushroom", "mushroom", "edible and poisonous mushrooms (classification, 8124 rows, 22 columns)"
)
fetch_nyc_flights = _fetcher(
    "nyc_flights",
    "nyc_flights_2013",
    "delays of flights (regression, 327346 rows, 10 columns)",
    _FOLDER_ONLY,
)
fetch_pima = _fetcher(
    "pima", "pima_diabetes", "diabetes of Pima women (classification, 768 rows, 8 columns)"
)
fetch_protein = _fetcher(
    "protein",
    "protein_casp",
    "errors of predicted protein structures (regression, 45730 rows, 9 columns)",
)
fetch_pumpkin_seeds = _fetcher(
    "pumpkin_seeds",
    "pumpkin_seeds",
    "two varieties of pumpkin seeds (classification, 2500 rows, 12 columns)",
    _FOLDER_ONLY,
)
fetch_spambase = _fetcher(
    "spambase", "spambase", "mail and spam (classification, 4601 rows, 57 columns)"
)


def fetch_bank_marketing(version: str = "full", **options: Any) -> Dataset:
    """Return subscriptions to a deposit after a call (classification).

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
    """
    check_choice("version", version, ("full", "additional"))
    return fetch(f"bank_marketing_{version}", **options)


def fetch_wine_quality(color: str = "red", **options: Any) -> Dataset:
    """Return experts' scores of vinho verde (regression, 11 columns).

    Parameters
    ----------
    color : {"red", "white"}, default="red"
        Red has 1599 rows, white has 4898.
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
    """
    check_choice("color", color, ("red", "white"))
    return fetch(f"wine_quality_{color}", **options)
