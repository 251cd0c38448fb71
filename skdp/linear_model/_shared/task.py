"""A fit's public facts, and its records: the rows and persons of the table that the user gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._estimators import draw_bar
from skdp.domain import Domain
from skdp.domain.layout import levels_by_name
from skdp.domain.tables import Frame
from skdp.linear_model._shared.design import Design
from skdp.linear_model.validation import without_column
from skdp.rows import Rows
from skdp.rows.persons import Groups, Persons
from skdp.rows.tables import Collection, CsvStream, Stream, spellings
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import fail
from skdp.trusted.statement import records_changed


@dataclass(frozen=True)
class Task:
    """The public facts of a fit, from which algorithms make their plans."""

    design: Design
    n: int | None  # the number of records; None if it is private
    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    n_models: int = 1  # that share the budget
    n_public: int | None = None  # a public order of magnitude of the number of records
    # Whether a record is a person with any number of rows, whose weights add up to at most 1.
    are_persons: bool = False

    @property
    def n_assumed(self) -> int | None:
        """The number of records or its public order of magnitude, if either is public."""
        return self.n_public if self.n is None else self.n

    @property
    def records_changed(self) -> float:
        """The number of records whose contributions differ between neighbouring data sets."""
        return float(records_changed(self.neighbors))


def removed_and_added(task: Task) -> Task:
    """Return a task under add/remove whose release is private under replace-one.

    A replacement is a removal and an addition. A release that is (epsilon / 2, delta')-private for
    each is private for both at epsilon and delta' (1 + e^(epsilon / 2)). It is needed where the
    weights of a record may add up to any number below 1, so that their sum over records is private.
    """
    half = task.epsilon / 2
    return replace(
        task,
        neighbors="add_remove",
        n=None,
        n_public=task.n if task.n_public is None else task.n_public,
        epsilon=half,
        delta=task.delta / (1 + math.exp(min(half, 700.0))) * (1 - 1e-12),
    )


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a fit, with what is public of them."""

    design: Design
    rows: Rows  # the private rows with their targets
    models: tuple[int | None, ...] = (None,)  # position of the label of each; None: a regression
    label_weights: FloatArray | None = None  # in [0, 1], of rows with each label; None if all are 1
    n: int = 0  # of units, rows or persons; it may be private
    unit: str = "row"  # of privacy; or "person"
    attributes: dict[str, Any] = field(default_factory=dict)  # public, of the fitted estimator
    are_weighted: bool = False  # whether the rows have weights of their own


def target_of(target: Array, label: int | None) -> FloatArray:
    """Return the target of a model: indicators of its label, or the numbers of a regression."""
    return target if label is None else (target == label).astype(float)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class Progress:
    """A model after one pass of coordinate descent; it depends on released gradients only.

    Attributes
    ----------
    model, n_models : int
        Position of the model, from 0, and number of models: one, or one per class if there are
        more than two classes and no joint model of them.
    n_pass, n_passes : int
        Number of passes made, and number planned.
    coef : ndarray of shape (n_encoded,), or (n_classes, n_encoded) for a joint model
        Coefficients in the user's units, as in ``coef_``, but not averaged over passes.
    intercept : float, or ndarray of shape (n_classes,)

    Examples
    --------
    >>> from skdp import Domain, DPCoordinateDescentClassifier
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> seen = []
    >>> model = DPCoordinateDescentClassifier(n_passes=3, domain=domain, callback=seen.append)
    >>> model = model.fit(X, y)
    >>> seen[-1].n_pass == seen[-1].n_passes
    True
    """

    model: int
    n_models: int
    n_pass: int
    n_passes: int
    coef: NDArray[np.float64]
    intercept: float | NDArray[np.float64]

    def show(self) -> None:
        """Draw a progress bar on standard error."""
        done = self.model * self.n_passes + self.n_pass
        draw_bar(done, self.n_models * self.n_passes, "pass")


def check_places(y: Frame, target: Any) -> None:
    """Raise an error if the name of a column is given as y, or a column as its name."""
    if issubclass(type(y), str):  # by type: a foreign object may raise in __class__
        raise fail("y", "be an array of targets", y, f"For a column of X write target={y!r}.")
    if target is not None and not issubclass(type(target), str):
        raise fail(
            "target", "be the name of a column of X", type(target), "Pass other targets as y."
        )


def split_frame(
    X: Frame, y: Frame, target: str | None, groups: Frame, weights: Frame
) -> tuple[Any, Any, Any, Any]:
    """Return features, target, identifiers and weights of a table, which may be columns of it."""
    if target is not None:
        if y is not None:
            raise fail("y", "be None if a target column is named", None, "Drop y or target.")
        X, y = without_column(X, "target", target, "Pass y.")
    if isinstance(groups, str):
        X, groups = without_column(X, "groups", groups, "Pass an array of identifiers.")
    if isinstance(weights, str):
        X, weights = without_column(X, "sample_weight", weights, "Pass an array of weights.")
    return X, y, groups, weights


def groups_of(
    data: Stream | Collection, column: Any, weight: Any, cap: int, most: float
) -> Groups | None:
    """Return persons or weights of rows not in memory; identifiers are read once."""
    facts = cap, most, (column, weight)
    if column is None:
        parts = [None] * (data.X.npartitions if isinstance(data, Collection) else 1)
        return None if weight is None else Groups(data.n, parts, *facts)
    if isinstance(data, Collection):
        whole, persons = Persons.of_parts(data.entries(column))
        return Groups(len(whole), persons, *facts)
    batches = data.batches([column])
    tables = (batch[0] if isinstance(batch, tuple) else batch for batch in batches)
    whole = Persons.of(table[column] for table in tables)
    return Groups(len(whole), [whole], *facts)


def header_of(
    stream: Stream | Collection,
    domain: Domain | None,
    target: str | None,
    groups: Frame = None,
    weights: Frame = None,
) -> Any:
    """Return a table of one row with the features alone."""
    names, others = stream.names, {"groups": groups, "sample_weight": weights}
    for parameter, own in others.items():
        if own is not None and not isinstance(own, str):
            rule = "be the name of a column where X is not in memory"
            raise fail(parameter, rule, type(own), f'Pass {parameter}="name".')
        if own is not None and (names is None or own not in names):
            raise fail(parameter, f"be a column of X, which has {names}", own)
        if own is not None and own == target:
            raise fail(parameter, "be another column than the target", own)
    if weights is not None and weights == groups:
        raise fail("sample_weight", "be another column than groups", weights)
    if names is None:
        return np.empty((1, stream.n_columns))
    if target is not None and target not in names:
        raise fail("target", f"be a column of X, which has {names}", target)
    features = [name for name in names if name not in (target, groups, weights)]
    if domain is not None and domain.names is not None:
        # Other columns of a file are not read.
        features = [name for name in features if name in set(domain.names)]
    import pandas as pd

    # Objects may be numbers or levels of any kind.
    return pd.DataFrame(dict.fromkeys(features, 0.0), index=[0], dtype=object)


def spell_levels(stream: CsvStream, domain: Domain | None, target: str | None, labels: Any) -> None:
    """Tell a stream of texts which levels and labels are no texts."""
    columns = {} if domain is None else levels_by_name(domain)
    if target is not None and labels is not None:
        columns[target] = tuple(np.asarray(labels).tolist())
    stream.spelled = {name: spellings(levels) for name, levels in columns.items()}
