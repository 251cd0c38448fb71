"""Synthetic rows drawn from a domain; using them costs no privacy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import check_count, fail
from skdp.domain.columns import Levels, Number
from skdp.domain.splines import Column, Spline

# Standard deviations of a synthetic target: of the log-odds of labels, and for numbers of the
# explained part and of the rest, in halves of the target's range.
_LOG_ODDS, _EXPLAINED, _REST = 2.0, 0.35, 0.15
# Share of missing cells in columns with a rule for them.
MISSING_SHARE = 0.1


def sample(self: Any, n: int, random_state: Any = None, *, with_target: bool = False) -> Any:
    """Draw rows of the domain: numbers uniform within their bounds, levels equally likely.

    The rows depend on the declaration only, so that using them costs no privacy. Columns are
    independent, unlike those of most real data. Where the domain has a rule for missing cells, a
    tenth of the cells is missing: NaN for numbers and None for levels.

    Parameters
    ----------
    n : int >= 1
        Number of rows.
    random_state : None, int or Generator, default=None
    with_target : bool, default=False
        Whether to draw a target too. It depends on the encoded row through a random linear
        model: labels have log-odds of standard deviation 2, and of the variance of numbers the
        row explains about five sixths.

    Returns
    -------
    X : DataFrame or ndarray of shape (n, n_columns)
        A DataFrame if the columns have names and pandas is installed. An array has objects if
        there are levels, and floats otherwise.
    y : ndarray of shape (n,)
        Target; only if ``with_target``.

    Raises
    ------
    ValueError
        If ``n`` is out of range, or the domain has no target and ``with_target`` is true.

    Examples
    --------
    >>> from skdp.domain import Domain
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(1000, random_state=0, with_target=True)
    >>> bool(X["age"].between(17, 90).all()), sorted(X["sex"].unique()), sorted(set(y.tolist()))
    (True, ['f', 'm'], ['no', 'yes'])
    """
    n, rng = check_count("n", n), np.random.default_rng(random_state)
    if with_target and self.target is None:
        remedy = "Declare target=(lower, upper) or target=[first, second, ...]."
        raise fail("the domain's target", "be declared to be drawn", None, remedy)
    X = _rows(self, n, rng)
    return (X, _target(self, X, rng)) if with_target else X


def _rows(domain: Any, n: int, rng: np.random.Generator) -> Any:
    if domain.is_ball:
        direction = rng.normal(size=(n, domain.n_columns))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return direction * (domain.radius * rng.random((n, 1)) ** (1 / domain.n_columns))
    columns = [values for column in domain._columns for values in _drawn(column, n, rng)]
    if domain.names is not None:
        with suppress(ImportError):
            import pandas as pd

            return pd.DataFrame(dict(zip(domain.names, columns, strict=True)))
    mixed = any(isinstance(column, Levels) for column in domain._columns)
    X = np.empty((n, len(columns)), dtype=object if mixed else np.float64)
    for k, values in enumerate(columns):
        X[:, k] = values
    return X


def _drawn(column: Column, n: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield the values of each column of the table."""
    if isinstance(column, Number | Spline):
        share = rng.random(n)
        found = np.clip(
            column.lower * (1 - share) + column.upper * share, column.lower, column.upper
        )
        found[_absent(column, n, rng)] = np.nan
        yield found
    elif isinstance(column, Levels):
        which = rng.integers(len(column.levels), size=n)
        which[_absent(column, n, rng)] = len(column.levels)
        levels = [*column.levels, None]
        drawn = [levels[k] for k in which]
        # Integers with None would become floats in a DataFrame.
        yield drawn if column.missing is None else np.fromiter(drawn, dtype=object)
    elif (table := getattr(column, "table", None)) is not None:
        yield from table[rng.integers(len(table), size=n)].T
    else:
        which = rng.integers(column.n_in + 1, size=n)
        yield from ((which == k).astype(float) for k in range(column.n_in))


def _absent(
    column: Number | Spline | Levels, n: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw which cells are missing."""
    return np.zeros(n, bool) if column.missing is None else rng.random(n) < MISSING_SHARE


def _target(domain: Any, X: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Return a target that depends on the rows through a random linear model."""
    rows, labels = domain.encode(X), domain.target_labels
    models = 1 if labels is None else len(labels)
    signal = (rows - rows.mean(axis=0)) @ rng.normal(size=(rows.shape[1], models))
    signal /= np.maximum(signal.std(axis=0), np.finfo(float).tiny)
    if labels is None:
        rest = rng.normal(size=len(rows))
        found = domain.decode_target(_EXPLAINED * signal[:, 0] + _REST * rest)
        return np.asarray(np.clip(found, *domain.target_bounds))
    # The difference of two models has twice the variance of one. With Gumbel noise it is the
    # log-odds of two labels.
    odds = _LOG_ODDS / np.sqrt(2) * signal + rng.gumbel(size=signal.shape)
    return np.asarray([list(labels)[k] for k in odds.argmax(axis=1)])
