"""A function for each of the larger data sets."""

from __future__ import annotations

from typing import Any

from skdp._checks import check_choice
from skdp.datasets._dataset import Dataset
from skdp.datasets._fetch import fetch


def fetch_adult(**options: Any) -> Dataset:
    """Return Adult, income above 50000 dollars (classification, 48842 rows, 14 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        A missing answer is a level, "?".
    """
    return fetch("adult", **options)


def fetch_airfoil(**options: Any) -> Dataset:
    """Return the noise of airfoils in a wind tunnel (regression, 1503 rows, 5 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("airfoil_self_noise", **options)


def fetch_bank_marketing(version: str = "full", **options: Any) -> Dataset:
    """Return who subscribes to a deposit after a call (classification).

    Parameters
    ----------
    version : {"full", "additional"}, default="full"
        45211 rows and 16 columns; or 41188 rows and 20 columns, with indicators of the
        economy, from a folder only.
    **options
        As in `fetch`.
    """
    check_choice("version", version, ("full", "additional"))
    return fetch(f"bank_marketing_{version}", **options)


def fetch_bike_sharing(**options: Any) -> Dataset:
    """Return bicycles rented hour by hour (regression, 17379 rows, 13 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        From OpenML it has no day of the month, and 12 columns.
    """
    return fetch("bike_sharing_hour", **options)


def fetch_california_housing(**options: Any) -> Dataset:
    """Return house values in California (regression, 20640 rows, 8 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        Totals of block groups, not the averages of scikit-learn's function of this name.
    """
    return fetch("california_housing", **options)


def fetch_concrete(**options: Any) -> Dataset:
    """Return the strength of concrete (regression, 1030 rows, 8 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("concrete_strength", **options)


def fetch_credit_default(**options: Any) -> Dataset:
    """Return who fails to pay a credit card (classification, 30000 rows, 23 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("credit_default_taiwan", **options)


def fetch_electricity(**options: Any) -> Dataset:
    """Return whether electricity gets dearer (classification, 45312 rows, 8 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("electricity", **options)


def fetch_german_credit(**options: Any) -> Dataset:
    """Return good and bad credit risks (classification, 1000 rows, 20 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        Levels are UCI's codes, A11 and so on.
    """
    return fetch("german_credit", **options)


def fetch_heart(**options: Any) -> Dataset:
    """Return heart disease (classification, 270 rows, 13 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("heart_statlog", **options)


def fetch_ionosphere(**options: Any) -> Dataset:
    """Return radar returns (classification, 351 rows, 34 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("ionosphere", **options)


def fetch_king_county(**options: Any) -> Dataset:
    """Return house sales around Seattle (regression, 21613 rows, 20 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        From a folder only.
    """
    return fetch("king_county_house_sales", **options)


def fetch_magic(**options: Any) -> Dataset:
    """Return gamma rays among particles (classification, 19020 rows, 10 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("magic_gamma_telescope", **options)


def fetch_mushroom(**options: Any) -> Dataset:
    """Return edible and poisonous mushrooms (classification, 8124 rows, 22 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("mushroom", **options)


def fetch_nyc_flights(**options: Any) -> Dataset:
    """Return delays of flights (regression, 327346 rows, 10 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        From a folder only.
    """
    return fetch("nyc_flights_2013", **options)


def fetch_pima(**options: Any) -> Dataset:
    """Return diabetes among Pima women (classification, 768 rows, 8 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("pima_diabetes", **options)


def fetch_protein(**options: Any) -> Dataset:
    """Return errors of predicted protein structures (regression, 45730 rows, 9 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("protein_casp", **options)


def fetch_pumpkin_seeds(**options: Any) -> Dataset:
    """Return two varieties of pumpkin seeds (classification, 2500 rows, 12 columns).

    Parameters
    ----------
    **options
        As in `fetch`.

    Returns
    -------
    Dataset
        From a folder only.
    """
    return fetch("pumpkin_seeds", **options)


def fetch_spambase(**options: Any) -> Dataset:
    """Return spam among mails (classification, 4601 rows, 57 columns).

    Parameters
    ----------
    **options
        As in `fetch`.
    """
    return fetch("spambase", **options)


def fetch_wine_quality(color: str = "red", **options: Any) -> Dataset:
    """Return experts' scores of vinho verde (regression, 11 columns).

    Parameters
    ----------
    color : {"red", "white"}, default="red"
        1599 or 4898 rows.
    **options
        As in `fetch`.
    """
    check_choice("color", color, ("red", "white"))
    return fetch(f"wine_quality_{color}", **options)
