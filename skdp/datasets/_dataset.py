"""A table and its target with their public domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import optional_module
from skdp.datasets._declared import Declaration, Reason
from skdp.domain import Domain


@dataclass(frozen=True, eq=False)  # tables have no single truth value to compare by
class Dataset:
    """Real data with its public domain.

    It unpacks into three: ``X, y, domain = load_diabetes()``.

    Attributes
    ----------
    X : DataFrame or ndarray of shape (n, n_columns)
        Numbers as floats, levels as the domain declares them.
    y : ndarray of shape (n,)
        Floats (regression) or labels (classification).
    domain : Domain
        Bounds and levels of the columns, in their order, and of the target.
    name, title, task : str
        ``task`` is "classification" or "regression".
    description : str
        Source of the data, and cautions for its use.
    reasons : dict of str to Reason
        Reason for the bounds or levels of each column and of the target, by name.
    target_name : str

    Examples
    --------
    >>> from skdp.datasets import load_diabetes
    >>> data = load_diabetes()
    >>> data
    Dataset('diabetes': regression of 'progression', 442 rows, 10 columns)
    >>> print(data.reasons["bmi"])
    kg per square metre (convention)
    >>> X, y, domain = data
    """

    X: Any
    y: NDArray[Any]
    domain: Domain
    name: str
    title: str
    task: str
    description: str
    reasons: Mapping[str, Reason]
    target_name: str

    @property
    def informed(self) -> tuple[str, ...]:
        """Names of columns, or the target, whose bounds were chosen with the data in view.

        On private data such bounds would not be available, and results may be worse.
        """
        return tuple(name for name, why in self.reasons.items() if why.basis == "informed")

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.domain))

    def __repr__(self) -> str:
        size = f"{len(self.y)} rows, {self.domain.n_columns} columns"
        return f"Dataset({self.name!r}: {self.task} of {self.target_name!r}, {size})"


def dataset(declared: Declaration, X: Any, y: Any) -> Dataset:
    """Return a table and a target with their declaration."""
    reasons = declared.reasons
    return Dataset(
        X,
        np.asarray(y),
        declared.domain,
        declared.name,
        declared.title,
        declared.task,
        _description(declared),
        reasons,
        declared.target.name,
    )


def _description(declared: Declaration) -> str:
    parts = [f"{declared.title}.", f"Source: {declared.source}."]
    if declared.caution:
        parts.append(declared.caution)
    weak = sum(reason.basis == "informed" for reason in declared.reasons.values())
    if weak:
        count = f"{weak} of {len(declared.reasons)} columns, the target included,"
        parts.append(f"The domain of {count} was chosen with the data in view.")
    return " ".join(parts)


def pandas() -> Any:
    """Return pandas, or raise an error that says how to install it."""
    return optional_module("pandas", "for a table", "pandas")


def has_pandas() -> bool:
    """Return whether pandas can be imported."""
    try:
        pandas()
    except ImportError:
        return False
    return True
