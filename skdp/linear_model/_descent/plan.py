"""Plans of coordinate descents, and the choices after their scaling stage.

A plan says which sums are released with how much noise, and depends on public information only.
Steps, penalties and clip radii depend on the release of the stage, too. The privacy proof holds for
every plan and all choices (``docs/proofs/coordinate_descent.md``; joint models: Theorem 8). The
origin of the constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.linear_model._descent.gradients import (
    RADIUS,
    Blocks,
    DescentStage,
    RowBound,
    Scaling,
    SoftmaxSlope,
    plain_scaling,
    usual_square,
)
from skdp.linear_model._descent.theorem import CHOICE_COST, gradient_size, releases_of
from skdp.linear_model._shared.gram import SUM_BITS, in_sum_units, release_exact
from skdp.linear_model._shared.task import Task
from skdp.linear_model.validation import is_auto
from skdp.mechanisms.gaussian import gaussian_scale
from skdp.mechanisms.independent import Independent, calibrate_releases, choice_width
from skdp.noise.independent import RepeatedNoise
from skdp.noise.laws import Gaussian
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import fail
from skdp.trusted.noise import Publication, publication
from skdp.trusted.publish import publish
from skdp.trusted.releases import Release

# The normalizer of a joint loss rises by RISE with each doubling of the information, from 0 at
# FROM doublings of 1 on. With delta = 0 there is more noise for the same information.
FROM, RISE, LEAST = 1.5, 0.14, 0.4
PURE_FROM, PURE_RISE, PURE_LEAST = 4.5, 0.125, 0.2


def joint_slope(n_classes: int, information: float, delta: float) -> SoftmaxSlope:
    """Return the derivatives of the loss of several classes for an information and a delta."""
    # Squared shifts add up for Gaussian noise, and otherwise shifts.
    power = 2 if delta > 0 else 1
    start, rise, least = (FROM, RISE, LEAST) if delta > 0 else (PURE_FROM, PURE_RISE, PURE_LEAST)
    found = rise * (math.log2(information) - start)
    return SoftmaxSlope(n_classes, min(max(found, least), 1.0), power)


def may_be_joint(order: str, mechanism: Any, delta: float) -> bool:
    """Return whether the noise of a descent allows a joint model of several classes."""
    if order == "greedy":
        return False
    return delta == 0 or is_gaussian(mechanism, ("auto", "gaussian"))


# Information is the number of records per block, times epsilon. Rules use it relative to this.
USUAL_INFORMATION = 66.0
# Passes at the usual information, the power of the information that they grow with, and the range.
# With delta > 0 the noise of the average hardly depends on the number of passes. With delta = 0 it
# grows as the square root.
PASSES, PASSES_POWER, PASSES_RANGE = 15, 0.25, (6, 50)
PURE_PASSES, PURE_POWER, PURE_RANGE = 1.5, 0.7, (1, 20)
# Range of greedy steps. They end when the noise hides a gradient of STEEP deviations per record.
STEPS_RANGE, STEEP = (3, 50), 0.03
# Share of the budget for the scaling stage, and the greatest noise in its means.
STAGE_SHARE, PURE_STAGE_SHARE, MOST_STAGE_NOISE = 0.2, 0.25, 0.35
# The bound on rows of full weight: at least this share of each number's usual square. The precision
# of the intercept, and the power of the number of levels that is their precision.
SHARE_OF_SQUARE, INTERCEPT_PRECISION, LEVEL_PRECISION = 0.2, 1.5, 0.25
# If each block spends its own budget: the standard deviations of a number that are scaled to 1, the
# power of the information that they grow with, and their maximum.
BOX_RADIUS, RADIUS_POWER, MOST_RADIUS = 2.0, 0.25, 64.0
# Below this information the intercept has a higher precision, up to this factor: little more than
# the intercept can be learnt.
SCARCE, MOST_PRECISE = 20.0, 15.0
# Assumed ratio of the noise of the average to that of the mean of all passes. The ratio for the
# second half of the passes is up to 1.41, so that ridges are a little too small for the noise.
AVERAGED = 1.15


def is_gaussian(mechanism: Any, names: tuple[str, ...] = ("gaussian",)) -> bool:
    """Return whether a mechanism is Gaussian noise, or has one of the names."""
    law = mechanism.law if type(mechanism) is Independent else mechanism
    # By type: a subclass of Gaussian may draw from another law.
    return law in names if isinstance(law, str) else type(law) is Gaussian


@dataclass(frozen=True, eq=False)
class DescentPlan:
    """The releases of a coordinate descent and their noise; public information only.

    ``noise`` is that of every sum of a step. In a block it is divided by the block's precision.
    ``ratio`` is the noise of a number's sum in the scaling stage over that of a step. Greedy
    coordinates are chosen by noise of the scale ``choice``.
    """

    task: DescentTask
    noise: RepeatedNoise
    stage: DescentStage | None
    ratio: float
    rows: RowBound
    choice: float | None = None

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """The scaling stage, the gradients of all passes, and the choices of coordinates."""
        return releases_of(self)

    @property
    def steps(self) -> int:
        blocks = 1 if self.choice else len(self.task.blocks)
        return self.task.n_models * self.task.passes * blocks

    @property
    def stage_deviation(self) -> float:
        """Standard deviation of the noise of a number's sum in the scaling stage."""
        return self.ratio * math.sqrt(self.noise.var())

    def stage_published(self) -> Publication:
        stage = self.stage
        assert stage is not None
        if stage.norm is not None:
            return publication(stage.norm)
        return self.noise.publication_for(self.ratio * stage.planned.units, self._together)

    def release_stage(self, exact: NDArray[Any], rng: Generator) -> FloatArray:
        stage, release = self.stage, self.releases[0]
        assert stage is not None
        if stage.norm is not None:
            return release_exact(release, exact, rng)
        (lattice, stretch), sums = self.stage_published(), in_sum_units(exact).tolist()
        scale = stretch * self.ratio * stage.planned.units

        def draw(generator: Generator) -> FloatArray:
            noise = scale * self.noise.rvs(generator, len(sums))
            return lattice.release(sums, -SUM_BITS, noise, generator)

        facts = {"unit": -SUM_BITS, "scale": scale, "lattice": lattice}
        return publish(release, sums, draw, rng, **facts)

    def published(self) -> Publication:
        """Return how the gradients of a pass are published."""
        factors = np.repeat(1 / self.rows.precision, self.task.blocks.sizes)
        return self.noise.publication_for(factors.repeat(self.task.n_classes), self._together)

    @property
    def _together(self) -> int:
        """Greatest number of values that one shift pays for, in the steps or in the stage.

        Both have the same stretch (``docs/proofs/lattice_release.md``, Theorem 2).
        """
        # If the length of rows is bounded, a pass is one release. Otherwise each block is one.
        blocks = self.task.blocks
        values = blocks.dim if self.rows.bound is not None else int(max(blocks.sizes))
        stage = self.stage.dim if self.stage and self.stage.norm is None else 0
        return max(values * self.task.n_classes, stage)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise of a gradient in each pass, (dim,)."""
        deviations = 1 / self.rows.precision * math.sqrt(self.noise.var())
        return np.asarray(np.repeat(deviations, self.task.blocks.sizes))

    @property
    def averaged(self) -> FloatArray:
        """Standard deviation of the noise of a gradient, averaged over all passes, (dim,)."""
        return self.deviations * AVERAGED / math.sqrt(self.task.passes)


@dataclass(frozen=True, kw_only=True)
class DescentTask(Task):
    """A task with those parameters of an estimator on which the plan depends.

    The rules choose the ``share`` of the budget for the scaling stage and the ``n_passes`` that are
    None. ``clips`` says whether ``clip`` is a number or None. Then the lengths of rows are not
    bounded. ``n_classes`` is that of a joint model, or 1.
    """

    blocks: Blocks
    mechanism: Any = "auto"
    share: float | None = None
    n_passes: int | None = None
    order: str = "cyclic"
    clips: bool = False
    n_classes: int = 1

    @cached_property
    def joint(self) -> SoftmaxSlope | None:
        """The derivatives of the loss of a joint model, or None."""
        if self.n_classes == 1:
            return None
        return joint_slope(self.n_classes, self.information, self.delta)

    @property
    def classes(self) -> tuple[int, ...]:
        """The last axis of the coordinates: the classes of a joint model, or nothing."""
        return (self.n_classes,) if self.joint else ()

    @property
    def size(self) -> float:
        """Number of records, or a guess that gives the usual information."""
        models = len(self.blocks) * self.n_models
        return float(self.known or USUAL_INFORMATION / self.strength * models)

    @cached_property
    def strength(self) -> float:
        """The epsilon that gives about the same noise in the average with delta = 0."""
        return 4 / gaussian_scale(self.epsilon, self.delta) if self.delta > 0 else self.epsilon

    @property
    def information(self) -> float:
        """Records per block and model, times the strength."""
        return self.size * self.strength / (len(self.blocks) * self.n_models)

    @property
    def passes(self) -> int:
        if self.n_passes is not None:
            return self.n_passes
        if self.order == "greedy":
            highest = math.sqrt(2 * math.log(self.blocks.dim + 1))
            steps = STEEP * self.size * self.strength / (self.n_models * self.moved * highest)
            usual, (least, most) = steps**2 / 16 if self.delta > 0 else steps, STEPS_RANGE
        elif self.delta > 0:
            usual, (least, most) = PASSES * more(self.information, PASSES_POWER), PASSES_RANGE
        else:
            usual, (least, most) = PURE_PASSES * more(self.information, PURE_POWER), PURE_RANGE
        return round(min(max(usual, least), most))


def more(information: float, power: float) -> float:
    return float((information / USUAL_INFORMATION) ** power)


def row_lengths(task: DescentTask, estimated: bool, power: int = 2) -> RowBound:
    """Return a bound on the length of rows, and the precision of each block.

    In units in which every number has variance 1, estimated or assumed, all numbers have the same
    precision. A row of full weight has length at most sum_g a_g^power b_g, with b = 1 for the
    intercept and for levels.
    """
    blocks = task.blocks
    radius = _radius(RADIUS, task.information)
    deviations = radius if estimated else usual_square(blocks) ** -0.5
    precision = np.array(blocks.sizes, dtype=float) ** LEVEL_PRECISION
    precise = min(max(1.0, SCARCE / task.information), MOST_PRECISE)
    precision[: blocks.intercept] = INTERCEPT_PRECISION * precise
    precision[blocks.number_places] = deviations
    # With more information weights gain less. In the domain numbers are at most 1.
    share = SHARE_OF_SQUARE * max(1.0, math.sqrt(more(task.information, 1.0) / 10))
    parts = precision**power
    parts[blocks.number_places] = share if estimated else min(share, deviations**power)
    return RowBound(precision, float(parts.sum()), radius, power)


def blocks_apart(task: DescentTask) -> RowBound:
    """Return unbounded rows: each block spends its own budget, with the same noise."""
    return RowBound(np.ones(len(task.blocks)), None, _radius(BOX_RADIUS, task.information))


def _radius(usual: float, information: float) -> float:
    return min(MOST_RADIUS, usual * max(1.0, more(information, RADIUS_POWER) / 2))


def plan_descent(task: DescentTask, stage: DescentStage | None) -> DescentPlan:
    if stage is not None:
        plan = _planned(task, stage)
        if task.share or plan.stage_deviation <= MOST_STAGE_NOISE * task.size:
            return plan
    return _planned(task, None)


def _planned(task: DescentTask, stage: DescentStage | None) -> DescentPlan:
    passes, law, budget = task.n_models * task.passes, task.mechanism, task.epsilon
    # The length of rows is bounded in the power 1 or 2 (Theorem 6), and a pass is one release. With
    # a number or None for ``clip`` it is not bounded; greedy steps may repeat a block.
    power = 0
    if not task.clips and task.order != "greedy":
        is_square = is_gaussian(law, ("auto", "gaussian"))
        power = 1 if task.delta == 0 else 2 if is_square else 0
    if power:
        rows = row_lengths(task, stage is not None, power)
        size, count = gradient_size(task, rows), passes
        law = "gaussian" if is_auto(law) and task.delta > 0 else law
    else:
        rows = blocks_apart(task)
        size = gradient_size(task, rows)
        count = passes * (1 if task.order == "greedy" else len(task.blocks))
    if task.joint is not None and task.joint.power == 2 and is_auto(law):
        law = "gaussian"  # its size is a length
    ratio, shifts = 1.0, [(size, count)]
    if stage is not None and task.delta == 0 and task.order != "greedy":
        own = (task.share or PURE_STAGE_SHARE) * task.epsilon
        stage = stage.with_norm(own, task.moved, task.neighbors)
    if stage is not None and stage.norm is not None:
        budget -= stage.spent
    elif stage is not None:
        # Of Gaussian noise only the length of a change matters: squared shifts add up, and shifts
        # of Laplace noise. The noise of the stage is that which gives its share.
        stage = replace(stage, gaussian=is_gaussian(law))
        square, usual = (2, STAGE_SHARE) if task.delta > 0 else (1, PURE_STAGE_SHARE)
        share = task.share or usual
        spent = share / (1 - share) * count * size**square
        ratio = float((sum(c * s**square for s, c in stage.shifts) / spent) ** (1 / square))
        shifts += [(size / ratio, count) for size, count in stage.shifts]
    choices = choice = None
    if task.order == "greedy":
        choices = choice_width(passes, epsilon=budget, delta=task.delta), passes
        # The error of the sampler may add this to the width of a choice.
        width = choices[0] - CHOICE_COST
        if not width > 0:
            rule = "be great enough for so many choices"
            raise fail("epsilon", rule, task.epsilon, "Or give fewer n_passes.")
        choice = 2 * task.moved / width
    noise = calibrate_releases(
        law, shifts, epsilon=budget, delta=task.delta, neighbors=task.neighbors, choices=choices
    )
    if stage is not None and stage.norm is not None:
        variance = float(stage.norm.variance()[int(stage.sums.is_counted)])
        ratio = math.sqrt(variance / noise.var())
    return DescentPlan(task, noise, stage, ratio, rows, choice)


# Residuals are clipped at CLIP deviations of the target; the factor grows with this power of the
# information. Without estimates, all passes together can move a mean by at least FARTHEST_MEAN.
CLIP, CLIP_POWER, WHOLE_RANGE, FARTHEST_MEAN = 0.45, 0.33, 2.0, 0.5
# For a joint model: assumptions of a `Kind`. The curvature is rarely near its bound in all classes,
# so steps are longer; they do not diverge below 2.
SIGNAL, LEVEL_SIGNAL, MOST_STEP = 16.0, 8.0, 1.8

# The penalty on differences of neighbouring coefficients of a spline, in units of the domain's.
SMOOTH = 0.5


@dataclass(frozen=True)
class Kind:
    """A loss, and assumptions of the rules about the model.

    The loss is the squared loss of a number (``is_regression``), or the logistic loss of labels.
    ``curvature`` and ``usual`` are its greatest and usual second derivative, ``score`` the mean
    squared derivative over the mean curvature. For the squared loss this and the following values
    are in units of the target's variance. All numbers add ``signal`` to the variance of the
    predictor, and all levels ``level_signal``. ``intercept`` is the prior variance of the
    intercept, and ``step`` the usual length of steps in units of the inverse curvature.
    """

    is_regression: bool
    curvature: float
    usual: float
    score: float
    signal: float
    level_signal: float
    intercept: float
    step: float = 1.0


LOGISTIC = Kind(False, 0.25, 0.25, score=0.6, signal=0.6, level_signal=0.15, intercept=0.5)
SQUARED = Kind(True, 1.0, 1.0, score=0.5, signal=0.2, level_signal=0.1, intercept=5.0)


def joint_kind(slope: SoftmaxSlope) -> Kind:
    k, a = slope.n_classes, slope.normalizer
    step = min(k / 2, MOST_STEP)
    return Kind(False, a / 2, a * (1 - 1 / k) / k, 1 / a, SIGNAL, LEVEL_SIGNAL, 0.5, step)


def scaling_of(plan: DescentPlan, seen: FloatArray | None) -> Scaling:
    """Return the scaling from a stage's noisy sums, or that of the domain without a stage."""
    if plan.stage is None or seen is None:
        return plain_scaling(plan.task.blocks, plan.task.size, plan.rows)
    return plan.stage.scaling(seen, plan.stage_deviation, plan.rows)


def curvatures(blocks: Blocks, scaling: Scaling, kind: Kind) -> FloatArray:
    """Return bounds on the second derivatives of the summed loss; estimates after a stage."""
    weight = _mean_weight(blocks, scaling.rows) if scaling.is_estimated else 1.0
    return np.asarray(scaling.n * weight * kind.curvature * scaling.square)


def _mean_weight(blocks: Blocks, rows: RowBound) -> float:
    """Return the approximate mean weight of records whose numbers all have variance 1."""
    numbers = max(len(blocks.numbers), 1)
    if rows.bound is None:
        return min(1.0, rows.radius / math.sqrt(2 * math.log(2 * numbers + 1)))
    parts = rows.precision**rows.power
    # The mean of |x| is about .8 standard deviations.
    parts[blocks.number_places] *= (1 if rows.power == 2 else 0.8) / rows.radius**rows.power
    return min(1.0, float((rows.bound / parts.sum()) ** (1 / rows.power)))


def penalties(
    plan: DescentPlan,
    scaling: Scaling,
    kind: Kind,
    unit: FloatArray,
    penalty: str,
    alpha: float | None,
    l1_ratio: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the l1 and ridge penalties on the summed loss; ``alpha=None`` means "auto"."""
    blocks = plan.task.blocks
    number, dim = blocks.number_places, blocks.dim
    share = {"none": 0.0, "auto": 0.0, "l1": 1.0, "l2": 0.0, "elasticnet": l1_ratio}[penalty]
    if penalty == "none":
        return np.zeros(dim), np.zeros(dim)
    if penalty == "auto" or alpha is None:
        # The variance of a number's coefficient that adds 1 to the variance of the predictor.
        per_number = scaling.rows.radius**2 if scaling.is_estimated else 1 / usual_square(blocks)
        spread = scaling.target_deviation**2 if kind.is_regression else 1.0
        square = scaling.square.copy()
        square[number] = 1 / per_number
        if not scaling.is_estimated:
            sizes = np.array(blocks.sizes[blocks.first_levels :], dtype=int)
            square[number.stop :] = np.repeat(1 / sizes, sizes)
        usual = scaling.n * _mean_weight(blocks, scaling.rows) * kind.usual * square
        sampling = kind.score * spread * usual
        prior = np.full(dim, kind.level_signal / max(1, len(blocks.level_columns)))
        prior[number] = kind.signal / max(1, len(blocks.numbers)) * per_number
        prior[: blocks.intercept] = kind.intercept
        # Ridges balance noise and sampling errors with the prior of each coefficient.
        ridge = ((unit * plan.averaged) ** 2 + sampling) / (usual * (prior * spread))
        # Thresholds are about the error of a pass, or the largest error of many columns. If a
        # coefficient is 0, most passes end at 0, and so does their average.
        l1 = np.sqrt((unit * plan.deviations) ** 2 + 2 * math.log(dim + 1) * sampling)
        l1[: blocks.intercept] = 0.0
        return share * l1, (1 - share) * ridge
    scale, size = np.ones(dim), np.full(dim, alpha * scaling.n)
    scale[number] = scaling.scale
    size[: blocks.intercept] = 0.0
    return size * share / scale, size * (1 - share) / scale**2


def roughness(blocks: Blocks, scaling: Scaling, ridge: FloatArray) -> dict[int, FloatArray]:
    """Return matrices of penalties that replace the ridges of blocks of B-splines.

    They also penalise differences of neighbouring coefficients, by the harmonic mean of their
    ridges. A factor keeps the prior variance of the curve, averaged over the records.
    """
    found = {}
    for block, differences in blocks.differences.items():
        own, share = ridge[blocks.places[block]], scaling.square[blocks.places[block]]
        unit = float(own.max())
        inverse = unit / own
        edges = -SMOOTH * differences * 2 / np.add.outer(inverse, inverse)
        np.fill_diagonal(edges, 0.0)
        matrix = np.diag(1 / inverse + edges.sum(axis=1)) - edges
        kept = share @ np.linalg.inv(matrix).diagonal() / (share @ inverse)
        found[block] = unit * kept * matrix
    return found


def residual_bound(plan: DescentPlan, scaling: Scaling) -> float:
    """Return the clip radius of residuals, for targets in [-1, 1]."""
    deviations = CLIP * max(0.5, more(plan.task.information, CLIP_POWER))
    least = 0.0 if scaling.is_estimated else FARTHEST_MEAN / plan.task.passes
    return min(WHOLE_RANGE, max(least, deviations * scaling.target_deviation))
