"""The rows of a fit, from what the user gives: tables in memory, files, functions, collections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import fail
from skdp.domain import Domain
from skdp.domain.cells import plain
from skdp.domain.layout import levels_by_name
from skdp.linear_model.validation import label_positions
from skdp.rows import Rows
from skdp.rows.collection import Collection
from skdp.rows.streams import CsvStream, Stream, spellings


@dataclass(frozen=True, eq=False)
class Source:
    """Rows and the public facts that a fit needs before their domain is known.

    Attributes
    ----------
    n : callable
        Returns the number of rows, which may be private.
    rows : callable
        From the domain to the rows.
    labels : tuple of int
        For a classifier, the positions of the labels that models predict.
    attributes : dict
        Public attributes of the fitted estimator.
    """

    n: Callable[[], int]
    rows: Callable[[Domain], Rows]
    labels: tuple[int, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LabelCoder:
    """Encodes labels as their positions among the declared ones."""

    labels: NDArray[Any]

    def encode(self, y: Any, again: bool = False) -> NDArray[Any]:
        """Return the positions; an undeclared label that is read ``again`` counts as the first."""
        return label_positions(y, self.labels, again)


@dataclass(frozen=True, eq=False)
class NumberCoder:
    """Encodes the numbers of a regression by the bounds of a domain."""

    domain: Domain

    def encode(self, y: Any, again: bool = False) -> NDArray[Any]:
        """Return numbers in [-1, 1]; what is not finite and is read ``again`` counts as 0."""
        return self.domain.encode_target(y, again=again)


def split_frame(X: Any, y: Any, target: str | None) -> tuple[Any, Any]:
    """Return features and target of a table in memory whose target may be a column of it."""
    if target is None:
        return X, y
    if y is not None:
        raise fail("y", "be None if a target column is named", None, "Drop y or target.")
    X = plain(X)
    if not hasattr(type(X), "columns"):
        raise fail("target", "be None unless X has named columns", target, "Give y.")
    if target not in X.columns:
        raise fail("target", f"be a column of X, which has {list(X.columns)}", target)
    return X.drop(columns=[target]), X[target]


def header_of(stream: Stream | Collection, domain: Domain | None, target: str | None) -> Any:
    """Return a table of one row with the columns of a stream or a collection but the target."""
    names = stream.names
    if names is None:
        return np.empty((1, stream.n_columns))
    if target is not None and target not in names:
        raise fail("target", f"be a column of X, which has {names}", target)
    features = [name for name in names if name != target]
    if domain is not None and domain.names is not None:
        # Other columns of a file are not read.
        features = [name for name in features if name in set(domain.names)]
    import pandas as pd

    # Objects may be numbers or levels of any kind.
    return pd.DataFrame({name: [0.0] for name in features}, dtype=object)


def spell_levels(stream: CsvStream, domain: Domain | None, target: str | None, labels: Any) -> None:
    """Tell a stream of texts which levels and labels are no texts."""
    columns = {} if domain is None else levels_by_name(domain)
    if target is not None and labels is not None:
        columns[target] = tuple(np.asarray(labels).tolist())
    stream.spelled = {name: spellings(levels) for name, levels in columns.items()}
