"""Private estimates of the bounds and levels of a domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp._checks import check_choice, check_epsilon, check_interval
from skdp.bounds._asked import Asked, table_of
from skdp.bounds._plan import Plan
from skdp.domain import Domain
from skdp.linear_model.validation import check_ledger, spent_note, without_column
from skdp.privacy import Ledger
from skdp.privacy.guarantee import NEIGHBORS
from skdp.randomness import RandomStateLike, as_generator, is_cryptographic

_SECTIONS = """
Parameters
----------
X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_columns)
    A table in memory.
y : array-like of shape (n,), default=None
    Target. It is read only if ``target="bounds"``.
columns : dict of str to tuple, list, "bounds" or "levels", default=None
    As in `Domain`, a tuple of bounds or a list of levels for each column, in order. They are
    kept as they are. "bounds" or None asks for estimated bounds of a column of numbers, and
    "levels" for the frequent strings of a column of strings. Without ``columns``, bounds of
    all columns are estimated.
target : tuple, list, "bounds" or None, default=None
    Bounds or labels as in `Domain`, or "bounds" for estimated bounds of ``y``.
other : dict of str to level, default=None
    As in `Domain`, for declared levels.
missing : "indicator", "middle", float, or dict of str or int to these, default=None
    Rule for missing cells, as in `Domain`: of all columns, or by name, or by position where
    columns have no names. Numbers are for declared bounds only. Missing cells are not counted.
    Without a rule a missing number is an error.
groups : array-like of shape (n,) or str, default=None
    The person of each row, as hashable identifiers or as the name of a column of ``X``. Then
    the guarantee protects persons, with all their rows. Each person has the same weight.
limit : float in [1e-100, 1e100] or dict of str to float, default=1e6
    Greatest absolute value that is told apart from greater ones, in the units of each column.
    The key "target" stands for the target; columns that a dict lacks have 1e6. Absolute
    values below about 1e-12 of it count as zero.
epsilon : float in [1e-12, 1e12]
    Budget of all estimates together. It is not a part of the epsilon of an estimator.
delta : float in [0, 1), default=0
    With delta > 0 Gaussian noise is used for bounds if its variance is less. "levels" need
    delta > 0.
neighbors, random_state, ledger
    As in `DPLogisticRegression`.

Returns
-------
Domain
    Its attribute ``estimated`` is the guarantee of the estimates. It is None, and nothing
    is spent, if there was nothing to estimate.

Raises
------
BudgetExceeded
    If the budget does not fit the ledger. Then no noise was drawn and nothing was spent.
ValueError
    If parameters, columns or the target are not valid. A note on each error says whether the
    budget was spent. No message contains a value of the table.

Notes
-----
Bounds are chosen to be useful and do not hold for all records: about one record in a hundred
is clipped on each side, more in columns with heavy tails, or if records are few. Where counts
are hidden by noise, bounds are arbitrary: estimate few columns, or spend more. The target has
a greater weight than a column.

A person with m rows counts as 1/m in each of them, so that the noise is that of records. For
"levels" a person counts once, for the string of most of its rows: strings that no person has
most often are not found.

Unlisted strings of a column are read as its most frequent level. The level "other" stands
alone if no string is frequent enough. With a rule for missing cells, empty strings and
"missing" are no levels.

Examples
--------
>>> import numpy as np
>>> from skdp import estimate_domain
>>> rng = np.random.default_rng(0)
>>> X = np.column_stack([rng.integers(1990, 2021, 20_000), rng.exponential(2e-3, 20_000)])
>>> estimate_domain(X, epsilon=0.2, random_state=0)  # use no seed: it voids the guarantee
Domain.box([1984.0, 0.0], [2032.0, 0.008056640625]), estimated with epsilon = 0.2, delta = 0
"""


def estimate_domain(
    X: Any,
    y: Any = None,
    columns: Mapping[str, Any] | None = None,
    *,
    target: Any = None,
    other: Mapping[str, Any] | None = None,
    missing: Any = None,
    groups: Any = None,
    limit: float | Mapping[str, float] = 1e6,
    epsilon: float,
    delta: float = 0.0,
    neighbors: str = "replace_one",
    random_state: RandomStateLike = None,
    ledger: Ledger | None = None,
) -> Domain:
    """Return a domain whose unknown bounds are estimated with a part of the privacy budget.

    Use it for columns whose order of magnitude is not known. Declared bounds cost nothing and are
    more accurate: see ``docs/privacy/choosing_bounds.md``. Statements and proofs:
    ``docs/proofs/estimated_bounds.md``.
    """
    with np.errstate(all="ignore"), spent_note() as spent:
        epsilon = check_epsilon(epsilon, "Smaller is more private; 0.2 is common for bounds.")
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        check_choice("neighbors", neighbors, tuple(NEIGHBORS))
        check_ledger("ledger", ledger)
        if isinstance(groups, str):
            X, groups = without_column(X, "groups", groups, "Give an array of identifiers.")
        X = table_of(X)
        asked = Asked.of(X, columns, target, other, missing, limit)
        plan = Plan.of(asked, epsilon, delta, neighbors)
        unit = "row" if groups is None else "person"
        guarantee = plan.guarantee(epsilon, not is_cryptographic(random_state), unit)
        data = asked.read(X, y, groups)
        if guarantee is None:
            return asked.domain([], [])
        rng = as_generator(random_state)
        if ledger is not None:
            ledger.spend(guarantee, note="estimate_domain")
        spent.append(guarantee)
        found = asked.domain(*plan.release(data, rng))
        return Domain._build(*found._key(), guarantee)


estimate_domain.__doc__ = f"{estimate_domain.__doc__}{_SECTIONS}"
