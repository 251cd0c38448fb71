"""The task of one model, with the reference population of the automatic choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._objective.persons import RecordLoss
from skdp.linear_model._objective.softmax import SoftmaxRecord
from skdp.linear_model._shared.design import Design, Group
from skdp.linear_model._shared.task import Task
from skdp.linear_model.losses import AnyLoss, Bounded, Loss, Softmax

# Variance of a number in [-1, 1] in the reference population.
SPREAD = 0.1
# A coefficient of a curve has this multiple of the variance that its number adds to the predictor.
CURVE = 2.0
# Rows get a weight below 1 if their squared numbers sum to more than this share of the maximum.
FILLED = 0.46
# The same for noise that weights reduce, without and with privately estimated clipping bounds, to
# which the numbers are scaled. A smaller share reduces the noise, and the curvature if many rows
# are longer than that.
REACHED, REACHED_SCALED = 0.3, 0.6
# The same shares for several classes. Where few rows are long, larger shares cost little.
FILLED_JOINT, REACHED_JOINT = 0.65, 0.6
# With more records per dimension and unit of 1 / epsilon, the limit `most_signal` increases.
PLENTY = 300.0


class FittedObjective:
    """Attributes that objective perturbation adds."""

    bounds_: FloatArray
    q_: float
    ridge_: FloatArray
    loss_: AnyLoss


class FittedHuber(FittedObjective):
    """Attributes that robust regression adds."""

    target_bounds_: tuple[float, float]
    threshold_: float


@dataclass(frozen=True)
class Reference:
    """Assumptions of the rules about the coefficients; see the text of `rules`.

    Attributes
    ----------
    target : {"labels", "number"}
        The kind of target that a loss must be for.
    moments : callable
        From a loss to its mean curvature and mean squared slope in the reference population.
    signal, level_signal : float
        Variance that a number or its curve, or the levels of a column, add to the predictor.
    intercept : float
        Prior variance of the intercept.
    least_ridge : bool
        Whether the ridge is the least that privacy and sampling errors need, whatever the noise.
    most_signal : float
        The p numbers together add at most ``most_signal * sqrt(p)``. If the weight of a task is
        above `PLENTY`, this limit is multiplied by ``sqrt(weight / PLENTY)``.
    usual_q : pair of float or None
        The share q for K-norm and for Gaussian noise. With None the rules choose it.
    """

    target: str
    moments: Callable[[Loss], tuple[float, float]]
    signal: float
    level_signal: float
    intercept: float
    least_ridge: bool = False
    most_signal: float = math.inf
    usual_q: tuple[float | None, float | None] = (None, None)

    def population(self, design: Design, weight: float, filled: float = FILLED) -> Population:
        """Return the reference moments of the groups of a design.

        Rows have weight 1 up to the share ``filled`` of the greatest sum of their squared numbers.
        """
        groups = design.groups
        curves = sum(g.roughness is not None for g in groups)
        count = curves + sum(g.size for g in groups if g.kind in ("numbers", "vector"))
        most = self.most_signal * math.sqrt(max(1.0, weight / PLENTY) / max(count, 1))
        signal = min(self.signal, most)
        rows = np.array([self._row(group, signal, filled) for group in groups])
        return Population(*rows.T)

    def _row(self, group: Group, signal: float, filled: float) -> tuple[float, ...]:
        """Return the attributes of `Population` for one group."""
        if group.kind == "intercept":
            return 1.0, self.intercept, 1.0, 1.0, 1.0
        if group.kind == "levels":
            own = self.level_signal if group.roughness is None else CURVE * signal
            return 1 / (group.size + 1), own, group.size, group.leverage, group.stiffness
        # A vector of norm R is treated as numbers whose squares sum to R^2.
        moment = SPREAD * group.square / group.size
        return moment, signal / SPREAD, group.size, filled * group.square, 1.0


@dataclass(frozen=True)
class Population:
    """Reference moments of the groups, arrays of shape (groups,).

    ``moment`` is the second moment of a coordinate, ``prior`` the variance of its coefficient,
    ``size`` the number of coordinates, and ``square`` the contribution of the group to the
    greatest squared length of a row with weight 1. A penalty on differences of coefficients acts
    like a ridge ``stiffness`` times as great; then ``prior`` is the variance that determines the
    ridge, and ``square`` is the group's greatest leverage for a ridge of 1.
    """

    moment: FloatArray
    prior: FloatArray
    size: FloatArray
    square: FloatArray
    stiffness: FloatArray

    @cached_property
    def shape(self) -> FloatArray:
        """Relative ridges that minimise sum_g size r_g^2 P / H at fixed sum_g square / r_g.

        The first sum is the bias of small ridges, the second is the leverage.
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
        h, j, ridge = curvature * self.moment, score * self.moment, ridge * self.stiffness
        error = (noise + j + ridge * ridge * self.prior) / (h + ridge) ** 2
        return np.asarray((self.size * self.moment * error).sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class ModelTask(Task):
    """The task of one model.

    ``size`` is the number of records or a public guess of it. ``epsilon`` is the share of one
    model without ``hidden``, the part that hides the inexactness of the solver. ``delta`` is
    shared by all models. ``scaled`` says whether clipping bounds are estimated first.
    ``n_classes`` is the number of classes of a joint model, or 1.
    """

    size: float
    reference: Reference
    hidden: float = 0.0
    scaled: bool = False
    n_classes: int = 1

    @property
    def weight(self) -> float:
        """Number of records per dimension, times epsilon."""
        return self.size * self.epsilon / self.design.dim

    def of_record(self, loss: AnyLoss) -> Bounded:
        """Return the bounds of the loss of one record, a row or a person."""
        # Several rows in one dimension are not one row: their slopes differ.
        is_row, rank = not self.are_persons, self.design.dim if self.are_persons else 1
        if isinstance(loss, Softmax):
            return SoftmaxRecord(loss, rank * (loss.n_classes - 1), is_row)
        return loss if is_row else RecordLoss(loss, rank)

    @cached_property
    def population(self) -> Population:
        """The reference population."""
        filled = FILLED if self.n_classes == 1 else FILLED_JOINT
        return self.reference.population(self.design, self.weight, filled)

    @cached_property
    def reached(self) -> Population:
        """The reference population for noise that weights reduce."""
        share = REACHED_SCALED if self.scaled else REACHED
        if self.n_classes > 1:
            share = max(share, REACHED_JOINT)
        return self.reference.population(self.design, self.weight, share)


def per_coordinate(design: Design, per_group: FloatArray) -> FloatArray:
    """Return values of groups as values of their coordinates, (dim,)."""
    out = np.empty(design.dim)
    for group, value in zip(design.groups, per_group, strict=True):
        out[list(group.index)] = value
    return out


def per_group(design: Design, per_coordinate: FloatArray) -> FloatArray:
    """Return values of coordinates that are equal within groups, (groups,)."""
    return np.array([per_coordinate[group.index[0]] for group in design.groups])
