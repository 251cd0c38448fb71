"""Automatic choices before the data are read: the plan of a coordinate descent.

A plan says which sums are released with how much noise, and depends on public information only. A
share of the budget is spent on the sums and squares of the numbers, on the number of records with
each level and, for a regression, on the sum and the square of the target. The privacy proof holds
for every plan (``docs/proofs/coordinate_descent.md``; joint models: Theorem 8). The origin of the
constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdp.linear_model._descent.gradients import Blocks, SoftmaxSlope
from skdp.linear_model._descent.theorem import (
    CHOICE_COST,
    RADIUS,
    RowBound,
    gradient_size,
    releases_of,
)
from skdp.linear_model._shared.gram import ColumnSums, Shifts, sizes_of
from skdp.linear_model._shared.scaling import DESCENT, REPLACED_WEIGHT, sums_noise
from skdp.linear_model._shared.task import Task
from skdp.linear_model.validation import is_auto
from skdp.mechanisms import KNormNoise
from skdp.mechanisms.independent import Independent, calibrate_releases, choice_width
from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise.independent import RepeatedNoise
from skdp.noise.law import Law
from skdp.noise.laws import Gaussian
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import Release
from skdp.trusted.checks import fail
from skdp.trusted.noise import Publication

# The normalizer of a joint loss rises by RISE with each doubling of the information, from 0 at
# FROM doublings of 1 on. With delta = 0 there is more noise for the same information.
FROM, RISE, LEAST = 1.5, 0.14, 0.4
PURE_FROM, PURE_RISE, PURE_LEAST = 4.5, 0.125, 0.2


def joint_slope(n_classes: int, information: float, delta: float) -> SoftmaxSlope:
    # Squared shifts add up for Gaussian noise, and otherwise shifts.
    power = 2 if delta > 0 else 1
    start, rise, least = (FROM, RISE, LEAST) if delta > 0 else (PURE_FROM, PURE_RISE, PURE_LEAST)
    normalizer = rise * (math.log2(information) - start)
    return SoftmaxSlope(n_classes, min(max(normalizer, least), 1.0), power)


Mechanism = str | Law | Independent


def may_be_joint(order: str, mechanism: Mechanism, delta: float) -> bool:
    return order != "greedy" and (delta == 0 or is_gaussian(mechanism, ("auto", "gaussian")))


def is_gaussian(mechanism: Mechanism, names: tuple[str, ...] = ("gaussian",)) -> bool:
    law = mechanism.law if type(mechanism) is Independent else mechanism
    # By type: a subclass of Gaussian may draw from another law.
    return law in names if isinstance(law, str) else type(law) is Gaussian


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
# The bound on rows of full weight: at least this share of each number's usual square. For labels,
# the precision of the intercept and of levels. In a regression, the precision of the intercept, and
# the power of the number of levels that is their precision.
SHARE_OF_SQUARE, LABEL_PRECISION, INTERCEPT_PRECISION, LEVEL_PRECISION = 0.2, 1.0, 1.5, 0.25
# If each block spends its own budget: the standard deviations of a number that are scaled to 1, the
# power of the information that they grow with, and their maximum.
BOX_RADIUS, RADIUS_POWER, MOST_RADIUS = 2.0, 0.25, 64.0
# Below this information the intercept of a regression has a higher precision, up to this factor:
# little more than the intercept can be learnt.
SCARCE, MOST_PRECISE = 20.0, 15.0
# Assumed ratio of the noise of the average, without the first passes, to that of the mean of all.
AVERAGED = 1.15


def strength(task: Task) -> float:
    """Return the epsilon that gives about the same noise in the average with delta = 0."""
    return 4 / gaussian_scale(task.epsilon, task.delta) if task.delta > 0 else task.epsilon


def usual_passes(task: Task, blocks: Blocks, order: str, information: float) -> int:
    if order == "greedy":
        highest = math.sqrt(2 * math.log(blocks.dim + 1))
        steps = STEEP * information * len(blocks) / (task.records_changed * highest)
        usual, (least, most) = steps**2 / 16 if task.delta > 0 else steps, STEPS_RANGE
    elif task.delta > 0:
        usual, (least, most) = PASSES * more(information, PASSES_POWER), PASSES_RANGE
    else:
        usual, (least, most) = PURE_PASSES * more(information, PURE_POWER), PURE_RANGE
    return round(min(max(usual, least), most))


def more(information: float, power: float) -> float:
    return float((information / USUAL_INFORMATION) ** power)


@dataclass(frozen=True, eq=False)
class DescentStage:
    """The sums that are released before the descent, and the factors of their noise.

    The noise of a sum is ``units`` times that of a number's sum. Either it has a K-``norm`` and an
    epsilon of its own, or it is independent and of the law of a step. Then in its units the changes
    by one record are weakly majorised by the sizes in ``shifts`` or, for Gaussian noise, have at
    most their sum of squares. The rows of the first ``in_ball`` columns have a length of at most 1.
    """

    sums: ColumnSums
    units: FloatArray  # (dim,)
    shifts: Shifts = ()
    in_ball: int = 0
    norm: KNormNoise | None = None


# Weights of squares: Gaussian noise if a record is added, with x^2 - 2/3, and noise of any law.
ADDED_WEIGHT, ANY_WEIGHT = math.sqrt(3), 1.5


def independent(sums: ColumnSums, gaussian: bool, in_ball: int = 0) -> DescentStage:
    """Return the stage with independent noise, for sums with one square for each column.

    The factor of the sums is replaced. Noise that is not ``gaussian`` may have any even log-concave
    law.
    """
    in_ball = in_ball if in_ball > 1 else 0
    added, k = sums.is_counted, len(sums.columns)
    sums = replace(sums, factor=3 if added and not in_ball else 1)
    weights = np.full(k, (ADDED_WEIGHT if added else REPLACED_WEIGHT) if gaussian else ANY_WEIGHT)
    if in_ball:
        weights[:in_ball] = in_ball ** (0.25 if gaussian else 0.5)
        weights[in_ball:] = 1.0 if added else weights[in_ball:]
    units = np.ones(sums.dim)
    units[added + k : added + 2 * k] = sums.factor / weights
    if added:  # the count corrects every mean and every square
        units[0] = 1 / math.sqrt(math.sqrt(max(1, k) / 2))
    return DescentStage(sums, units, sizes_of(sums, units, gaussian, in_ball), in_ball)


def stage_sums(blocks: Blocks, with_target: bool, n: int | None) -> ColumnSums:
    """Return the sums of a scaling stage; a noisy count is one of them if ``n`` is None."""
    columns = (*blocks.numbers, *(blocks.domain.n_encoded,) * with_target)
    return ColumnSums(columns, n, columns, blocks=blocks.level_columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentPlan:
    """The public choices of a coordinate descent, its releases and their noise.

    The budget is shared by ``task.n_models`` models, or by the classes of a ``joint`` model, whose
    loss has these derivatives. ``size`` is the number of records, or a guess that gives the usual
    ``information``: records per block and model, times `strength`. ``noise`` is that of every sum
    of a step; in a block it is divided by the block's precision. ``ratio`` is the noise of a
    number's sum in the scaling stage over that of a step. Greedy coordinates are chosen by noise of
    the scale ``choice``.
    """

    task: Task
    blocks: Blocks
    order: str
    size: float
    information: float
    passes: int
    joint: SoftmaxSlope | None
    noise: RepeatedNoise
    stage: DescentStage | None
    ratio: float
    rows: RowBound
    choice: float | None

    @property
    def classes(self) -> tuple[int, ...]:
        """The last axis of the coordinates: the classes of a joint model, if it is one."""
        return (self.joint.n_classes,) if self.joint else ()

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        return releases_of(self)

    @property
    def steps(self) -> int:
        return self.task.n_models * self.passes * (1 if self.choice else len(self.blocks))

    @property
    def stage_deviation(self) -> float:
        """Standard deviation of the noise of a number's sum in the scaling stage."""
        return self.ratio * math.sqrt(self.noise.var())

    @property
    def factors(self) -> FloatArray:
        """Factors on the noise of the sums of a pass, the classes of a coordinate side by side."""
        factors = np.repeat(1 / self.rows.precision, self.blocks.sizes)
        return np.asarray(factors.repeat(math.prod(self.classes)))

    def published(self, factors: FloatArray) -> Publication:
        """Return how sums with factors on their noise are published: of a pass, or of the stage.

        Both have the same stretch (``docs/proofs/lattice_release.md``, Theorem 2). It covers the
        greatest number of values that one shift pays for. If the length of rows is bounded, a pass
        is one release. Otherwise each block is one.
        """
        values = self.blocks.dim if self.rows.bound is not None else int(max(self.blocks.sizes))
        stage = self.stage.sums.dim if self.stage and self.stage.norm is None else 0
        return self.noise.publication_for(factors, max(values * math.prod(self.classes), stage))

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise of a gradient in each pass, (dim,)."""
        deviations = 1 / self.rows.precision * math.sqrt(self.noise.var())
        return np.asarray(np.repeat(deviations, self.blocks.sizes))

    @property
    def averaged(self) -> FloatArray:
        """Standard deviation of the noise of a gradient, averaged over all passes, (dim,)."""
        return self.deviations * AVERAGED / math.sqrt(self.passes)


def usual_square(blocks: Blocks) -> FloatArray:
    """Return the assumed mean square of each scaled column in the units of the domain."""
    # The squared numbers of a ball have a sum of at most 1. Two levels are -1 and 1.
    q, square = len(blocks.numbers), np.ones(len(blocks.scaled))
    square[:q] = min(DESCENT.usual, 0.3 / max(q, 1)) if blocks.domain.is_ball else DESCENT.usual
    return square


def row_lengths(blocks: Blocks, information: float, estimated: bool, power: int = 2) -> RowBound:
    """Return a bound on the length of rows, and the precision of each block.

    In units in which every number has variance 1, estimated or assumed, all numbers have the same
    precision. A row of full weight has length at most sum_g a_g^power b_g, with b = 1 for the
    intercept and for levels.
    """
    radius = _radius(RADIUS, information)
    deviations = np.full(len(blocks.scaled), radius) if estimated else usual_square(blocks) ** -0.5
    precision = np.full(len(blocks), LABEL_PRECISION)
    if blocks.domain.target_bounds:  # an intercept does not change the ranks of labels
        precision = np.array(blocks.sizes) ** LEVEL_PRECISION
        precise = min(max(1.0, SCARCE / information), MOST_PRECISE)
        precision[: blocks.intercept] = INTERCEPT_PRECISION * precise
    precision[blocks.number_places] = deviations
    # With more information weights gain less. In the domain numbers are at most 1.
    share = SHARE_OF_SQUARE * max(1.0, math.sqrt(more(information, 1.0) / 10))
    parts = precision**power
    parts[blocks.number_places] = share if estimated else np.minimum(share, deviations**power)
    return RowBound(precision, float(parts.sum()), radius, power)


def _radius(usual: float, information: float) -> float:
    return min(MOST_RADIUS, usual * max(1.0, more(information, RADIUS_POWER) / 2))


def plan_descent(
    task: Task,
    blocks: Blocks,
    sums: ColumnSums | None,
    *,
    mechanism: Mechanism = "auto",
    share: float | None = None,
    n_passes: int | None = None,
    order: str = "cyclic",
    clips: bool = False,
    is_joint: bool = False,
) -> DescentPlan:
    """Return the plan, with a scaling stage of these sums unless its noise would be too great.

    The rules choose the ``share`` of the budget for the scaling stage and the ``n_passes`` that are
    None. ``clips`` says whether ``clip`` is a number or None: then the lengths of rows are not
    bounded. A joint model has a class for each of the task's models.
    """
    models = len(blocks) * (1 if is_joint else task.n_models)
    size = float(task.n_assumed or USUAL_INFORMATION / strength(task) * models)
    information = size * strength(task) / models
    joint = joint_slope(task.n_models, information, task.delta) if is_joint else None
    task = replace(task, n_models=1) if is_joint else task
    passes = n_passes or usual_passes(task, blocks, order, information)
    is_greedy = order == "greedy"
    # The length of rows is bounded in the power 1 or 2 (Theorem 6), and a pass is one release. With
    # a number or None for ``clip`` it is not bounded; greedy steps may repeat a block.
    power, count = 0, task.n_models * passes
    if not (clips or is_greedy):
        is_square = is_gaussian(mechanism, ("auto", "gaussian"))
        power = 1 if task.delta == 0 else 2 if is_square else 0
    if not (power or is_greedy):
        count *= len(blocks)
    # In both cases the size of a gradient is a length.
    is_length = power == 2 or (joint is not None and joint.power == 2)
    law = "gaussian" if is_length and is_auto(mechanism) else mechanism
    for given in (sums, None):  # without a stage if its noise would be too great
        if power:
            rows = row_lengths(blocks, information, given is not None, power)
        else:  # each block spends its own budget, with the same noise
            rows = RowBound(np.ones(len(blocks)), None, _radius(BOX_RADIUS, information))
        stage, budget, ratio = None, task.epsilon, 1.0
        shifts = [(gradient_size(task.records_changed, joint, rows), count)]
        if given is not None:
            stage, ratio = _stage_of(task, blocks, given, law, share, is_greedy, shifts[0])
            budget -= float(stage.norm.guarantee.epsilon) if stage.norm is not None else 0.0
            shifts += [(moved / ratio, times) for moved, times in stage.shifts]
        choices = choice = None
        if is_greedy:
            choices = choice_width(count, epsilon=budget, delta=task.delta), count
            # The error of the sampler may add this to the width of a choice.
            width = choices[0] - CHOICE_COST
            if not width > 0:
                rule = "be great enough for so many choices"
                raise fail("epsilon", rule, task.epsilon, "Or give fewer n_passes.")
            choice = 2 * task.records_changed / width
        noise = calibrate_releases(
            law, shifts, epsilon=budget, delta=task.delta, neighbors=task.neighbors, choices=choices
        )
        if stage is not None and stage.norm is not None:
            variance = float(stage.norm.variance()[int(stage.sums.is_counted)])
            ratio = math.sqrt(variance / noise.var())
        plan = DescentPlan(
            task=task,
            blocks=blocks,
            order=order,
            size=size,
            information=information,
            passes=passes,
            joint=joint,
            noise=noise,
            stage=stage,
            ratio=ratio,
            rows=rows,
            choice=choice,
        )
        if stage is None or share or plan.stage_deviation <= MOST_STAGE_NOISE * size:
            break
    return plan


def _stage_of(
    task: Task,
    blocks: Blocks,
    sums: ColumnSums,
    law: Mechanism,
    share: float | None,
    is_greedy: bool,
    steps: tuple[float, int],
) -> tuple[DescentStage, float]:
    """Return a stage with its share of the budget, and the ratio of its noise."""
    in_ball, is_pure = blocks.domain.is_ball * len(blocks.numbers), task.delta == 0
    if is_pure and not is_greedy and sums.columns and not in_ball:
        epsilon = (share or PURE_STAGE_SHARE) * task.epsilon
        norm = sums_noise(sums, task.records_changed, task.neighbors, epsilon)
        spread = np.sqrt(norm.variance())
        return DescentStage(sums, spread / spread[int(sums.is_counted)], norm=norm), 1.0
    # Of Gaussian noise only the length of a change matters: squared shifts add up, and shifts of
    # Laplace noise. The noise of the stage is that which gives its share.
    stage = independent(sums, is_gaussian(law), in_ball)
    square, share = (1, share or PURE_STAGE_SHARE) if is_pure else (2, share or STAGE_SHARE)
    spent = share / (1 - share) * steps[1] * steps[0] ** square
    return stage, float((sum(c * s**square for s, c in stage.shifts) / spent) ** (1 / square))
