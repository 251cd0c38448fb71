"""Private estimates of the scores of a model on held-out records, with 95 % intervals.

A score is a quotient N / D of polynomials of sums over the records: of counts in public cells, or
of bounded numbers and their squares. The sums are published with noise, in one release for scores
that share them. An interval has the values t that the test of N = t D does not reject (Fieller).
Its variance is that of N - t D: from the noise, and from the draw of the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
)
from skdp.mechanisms import GaussianNoise, KNorm
from skdp.mechanisms.knorm import gaussian_scale
from skdp.model_selection._candidates import private_step
from skdp.model_selection._score_sums import add, change, count, means
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
# The kurtosis of targets for which the interval of R^2 has its level (the page, R^2).
KURTOSIS = 4.0
_FOREIGN = "the model treats records separately and stores nothing of them"
_SEEDED = "the noise came from random_state and not from the operating system"


@dataclass(frozen=True, eq=False)
class PrivateScore:
    """Private estimates of scores, in rows: one for a number, several for a matrix or a curve.

    `private_score` returns it. It prints as a table. ``score["roc_auc"]`` has the rows of one
    metric.

    Attributes
    ----------
    metric, cell : ndarray of str, shape (rows,)
        The metric of each row, and the cell of a matrix or a curve.
    value : ndarray of shape (rows,)
        NaN if the noise hides the denominator, such as the number of records in a cell.
    interval : ndarray of shape (rows, 2)
        95 % intervals, each for its row alone; the whole range if the value is NaN.
    sampling, privacy : ndarray of shape (rows,)
        Standard errors from the draw of the records and from the noise.
    guarantee : Guarantee
        Of all rows together.
    releases, public : tuple of NoisySum, Public
        ``certify(releases, public)`` proves the guarantee.
    """

    metric: NDArray[np.str_]
    cell: NDArray[np.str_]
    value: FloatArray
    interval: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    guarantee: Guarantee
    releases: tuple[NoisySum, ...]
    public: Public

    def __getitem__(self, metric: str) -> PrivateScore:
        """Return the rows of one metric; the guarantee is that of all."""
        kept = self.metric == check_choice("metric", metric, dict.fromkeys(self.metric.tolist()))
        rows = "metric", "cell", "value", "interval", "sampling", "privacy"
        facts: dict[str, Any] = {name: getattr(self, name)[kept] for name in rows}
        return replace(self, **facts)

    def __repr__(self) -> str:
        names = [f"{m} {c}".strip() for m, c in zip(self.metric, self.cell, strict=True)]
        width = max(map(len, names))
        rows = zip(names, self.value, self.interval, self.sampling, self.privacy, strict=True)
        head = f"{'':{width}}    value  95 % interval       sampling  privacy"
        lines = [
            f"{name:{width}}  {v:7.4f}  {low:7.4f} to {high:7.4f}  {s:8.4f}  {p:7.4f}"
            for name, v, (low, high), s, p in rows
        ]
        spent = f"epsilon = {self.guarantee.epsilon:g}, delta = {self.guarantee.delta:g} in all"
        return "\n".join([head, *lines, spent])


# Numerators and denominators, functions of the sums. Of counts in cells:


def _hits(s: Array) -> tuple[Array, Array]:
    """Of (wrong, right), or of labels and predicted labels."""
    return s[1:] if len(s) == 2 else s[:: math.isqrt(len(s)) + 1].sum(keepdims=True), s.sum()


def _mean_recall(s: Array) -> tuple[Array, Array]:
    table = s.reshape(math.isqrt(len(s)), -1)
    n = table.sum(axis=1)
    whole = (n * len(n) / np.abs(s.real).sum()).prod()  # a public unit, so that none is too great
    return whole * (table.diagonal() / n).mean(keepdims=True), whole


def _shares(s: Array) -> tuple[Array, Array]:
    return s, s.sum()


def _rates(s: Array) -> tuple[Array, Array]:
    negative, positive = s.reshape(2, -1)
    return positive, negative + positive


def _area(s: Array) -> tuple[Array, Array]:
    """Of pairs; those in one cell count 1/2, or more if densities are linear in the cells."""
    a, b = s.reshape(2, -1)
    pairs = (a.cumsum() - a / 2) @ b + _within(s)
    return np.array([pairs]), a.sum() * b.sum()


def _within(s: Array) -> Any:
    """Return half of what linear densities add to the pairs (the page, AUC)."""
    a, b = s.reshape(2, -1)
    return (a[:-1] @ b[1:] - a[1:] @ b[:-1]) / 24


# Of numbers: n, sums of numbers v in [-1, 1], sums of (v^2 - 1) / 2.


def _mean_loss(low: float, high: float, s: Array) -> tuple[Array, Array]:
    return -s[:1] * low - (high - low) / 2 * (s[:1] + s[1:2]), s[0]


def _loss_variance(low: float, high: float, s: Array) -> float:
    """Return the sampling variance of the mean loss."""
    n, v, half = s
    return float(((high - low) / 2) ** 2 * (1 + 2 * half / n - (v / n) ** 2) / n)


def _r2(s: Array) -> tuple[Array, Array]:
    """Of squared errors (1 - v) / 2 and targets u, which are squared differences 4 of u."""
    n, v, u, _, half = s
    whole = n * (2 * half + n) - u * u
    return np.array([whole - 2 * n * (n - v)]), whole


def _r2_variance(s: Array) -> float:
    n, v, _, half, _ = s
    error, square = 2 * (n - v), 4 * (2 * n - 2 * v + 2 * half)
    return float((square + (KURTOSIS - 2) * error**2 / n) * (n / _r2(s)[1]) ** 2)


@dataclass(frozen=True)
class _Metric:
    """A quotient of sums of a part: of counts in ``size`` cells, or of ``size`` columns."""

    part: str
    size: int
    ratio: Callable[[Array], tuple[Array, Array]]
    ends: tuple[float, float] = (0.0, 1.0)
    cells: tuple[str, ...] = ("",)
    score: RecordScore | None = None  # of columns
    variance: Callable[[Array], float] | None = None


def _metrics(labels: Array | None, bounds: tuple[float, float] | None) -> dict[str, _Metric]:
    """Return the metrics of a classifier or, without labels, of a regressor."""
    names = ("mean_absolute_error",) if labels is None else ("log_loss", "brier_score")
    found = {}
    for name in names:
        score: Any = as_score(f"neg_{name}", labels, bounds)
        low, high = score.lower, score.upper
        own = partial(_mean_loss, low, high), (0.0 - high, -low), ("",), score
        found[name] = _Metric(name, 1, *own, partial(_loss_variance, low, high))
    if labels is None:
        score = as_score("r2", None, bounds)
        found["r2"] = _Metric("r2", 2, _r2, (-math.inf, 1.0), ("",), score, _r2_variance)
        return found
    k, unit = len(labels) ** 2, (0.0, 1.0)
    pairs = tuple(f"{a}, {b}" for a in labels for b in labels)
    curve = tuple(f"{a:.3f} to {b:.3f}" for a, b in pairwise([0.0, *EDGES, 1.0]))
    return found | {
        "accuracy": _Metric("predictions", k, _hits),
        "balanced_accuracy": _Metric("predictions", k, _mean_recall),
        "confusion_matrix": _Metric("predictions", k, _shares, unit, pairs),
        "roc_auc": _Metric("probabilities", 2 * CELLS, _area),
        "calibration_curve": _Metric("probabilities", 2 * CELLS, _rates, unit, curve),
    }


def _chosen(model: Any, metric: Any, bounds: Any) -> dict[str, _Metric]:
    """Return the metrics of these names, after checks of what is public."""
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
    every = _metrics(labels, bounds)
    names = [metric] if isinstance(metric, str) else list(metric)
    if not names or len({*names}) < len(names):
        raise fail("metric", "be a name or a list of different names", names)
    found = {check_choice("metric", name, [*every]): every[name] for name in names}
    for name, own in found.items():
        if own.part == "probabilities" and len(model.classes_) != 2:
            remedy = 'Ask for "balanced_accuracy" or "log_loss".'
            raise fail("model", f"have two labels for {name!r}", len(model.classes_), remedy)
        is_chance = own.part in ("probabilities", "log_loss", "brier_score")
        if is_chance and not hasattr(model, "predict_proba"):
            remedy = 'Ask for "accuracy", or calibrate the model with public records.'
            raise fail("model", f"have predict_proba for {name!r}", type(model), remedy)
    if not {"balanced_accuracy", "confusion_matrix"} & {*found} and "accuracy" in found:
        found["accuracy"] = _Metric("hits", 2, _hits)  # two cells have less noise
    return found


def _planned(
    parts: dict[str, _Metric], epsilon: float, delta: float, neighbors: str
) -> dict[str, NoisySum]:
    """Return the release of each part, with pure or Gaussian noise, whichever is less."""

    def made(name: str, own: _Metric, gaussian: bool) -> NoisySum:
        norms = (2.0,) if gaussian else (1.0, math.inf)[: 1 + (own.score is None)]
        found = []
        for body in (change(own.score is not None, own.size, neighbors, p) for p in norms):
            noise: Any
            if gaussian:
                scale = body.radius * gaussian_scale(epsilon, delta) * math.sqrt(len(parts))
                noise = GaussianNoise(body.ball.dim, scale * ROUND_UP)
            else:
                noise = KNorm().calibrate(body, epsilon=epsilon / len(parts) * (1 - 1e-15))
            found.append(NoisySum(name, body, noise, "private_score.md, Theorem 1"))
        return min(found, key=lambda release: release.deviation)

    plans = [[made(*own, law) for own in parts.items()] for law in (False, True)[: 1 + (delta > 0)]]
    best = min(plans, key=lambda plan: math.fsum(math.log(own.deviation) for own in plan))
    return {release.name: release for release in best}


def _read(model: Any, parts: dict[str, _Metric], X: Any, y: Array) -> dict[str, Array]:
    """Return of each part the cells of the rows, (n,), or v, u and u^2, (n, 2 size - 1).

    The labels ``y`` are those of the model, or else numbers.
    """
    tables: dict[str, Array] = {}
    for part, own in parts.items():
        if own.score is not None:
            low, high = own.score.lower, own.score.upper
            columns = [2 * (numbers_of(own.score.function, model, X, y) - low) / (high - low) - 1]
            if part == "r2":
                ends: Any = own.score.function
                u = 2 * (np.clip(y, ends.lower, ends.upper) - ends.lower)
                columns.append(u / (ends.upper - ends.lower) - 1)
                columns.append(columns[1] * columns[1])
            tables[part] = np.column_stack(columns)
            continue
        function = {"hits": accuracy, "predictions": predicted_place}.get(part, probability)
        cells = numbers_of(function, model, X, y)
        if part == "probabilities":
            cells = np.searchsorted(EDGES, cells).astype(float)
        if part != "hits":
            cells = cells + np.searchsorted(model.classes_, y) * (own.size // len(model.classes_))
        tables[part] = cells.astype(np.intp)
    return tables


def _estimated(metric: _Metric, s: FloatArray, release: NoisySum, is_public: bool) -> FloatArray:
    """Return values, both parts of the errors, and the ends of the intervals, (5, rows)."""
    top, bottom = np.broadcast_arrays(*metric.ratio(s))
    steps = (s + 1e-100j * (np.arange(len(s)) == k) for k in range(len(s)))
    # Derivatives along an imaginary step, to the last bits: (sums, 2, rows).
    slopes = np.array([np.broadcast_arrays(*metric.ratio(own)) for own in steps]).imag * 1e100
    noise = release.deviation * slopes
    if is_public and metric.score is None:  # counts with a public sum lie in a plane
        noise -= noise.mean(axis=0)
    elif is_public:
        noise[0] = 0.0
    # Variances of N - t D as (a, b, c) for a - 2 b t + c t^2.
    privacy = _forms(noise)
    if metric.variance is not None:
        sampling = np.array([bottom**2 * max(metric.variance(s), 0.0), 0 * top, 0 * top])
    elif metric.ratio in (_hits, _shares, _rates):
        sampling = np.array([0 * top, -bottom / 2, -bottom])  # D t (1 - t), that of hits
    else:
        sampling = _forms(slopes * np.sqrt(np.maximum(s, 0.0))[:, None, None])
    quantile = NORMAL if isinstance(release.noise, GaussianNoise) else LAPLACE
    low, high = metric.ends
    top = np.clip(top, low * bottom, high * bottom)
    a, b, c = np.array([top**2, top * bottom, bottom**2]) - (
        NORMAL**2 * sampling + quantile**2 * privacy
    )
    is_seen = (bottom > 0) & (c > 0)
    value = np.where(is_seen, top / bottom, np.nan)
    half = np.sqrt(np.maximum(b * b - a * c, 0.0)) / c
    if metric.ratio is _area:  # what the cells may hide
        half += abs(_within(s) / bottom)
    powers = np.array([1 + 0 * value, -2 * value, value**2])
    errors = [
        np.sqrt(np.maximum((own * powers).sum(axis=0), 0.0)) / bottom for own in (sampling, privacy)
    ]
    ends = np.where(is_seen, np.clip([b / c - half, b / c + half], low, high), [[low], [high]])
    return np.array([value, *errors, *ends])


def _forms(slopes: Array) -> Array:
    """Return the squares and the product of two columns of slopes, (3, rows)."""
    n, d = slopes.swapaxes(0, 1)
    return np.array([(n * n).sum(axis=0), (n * d).sum(axis=0), (d * d).sum(axis=0)])


def private_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: str | Sequence[str] = "accuracy",
    epsilon: float,
    delta: float = 0.0,
    bounds: tuple[float, float] | None = None,
    neighbors: str | None = None,
    groups: Any = None,
    ledger: Ledger | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Return private estimates of the scores of a model on held-out records, with 95 % intervals.

    The model is public, or its fit has a guarantee of its own, to which this one adds. On the
    records of the fit the score is private too, but it may be too good for new records. Statement
    and proof: ``docs/proofs/private_score.md``.

    Parameters
    ----------
    model : fitted classifier or regressor
        Of this package or of scikit-learn, or a fitted pipeline or private search. Models of other
        packages predict one record at a time, which takes up to a second per 1,000 records.
    X, y
        A table in memory and its targets, as in ``fit`` of the estimators.
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
    groups : array-like of shape (n,), default=None
        Identifiers of persons. A person counts as a record, with the mean over its rows.
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
        If the budget does not fit the ledger. Then nothing was spent.
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
    >>> score.metric.tolist(), score.interval.shape
    (['accuracy', 'brier_score'], (2, 2))
    """
    with np.errstate(all="ignore"), spent_note() as spent:
        epsilon = check_epsilon(epsilon, "Smaller is more private.")
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        model = getattr(model, "best_estimator_", model)
        metrics, inner = _chosen(model, metric, bounds), private_step(model)
        usual = getattr(inner, "neighbors", "replace_one")
        neighbors = check_choice("neighbors", usual if neighbors is None else neighbors, NEIGHBORS)
        ledger = getattr(inner, "ledger", None) if ledger is None else ledger
        check_ledger("ledger", ledger)
        if groups is None and getattr(getattr(inner, "guarantee_", None), "unit", "") == "person":
            rule = "be given, as in the fit: otherwise only rows would be protected"
            raise fail("groups", rule, remedy="Pass the identifiers of persons.")
        X = in_memory(X)
        refuse_empty(len(X), neighbors)
        y, (n, persons) = check_target(model, y, len(X)), units_of(groups, len(X))
        unit = "row" if persons is None else "person"
        persons = np.arange(n) if persons is None else persons
        if is_classifier(model):
            labels, places = check_labels(y, list(model.classes_))
            y, positions = model.classes_[places], numbered(list(model.classes_), labels)
        else:
            y, positions = read_target(y, "the target"), ()
        sentences = (
            chosen_publicly(getattr(inner, "domain", None), "the metrics, labels and parameters"),
            *(RECORDS[unit], PUBLIC_MODEL, UNSEEN, *positions),
            *(() if rowwise_steps(model) else (_FOREIGN,)),
        )
        rng, is_void = as_generator(random_state), not is_cryptographic(random_state)
        void = (_SEEDED,) * is_void
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
        is_public, sums = neighbors == "replace_one", {}
        for part, table in tables.items():
            size = parts[part].size
            if table.ndim == 1:
                own = count(releases[part], table, persons, rng)
                sums[part] = own + (n - own.sum()) / size * is_public
            else:
                each = means(table, persons)
                squares = np.column_stack([each[:, 0] * each[:, 0], each[:, size:]])
                own = add(releases[part], each[:, :size], squares, rng)
                sums[part] = np.append(n, own) if is_public else own
        rows = [
            _estimated(own, sums[own.part], releases[own.part], is_public)
            for own in metrics.values()
        ]
    value, sampling, privacy, low, high = np.concatenate(rows, axis=1)
    return PrivateScore(
        np.array([name for name, own in metrics.items() for _ in own.cells]),
        np.array([cell for own in metrics.values() for cell in own.cells]),
        value,
        np.column_stack([low, high]),
        sampling,
        privacy,
        guarantee,
        tuple(releases.values()),
        replace(public, delta=guarantee.delta),
    )
