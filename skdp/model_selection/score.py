"""Private estimates of the scores of a model on held-out records, with 95 % intervals.

A score is a smooth function f of sums S over the records: of counts in public cells, or of bounded
numbers. The sums are published with noise, and f is evaluated at the result. With the gradient g of
f the sampling variance is about the sum of (g'T)^2 over the records, T what a record adds, because
f does not change if all sums are multiplied by one number. For counts it is a function of the
counts; for numbers it is published too. The variance of the noise is g' Cov g.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from skdp.domain.tables import in_memory, read_target
from skdp.linear_model.proof import PUBLIC_MODEL
from skdp.linear_model.validation import (
    RECORDS,
    UNSEEN,
    check_labels,
    check_ledger,
    check_target,
    chosen_publicly,
    numbered,
    refuse_empty,
    spent_note,
    units_of,
    without_column,
)
from skdp.mechanisms import GaussianNoise, KNorm
from skdp.mechanisms.knorm import gaussian_scale
from skdp.model_selection._candidates import private_step
from skdp.model_selection._score_sums import Units, change
from skdp.model_selection._scores import (
    RecordScore,
    accuracy,
    as_score,
    numbers_of,
    predicted_place,
    probability,
    rowwise_steps,
)
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.guarantee import guarantee_of
from skdp.trusted.arrays import ROUND_UP, Array, FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.checks import (
    check_choice,
    check_epsilon,
    check_interval,
    converted,
    fail,
    is_ours,
)
from skdp.trusted.randomness import RandomStateLike, as_generator, is_cryptographic
from skdp.trusted.statement import NEIGHBORS, Public

# Ends of the cells of predicted probabilities, at these log-odds.
EDGES = expit([-5.0, -4.0, *np.arange(-3.0, 3.5, 0.5), 4.0, 5.0])
CELLS = len(EDGES) + 1
# Quantiles of a normal variable and, in standard deviations, of a Laplace variable.
NORMAL, LAPLACE = 1.96, 2.12
# A quotient is nan if its denominator is below so many standard deviations of its noise.
HIDDEN = 5.0
# Added to the count of each cell for its sampling variance (Agresti & Coull 1998).
ADDED = 1.0
# The share of the budget of sums of numbers for their sampling variance. For R^2 a record's
# influence is clipped at so many times (1 - R^2) / n: squared errors are far below their bound.
SQUARES, LONGEST = 0.2, 30.0
_FOREIGN = "the model treats records separately and stores nothing of them"
_SEEDED = "the noise came from random_state and not from the operating system"


@dataclass(frozen=True, eq=False)
class PrivateScore:
    """Private estimates of scores, in rows: one for a number, several for a matrix or a curve.

    Made by `private_score`. It prints as a table. ``score["roc_auc"]`` has the rows of one
    metric.

    Attributes
    ----------
    metric, cell : tuple of str
        The metric of each row, and the cell of a matrix or a curve.
    value : ndarray of shape (rows,)
        NaN if the noise hides a denominator, such as the number of records of a label.
    interval : ndarray of shape (rows, 2)
        95 % intervals, each for its row alone.
    sampling, privacy : ndarray of shape (rows,)
        Standard errors from the draw of the records and from the noise.
    guarantee : Guarantee
        Of all rows together.
    releases, public : tuple of NoisySum, Public
        ``certify(releases, public)`` proves the guarantee.

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> from skdp.model_selection import private_score
    >>> domain = Domain({"age": (17, 90)}, target=["no", "yes"])
    >>> X, y = domain.sample(1000, random_state=0, with_target=True)
    >>> score = private_score(DPLogisticRegression(domain=domain).fit(X, y), X, y, epsilon=1.0)
    >>> score.metric, score.interval.shape
    (('accuracy',), (1, 2))
    """

    metric: tuple[str, ...]
    cell: tuple[str, ...]
    value: FloatArray
    interval: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    guarantee: Guarantee
    releases: tuple[NoisySum, ...]
    public: Public

    @property
    def std_error(self) -> FloatArray:
        """The standard error of each row."""
        return np.hypot(self.sampling, self.privacy)

    def __getitem__(self, metric: str) -> PrivateScore:
        """Return the rows of one metric; the guarantee is that of all."""
        check_choice("metric", metric, self.metric)
        kept = [k for k, own in enumerate(self.metric) if own == metric]
        facts: dict[str, Any] = {
            name: getattr(self, name)[kept] for name in ("value", "interval", "sampling", "privacy")
        }
        cells = tuple(self.cell[k] for k in kept)
        return replace(self, metric=(metric,) * len(kept), cell=cells, **facts)

    def __repr__(self) -> str:
        names = [f"{m} {c}".strip() for m, c in zip(self.metric, self.cell, strict=True)]
        width = max(map(len, names))
        rows = zip(names, self.value, self.interval, self.sampling, self.privacy, strict=True)
        lines = [
            f"{name:{width}}  {v:7.4f}  {low:7.4f} to {high:7.4f}  {s:8.4f}  {p:7.4f}"
            for name, v, (low, high), s, p in rows
        ]
        head = f"{'':{width}}    value  95 % interval       sampling  privacy"
        spent = f"epsilon = {self.guarantee.epsilon:g}, delta = {self.guarantee.delta:g} in all"
        return "\n".join([head, *lines, spent])


# Functions of noisy sums, given the standard deviation of their noise.


def _ratio(x: Array, y: Array, least: float) -> Array:
    """Return x / y, or nan where y is below ``least`` times HIDDEN."""
    seen = np.real(y) > HIDDEN * least
    return np.where(seen, x / np.where(seen, y, 1.0), np.nan)


def _accuracy(s: Array, sd: float) -> Array:
    hits = s[1:] if len(s) == 2 else s[:: math.isqrt(len(s)) + 1].sum(keepdims=True)
    return _ratio(hits, s.sum(), sd * math.sqrt(len(s)))


def _mean_recall(s: Array, sd: float) -> Array:
    table = s.reshape(math.isqrt(len(s)), -1)
    recalls = _ratio(table.diagonal(), table.sum(axis=1), sd * math.sqrt(len(table)))
    return np.asarray(recalls.mean(keepdims=True))


def _shares(s: Array, sd: float) -> Array:
    return _ratio(s, s.sum(), sd * math.sqrt(len(s)))


def _area(s: Array, sd: float) -> Array:
    """Return the area under the ROC curve, and half of what it may differ within cells."""
    (a, b), least = s.reshape(2, -1), sd * math.sqrt(CELLS)
    # Pairs in one cell count 1/2. If densities are linear in the cells, they count more (page).
    pairs = (a.cumsum() - a / 2) @ b
    within = (a[:-1] @ b[1:] - a[1:] @ b[:-1]) / 24
    return _ratio(_ratio(np.array([pairs + within, within]), a.sum(), least), b.sum(), least)


def _rates(s: Array, sd: float) -> Array:
    a, b = s.reshape(2, -1)
    return _ratio(b, a + b, sd * math.sqrt(2))


def _mean_loss(s: Array, sd: float, score: RecordScore) -> Array:
    return -score.lower - (score.upper - score.lower) / 2 * (1 + _ratio(s[1:], s[0], sd))


def _r2(s: Array, sd: float) -> Array:
    """Return R^2 from sums of 1, 1 - 2 q, u and 2 u^2 - 1: targets u, squared errors 4 q."""
    n, error, first, second = s
    variance = (n + second) / 2 - first * _ratio(first, n, sd)
    return 1 - _ratio(np.array([2 * (n - error)]), variance, sd)


@dataclass(frozen=True)
class _Estimand:
    """A function of the sums of a part: counts in ``size`` cells, or ``size`` sums of numbers."""

    part: str
    size: int
    of: Callable[[Array, float], Array]
    ends: tuple[float, float] = (0.0, 1.0)
    cells: tuple[str, ...] = ("",)
    score: RecordScore | None = None  # of sums of numbers


def _known(labels: Array | None, bounds: tuple[float, float] | None) -> dict[str, _Estimand]:
    """Return the metrics of a classifier or, without labels, of a regressor."""
    scorings = ("log_loss", "brier_score") if labels is not None else ("mean_absolute_error", "r2")
    found = {}
    for name in scorings:
        score: Any = as_score(name if name == "r2" else f"neg_{name}", labels, bounds)
        of, ends = partial(_mean_loss, score=score), (0.0 - score.upper, -score.lower)
        found[name] = _Estimand(name, 1, of, ends, score=score)
    if labels is None:
        return found | {"r2": replace(found["r2"], size=3, of=_r2, ends=(-math.inf, 1.0))}
    k = len(labels)
    pairs = tuple(f"{a}, {b}" for a in labels for b in labels)
    curve = tuple(f"{a:.3f} to {b:.3f}" for a, b in pairwise([0.0, *EDGES, 1.0]))
    return found | {
        "accuracy": _Estimand("predictions", k * k, _accuracy),
        "balanced_accuracy": _Estimand("predictions", k * k, _mean_recall),
        "confusion_matrix": _Estimand("predictions", k * k, _shares, cells=pairs),
        "roc_auc": _Estimand("probabilities", 2 * CELLS, _area),
        "calibration_curve": _Estimand("probabilities", 2 * CELLS, _rates, cells=curve),
    }


def _asked(model: Any, metric: Any, bounds: Any) -> dict[str, _Estimand]:
    """Return the metrics that are asked for, after checks of what is public."""
    if not (is_classifier(model) or is_regressor(model)):
        raise fail("model", "be a fitted classifier or regressor", type(model))
    check_is_fitted(model)
    labels, inner = model.classes_ if is_classifier(model) else None, private_step(model)
    if bounds is None:
        usual = (-1.0, 1.0) if is_ours(inner) else None
        bounds = getattr(getattr(inner, "domain", None), "target_bounds", usual)
    is_pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and bounds[0] < bounds[1]
    if labels is None and not is_pair:
        remedy = "Pass public bounds of the target: bounds=(0, 100), say."
        raise fail("bounds", "be two increasing numbers, or declared by the model", bounds, remedy)
    known = _known(labels, bounds)
    names = [metric] if isinstance(metric, str) else list(metric)
    if not names or len({*names}) < len(names):
        raise fail("metric", "be a name or a list of different names", names)
    found = {check_choice("metric", name, [*known]): known[name] for name in names}
    for name, own in found.items():
        if own.part == "probabilities" and len(model.classes_) != 2:
            remedy = 'Ask for "balanced_accuracy" or "log_loss".'
            raise fail("model", f"have two labels for {name!r}", len(model.classes_), remedy)
        is_chance = own.part in ("probabilities", "log_loss", "brier_score")
        if is_chance and not hasattr(model, "predict_proba"):
            remedy = 'Ask for "accuracy", or calibrate the model with public records.'
            raise fail("model", f"have predict_proba for {name!r}", type(model), remedy)
    if not {"balanced_accuracy", "confusion_matrix"} & {*found} and "accuracy" in found:
        found["accuracy"] = _Estimand("hits", 2, _accuracy)  # two cells have less noise
    return found


def _read(model: Any, parts: dict[str, _Estimand], X: Any, y: Array) -> dict[str, Array]:
    """Return of each part the cells of the rows, (n,), or 1 and numbers in [-1, 1], (n, 1 + size).

    The labels ``y`` are those of the model, or else numbers.
    """
    tables, numbers = {}, partial(numbers_of, estimator=model, X=X, y=y)
    for part, own in parts.items():
        if own.score is not None:
            lower, upper = own.score.lower, own.score.upper
            scores = numbers(own.score.function)
            columns = [2 * (scores - lower) / (upper - lower) - 1]
            if own.of is _r2:
                bounds: Any = own.score.function
                u = 2 * (np.clip(y, bounds.lower, bounds.upper) - bounds.lower)
                u = u / (bounds.upper - bounds.lower) - 1
                columns += [u, 2 * u * u - 1]
            tables[part] = np.column_stack([np.ones(len(y)), *columns])
            continue
        function = {"hits": accuracy, "predictions": predicted_place}.get(part, probability)
        cells = numbers(function)
        if part == "probabilities":
            cells = np.searchsorted(EDGES, cells).astype(float)
        if part != "hits":
            cells += np.searchsorted(model.classes_, y) * (own.size // len(model.classes_))
        tables[part] = cells.astype(np.intp)
    return tables


def _planned(
    parts: dict[str, _Estimand], epsilon: float, delta: float, neighbors: str
) -> dict[str, NoisySum]:
    """Return the releases, with pure or Gaussian noise, whichever is less."""
    shapes, each = [], 1 / len(parts)
    for name, own in parts.items():
        is_sum = own.score is not None
        first = each * (1 - SQUARES) if is_sum else each
        # The number of records is released if it is private.
        shapes.append((name, is_sum, own.size + (is_sum and neighbors == "add_remove"), first))
        if is_sum:
            shapes.append((f"squares of {name}", False, 1, each - first))

    def made(gaussian: bool, name: str, is_sum: bool, dim: int, share: float) -> NoisySum:
        changes = [change(is_sum, dim, neighbors, p) for p in (1.0, math.inf, 2.0)]
        if gaussian:
            sd = changes[2].radius * gaussian_scale(epsilon, delta) / math.sqrt(share)
            pairs: list[Any] = [(changes[2], GaussianNoise(dim, sd * ROUND_UP))]
        else:
            budget = epsilon * share * (1 - 1e-15)
            pairs = [(own, KNorm().calibrate(own, epsilon=budget)) for own in changes[:2]]
        page = "private_score.md, Theorem 1"
        found = [NoisySum(name, own, noise, page) for own, noise in pairs]
        return min(found, key=lambda release: release.deviation)

    plans = [[made(law, *own) for own in shapes] for law in (False, True)[: 1 + (delta > 0)]]
    best = min(plans, key=lambda plan: math.fsum(math.log(own.deviation) for own in plan))
    return {release.name: release for release in best}


def private_score(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    metric: str | Sequence[str] = "accuracy",
    epsilon: float,
    delta: float = 0.0,
    bounds: tuple[float, float] | None = None,
    neighbors: str | None = None,
    target: str | None = None,
    groups: Any = None,
    ledger: Ledger | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Return private estimates of the scores of a model on held-out records, with 95 % intervals.

    The model is public, or its fit has a guarantee of its own, to which this one adds. On the
    records of the fit the score is private too, but it is the score of these records: it may be
    too good for new ones. Statement and proof: ``docs/proofs/private_score.md``.

    Parameters
    ----------
    model : fitted classifier or regressor
        Of this package or of scikit-learn, or a fitted pipeline or private search. Models of other
        packages predict one record at a time, which takes up to a second per 1,000 records.
    X, y, target, groups
        A table in memory with its targets, as in ``fit`` of the estimators. A person counts as a
        record, with the mean over its rows.
    metric : str or list of str, default="accuracy"
        Of classifiers "accuracy", "balanced_accuracy", "confusion_matrix" (shares of all records),
        "roc_auc" and "calibration_curve" (of two labels, in 18 cells of predicted probabilities),
        "log_loss", with probabilities clipped to [p, 1 - p], p = 0.04 / number of labels, and
        "brier_score". Of regressors "r2" and "mean_absolute_error", with targets and predictions
        clipped to the bounds. The budget is divided equally among accuracy, balanced accuracy and
        confusion matrix, which share a release; AUC and calibration curve, which share another
        one; and each of the others.
    epsilon : float > 0
    delta : float in [0, 1), default=0.0
        With delta > 0 Gaussian noise is used if its variance is less.
    bounds : tuple of float, default=None
        Public bounds of the target of a regressor. None takes those of the model's domain.
    neighbors : {"replace_one", "add_remove"}, default=None
        None is the relation of the model, and "replace_one" for other models.
    ledger : Ledger, default=None
        It is charged before any noise is drawn. None is the ledger of the model, if it has one.
    random_state : None, int, Generator or RandomState, default=None
        Values other than None are for tests only and void the guarantee.

    Returns
    -------
    PrivateScore

    Raises
    ------
    BudgetExceeded
        If the budget does not fit the ledger. Then no noise was drawn and nothing was spent.
    ValueError
        If a parameter, the model or the records break a rule. A note of each error states whether
        the budget was spent.

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> from skdp.model_selection import private_score
    >>> domain = Domain({"age": (17, 90)}, target=["no", "yes"])
    >>> X, y = domain.sample(4000, random_state=0, with_target=True)
    >>> model = DPLogisticRegression(domain=domain).fit(X[:2000], y[:2000])
    >>> names = ["accuracy", "brier_score"]
    >>> score = private_score(model, X[2000:], y[2000:], metric=names, epsilon=1.0)
    >>> score.metric, score.guarantee.epsilon
    (('accuracy', 'brier_score'), 1.0)
    """
    with np.errstate(all="ignore"), spent_note() as spent:
        epsilon = check_epsilon(epsilon, "Smaller is more private.")
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        model = getattr(model, "best_estimator_", model)
        metrics, inner = _asked(model, metric, bounds), private_step(model)
        usual = getattr(inner, "neighbors", "replace_one")
        neighbors = check_choice("neighbors", neighbors or usual, tuple(NEIGHBORS))
        ledger = getattr(inner, "ledger", None) if ledger is None else ledger
        check_ledger("ledger", ledger)
        fit = getattr(inner, "guarantee_", None)
        if groups is None and getattr(fit, "unit", "row") == "person":
            rule = "be given, as in the fit: otherwise only rows would be protected"
            raise fail("groups", rule, remedy="Pass the identifiers of persons.")
        if target is not None:
            X, y = without_column(X, "target", target, "Pass y.")
        if isinstance(groups, str):
            X, groups = without_column(X, "groups", groups, "Pass an array of identifiers.")
        X = in_memory(X)
        refuse_empty(len(X), neighbors)
        y, (n, persons) = check_target(model, y, len(X)), units_of(groups, len(X))
        if is_classifier(model):
            declared = list(model.classes_)
            labels, places = check_labels(y, declared)
            y, positions = np.asarray(model.classes_)[places], numbered(declared, labels)
        else:
            y, positions = read_target(y, "the target"), ()
        unit, rng = "row" if persons is None else "person", as_generator(random_state)
        chosen = "the metrics, the labels and all parameters"
        sentences = (
            chosen_publicly(getattr(inner, "domain", None), chosen),
            *(RECORDS[unit], PUBLIC_MODEL, UNSEEN, *positions),
            *(() if rowwise_steps(model) else (_FOREIGN,)),
        )
        void = () if is_cryptographic(random_state) else (_SEEDED,)
        public = Public(epsilon, delta, neighbors, unit, False, sentences, void)
        parts = {own.part: own for own in metrics.values()}
        releases = _planned(parts, epsilon, delta, neighbors)
        guarantee = guarantee_of([*releases.values()], public)
        for release in releases.values():
            _ = release.publication  # an error if 53-bit floats cannot keep the guarantee
        read = partial(_read, model, parts, X, y)
        rule = "have records that the model predicts"  # other models' errors may quote cells
        tables = read() if rowwise_steps(model) else converted(read, "X", rule)
        if ledger is not None:
            ledger.spend(guarantee, note="private_score")
        spent.append(guarantee)
        known = n if neighbors == "replace_one" else None
        units = Units.of(len(X), persons)
        sums = {
            part: _published(units, releases[part], table, parts[part].size, known, rng)
            for part, table in tables.items()
        }
        rows = []
        for own in metrics.values():
            facts = sums[own.part], tables[own.part], releases, known is not None
            rows.append(_estimated(own, *facts, units, rng))
        value, sampling, privacy, low, high = np.concatenate(rows, axis=1)
    names = tuple(name for name, own in metrics.items() for _ in own.cells)
    cells = tuple(cell for own in metrics.values() for cell in own.cells)
    interval, public = np.column_stack([low, high]), replace(public, delta=guarantee.delta)
    numbers = value, interval, sampling, privacy
    return PrivateScore(names, cells, *numbers, guarantee, tuple(releases.values()), public)


def _published(
    units: Units, release: NoisySum, table: Array, size: int, known: int | None, rng: Generator
) -> FloatArray:
    """Return the noisy sums of a part; those of numbers begin with the number of records."""
    if table.ndim == 2:
        found = units.add(release, table if known is None else table[:, 1:], rng)
        return found if known is None else np.append(known, found)
    found = units.count(release, table, size, rng)
    # Counts with a public sum lie in a plane.
    return found if known is None else found + (known - found.sum()) / size


def _estimated(
    metric: _Estimand,
    sums: FloatArray,
    table: Array,
    releases: dict[str, NoisySum],
    is_public: bool,
    units: Units,
    rng: Generator,
) -> FloatArray:
    """Return values, both parts of the errors, and the ends of the intervals, (5, rows)."""
    release, sd = releases[metric.part], releases[metric.part].deviation
    value = np.real(metric.of(sums + 0j, sd))
    # Derivatives along an imaginary step, to the last bits.
    steps = np.eye(len(sums)) * 1e-100j
    slopes = np.imag([metric.of(sums + step, sd) for step in steps]).T * 1e100
    # A public number of records fixes the sum of the counts, or the first sum of numbers.
    fixed = slopes.sum(axis=1) / math.sqrt(len(sums)) if table.ndim == 1 else slopes[:, 0]
    variance = np.square(slopes).sum(axis=1) - np.square(fixed) * is_public
    privacy = sd * np.sqrt(np.maximum(variance, 0.0))
    if table.ndim == 1:
        sampling = np.sqrt(np.square(slopes) @ (np.maximum(sums, 0.0) + ADDED))
    else:
        bound = float(np.abs(slopes[0]).sum())
        if metric.of is _r2:
            bound = min(bound, LONGEST * (abs(1 - value[0]) + privacy[0]) / sums[0])
        # Entry by entry, so that no record's influence depends on other records.
        influences: Any = sum(slope * own for slope, own in zip(slopes[0], table.T, strict=True))
        squares = releases[f"squares of {metric.part}"]
        found = units.add_squares(squares, influences / bound, rng)
        # Where noise may hide the squares they are raised by its size.
        sampling = bound * np.sqrt(np.maximum(found, 0.0) + squares.deviation)
    quantile = NORMAL if isinstance(release.noise, GaussianNoise) else LAPLACE
    half = np.hypot(NORMAL * sampling, quantile * privacy)
    if metric.of is _area:  # the second row is what the cells may hide
        half = half + abs(value[1])
    lower, upper = metric.ends
    found = np.array([value, sampling, privacy, value - half, value + half])
    found[0], found[3:] = np.clip(found[0], lower, upper), np.clip(found[3:], lower, upper)
    found[:, np.isnan(value)] = np.array([[math.nan, math.nan, math.nan, lower, upper]]).T
    return found[:, : len(metric.cells)]
