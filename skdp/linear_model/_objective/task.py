"""What the automatic choices are about: a task, what is taken for granted, and what was chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._shared.design import Design, Group
from skdp.linear_model._shared.task import Task
from skdp.linear_model.losses import Loss
from skdp.mechanisms.noise import Noise

# The variance of a number of [-1, 1] in the reference population.
SPREAD = 0.1
# Weights cut the leverage of rows whose squared numbers sum to more than this share of what
# they may.
FILLED = 0.46
# With more records per dimension and unit of 1 / epsilon than this, less is taken for granted.
PLENTY = 300.0


@dataclass(frozen=True)
class Reference:
    """What the rules take for granted about the coefficients; see the module's text.

    Attributes
    ----------
    target : {"labels", "number"}
        What a loss has to be for.
    moments : callable
        From a loss to its mean curvature and mean squared slope in the reference population.
    signal, level_signal : float
        What a number, and the levels of a column, add to the predictor's variance.
    intercept : float
        Prior variance of the intercept.
    least_ridge : bool
        Whether the ridge does not depend on the noise: it is the least that privacy and sampling
        errors need.
    most_signal : float
        What all numbers together add at most over the root of how many there are, where no more
        than `PLENTY` is known; with more, times the root of how much.
    usual_q : pair of float or None
        The share q for K-norm and for Gaussian noise; None leaves it to the rules.
    """

    target: str
    moments: Callable[[Loss], tuple[float, float]]
    signal: float
    level_signal: float
    intercept: float
    least_ridge: bool = False
    most_signal: float = math.inf
    usual_q: tuple[float | None, float | None] = (None, None)

    def tables(self, design: Design, weight: float) -> Population:
        """Return second moments and prior variances of the design's groups."""
        rows = np.array([self._row(group, weight) for group in design.groups])
        return Population(*rows.T)

    def _row(self, group: Group, weight: float) -> tuple[float, float, float, float]:
        """Return moment, prior, size and square of one group."""
        if group.kind == "intercept":
            return 1.0, self.intercept, 1.0, 1.0
        if group.kind == "levels":
            return 1 / (group.size + 1), self.level_signal, group.size, group.square
        # A vector of norm R has the spread of numbers whose squares sum to R^2.
        moment = SPREAD * group.square / group.size
        most = self.most_signal * math.sqrt(max(1.0, weight / PLENTY))
        signal = min(self.signal, most / math.sqrt(group.size))
        return moment, signal / SPREAD, group.size, FILLED * group.square


@dataclass(frozen=True)
class Population:
    """Reference moments of the groups; every attribute is an array of shape (groups,).

    Attributes
    ----------
    moment, prior : ndarray
        Second moment of a coordinate, variance of its coefficient.
    size : ndarray
    square : ndarray
        What a group may add to the squared length of a row of full weight.
    """

    moment: FloatArray
    prior: FloatArray
    size: FloatArray
    square: FloatArray

    @cached_property
    def shape(self) -> FloatArray:
        """Return relative ridges, (groups,), that trade bias against leverage.

        They minimise sum_g size r_g^2 P / H, the bias of small ridges, at a given leverage
        sum_g square / r_g.
        """
        bias = self.size * self.prior / self.moment
        return np.asarray(np.cbrt(self.square / bias))

    def risk(
        self, ridge: FloatArray, noise: FloatArray, curvature: FloatArray, score: FloatArray
    ) -> FloatArray:
        """Return the mean squared error of the linear predictor.

        ``ridge`` and ``noise`` are (..., groups); ``curvature`` and ``score``, sums over the
        records, are (..., 1).
        """
        h, j = curvature * self.moment, score * self.moment
        error = (noise + j + ridge * ridge * self.prior) / (h + ridge) ** 2
        return np.asarray((self.size * self.moment * error).sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class ModelTask(Task):
    """The share of a task that one model has.

    ``size`` is the number of records, or a public guess of it. ``epsilon`` is that of one model
    without the share ``hidden``, which hides the inexactness of the solver. ``delta`` is that of
    all models together.
    """

    size: float
    reference: Reference
    hidden: float = 0.0

    @property
    def weight(self) -> float:
        """Records per dimension, times epsilon: how much the data can say."""
        return self.size * self.epsilon / self.design.dim

    @cached_property
    def population(self) -> Population:
        """The reference population."""
        return self.reference.tables(self.design, self.weight)


class Family(Protocol):
    """A kind of noise: frozen, and of public things only.

    ``grid`` holds the shares q it may be given; ``is_shaped`` says whether its shape depends on
    what a unit of noise costs in each group; ``handicap`` multiplies its expected error where it
    is compared with others.
    """

    handicap: ClassVar[float]

    @property
    def grid(self) -> FloatArray: ...

    @property
    def is_shaped(self) -> bool: ...

    def shaped(self, design: Design, importance: FloatArray) -> tuple[Any, FloatArray]:
        """Return a shape, and the variance of each group's noise at unit scale, (groups,)."""

    def prices(
        self, task: ModelTask, loss: Loss, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scale, and about the greatest leverage, of every q in ``grid``."""

    def calibrated(self, task: ModelTask, choice: Choice) -> Calibrated:
        """Return the noise of a choice, and the leverage that goes with it."""


@dataclass(frozen=True)
class Calibrated:
    """Noise of the random linear term, and the leverage L that privacy then allows.

    ``losses`` says what is known of one model's privacy beyond epsilon: pairs of a PrivacyLoss
    and a count.
    """

    noise: Noise
    leverage: float
    losses: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Choice:
    """What a rule chose, and the error it expects on the reference population.

    Attributes
    ----------
    loss : Loss
    q : float
        Share of epsilon that is spent on the linear term.
    ridge : ndarray of shape (dim,)
    family : Family
        Kind of noise.
    shape : object
        What the family shaped: a ball, or variances.
    risk : float
        Mean squared error of the linear predictor.
    """

    loss: Loss
    q: float
    ridge: FloatArray
    family: Family
    shape: Any
    risk: float
