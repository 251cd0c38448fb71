"""What a budget buys, before it is spent: a fit and an inference of artificial populations."""

from __future__ import annotations

import html
import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import clone

from skdp._search import narrowed
from skdp.domain import Domain
from skdp.domain.columns import Levels, Number, is_missing
from skdp.domain.splines import Spline
from skdp.linear_model._inference.estimate import user_units, usual_norm
from skdp.linear_model._inference.plan import InferencePlan, plan_inference
from skdp.linear_model._inference.release import normal_draws
from skdp.linear_model._inference.table import INTERCEPT, Inference, digits
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import row_unit
from skdp.linear_model._shared.task import Records
from skdp.privacy import Guarantee
from skdp.privacy.guarantee import guarantee_of
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.certify import Line, overview
from skdp.trusted.checks import check_count, check_interval, check_numbers, check_positive, fail
from skdp.trusted.noise import variances

if TYPE_CHECKING:
    from skdp.linear_model._shared.base import PrivateLinearModel

# The standard deviation of a number, and of residuals, over the width of the bounds, and the
# greatest one of targets. Each level is LEVEL_RATIO as frequent as the one before, as far as the
# first one is at most MOST_RATIO times as frequent as the last.
DEVIATION, TARGET_DEVIATION = 1 / 8, 1 / 6
LEVEL_RATIO, MOST_RATIO = 1 / 3, 100.0
LEVEL = 0.95
ERRORS = "private", "without privacy", "trivial"
TINY = 1e-9


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

    def _cells(self) -> list[tuple[str, str, str, str]]:
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
        epsilon = sum(own.epsilon for own in self.guarantees)
        delta = sum(own.delta for own in self.guarantees)
        errors = ", ".join(f"{name} {digits(value)}" for name, value in self.errors.items())
        parts = ", ".join(
            line.name if line.epsilon is None else f"{line.name} {line.epsilon:.3g}"
            for line in self.releases
        )
        return [
            "Median widths of 95 % confidence intervals, their ratios to those without privacy, and"
            " shares of tables with an unbounded interval.",
            f"Error of predictions: {errors}.",
            f"Guarantee: {calls}; together epsilon = {epsilon:g}, delta = {delta:g}.",
            f"Releases with their epsilon: {parts}.",
        ][int(not self.names) :]

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
        rule = "-" * max(len(title), sum(widths) + 6)
        table = [rule, *lines] if self.names else []
        notes = [line for note in self._notes() for line in textwrap.wrap(note, 78)]
        return "\n".join([title, *table, rule, *notes])

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
    This costs no budget: no data are read and no ledger is charged. It takes as long as ``repeats``
    fits and inferences of n records. By default the guesses are unkind: numbers use a part of their
    bounds, some levels are rare, and columns are correlated.

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
    self._check_parameters()
    population = Guesses.of(self, shares, deviations, correlation, residual, rate)
    # Each call has half of delta.
    delta = self.delta / 2 if inference else self.delta
    is_regression = population.labels is None
    facts = {"ledger": None, "epsilon": self.epsilon * (1 - inference), "delta": delta}
    budget = {"epsilon": self.epsilon * inference, "delta": delta, "effects": effects}
    found: list[tuple[Any, ...]] = []
    for seed in np.random.SeedSequence(random_state).spawn(repeats):
        rng = np.random.default_rng(seed)
        X, y, curvature, errors = population.draw(n, rng)
        seeds = rng.integers(2**31, size=2).tolist()
        model = clone(self).set_params(**facts, random_state=seeds[0])
        widths = usual = np.empty(0)
        with warnings.catch_warnings():  # the plan says what they would say
            warnings.simplefilter("ignore")
            model.fit(X, y)
            if inference:
                table = model.infer(X, y, **budget, random_state=seeds[1])
                widths = np.diff(table.conf_int(level=LEVEL), axis=1)[:, 0]
                usual = _usual_widths(table, X, curvature, self.fit_intercept, is_regression)
        found.append((widths, usual, [population.error(y, model.predict(X)), *errors]))
    widths, usual, wrong = (np.array(part) for part in zip(*found, strict=True))
    calls = [(model.releases_, model.public_)]
    calls += [(table.releases, table.public)] if inference else []
    # The noise of a fit comes from the operating system.
    calls = [(own, replace(public, void_because=())) for own, public in calls]
    return Plan(
        table.names if inference else (),
        np.median(widths, axis=0),
        np.median(widths / usual, axis=0),
        np.isinf(widths).mean(axis=0),
        dict(zip(ERRORS, np.median(wrong, axis=0).tolist(), strict=True)),
        tuple(guarantee_of(*own) for own in calls),
        tuple(line for own in calls for line in overview(*own)),
        n,
        repeats,
    )


@dataclass(frozen=True, eq=False)
class Guesses:
    """Public guesses, from which artificial tables are drawn."""

    domain: Domain
    labels: Array | None  # None for a regression
    guesses: dict[str, Any]  # for each column, cumulated shares of levels or a deviation
    correlation: float
    residual: float
    shares: FloatArray  # of the labels

    @classmethod
    def of(
        cls,
        model: PrivateLinearModel,
        shares: Mapping[str, Sequence[float]] | None,
        deviations: Mapping[str, float] | None,
        correlation: float,
        residual: float | None,
        rate: float,
    ) -> Guesses:
        correlation = check_interval("correlation", correlation, 0.0, 1.0, closed="left")
        rate = check_interval("rate", rate, 0.0, 1.0, closed="neither")
        domain, declared = model.domain, getattr(model, "_declared_labels", lambda: None)()
        if domain is None or (domain.target_bounds is None and declared is None):
            remedy = 'Write domain=Domain({"age": (17, 90)}, target=(0, 100)).'
            raise fail("domain", "declare the columns and the target for a plan", None, remedy)
        labels, parts = None, np.ones(1)
        if declared is not None:
            labels = np.array(list(declared))
            parts = np.array([1 - rate, rate]) if len(labels) == 2 else _geometric(len(labels))
        low, high = domain.target_bounds or (-1.0, 1.0)
        usual = DEVIATION * (high - low)
        residual = check_positive("residual", usual if residual is None else residual)
        given, others = dict(shares or {}), dict(deviations or {})
        guesses: dict[str, Any] = {}
        for column, read in domain._layout.declared:
            name = domain._labels[read.start]
            if isinstance(column, Levels):
                k = len(column.levels)
                own = check_numbers("shares", given.pop(name, _geometric(k)))
                if own.shape != (k,) or not (own >= 0).all() or not 0 < own.sum() < math.inf:
                    raise fail(f"the shares of {name!r}", f"be {k} numbers >= 0", own.tolist())
                guesses[name] = np.cumsum(own / own.sum())[:-1]
            elif isinstance(column, Number | Spline):
                width = 2 * (column.upper / 2 - column.lower / 2)
                deviation = others.pop(name, DEVIATION * width)
                guesses[name] = check_positive(f"the deviation of {name!r}", deviation)
        for what, kind, rest in (("shares", "levels", given), ("deviations", "numbers", others)):
            if rest:
                raise fail(what, f"be those of columns of {kind}", sorted(map(str, rest)))
        return cls(domain, labels, guesses, correlation, residual, parts)

    def draw(self, n: int, rng: Generator) -> tuple[Any, Array, FloatArray, list[float]]:
        """Return a table, its target, the information of rows, and errors of predictions.

        The errors are those of the model that the targets are drawn from, and of a constant. Each
        column has an effect of the same size per standard deviation, a rare level a smaller one.
        """
        X = self.rows(n, rng)
        eta = self.domain.encode(X)
        eta = (eta - eta.mean(axis=0)) / np.maximum(eta.std(axis=0), 2 * DEVIATION)
        eta = eta @ rng.choice([-1.0, 1.0], eta.shape[1])
        eta /= max(float(eta.std()), TINY)
        if self.labels is None:
            low, high = self.domain.target_bounds or (-1.0, 1.0)
            square = TARGET_DEVIATION**2 - (self.residual / (high - low)) ** 2
            eta = low / 2 + high / 2 + math.sqrt(max(square, 0.0)) * (high - low) * eta
            y: Array = np.clip(eta + self.residual * rng.normal(size=n), low, high)
            information = np.full(n, ((high - low) / 2 / self.residual) ** 2)
            return X, y, information, [self.error(y, eta), self.error(y, y.mean())]
        latent = eta + rng.logistic(size=n)
        ends = np.quantile(latent, np.cumsum(self.shares)[:-1])
        y = self.labels[np.searchsorted(ends, latent)]
        p = np.diff(expit(ends[:, None] - eta), axis=0, prepend=0.0, append=1.0)
        guesses = self.labels[p.argmax(axis=0)], self.labels[self.shares.argmax()]
        return X, y, p[0] * (1 - p[0]), [self.error(y, own) for own in guesses]

    def error(self, y: Array, predicted: Any) -> float:
        if self.labels is None:
            return float(np.sqrt(np.mean(np.square(y - predicted))))
        return float(np.mean(y != predicted))

    def rows(self, n: int, rng: Generator) -> Any:
        """Return a table of functions of correlated normal numbers.

        Cells that `Domain.sample` leaves empty stay empty, and it draws rows of a ball and blocks
        that were encoded before.
        """
        domain, common = self.domain, rng.normal(size=n)
        X: Any = domain.sample(n, rng)
        for column, read in [] if domain.is_ball else domain._layout.declared:
            guess = self.guesses.get(domain._labels[read.start])
            if guess is None:
                continue
            rest = math.sqrt(1 - self.correlation) * rng.normal(size=n)
            latent = math.sqrt(self.correlation) * common + rest
            at: Any = slice(None), read.start
            if hasattr(X, "columns"):
                at = domain._labels[read.start]
            if isinstance(column, Levels):
                drawn: Any = [column.levels[k] for k in np.searchsorted(norm.ppf(guess), latent)]
                if column.missing is not None:
                    pairs = zip(X[at], drawn, strict=True)
                    drawn = np.fromiter((None if is_missing(a) else b for a, b in pairs), object)
                X[at] = drawn
            elif isinstance(column, Number | Spline):
                middle = column.lower / 2 + column.upper / 2
                numbers = np.clip(middle + guess * latent, column.lower, column.upper)
                numbers[np.isnan(np.asarray(X[at], dtype=float))] = np.nan
                X[at] = numbers
        return X


def _geometric(k: int) -> FloatArray:
    found = max(LEVEL_RATIO, MOST_RATIO ** (-1 / max(k - 1, 1))) ** np.arange(k)
    return np.asarray(found / found.sum())


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


# How much noise in the first curvatures, and in the largest of the counts by size, hides most
# intervals: a logistic regression of 700 simulated tables, with normal, skewed and uniform numbers,
# rare levels, 2 to 70 columns, both kinds of targets, and with and without delta. Most intervals
# were unbounded in 97 % of those with `visibility` below 0.5, in half of those with about 1, and in
# 2 % of those above CLEAR.
CURVATURES, COUNTS, CLEAR = 1.57, 0.79, 1.8
# How close a number in a message is to the least one that suffices, and the delta that it has.
CLOSE, PUBLIC_DELTA = 0.05, 1e-6


def visibility(plan: InferencePlan, n: float) -> float:
    """Return how far the noise is from hiding most coefficients of n records; 1 is in the middle.

    It is the inverse of the sum of two ratios of noise to signal, for independent numbers. The
    first curvatures must be seen to choose the coordinates, and the sizes of values to scale them.
    """
    noise = usual_norm(normal_draws(plan.coordinates, 20))
    lost = CURVATURES * noise / (n * float(plan.factor[0]) ** 2)
    if plan.sizes is not None:
        deviation = math.sqrt(float(variances(plan.sizes)[0]))
        lost += COUNTS * math.log(plan.sizes.dim) * deviation / n
    return 1 / lost


def warn_if_hidden(
    model: PrivateLinearModel, records: Records, targets: tuple[int, ...], is_ols: bool
) -> None:
    """Warn if most intervals will be unbounded, and say what would suffice.

    ``model`` has the budget of the inference. Everything depends on public facts only.
    """
    design, is_regression = records.design, records.models == (None,)
    size = model._task(design, records.n, 1, records.unit).n_assumed
    if size is None:
        return

    def seen(
        facts: dict[str, float], targets: Sequence[int] = targets, own: Design = design
    ) -> float:
        other = copy(model)
        n = facts.get("n_public", size)
        other.__dict__ |= {"n_public": n, **facts}
        task = other._task(own, int(n), 1, records.unit)
        return visibility(plan_inference(task, is_regression, tuple(targets), is_ols), n)

    def enough(start: float, what: str) -> str:
        """Return two digits of the least value that suffices, rounded up."""
        low, high = start, 2 * start
        while seen({what: high}) < CLEAR:
            low, high = high, 2 * high
        high = narrowed(lambda value: seen({what: value}) >= CLEAR, low, high, CLOSE)[1]
        digit = 10.0 ** (math.floor(math.log10(high)) - 1)
        return f"{math.ceil(high / digit) * digit:,.10g}"

    if seen({}) >= 1:
        return
    unit = f"{records.unit.replace('row', 'record')}s"
    found = [f"{enough(size, 'n_public')} {unit}", f"epsilon={enough(model.epsilon, 'epsilon')}"]
    if model.delta < PUBLIC_DELTA and seen({"delta": PUBLIC_DELTA}) >= CLEAR:
        found.append(f"delta={PUBLIC_DELTA:g}")
    if len(targets) > 1 and seen({}, targets[:1]) >= CLEAR:
        found.append("effects=[...] with one coefficient")

    def is_hidden(k: float) -> bool:
        own = Design(Domain.unit_box(int(k), target=(-1.0, 1.0)), design.intercept)
        return seen({}, range(int(not own.intercept), int(k) + 1), own) < CLEAR

    columns = design.domain.n_encoded
    if columns > 1 and not is_hidden(1):
        fewer = int(narrowed(is_hidden, 1, columns, 0.5 / columns)[0])
        found.append(f"{fewer} encoded column{'s' * (fewer > 1)} instead of {columns}")
    warnings.warn(_HIDDEN.format("; ".join(found)), UserWarning, stacklevel=3)


_HIDDEN = (
    "Expect unbounded intervals: the noise will probably hide most coefficients. If columns are"
    " nearly independent, each of these would suffice: {}. The method plan shows what a budget"
    " buys. To stop before the budget is spent, turn this warning into an error."
)
