"""Plans of coordinate descents: which sums are released with how much noise.

Plans depend on public information only. The privacy proof holds for every plan
(``docs/proofs/coordinate_descent.md``). The origin of the constants:
``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.joint import is_gaussian, joint_slope
from skdp.linear_model._descent.scaling import RADIUS, DescentStage, RowBound, usual_square
from skdp.linear_model._descent.slopes import SoftmaxSlope
from skdp.linear_model._shared.gram import SUM_BITS, in_sum_units, release_exact
from skdp.linear_model._shared.task import Stage, Task, law_of
from skdp.linear_model.validation import is_auto
from skdp.mechanisms.gaussian import gaussian_scale
from skdp.mechanisms.independent import RepeatedNoise, calibrate_releases, choice_width
from skdp.mechanisms.noise import Publication, publication

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
# docs/proofs/lattice_release.md, "Other releases".
CHOICE_COST = 2.0**-40


@dataclass(frozen=True, eq=False)
class DescentPlan:
    """The releases of a coordinate descent and their noise; public information only.

    Attributes
    ----------
    noise : RepeatedNoise
        The noise of every sum of a step. In a block it is divided by the block's precision.
    ratio : float
        The noise of a number's sum in the scaling stage over that of a step.
    choice : float or None
        Scale of the noise by which greedy coordinates are chosen.
    """

    task: DescentTask
    noise: RepeatedNoise
    stage: DescentStage | None
    ratio: float
    rows: RowBound
    choice: float | None = None

    @property
    def losses(self) -> Any:
        """Privacy losses with counts; may be empty."""
        return self.noise.guarantee.losses

    @property
    def delta(self) -> float:
        """The delta that all releases spend."""
        return self.noise.guarantee.delta

    @property
    def mechanism(self) -> str:
        """The sentence of a guarantee."""
        scaled = ""
        if self.stage:
            own = f", {type(self.stage.norm).__name__}" if self.stage.norm is not None else ""
            scaled = f"estimated means and scales ({self.stage.dim} sums{own}), then "
        joint = f" of {self.task.n_classes} classes together" if self.task.joint else ""
        return f"{scaled}{self.steps} noisy gradients{joint}; {self.noise.guarantee.mechanism}"

    @property
    def steps(self) -> int:
        """Number of noisy gradients of all models."""
        blocks = 1 if self.choice else len(self.task.blocks)
        return self.task.n_models * self.task.passes * blocks

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the fit."""
        law, steps = law_of(self.noise), self.steps
        own = math.sqrt(float(np.mean(self.deviations**2)))
        parts = [("gradients", law, steps, own)]
        if self.choice:
            parts = [("choices", "Gumbel", steps, self.choice * math.pi / math.sqrt(6)), *parts]
        if self.stage:
            stage_law = law if self.stage.norm is None else law_of(self.stage.norm)
            parts = [("scaling", stage_law, 1, self.stage_deviation), *parts]
        return tuple(Stage(*part, *self._spent(part[0])) for part in parts)

    def _spent(self, name: str) -> tuple[float | None, float | None]:
        """Return the parts of the budget that a stage spends; with delta > 0 only all are known."""
        task, stage, choices = self.task, 0.0, 0.0
        if task.delta > 0:
            return None, None
        if self.choice:
            choices = self.steps * (2 * task.moved / self.choice + CHOICE_COST)
        if self.stage and self.stage.spent:
            stage = self.stage.spent
        elif self.stage:
            # With delta = 0 the epsilon of a release is proportional to its shift.
            shifts = math.fsum(size / self.ratio * count for size, count in self.stage.shifts)
            whole = math.fsum(size * count for size, count in self.noise.shifts)
            stage = shifts / whole * (task.epsilon - choices)
        rest = task.epsilon - choices - stage
        return {"choices": choices, "scaling": stage, "gradients": rest}[name], 0.0

    @property
    def stage_deviation(self) -> float:
        """Standard deviation of the noise of a number's sum in the scaling stage."""
        return self.ratio * math.sqrt(self.noise.var())

    def stage_published(self) -> Publication:
        """Return how the sums of the scaling stage are published."""
        stage = self.stage
        assert stage is not None
        if stage.norm is not None:
            return publication(stage.norm)
        return self.noise.publication_for(self.ratio * stage.planned.units, self._together)

    def release_stage(self, exact: NDArray[Any], rng: Generator) -> FloatArray:
        """Release the exact sums of the scaling stage."""
        stage = self.stage
        assert stage is not None
        if stage.norm is not None:
            return release_exact(stage.norm, exact, rng)
        lattice, stretch = self.stage_published()
        draws = stretch * self.ratio * stage.planned.units * self.noise.rvs(rng, len(exact))
        return lattice.release(in_sum_units(exact).tolist(), -SUM_BITS, draws, rng)

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

    def check_published(self) -> None:
        """Raise an error if 53-bit floats cannot keep the guarantee."""
        self.published()
        if self.stage:
            self.stage_published()

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

    Attributes
    ----------
    share : float or None
        The share of the budget for the scaling stage. With None the rules choose it.
    n_passes : int or None
        With None the rules choose it.
    clips : bool
        Whether ``clip`` is a number or None. Then the lengths of rows are not bounded.
    n_classes : int
        Number of classes of a joint model, or 1.
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
        """Number of passes, or of greedy steps."""
        if self.n_passes is not None:
            return self.n_passes
        if self.order == "greedy":
            return _greedy_steps(self)
        if self.delta > 0:
            return _within(PASSES_RANGE, PASSES * more(self.information, PASSES_POWER))
        return _within(PURE_RANGE, PURE_PASSES * more(self.information, PURE_POWER))

    def noise(
        self, law: Any, shifts: list[tuple[float, int]], spent: float = 0.0
    ) -> tuple[RepeatedNoise, Any]:
        """Return calibrated noise beside a spent epsilon, and the scale of greedy choices."""
        budget = {"epsilon": self.epsilon - spent, "delta": self.delta}
        choices = None
        if self.order == "greedy":
            count = self.n_models * self.passes
            choices = choice_width(count, **budget), count
        noise = calibrate_releases(law, shifts, neighbors=self.neighbors, choices=choices, **budget)
        if choices is None:
            return noise, None
        # The error of the sampler may add this to the width of a choice.
        width = choices[0] - CHOICE_COST
        if not width > 0:
            rule = "be great enough for so many choices"
            raise fail("epsilon", rule, self.epsilon, "Or give fewer n_passes.")
        return noise, 2 * self.moved / width


def more(information: float, power: float) -> float:
    """Return a power of the information relative to the usual information."""
    return float((information / USUAL_INFORMATION) ** power)


def _within(ends: tuple[int, int], value: float) -> int:
    return round(min(max(value, ends[0]), ends[1]))


def _greedy_steps(task: DescentTask) -> int:
    """Return the number of steps at which noise hides `STEEP` deviations per record."""
    highest = math.sqrt(2 * math.log(task.blocks.dim + 1))
    steps = STEEP * task.size * task.strength / (task.n_models * task.moved * highest)
    return _within(STEPS_RANGE, steps**2 / 16 if task.delta > 0 else steps)


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
    """Choose the releases, and calibrate their noise."""
    if stage is not None:
        plan = _planned(task, stage)
        if task.share or plan.stage_deviation <= MOST_STAGE_NOISE * task.size:
            return plan
    return _planned(task, None)


def _planned(task: DescentTask, stage: DescentStage | None) -> DescentPlan:
    moved = task.moved * (task.joint.size if task.joint else 1.0)
    passes, power, law = task.n_models * task.passes, _row_power(task), task.mechanism
    if power:  # the length of rows is bounded, and a pass is one release
        rows = row_lengths(task, stage is not None, power)
        releases = moved * float(rows.bound or 0.0) ** (1 / power), passes
        law = "gaussian" if is_auto(law) and task.delta > 0 else law
    else:
        rows = blocks_apart(task)
        releases = moved, passes * (1 if task.order == "greedy" else len(task.blocks))
    ratio, shifts = 1.0, [releases]
    if stage is not None and task.delta == 0 and task.order != "greedy":
        own = (task.share or PURE_STAGE_SHARE) * task.epsilon
        stage = stage.with_norm(own, task.moved, task.neighbors)
    if stage is not None and stage.norm is None:
        # Of Gaussian noise only the length of a change matters.
        stage = replace(stage, gaussian=is_gaussian(law))
        ratio = stage_ratio(stage, releases, task.share, task.delta)
        shifts += [(size / ratio, count) for size, count in stage.shifts]
    noise, choice = task.noise(law, shifts, stage.spent if stage is not None else 0.0)
    if stage is not None and stage.norm is not None:
        variance = float(stage.norm.variance()[int(stage.sums.is_counted)])
        ratio = math.sqrt(variance / noise.var())
    return DescentPlan(task, noise, stage, ratio, rows, choice)


def stage_ratio(
    stage: DescentStage, releases: tuple[float, int], share: float | None, delta: float
) -> float:
    """Return the ratio of the noise of the stage to that of a step that gives the stage's share."""
    # Squared shifts add up for Gaussian noise, shifts for Laplace noise.
    power, usual = (2, STAGE_SHARE) if delta > 0 else (1, PURE_STAGE_SHARE)
    share, (size, count) = share or usual, releases
    spent = share / (1 - share) * count * size**power
    return float((sum(c * s**power for s, c in stage.shifts) / spent) ** (1 / power))


def _row_power(task: DescentTask) -> int:
    """Return the power in which rows are bounded (Theorem 6), or 0 if they are not bounded."""
    # With a number or None for ``clip`` lengths are not bounded; greedy steps may repeat a block.
    if task.clips or task.order == "greedy":
        return 0
    if task.delta == 0:
        return 1
    return 2 if is_gaussian(task.mechanism, ("auto", "gaussian")) else 0
