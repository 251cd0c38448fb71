"""What a budget buys, before it is spent: a fit and an inference of artificial populations."""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import clone

from skdp.domain import Domain
from skdp.domain.columns import Levels, is_missing
from skdp.linear_model._inference.estimate import user_units
from skdp.linear_model._inference.table import INTERCEPT, Inference, digits
from skdp.linear_model._shared.gram import row_unit
from skdp.privacy import Guarantee
from skdp.privacy.guarantee import guarantee_of
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.certify import Line, overview
from skdp.trusted.checks import check_count, check_interval, check_positive, fail

if TYPE_CHECKING:
    from skdp.linear_model._shared.base import PrivateLinearModel

# The standard deviation of a number, and of residuals, over the width of the bounds, and the
# greatest one of targets. Each level is LEVEL_RATIO as frequent as the one before, as far as the
# first one is at most MOST_RATIO times as frequent as the last.
DEVIATION, TARGET_DEVIATION = 1 / 8, 1 / 6
LEVEL_RATIO, MOST_RATIO = 1 / 3, 100.0
LEVEL = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What a budget buys on artificial populations; ``print`` and notebooks show a table.

    The method ``plan`` of an estimator returns it. It depends on no data.

    Attributes
    ----------
    names : tuple of str
        The coefficients of the table, as in `Inference`; empty if the fit has the whole budget.
    widths : ndarray of shape (n_names,)
        Median widths of the 95 % confidence intervals, in the units of the coefficients.
    ratios : ndarray of shape (n_names,)
        Medians of the widths over those of least squares, or of logistic regression, without
        privacy on the same artificial table.
    unbounded : ndarray of shape (n_names,)
        Shares of the artificial tables with an unbounded interval.
    errors : dict of float
        Medians of the errors of predictions: of the private model ("private"), of the model from
        which the targets were drawn ("without privacy"), and of one without columns ("trivial").
        They are root mean squares in the units of the target, or shares of wrong labels.
    guarantees : tuple of Guarantee
        Those of the fit and of the inference, which add up.
    releases : tuple of Line
        The releases of both calls, as :func:`skdp.trusted.overview` lists them.
    n : int
        The number of records.
    repeats : int
        The number of artificial tables.

    Examples
    --------
    >>> from skdp import Domain, DPLinearRegression
    >>> domain = Domain({"hours": (0, 10)}, target=(0, 30))
    >>> plan = DPLinearRegression(epsilon=1.0, domain=domain).plan(5000, repeats=5)
    >>> plan.names
    ('intercept', 'hours')
    >>> print(plan.unbounded)
    [0. 0.]
    """

    names: tuple[str, ...]
    widths: FloatArray
    ratios: FloatArray
    unbounded: FloatArray
    errors: dict[str, float]
    guarantees: tuple[Guarantee, ...]
    releases: tuple[Line, ...]
    n: int
    repeats: int

    def _cells(self) -> list[tuple[str, ...]]:
        columns = self.names, self.widths, self.ratios, self.unbounded
        return [("", "width", "ratio", "unbounded")] + [
            (name, digits(width), f"{ratio:.2f}", f"{share:.0%}")
            for name, width, ratio, share in zip(*columns, strict=True)
        ]

    def _notes(self) -> list[str]:
        calls = " and ".join(
            f"{call} epsilon = {own.epsilon:g}, delta = {own.delta:g}"
            for call, own in zip(("fit", "infer"), self.guarantees, strict=False)
        )
        whole = [
            sum(getattr(own, what) for own in self.guarantees) for what in ("epsilon", "delta")
        ]
        errors = ", ".join(f"{name} {digits(value)}" for name, value in self.errors.items())
        parts = ", ".join(
            line.name if line.epsilon is None else f"{line.name} {line.epsilon:.3g}"
            for line in self.releases
        )
        return [
            f"Guarantee: {calls}; together epsilon = {whole[0]:g}, delta = {whole[1]:g}",
            f"Error of predictions: {errors}",
            f"Releases with their epsilon: {parts}",
            "width: of 95 % intervals (medians); ratio: to those without privacy",
        ]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in cells
        ]
        title = f"Plan for {self.n} records, from {self.repeats} artificial tables"
        return "\n".join([title, *(lines if self.names else []), *self._notes()])

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._cells()
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"<b>Plan for {self.n} records</b><table>{rows}</table>{notes}"


def plan(
    self: PrivateLinearModel,
    n: int,
    *,
    effects: Sequence[str] | None = None,
    inference: float = 0.8,
    shares: Mapping[str, Sequence[float]] | None = None,
    deviations: Mapping[str, float] | None = None,
    correlation: float = 0.3,
    residual: float | None = None,
    rate: float = 0.25,
    repeats: int = 20,
    random_state: int | None = 0,
) -> Plan:
    """Return what the budget buys: the expected widths of intervals and errors of predictions.

    Artificial tables are drawn from public guesses, and ``fit`` and ``infer`` run on each of them.
    This costs no budget: no data are read and no ledger is charged. By default the guesses are
    unkind: numbers use a part of their bounds, some levels are rare, and columns are correlated.

    Parameters
    ----------
    n : int >= 1
        Number of records, or of persons.
    effects : list of str, default=None
        As in :meth:`infer`.
    inference : float in [0, 1), default=0.8
        The share of epsilon for ``infer``; the fit has the rest. Each has half of delta. With 0 the
        fit has everything, and the plan has errors of predictions only.
    shares : dict of column to shares, default=None
        The shares of the levels of columns, in their order. By default each level is a third as
        frequent as the one before it, and the last is at most 100 times as rare as the first.
    deviations : dict of column to float, default=None
        The standard deviations of numbers. By default an eighth of the width of their bounds.
    correlation : float in [0, 1), default=0.3
        Of each two columns. Levels are intervals of a number with this correlation.
    residual : float > 0, default=None
        The standard deviation of the residuals of a regression, in the units of the target. If
        None, an eighth of the width of its bounds.
    rate : float in (0, 1), default=0.25
        The share of the second of two labels. More labels have shares like levels.
    repeats : int >= 1, default=20
        Number of artificial tables.
    random_state : None or int, default=0
        Seed of the tables and of the noise on them.

    Returns
    -------
    Plan
        Print it.

    Raises
    ------
    ValueError
        If a parameter is invalid, or the estimator has no domain with a target.

    Examples
    --------
    >>> from skdp import Domain, DPLinearRegression
    >>> columns = {"age": (17, 90), "race": ["a", "b", "c"]}
    >>> model = DPLinearRegression(epsilon=2.0, domain=Domain(columns, target=(0, 60)))
    >>> guesses = {"shares": {"race": [0.8, 0.15, 0.05]}, "deviations": {"age": 13}}
    >>> plan = model.plan(20_000, residual=8, repeats=5, **guesses)
    >>> plan.names
    ('intercept', 'age', 'race_b', 'race_c')
    """
    n, repeats = check_count("n", n), check_count("repeats", repeats)
    inference = check_interval("inference", inference, 0.0, 1.0, closed="left")
    correlation = check_interval("correlation", correlation, 0.0, 1.0, closed="left")
    rate = check_interval("rate", rate, 0.0, 1.0, closed="neither")
    self._check_parameters()
    domain, labels = self.domain, getattr(self, "_declared_labels", lambda: None)()
    if domain is None or (domain.target_bounds is None and labels is None):
        remedy = 'Write domain=Domain({"age": (17, 90)}, target=(0, 100)).'
        raise fail("domain", "declare the columns and the target for a plan", None, remedy)
    guesses = _checked(domain, dict(shares or {}), dict(deviations or {}))
    if labels is None:
        low, high = domain.target_bounds or (-1.0, 1.0)
        width = high - low
        residual = check_positive("residual", DEVIATION * width if residual is None else residual)
        signal = math.sqrt(max((TARGET_DEVIATION * width) ** 2 - residual**2, 0.0))
    draws = [
        np.random.default_rng(own) for own in np.random.SeedSequence(random_state).spawn(repeats)
    ]
    found: list[tuple[Any, ...]] = []
    for rng in draws:
        X = _rows(domain, n, guesses, correlation, rng)
        eta = domain.encode(X)
        eta = (eta - eta.mean(axis=0)) / np.maximum(eta.std(axis=0), 1e-9)
        eta = eta @ rng.choice([-1.0, 1.0], eta.shape[1])
        eta /= max(float(eta.std()), 1e-9)
        if labels is None:
            eta = low / 2 + high / 2 + signal * eta
            y: Array = np.clip(eta + residual * rng.normal(size=n), low, high)
            curvature = np.full(n, (width / 2 / residual) ** 2)
            errors = [np.sqrt(np.mean(np.square(y - own))) for own in (eta, y.mean())]
        else:
            latent = eta + rng.logistic(size=n)
            parts = [1 - rate, rate] if len(labels) == 2 else _geometric(len(labels))
            ends = np.quantile(latent, np.cumsum(parts)[:-1])
            y = np.array(list(labels))[np.searchsorted(ends, latent)]
            p = np.diff(expit(ends[:, None] - eta), axis=0, prepend=0.0, append=1.0)
            curvature = p[0] * (1 - p[0])
            best = np.array(list(labels))[p.argmax(axis=0)]
            errors = [np.mean(best != y), 1 - max(parts)]
        seeds = rng.integers(2**31, size=2)
        model = clone(self).set_params(
            ledger=None,
            epsilon=self.epsilon * (1 - inference),
            delta=self.delta / 2 if inference else self.delta,
            random_state=int(seeds[0]),
        )
        with warnings.catch_warnings():  # the plan says what they would say
            warnings.simplefilter("ignore")
            model.fit(X, y)
            table = None
            if inference:
                table = model.infer(
                    X,
                    y,
                    epsilon=self.epsilon * inference,
                    delta=self.delta / 2,
                    effects=effects,
                    random_state=int(seeds[1]),
                )
        wrong = model.predict(X)
        own = np.mean(wrong != y) if labels is not None else np.sqrt(np.mean(np.square(wrong - y)))
        widths = usual = np.empty(0)
        if table is not None:
            widths = np.diff(table.conf_int(level=LEVEL), axis=1)[:, 0]
            usual = _usual_widths(table, X, curvature, bool(self.fit_intercept), labels is None)
        found.append((widths, usual, [own, *errors]))
    widths, usual, wrong = (np.array(part) for part in zip(*found, strict=True))
    kinds = "private", "without privacy", "trivial"
    stages = [model] if table is None else [model, table]
    facts = [
        (own.releases_, own.public_) if own is model else (own.releases, own.public)
        for own in stages
    ]  # type: ignore
    facts = [(r, replace(public, void_because=())) for r, public in facts]
    return Plan(
        () if table is None else table.names,
        np.median(widths, axis=0),
        np.median(widths / usual, axis=0),
        np.isinf(widths).mean(axis=0),
        dict(zip(kinds, np.median(wrong, axis=0).tolist(), strict=True)),
        tuple(guarantee_of(*own) for own in facts),
        tuple(line for own in facts for line in overview(*own)),
        n,
        repeats,
    )


def _checked(
    domain: Domain, shares: dict[str, Sequence[float]], deviations: dict[str, float]
) -> dict[str, Any]:
    """Return the guess of each column of levels or numbers: cumulated shares, or a deviation."""
    found: dict[str, Any] = {}
    for column, read in domain._layout.declared:
        name = domain._labels[read.start]
        if isinstance(column, Levels):
            k = len(column.levels)
            own = np.asarray(shares.pop(name, _geometric(k)), dtype=float)
            if own.shape != (k,) or not (own >= 0).all() or not 0 < own.sum() < math.inf:
                raise fail("shares", f"have {k} numbers >= 0 for {name!r}", own.tolist())
            found[name] = np.cumsum(own / own.sum())[:-1]
        elif hasattr(column, "lower"):
            own = deviations.pop(name, DEVIATION * (column.upper / 2 - column.lower / 2) * 2)
            found[name] = check_positive(f"the deviation of {name!r}", own)
    for what, rest in (("shares", shares), ("deviations", deviations)):
        if rest:
            kind = "levels" if what == "shares" else "numbers"
            raise fail(what, f"be those of columns of {kind}", sorted(map(str, rest)))
    return found


def _geometric(k: int) -> FloatArray:
    found = max(LEVEL_RATIO, MOST_RATIO ** (-1 / max(k - 1, 1))) ** np.arange(k)
    return np.asarray(found / found.sum())


def _rows(
    domain: Domain, n: int, guesses: dict[str, Any], correlation: float, rng: Generator
) -> Any:
    """Return a table of the domain: functions of correlated normal numbers.

    Cells that `Domain.sample` leaves empty stay empty, and it draws rows of a ball and blocks that
    were encoded before.
    """
    X: Any = domain.sample(n, rng)
    common = rng.normal(size=n)
    for column, read in domain._layout.declared:
        guess = None if domain.is_ball else guesses.get(domain._labels[read.start])
        if guess is None:
            continue
        latent = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * rng.normal(size=n)
        at = domain.names[read.start] if hasattr(X, "columns") else (slice(None), read.start)
        old = X[at]
        if isinstance(column, Levels):
            which = np.searchsorted(norm.ppf(guess), latent)
            cells = [column.levels[k] for k in which]
            if column.missing is not None:
                cells = [None if is_missing(a) else b for a, b in zip(old, cells, strict=True)]
            X[at] = cells if column.missing is None else np.fromiter(cells, dtype=object)
        else:
            middle = column.lower / 2 + column.upper / 2
            values = np.clip(middle + guess * latent, column.lower, column.upper)
            X[at] = np.where(np.isnan(np.asarray(old, dtype=float)), np.nan, values)
    return X


def _usual_widths(
    table: Inference, X: Any, curvature: FloatArray, intercept: bool, regression: bool
) -> FloatArray:
    """Return widths of intervals of the maximum of the likelihood without privacy."""
    domain = table.domain
    rows = np.column_stack([np.ones(len(curvature)), domain.encode(X) / row_unit(domain)])
    rows = rows[:, int(not intercept) :]
    # A level without records has a very wide interval.
    square = (rows.T * curvature) @ rows + 1e-9 * np.eye(rows.shape[1])
    units, _ = user_units(domain, intercept, regression)
    units = units @ np.linalg.cholesky(np.linalg.inv(square))
    names = [INTERCEPT, *domain.encoded_names()]
    at = [names.index(name) for name in table.names]
    return np.asarray(2 * norm.isf((1 - LEVEL) / 2) * np.linalg.norm(units[at], axis=1))
