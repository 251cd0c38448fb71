"""A table, its target, and what is publicly known about both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import fail
from skdp.datasets._declared import Declaration, Reason
from skdp.domain import Domain


@dataclass(frozen=True, eq=False)  # tables have no single truth value to compare by
class Dataset:
    """Real data with its public domain.

    It unpacks into three: ``X, y, domain = load_diabetes()``. There is no way to get X and y
    alone: bounds would then be read off the data.

    Attributes
    ----------
    X : DataFrame of shape (n, n_columns), or array where pandas is not installed or not wanted
        Numbers as floats, levels as the domain declares them.
    y : ndarray of shape (n,)
        Floats (regression) or labels (classification).
    domain : Domain
        Bounds and levels of the columns, in their order, and of the target.
    name, title, task : str
        ``task`` is "classification" or "regression".
    description : str
        Where the data is from, and what to be careful about.
    reasons : dict of str to Reason
        Why each column, and the target by its name, is bounded as it is.
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
        """Columns whose bounds were chosen with the data in view; the target may be among them.

        A result that leans on them is weaker evidence for what one would get on private data.
        """
        return tuple(name for name, why in self.reasons.items() if why.basis == "informed")

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.domain))

    def __repr__(self) -> str:
        size = f"{len(self.y)} rows, {self.domain.n_columns} columns"
        return f"Dataset({self.name!r}: {self.task} of {self.target_name!r}, {size})"


def dataset(declared: Declaration, X: Any, y: Any) -> Dataset:
    """Return a table and a target with what is declared of them."""
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
    """Return pandas; without it the error says how to get it."""
    try:
        import pandas as pd
    except ImportError as error:
        remedy = "Install it with: pip install 'skdp[pandas]'"
        raise ImportError(str(fail("pandas", "be installed for a table", None, remedy))) from error
    return pd


def has_pandas() -> bool:
    """Return whether pandas can be imported."""
    try:
        pandas()
    except ImportError:
        return False
    return True
