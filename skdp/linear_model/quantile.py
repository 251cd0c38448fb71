"""Private quantile regression by objective perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.metrics import d2_pinball_score

from skdp.linear_model._objective.advice import ModelTask
from skdp.linear_model._objective.problem import DesignRows, Terms, predictors_apart
from skdp.linear_model._objective.solve import ObjectivePerturbation, ObjectiveRegressor
from skdp.linear_model._shared.base import Algorithm, with_parameters
from skdp.linear_model._shared.predict import SCORE, score_by
from skdp.linear_model._shared.task import Task
from skdp.linear_model.losses import SmoothedQuantile
from skdp.linear_model.validation import is_auto
from skdp.rows import Kept
from skdp.rows.persons import WHOLE
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import PrivateChoice
from skdp.trusted.checks import check_interval, check_positive, fail
from skdp.trusted.randomness import gumbels, publish

# The bandwidth, in half-ranges of the scaled target. With a smaller one the proof requires greater
# ridges, and a larger one biases the slopes; the best one depends little on the number of records.
BANDWIDTH = 0.03

# The share of epsilon for the correction of intercepts, its candidates in half-ranges of the scaled
# target, and the distance at which a candidate is e times less probable without records.
CENTRED, PRIOR = 0.1, 0.1
MOVES = 0.002 * np.sinh(np.linspace(-7.0, 7.0, 801))
# Scores and levels are whole numbers of parts; the noise has additional bits.
_BITS, _MORE_BITS = 30, 20


@dataclass(frozen=True, eq=False)
class ChoiceStage:
    """A choice of the intercept of each model, by an exponential mechanism (Theorem 7).

    An intercept moves by the candidate for which the share of targets below the prediction is
    nearest to the level.
    """

    noisy: PrivateChoice
    epsilon: float

    def shift(
        self,
        loss: SmoothedQuantile,
        terms: Terms,
        rows: Kept,
        ends: tuple[float, float],
        rng: Generator,
    ) -> float:
        """Return the candidate that is chosen."""

        def part(own: DesignRows) -> NDArray[np.int64]:
            """Return how many parts of records have residuals up to each candidate, and above."""
            place = np.searchsorted(MOVES, own.target - predictors_apart(terms, own))
            share = WHOLE if own.share is None else own.share
            return share * np.bincount(place, minlength=len(MOVES) + 1)

        counts = rows.sum(part).astype(object)
        level, scale = round(loss.level * 2**_BITS), 2 / self.noisy.width
        penalty = np.ldexp(scale / PRIOR * np.abs(MOVES), 2 * _BITS)
        # Integers: rounding errors would depend on the records.
        below = (np.cumsum(counts)[:-1] << _BITS) - level * counts.sum()
        scores = [-abs(int(b)) - int(p) for b, p in zip(below, penalty, strict=True)]

        def draw(generator: Generator) -> int:
            noise = np.ldexp(scale * gumbels(len(scores), generator), 2 * _BITS + _MORE_BITS)
            sums = [(s << _MORE_BITS) + math.floor(g) for s, g in zip(scores, noise, strict=True)]
            return sums.index(max(sums))

        facts = {"unit": -2 * _BITS, "scale": scale}
        return float(MOVES[publish(self.noisy, scores, draw, rng, **facts)])


def plan_choices(times: int, task: Task, size: float, is_scaled: bool) -> ChoiceStage:
    width = CENTRED * task.epsilon / times * (1 - 1e-15)
    choice = PrivateChoice("intercepts", width, times, "objective_perturbation.md, Theorem 7")
    return ChoiceStage(choice, CENTRED * task.epsilon)


@with_parameters
class DPQuantileRegressor(ObjectiveRegressor):
    """Private linear quantile regression. Use it for the median, or for prediction intervals.

    The method is objective perturbation of the check loss, smoothed over a bandwidth. Several
    quantiles have one model each, with equal parts of the budget; their predictions are sorted, so
    that they do not cross. A tenth of epsilon corrects the intercepts. Statements and proofs:
    ``docs/proofs/objective_perturbation.md`` and, for delta > 0,
    ``docs/proofs/gaussian_objective.md``.

    Predictions are clipped to the domain's bounds of the target.

    Parameters
    ----------
    quantile : float in (0, 1), or increasing list of two or more, default=0.5
        The share of targets below the prediction. Two quantiles are the ends of a prediction
        interval: ``[0.1, 0.9]`` contains about 80 % of the targets.

    Other Parameters
    ----------------
    bandwidth : float > 0 or "auto", default="auto", units of the target
        The scale of the logistic law over which the check loss is smoothed, at least 5e-5 ranges of
        the target. A larger bandwidth allows smaller ridges, and biases the slopes. "auto" uses
        0.03 half-ranges of ``target_bounds_``.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated bounds, as in :class:`DPHuberRegressor`.
        "auto" spends a twentieth on the scale of the target, or nothing if there are few records or
        if ``bandwidth`` or ``mechanism`` is given. The target is scaled but not clipped.

    Attributes
    ----------
    coef_ : ndarray of shape (n_encoded,), or (n_quantiles, n_encoded) for a list of quantiles
        In units of the target per unit of the column.
    intercept_ : float, or ndarray of shape (n_quantiles,), units of the target
    loss_ : SmoothedQuantile
        The loss that was used, with a bandwidth in half-ranges of ``target_bounds_``. For several
        quantiles ``loss_`` and ``noise_`` are tuples, and ``ridge_`` has a row for each.

    Examples
    --------
    >>> from skdp import Domain, DPQuantileRegressor
    >>> from skdp.datasets import load_diabetes
    >>> X, y, _ = load_diabetes()
    >>> columns = {"age": (18, 80), "bmi": (15, 45), "bp": (60, 140)}
    >>> domain = Domain(columns, target=(0, 350))  # progression of the disease after a year
    >>> model = DPQuantileRegressor(quantile=[0.1, 0.9], epsilon=4.0, domain=domain)
    >>> print(model.fit(X[list(columns)], y).predict({"age": [50], "bmi": [30], "bp": [90]}).shape)
    (1, 2)
    """

    _reference: ClassVar = replace(ObjectiveRegressor._reference, usual_q=(0.8, 0.65))

    quantile: Any = 0.5
    bandwidth: Any = "auto"

    def _levels(self) -> list[float]:
        several = np.ndim(self.quantile) == 1 and len(self.quantile) > 1
        given = [*self.quantile] if several else [self.quantile]
        remedy = "Several increasing quantiles may be in a list."
        found = [check_interval("quantile", one, 0.0, 1.0, "neither", remedy) for one in given]
        if any(one >= other for one, other in pairwise(found)):
            raise fail("quantile", "be increasing", found)
        return found

    def _algorithm(self) -> Algorithm:
        params = self._params()
        params.loss = "quantile"
        losses = tuple(partial(self._losses, level) for level in self._levels())
        # A bandwidth of the user is in units of the domain.
        choices = partial(plan_choices, len(losses))
        return ObjectivePerturbation(
            self._reference, losses, params, is_auto(self.bandwidth), choices
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._levels()
        if not is_auto(self.bandwidth):
            check_positive("bandwidth", self.bandwidth, 'Or give "auto".')

    def _check_inference(self, groups: Any) -> None:
        remedy = "Use the table of DPLinearRegression for means; for plan() pass inference=0."
        raise fail("infer", "be called for means: quantiles have no table", remedy=remedy)

    def _losses(self, level: float, task: ModelTask) -> tuple[SmoothedQuantile]:
        if is_auto(self.bandwidth):
            return (SmoothedQuantile(level, BANDWIDTH),)
        bounds = task.design.domain.target_bounds
        assert bounds is not None  # the domain of a regressor
        return (SmoothedQuantile(level, float(self.bandwidth) / (bounds[1] / 2 - bounds[0] / 2)),)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None
    ) -> float:
        levels = self._levels()

        def mean_d2(y: Any, found: FloatArray, sample_weight: Any) -> float:
            each = zip(levels, found.reshape(len(found), -1).T, strict=True)
            facts = {"sample_weight": sample_weight}
            return float(np.mean([d2_pinball_score(y, one, alpha=a, **facts) for a, one in each]))

        return float(score_by(mean_d2, "D^2")(self, X, y, sample_weight, target=target))

    score.__doc__ = SCORE.format(name="mean D^2, by the pinball loss of each quantile,")
    score.metric = "D^2"  # type: ignore[attr-defined]
