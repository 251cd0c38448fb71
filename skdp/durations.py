"""Durations until an event, some of them censored, as rows for a private classifier.

The hazard of a period is the probability that the event occurs in it if it did not occur before.
The likelihood of a duration is that of labels: one row for each period at risk, with the label 1 in
the period of the event. So any classifier of two labels fits the hazards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from skdp.domain import Domain
from skdp.domain.layout import number_units
from skdp.domain.tables import Frame, as_column, in_memory, read_target
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_numbers, converted, fail, optional_module

if TYPE_CHECKING:
    from skdp.linear_model import Inference

PERIOD = "period"


@dataclass(frozen=True)
class PersonPeriods:
    """Encoder of durations as rows of persons and periods, for hazards in discrete time.

    A person has a row for each period at risk, with the columns of the person and the column
    "period". The label is 1 in the period of the event, and 0 otherwise. Fit the rows with the
    identifiers as ``groups`` and with ``rows_per_person=n_periods``. By default a row has a smaller
    weight the more rows its person has. This depends on the duration and biases the hazards.

    Parameters
    ----------
    columns : Domain
        Public bounds and levels of the columns of a person, with names. A target is not used.
    edges : sequence of float, increasing
        The start of all durations, and the ends of the periods, in the units of the durations. They
        are public: choose them without the data.

    Notes
    -----
    A period includes its end but not its start: for ``edges=[0, 30, 60]`` an event at 30 is in the
    first period. Durations beyond the last edge are censored there. A person who is censored within
    a period has a row for it if the period is at least half over, as in the actuarial estimate of
    a life table. Every person has a row for the first period, so the number of persons does not
    depend on the durations.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Domain
    >>> from skdp.durations import PersonPeriods
    >>> periods = PersonPeriods(Domain({"age": (18, 100)}), edges=[0, 30, 60, 90])
    >>> stays = pd.DataFrame({"age": [70, 40], "days": [42, 70], "died": [True, False]})
    >>> X, y, groups = periods.encode(stays, time="days", event="died")
    >>> print(X.assign(y=y, groups=groups))
       age    period  y  groups
    0   70   0 to 30  0       0
    1   70  30 to 60  1       0
    2   40   0 to 30  0       1
    3   40  30 to 60  0       1
    >>> periods.domain
    Domain({'age': (18, 100), 'period': ['0 to 30', '30 to 60', '60 to 90']}, target=[0, 1])
    """

    columns: Domain
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Domain) or self.columns.names is None:
            raise fail("columns", "be a Domain of columns with names", type(self.columns))
        if PERIOD in self.columns.names:
            raise fail("columns", f"not have the name {PERIOD!r}", None, "Rename the column.")
        edges = check_numbers("edges", self.edges)
        is_valid = edges.ndim == 1 and len(edges) > 1 and np.isfinite(edges).all()
        if not is_valid or not (np.diff(edges) > 0).all():
            remedy = "Write edges=[0, 30, 60, 90]."
            raise fail("edges", "be at least two increasing numbers", edges.tolist(), remedy)
        object.__setattr__(self, "edges", tuple(edges.tolist()))
        _ = self.domain  # an error if periods have equal names

    @property
    def n_periods(self) -> int:
        """Number of periods, which is the greatest number of rows of a duration."""
        return len(self.edges) - 1

    @cached_property
    def domain(self) -> Domain:
        """Domain of the rows: the columns, the levels of "period", and the labels 0 and 1."""
        labels = [f"{start:g} to {stop:g}" for start, stop in pairwise(self.edges)]
        own, columns = Domain({PERIOD: labels}, target=[0, 1]), self.columns
        names = (*(columns.names or ()), PERIOD)
        facts = own._target, None, columns._pairs, columns.estimated
        return Domain._build((*columns._columns, *own._columns), names, *facts)

    def encode(
        self, X: Frame, time: Any, event: Any, groups: Any = None
    ) -> tuple[Frame, NDArray[np.int64], Array]:
        """Return the rows, their labels and the identifiers of their persons.

        Parameters
        ----------
        X : table in memory of shape (n, n_columns)
            One row for each duration.
        time : array-like of shape (n,) or str
            Durations until the event or the end of the observation, at least ``edges[0]``. A str is
            the name of a column of X, here and below.
        event : array-like of shape (n,) or str
            True or 1 if the event occurred, False or 0 if the duration is censored.
        groups : array-like of shape (n,) or str, default=None
            Identifiers of persons with several durations. Then let ``rows_per_person`` be
            ``n_periods`` times a public number of durations. If None, each row of X is a person.

        Returns
        -------
        X : DataFrame of shape (n_rows, n_columns + 1)
        y : ndarray of shape (n_rows,), labels 0 and 1
        groups : ndarray of shape (n_rows,)

        Raises
        ------
        ValueError
            If a duration is not a finite number or is below ``edges[0]``, or if an event is not a
            bool, 0 or 1. The message contains no value.
        """
        frame = self._frame(X)
        given = {"time": time, "event": event, "groups": groups}
        for name, own in given.items():
            if isinstance(own, str):
                if own not in frame:
                    raise fail(name, "be a column of X", own)
                given[name] = frame.pop(own)
        found, events = read_target(given["time"], "time"), as_column(given["event"], "event")
        ids = np.arange(len(frame)) if groups is None else as_column(given["groups"], "groups")
        if not len(frame) == len(found) == len(events) == len(ids):
            raise fail("time, event and groups", "have as many entries as X has rows")
        if not (found >= self.edges[0]).all():
            raise fail("time", f"be at least edges[0] = {self.edges[0]:g}")
        rule = "be True or 1 for an event, and False or 0 otherwise"
        if not converted(lambda: all(own in (0, 1) for own in events.tolist()), "event", rule):
            raise fail("event", rule)
        edges = np.array(self.edges)
        last = np.searchsorted(edges[1:], found)
        occurred = events.astype(bool) & (last < self.n_periods)
        censored = np.searchsorted(edges[:-1] / 2 + edges[1:] / 2, found, side="right")
        counts = np.where(occurred, last + 1, censored.clip(min=1))
        ends, rows = np.cumsum(counts), np.repeat(np.arange(len(frame)), counts)
        y = np.zeros(len(rows), np.int64)
        y[ends - 1] = occurred
        places = np.arange(len(rows)) - np.repeat(ends - counts, counts)
        return self._rows(frame, rows, places), y, ids[rows]

    def survival(self, model: Any, X: Frame) -> FloatArray:
        """Return probabilities that the event has not occurred at the ends of periods.

        They are products of 1 - hazard, (n, n_periods), for a fitted classifier of the rows and a
        table of n rows with the declared columns.
        """
        log_p = model.predict_log_proba(self._grid(X))[:, 0]
        return np.asarray(np.exp(np.cumsum(log_p.reshape(-1, self.n_periods), axis=1)))

    def survival_band(
        self, inference: Inference, X: Frame, *, level: float = 0.95
    ) -> tuple[FloatArray, FloatArray]:
        """Return estimates of the survival of the population, with pointwise intervals.

        The intervals are those of the logarithm of the cumulative hazard, to first order in the
        errors of the coefficients. They account for the sampling error and the noise, but not for a
        wrong model of the hazard. They need no further budget.

        Parameters
        ----------
        inference : Inference
            ``model.infer(...)`` of a model of the rows.
        X : table of shape (n, n_columns)
        level : float in (0, 1), default=0.95
            The share of releases in which the interval of one row and one period contains the
            value of the population.

        Returns
        -------
        survival : ndarray of shape (n, n_periods), not shrunk
        intervals : ndarray of shape (n, n_periods, 2), from 0 to 1 where noise hides a coefficient
        """
        domain, names = inference.domain, inference.names
        if domain.names != self.domain.names or len(names) < domain.n_encoded:
            remedy = "Call infer without `effects` for a model of the encoded rows."
            raise fail("inference", "have all coefficients of the rows", None, remedy)
        weights = domain.encode(self._grid(X))
        half, centre = number_units(domain)
        weights[:, domain.number_index] = weights[:, domain.number_index] * half + centre
        if names[0] == "intercept":
            weights = np.column_stack([np.ones(len(weights)), weights])
        shape = -1, self.n_periods
        eta = np.maximum(weights @ inference.coef, -30.0)  # so that logarithms are finite
        total = np.cumsum(np.logaddexp(0, eta).reshape(shape), axis=1)
        slopes = np.cumsum((expit(eta)[:, None] * weights).reshape(*shape, len(names)), axis=1)
        slopes /= total[:, :, None]
        found, ends = inference.combine(slopes.reshape(-1, len(names)), level=level)
        moved = (ends - found[:, None])[:, ::-1].reshape(*shape, 2)
        with np.errstate(over="ignore"):
            return np.exp(-total), np.exp(-total[:, :, None] * np.exp(moved))

    def restricted_mean(self, survival: ArrayLike) -> FloatArray:
        """Return mean durations up to the last edge, (n,): areas under curves, (n, n_periods)."""
        curves = np.insert(np.atleast_2d(survival), 0, 1.0, axis=1)
        return np.asarray((curves[:, 1:] + curves[:, :-1]) / 2 @ np.diff(self.edges))

    def median(self, survival: ArrayLike) -> FloatArray:
        """Return the durations at which curves, (n, n_periods), are 1/2; infinite if none is."""
        curves = np.insert(np.atleast_2d(survival), 0, 1.0, axis=1)[:, ::-1]
        return np.array([np.interp(0.5, own, self.edges[::-1], left=np.inf) for own in curves])

    def _frame(self, X: Frame) -> Frame:
        """Return a table as a DataFrame; the columns of an array have the declared names."""
        table, names = in_memory(X), list(self.columns.names or ())
        pandas = optional_module("pandas", "for rows of periods", "pandas")
        is_array = isinstance(table, np.ndarray)
        return pandas.DataFrame(table, columns=names) if is_array else table.copy(deep=False)

    def _rows(self, frame: Frame, rows: NDArray[np.intp], places: NDArray[np.intp]) -> Frame:
        """Return some rows of a DataFrame with their periods."""
        own: Any = self.domain._columns[-1]
        period = optional_module("pandas", "for rows", "pandas").Categorical.from_codes(
            places, own.levels
        )
        return frame.iloc[rows].reset_index(drop=True).assign(**{PERIOD: period})

    def _grid(self, X: Frame) -> Frame:
        """Return a row for each period of each row of X."""
        frame, k = self._frame(X)[[*(self.columns.names or ())]], self.n_periods
        rows = np.repeat(np.arange(len(frame)), k)
        return self._rows(frame, rows, np.tile(np.arange(k), len(frame)))
