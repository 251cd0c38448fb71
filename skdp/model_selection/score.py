"""Private estimates of the scores of a model on held-out records, with 95 % intervals.

A score is a quotient N / D of polynomials of sums over the records: of counts in public cells, or
of numbers and their squares. The sums are published with noise, once for all scores of a part. An
interval has the values t for which a test does not reject N = t D (Fieller). The variance of
N - t D is that of the noise, and that of the draw of the records.
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
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from skdp.domain.tables import Frame, in_memory, read_target
from skdp.linear_model import validation
from skdp.linear_model.proof import PUBLIC_MODEL
from skdp.mechanisms import KNorm
from skdp.model_selection import _scores as scores
from skdp.model_selection._candidates import private_step, refuse_several
from skdp.model_selection._score_sums import add, change, count, means, totals
from skdp.model_selection._selection import SEEDED
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.guarantee import guarantee_of
from skdp.trusted import checks
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.randomness import RandomStateLike, as_generator, is_cryptographic
from skdp.trusted.statement import NEIGHBORS, Public

# Ends of the cells of predicted probabilities, at these log-odds.
EDGES = expit([-5.0, -4.0, *np.arange(-3.0, 3.5, 0.5), 4.0, 5.0])
CELLS = len(EDGES) + 1
# Quantiles of a normal variable and, in standard deviations, of a Laplace variable.
NORMAL, LAPLACE = 1.96, 2.12
# The greatest kurtosis of targets for which the interval of R^2 is as wide as it should be.
KURTOSIS = 4.0
_ROWS = ("metric", "cell", "value", "interval", "sampling", "privacy")
_FOREIGN = "the model treats records separately and stores nothing of them"


@dataclass(frozen=True, eq=False)
class PrivateScore:
    """Private estimates of scores, in rows: one for a number, several for a matrix or a curve.

    `private_score` returns it. ``score["roc_auc"]`` has the rows of one metric.

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
        Of all rows together; ``certify(releases, public)`` proves it.
    releases, public : tuple of NoisySum, Public

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp.model_selection import private_score
    >>> X, y = [[-1.0], [1.0]] * 50, [0, 1] * 50
    >>> score = private_score(LogisticRegression().fit(X, y), X, y, epsilon=1.0)
    >>> score["accuracy"].interval.shape
    (1, 2)
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
        kept = self.metric == checks.check_choice("metric", metric, {*self.metric.tolist()})
        return replace(self, **{name: getattr(self, name)[kept] for name in _ROWS})

    def __repr__(self) -> str:
        width = max(len(f"{m} {c}") for m, c in zip(self.metric, self.cell, strict=True))
        lines = [f"{'':{width}}   value  95 % interval       sampling  privacy"]
        for m, c, v, (low, high), s, p in zip(*(getattr(self, k) for k in _ROWS), strict=True):
            ends = f"{low:7.4f} to {high:7.4f}"
            lines.append(f"{f'{m} {c}':{width}} {v:7.4f}  {ends}  {s:8.4f}  {p:7.4f}")
        return "\n".join([*lines, f"epsilon = {self.guarantee.epsilon:g} in all"])


# Numerators and denominators, functions of counts in cells, in the order of the labels.


def _mean_recall(s: Array) -> tuple[Array, Array]:
    table = s.reshape(math.isqrt(len(s)), -1)
    n = table.sum(axis=1)
    whole = (n * len(n) / np.abs(s.real).sum()).prod()  # the unit prevents overflow
    return whole * (table.diagonal() / n).mean(keepdims=True), whole


def _area(s: Array) -> tuple[Array, Array]:
    a, b = s.reshape(2, -1)
    return (a.cumsum() - a / 2) @ b + _within(s), a.sum() * b.sum()


def _within(s: Array) -> Array:
    """Return half of what pairs in one cell add if densities are linear there (the page, AUC)."""
    a, b = s.reshape(2, -1)
    return np.array([a[:-1] @ b[1:] - a[1:] @ b[:-1]]) / 24


# Functions of n, sums of v and of targets u in [-1, 1], and those of (v^2 - 1) / 2, (u^2 - 1) / 2.


def _mean(middle: float, half: float, s: Array) -> tuple[Array, Array]:
    return middle * s[:1] + half * s[1:2], s[0]


def _r2(s: Array) -> tuple[Array, Array]:
    """Squared errors are (1 - v) / 2, in units of the squared range of the targets u."""
    n, v, u, _, square = s
    whole = n * (2 * square + n) - u * u
    return np.array([whole - 2 * n * (n - v)]), whole


@dataclass(frozen=True)
class _Quotient:
    """A quotient of sums of a part: of counts in ``size`` cells, or of ``size`` columns."""

    part: str
    size: int
    ratio: Callable[[Array], tuple[Any, Any]]
    cells: Sequence[str] = ("",)
    score: Any = None  # a RecordScore, of columns
    ends: tuple[float, float] = (0.0, 1.0)
    is_share: bool = False  # of records, or of those of a cell


def _metrics(model: BaseEstimator, bounds: Any) -> dict[str, _Quotient]:
    """Return the metrics that a fitted model has; errors are about public facts."""
    labels, has_chances = getattr(model, "classes_", None), hasattr(model, "predict_proba")
    losses, metrics = ["log_loss", "brier_score"] if has_chances else [], {}
    if is_regressor(model):
        losses, labels, inner = ["mean_absolute_error"], None, private_step(model)
        losses += [own[0]] if (own := scores.own_loss(model)) else []
        if bounds is None:
            usual = (-1.0, 1.0) if checks.is_ours(inner) else None
            bounds = getattr(getattr(inner, "domain", None), "target_bounds", usual)
        given = checks.check_numbers("bounds", bounds)
        if given.shape != (2,) or not 1e-74 <= given[1] - given[0] <= 1e74:
            rule = "be two increasing numbers, apart by 1e-74 to 1e74, or declared by the model"
            raise checks.fail("bounds", rule, bounds, "Pass public bounds: (0, 100), say.")
        bounds = float(given[0]), float(given[1])
        score: Any = scores.as_score("r2", None, bounds)
        metrics["r2"] = _Quotient("r2", 2, _r2, score=score, ends=(-math.inf, 1.0))
    for name in losses:
        score = scores.as_score(f"neg_{name}", labels, bounds, [model])
        low, high = 0.0 - score.upper, 0.0 - score.lower
        ratio = partial(_mean, (low + high) / 2, (low - high) / 2)
        metrics[name] = _Quotient(name, 1, ratio, score=score, ends=(low, high))
    if labels is None:
        return metrics
    k, pairs = len(labels), [f"{a}, {b}" for a in labels for b in labels]
    table = partial(_Quotient, "predictions", k * k)
    metrics["accuracy"] = table(lambda s: (s[:: k + 1].sum(keepdims=True), s.sum()), is_share=True)
    metrics["balanced_accuracy"] = table(_mean_recall)
    metrics["confusion_matrix"] = table(lambda s: (s, s.sum()), pairs, is_share=True)
    if has_chances and k == 2:
        ends = [f"{a:.3f} to {b:.3f}" for a, b in pairwise([0.0, *EDGES, 1.0])]
        table = partial(_Quotient, "probabilities", 2 * CELLS)
        metrics["roc_auc"] = table(_area)
        metrics["calibration_curve"] = table(
            lambda s: (s[CELLS:], s[:CELLS] + s[CELLS:]), ends, is_share=True
        )
    return metrics


def _read(
    model: BaseEstimator,
    parts: dict[str, _Quotient],
    X: Frame,
    y: Array,
    persons: NDArray[np.intp],
    weights: NDArray[np.int64] | None,
) -> dict[str, Callable[..., FloatArray]]:
    """Return a function of each part that publishes its sums, given a release and a generator.

    The labels ``y`` are those of the model, or else numbers.
    """
    publish: dict[str, Callable[..., FloatArray]] = {}
    for part, metric in parts.items():
        if metric.score is not None:
            low, high = metric.score.lower, metric.score.upper
            losses = scores.numbers_of(metric.score.function, model, X, y)
            columns = [2 * (losses - low) / (high - low) - 1]
            if part == "r2":
                low, high = metric.score.function.lower, metric.score.function.upper
                u = 2 * (np.clip(y, low, high) - low) / (high - low) - 1
                columns += [u, u * u]
            mean, size = means(np.column_stack(columns), persons, weights), metric.size
            total = None if weights is None else totals(persons, weights)
            squares = np.column_stack([mean[:, 0] * mean[:, 0], mean[:, size:]])
            publish[part] = partial(add, numbers=mean[:, :size], squares=squares, total=total)
            continue
        kinds = {"hits": scores.accuracy, "predictions": scores.predicted_place}
        numbers = scores.numbers_of(kinds.get(part, scores.probability), model, X, y)
        places = np.searchsorted(EDGES, numbers) if part == "probabilities" else numbers
        cells = places.astype(np.intp)
        if part != "hits":
            cells += np.searchsorted(model.classes_, y) * (metric.size // len(model.classes_))
        publish[part] = partial(count, cells=cells, persons=persons, weights=weights)
    return publish


def _estimated(metric: _Quotient, s: FloatArray, release: NoisySum, is_public: bool) -> FloatArray:
    """Return values, both parts of the errors, and the ends of the intervals, (5, rows)."""
    top, bottom = np.broadcast_arrays(*metric.ratio(s))
    # Derivatives along an imaginary step, to the last bits: (sums, 2, rows).
    steps = (s + 1e-100j * (np.arange(len(s)) == k) for k in range(len(s)))
    slopes = np.array([np.broadcast_arrays(*metric.ratio(step)) for step in steps]).imag * 1e100
    noise = release.deviation * slopes
    if is_public and metric.score is None:
        noise -= noise.mean(axis=0)  # the counts have the sum n
    elif is_public:
        noise[0] = 0.0
    # Variances a - 2 b t + c t^2 of N - t D. That of a share is D t (1 - t).
    privacy, sampling = _variance(noise), np.array([0 * top, -bottom / 2, -bottom])
    if metric.score is not None:
        n, v, square = s[[0, 1, metric.size + 1]]
        # Where noise may hide the squares they are raised by its size.
        spread = max(n + 2 * square - v * v / n, 0.0) + release.deviation
        sampling = slopes[1, 0] ** 2 * spread * np.array([[1.0], [0.0], [0.0]])
        sampling[0] += (metric.ratio is _r2) * (KURTOSIS - 1) * (bottom - top) ** 2 / n
    elif not metric.is_share:  # two more records, where few are
        counts = np.maximum(s, 0.0) + 2 / len(s)
        sampling = _variance(slopes * np.sqrt(counts)[:, None, None])
    top = np.clip(top, *(end * bottom for end in metric.ends))
    moments = np.array([top * top, top * bottom, bottom * bottom])
    a, b, c = moments - NORMAL**2 * sampling - LAPLACE**2 * privacy
    half = np.sqrt(np.maximum(b * b - a * c, 0.0)) / c
    half += np.abs(_within(s) / bottom) if metric.ratio is _area else 0.0  # the cells hide it
    ends = np.clip([b / c - half, b / c + half], *metric.ends)
    t = top / bottom
    errors = [np.sqrt(v[0] - 2 * v[1] * t + v[2] * t * t) / bottom for v in (sampling, privacy)]
    hidden = np.array([[math.nan] * 3 + [*metric.ends]]).T
    return np.where((bottom > 0) & (c > 0), np.array([t, *errors, *ends]), hidden)


def _variance(slopes: Array) -> Array:
    """Return a, b and c of the variance of a sum of independent terms, (3, rows)."""
    n, d = slopes.swapaxes(0, 1)
    return np.array([(n * n).sum(axis=0), (n * d).sum(axis=0), (d * d).sum(axis=0)])


def private_score(
    model: BaseEstimator,
    X: Frame,
    y: Frame,
    *,
    metric: str | Sequence[str] = "accuracy",
    epsilon: float,
    bounds: tuple[float, float] | None = None,
    neighbors: str | None = None,
    groups: Frame = None,
    sample_weight: Frame = None,
    max_weight: float | None = None,
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
        clipped to the bounds; of a model of one quantile "mean_pinball_loss", and of one of counts
        "mean_poisson_deviance", with predictions of at least a hundredth of the upper bound. The
        budget is divided equally among the releases: one for accuracy,
        balanced accuracy and confusion matrix, one for AUC and calibration curve, one for each
        other metric.
    epsilon : float > 0
        Of all metrics together; delta is 0.
    bounds : tuple of float, default=None
        Public bounds of the target of a regressor. None takes those of the model's domain.
    neighbors : {"replace_one", "add_remove"}, default=None
        None is the relation of the model, and "replace_one" for other models.
    groups : array-like of shape (n,), default=None
        Identifiers of persons. A person counts as a record, with the mean over its rows.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows, as in ``fit`` of the estimators. All metrics are then weighted, and
        "replace_one" counts as a removal and an addition, each with epsilon / 2. Sampling errors
        are upper bounds.
    max_weight : float > 0, default=None
        The greatest weight, to which others are trimmed. None is that of the model, if it has one.
    ledger : Ledger, default=None
        It is charged before any noise is drawn. None is the ledger of the model, if it has one.
    random_state : None, int, Generator or RandomState, default=None
        Values other than None are for tests only and void the guarantee.

    Returns
    -------
    PrivateScore

    Raises
    ------
    BudgetExceeded, ValueError
        If the budget does not fit the ledger, or an argument breaks a rule. A note states whether
        the budget was spent.

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> from skdp.model_selection import private_score
    >>> domain = Domain({"age": (17, 90)}, target=["no", "yes"])
    >>> X, y = domain.sample(4000, random_state=0, with_target=True)
    >>> model = DPLogisticRegression(domain=domain).fit(X[:2000], y[:2000])
    >>> score = private_score(model, X[2000:], y[2000:], metric="brier_score", epsilon=1.0)
    >>> score.metric.tolist(), score.interval.shape
    (['brier_score'], (1, 2))
    """
    with np.errstate(all="ignore"), validation.spent_note() as spent:
        remedy = "Smaller is more private."
        epsilon = checks.check_interval("epsilon", epsilon, 1e-10, 1e12, remedy=remedy)
        model = getattr(model, "best_estimator_", model)
        has_predict = hasattr(model, "predict") and not isinstance(model, type)
        if not has_predict or not (is_classifier(model) or is_regressor(model)):
            raise checks.fail("model", "be a fitted classifier or regressor", type(model))
        check_is_fitted(model)
        refuse_several([model])
        every, inner = _metrics(model, bounds), private_step(model)
        names = metric if isinstance(metric, list | tuple) and metric else [metric]
        remedy = "Others need another kind of model: predict_proba, or two labels."
        keys = [checks.check_choice("metric", name, every, remedy) for name in names]
        metrics = {key: every[key] for key in keys}
        if "accuracy" in metrics and not {"balanced_accuracy", "confusion_matrix"} & {*metrics}:
            # With less noise.
            metrics["accuracy"] = _Quotient("hits", 2, lambda s: (s[1:], s.sum()), is_share=True)
        usual = getattr(inner, "neighbors", "replace_one")
        neighbors = usual if neighbors is None else neighbors
        neighbors = checks.check_choice("neighbors", neighbors, NEIGHBORS)
        ledger = getattr(inner, "ledger", None) if ledger is None else ledger
        own = getattr(getattr(inner, "domain", None), "names", None)  # of an array
        validation.check_ledger("ledger", ledger, getattr(X := in_memory(X), "columns", own))
        if groups is None and getattr(getattr(inner, "guarantee_", None), "unit", "") == "person":
            rule = "be given, as in the fit: otherwise only rows would be protected"
            raise checks.fail("groups", rule, remedy="Pass the identifiers of persons.")
        validation.refuse_empty(len(X), neighbors)
        y = validation.check_target(model, y, len(X))
        usual_weight = getattr(inner, "max_weight", None)
        weights = validation.read_weights(sample_weight, len(X), usual_weight, max_weight)
        in_two_steps = weights is not None and neighbors == "replace_one"
        n, persons = validation.units_of(groups, len(X))
        unit, persons = ("row", np.arange(n)) if persons is None else ("person", persons)
        positions: tuple[str, ...] = ()
        if is_classifier(model):
            labels, places = validation.check_labels(y, model.classes_.tolist())
            positions = validation.numbered(model.classes_.tolist(), labels)
            y = model.classes_[places]
        else:
            y = read_target(y, "the target")
        chosen = "the metrics, the labels and all parameters"
        sentences = (
            validation.chosen_publicly(getattr(inner, "domain", None), chosen),
            *(validation.RECORDS[unit], PUBLIC_MODEL, validation.UNSEEN, *positions),
            *validation.label_facts(inner),
            *(validation.WEIGHTED,) * (weights is not None),
            *(() if scores.rowwise_steps(model) else (_FOREIGN,)),
        )
        void = () if is_cryptographic(random_state) else (SEEDED,)
        public = Public(epsilon, 0.0, neighbors, unit, in_two_steps, sentences, void)
        parts = {one.part: one for one in metrics.values()}
        releases, share = {}, epsilon / (1 + in_two_steps) / len(parts) * (1 - 1e-15)
        for part, one in parts.items():
            body = change(one.score is not None, one.size, public.relation)
            noise = KNorm().calibrate(body, epsilon=share)
            releases[part] = NoisySum(part, body, noise, "private_score.md, Theorem 1")
            _ = releases[part].publication  # an error if 53-bit floats cannot keep the guarantee
        guarantee = guarantee_of([*releases.values()], public)
        read = partial(_read, model, parts, X, y, persons, weights)
        rule = "have records that the model predicts"  # other models' errors may quote cells
        publish = read() if scores.rowwise_steps(model) else checks.converted(read, "X", rule)
        rng = as_generator(random_state)
        if ledger is not None:
            ledger.spend(guarantee, note="private_score")
        spent.append(guarantee)
        sums, is_public = {}, public.relation == "replace_one"
        for part, one in parts.items():
            s = publish[part](releases[part], rng=rng)
            if is_public:
                s = np.append(n, s) if one.score is not None else s + (n - s.sum()) / one.size
            sums[part] = s
        rows = np.concatenate(
            [_estimated(m, sums[m.part], releases[m.part], is_public) for m in metrics.values()],
            axis=1,
        )
    value, sampling, privacy, low, high = rows
    labelled = [(name, cell) for name, one in metrics.items() for cell in one.cells]
    title, cell = np.array(labelled).T
    table = title, cell, value, np.column_stack([low, high]), sampling, privacy
    return PrivateScore(*table, guarantee, tuple(releases.values()), public)
