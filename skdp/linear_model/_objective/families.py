"""Kinds of noise for objective perturbation, as the automatic choices see them.

A family shapes its noise to a design, computes the cost of each share q of epsilon for the linear
term, and calibrates the choice. K-norm noise is pure DP; Gaussian noise needs delta > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import remembered
from skdp.geometry import NormBall
from skdp.geometry.ball import uniform_variance
from skdp.linear_model._objective.gaussian import JointProfile, ReleasedProfile, greatest_shift
from skdp.linear_model._objective.perturbation import greatest_leverage, leverage_apart, shift_share
from skdp.linear_model._objective.task import Calibrated, Choice, ModelTask
from skdp.linear_model._shared.design import Design
from skdp.linear_model.losses import Loss
from skdp.mechanisms import GaussianNoise, KNorm, Sensitivity
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses.losses import ProfileLoss

Q_GRID = np.array([0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99])
# Gaussian noise leaves nearly all of epsilon to the curvature before the noise changes.
GAUSSIAN_GRID = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95])


@dataclass(frozen=True)
class KNormFamily:
    """K-norm noise on a ball, or on the ball of least weighted noise where none is given.

    ``usual_q`` is the only share q to consider, where a model knows one.
    """

    ball: NormBall | None = None
    usual_q: float | None = None
    # One random radius scales all coordinates: where it is large all coefficients are off at once,
    # which hurts predictions more than the mean squared error says.
    handicap: ClassVar[float] = 1.25

    @property
    def grid(self) -> FloatArray:
        """Shares of epsilon for the linear term."""
        return Q_GRID if self.usual_q is None else np.array([self.usual_q])

    @property
    def is_shaped(self) -> bool:
        """Whether a ball is still to be found."""
        return self.ball is None

    def shaped(self, design: Design, importance: FloatArray) -> tuple[NormBall, FloatArray]:
        """Return the ball, and the variances at unit scale."""
        if self.ball is not None:
            return self.ball, _noise_of(design, self.ball)
        return cluster(design, importance)

    def prices(
        self, task: ModelTask, loss: Loss, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return 2c / (epsilon q) or c / (epsilon q), and the leverages."""
        scale = task.moved * loss.slope_bound / (task.epsilon * grid)
        return scale, rough_leverage(loss, grid, task.epsilon, task.neighbors)

    def calibrated(self, task: ModelTask, choice: Choice) -> Calibrated:
        """Return K-norm noise: gradient and curvature share epsilon slope by slope."""
        loss, q, ball = choice.loss, choice.q, choice.shape
        # The rule's ball holds every row by construction.
        radius = 1.0 if self.ball is None else task.design.radius_in(ball)
        sensitivity = Sensitivity(ball, task.moved * loss.slope_bound * radius, task.neighbors)
        noise = KNorm(ball).calibrate(sensitivity, epsilon=q * task.epsilon)
        return Calibrated(noise, greatest_leverage(loss, q, task.epsilon, task.neighbors))


@dataclass(frozen=True)
class GaussianFamily:
    """Independent normal noise, of one variance or of one for each group of coordinates.

    With variances v_g in units such that x' V^-1 x <= 1 for every row, sum_g square_g / v_g <= 1,
    and A_g = size_g importance_g, the weighted noise sum_g A_g v_g is least, by Cauchy and
    Schwarz, for v_g proportional to sqrt(square_g / A_g).

    Parameters
    ----------
    elliptic : bool
        Whether groups have variances of their own.
    usual_q : float or None
        The only share q to consider, where a model knows one.
    """

    elliptic: bool = True
    usual_q: float | None = None
    handicap: ClassVar[float] = 1.0

    @property
    def grid(self) -> FloatArray:
        """Shares of epsilon that the curvature leaves."""
        return GAUSSIAN_GRID if self.usual_q is None else np.array([self.usual_q])

    @property
    def is_shaped(self) -> bool:
        """Whether the shape depends on what noise costs."""
        return self.elliptic

    def shaped(self, design: Design, importance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the variance of each group, twice: as the shape and as the noise."""
        square = np.array([g.square for g in design.groups])
        size = np.array([g.size for g in design.groups], dtype=float)
        variance = np.sqrt(square / (size * importance)) if self.elliptic else np.ones(len(square))
        variance *= float((square / variance).sum()) * ROUND_UP
        return variance, variance

    def prices(
        self, task: ModelTask, loss: Loss, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return c / mu, and the leverages."""
        leverage = np.array([leverage_apart(loss, float(q), task.epsilon) for q in grid])
        # As if the curvature of all models were one model's: exact for one, near for several.
        whole = [leverage_apart(loss, float(q), self._epsilon(task)) for q in grid]
        shift = np.array([self._shift(task, loss, leverage, 1) for leverage in whole])
        with np.errstate(divide="ignore"):
            return loss.slope_bound * math.sqrt(task.n_models) / shift, leverage

    def calibrated(self, task: ModelTask, choice: Choice) -> Calibrated:
        """Return Gaussian noise, calibrated by the joint profile."""
        loss, design = choice.loss, task.design
        leverage = leverage_apart(loss, choice.q, task.epsilon)
        shift = self._shift(task, loss, leverage, task.n_models)
        if shift == 0:
            remedy = "Give a q nearer to 1."
            raise fail("q", "leave the curvature less than epsilon", choice.q, remedy)
        deviation = np.empty(design.dim)
        for group, variance in zip(design.groups, choice.shape, strict=True):
            deviation[list(group.index)] = loss.slope_bound * math.sqrt(variance) / shift * ROUND_UP
        profile = JointProfile(loss, shift, leverage, task.neighbors)
        kind = "elliptic" if self.elliptic else "isotropic"
        guarantee = Guarantee(
            self._epsilon(task), task.delta, task.neighbors, f"{kind} Gaussian noise on gradients"
        )
        noise = GaussianNoise(design.dim, deviation, guarantee)
        released = ReleasedProfile(profile, task.hidden)
        return Calibrated(noise, leverage, ((ProfileLoss(released), task.n_models),))

    @staticmethod
    def _epsilon(task: ModelTask) -> float:
        return task.epsilon * task.n_models

    def _shift(self, task: ModelTask, loss: Loss, leverage: float, models: int) -> float:
        asked = self._epsilon(task), task.delta, task.neighbors, models
        return float(greatest_shift(loss, leverage, *asked))


def _noise_of(design: Design, ball: NormBall) -> FloatArray:
    """Return the variance of each group's noise at unit scale, times B^2: (groups,)."""
    d, radius = ball.dim, design.radius_in(ball)
    diagonal = uniform_variance(ball)
    per_group = [np.mean(diagonal[list(g.index)]) for g in design.groups]
    return (d + 1) * (d + 2) * radius**2 * np.array(per_group)


def cluster(design: Design, importance: FloatArray) -> tuple[NormBall, FloatArray]:
    """Return a ball of least weighted noise, and the noise of each group: (groups,).

    Within a cluster of groups the gauge is the greatest of theirs, across clusters a weighted
    sum. A cluster of dimension m then has noise (m+1)(m+2) Var(U) / w^2, so that with
    A_c = (m+1)(m+2) sum_g size importance Var(U_g) the best weights are proportional to the cube
    roots of A_c, and the whole noise is (sum_c A_c^(1/3))^3. Clusters are merged, two at a time,
    as long as that falls.

    Parameters
    ----------
    importance : ndarray of shape (groups,)
        What a unit of noise variance in a coordinate of the group costs.
    """
    groups = design.groups
    size = np.array([g.size for g in groups], dtype=float)
    cost = size * importance * np.array([g.variance for g in groups])
    members = [[g] for g in range(len(groups))]
    while len(members) > 1:
        root = _root(size, cost)
        change = _root(size + size[:, None], cost + cost[:, None]) - root - root[:, None]
        np.fill_diagonal(change, np.inf)
        i, j = np.unravel_index(np.argmin(change), change.shape)
        if change[i, j] >= 0:
            break
        members[i], size[i], cost[i] = members[i] + members[j], size[i] + size[j], cost[i] + cost[j]
        members.pop(j)
        size, cost = np.delete(size, j), np.delete(cost, j)
    weights = _root(size, cost) / np.sum(_root(size, cost))
    noise = np.empty(len(groups))
    for part, m, w in zip(members, size, weights, strict=True):
        for g in part:
            noise[g] = (m + 1) * (m + 2) * groups[g].variance / w**2
    return design.clustered(members, list(weights)), noise


def _root(size: FloatArray, cost: FloatArray) -> FloatArray:
    return np.asarray(np.cbrt((size + 1) * (size + 2) * cost))


def rough_leverage(loss: Loss, q: FloatArray, epsilon: float, neighbors: str) -> FloatArray:
    """Return the greatest leverage for each q to within some percent; for planning only."""
    slope, curvature = _profile(loss)
    exponent = epsilon * (1 - q[:, None] * shift_share(slope, neighbors))
    needed = curvature / np.expm1(np.minimum(exponent, 700.0))
    return np.asarray(1 / np.max(needed, axis=1))


@remembered(maxsize=256)
def _profile(loss: Loss) -> tuple[FloatArray, FloatArray]:
    """Return slopes, as shares of their bound and denser near it, and the curvature there."""
    slope = 1 - np.geomspace(1.0, 1e-6, 200)
    return slope, loss.curvature_bound(loss.slope_bound * slope, loss.slope_bound * slope)
