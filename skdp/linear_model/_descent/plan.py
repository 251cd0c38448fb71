"""What a coordinate descent releases, and with how much noise: of public things only.

None of the choices is part of the privacy proof, which holds for every plan
(``docs/proofs/coordinate_descent.md``). Where the constants come from:
``docs/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.scaling import RADIUS, RowBound, ScalingStage, usual_square
from skdp.linear_model._shared.gram import GRAM_BITS
from skdp.linear_model._shared.task import Task
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.independent.choices import calibrate_with_choices, choice_width
from skdp.mechanisms.independent.noise import Independent
from skdp.mechanisms.independent.repeated import RepeatedNoise, calibrate_releases
from skdp.mechanisms.noise import Publication
from skdp.noise.gaussian import Gaussian

# With so much information, records per block times epsilon, powers of it are 1.
USUAL_INFORMATION = 66.0
# Passes there, with the power of the information that they grow with, and their range. With
# delta > 0 the noise of the average hardly depends on them, with delta = 0 it grows as the root.
PASSES, PASSES_POWER, PASSES_RANGE = 15, 0.25, (6, 50)
PURE_PASSES, PURE_POWER, PURE_RANGE = 1.5, 0.7, (1, 20)
# Range of greedy steps. They end where noise hides so many deviations per record of a gradient.
STEPS_RANGE, STEEP = (3, 50), 0.03
# Share of the budget for the scaling stage, and the most noise in its means.
STAGE_SHARE, PURE_STAGE_SHARE, MOST_STAGE_NOISE = 0.2, 0.25, 0.35
# What a row of full weight may have: of each number's usual square this share, at least, the
# intercept with this precision, and levels with this power of their number.
SHARE_OF_SQUARE, INTERCEPT_PRECISION, LEVEL_PRECISION = 0.2, 1.5, 0.25
# If blocks are paid for one by one, the standard deviations of a number that are scaled to 1, how
# they grow with the information, and their maximum.
BOX_RADIUS, RADIUS_POWER, MOST_RADIUS = 2.0, 0.25, 64.0
# Below this information the intercept has a higher precision, up to so many times: hardly more
# than the intercept can be learnt.
SCARCE, MOST_PRECISE = 20.0, 15.0
# What the rules take for the average's noise over that of the mean of all passes. The second half
# has up to 1.41: ridges are a little smaller than noise alone would have them.
AVERAGED = 1.15
# docs/proofs/lattice_release.md, "Other releases".
CHOICE_COST = 2.0**-40


@dataclass(frozen=True, eq=False)
class DescentPlan:
    """What is released with which noise; public things only.

    Attributes
    ----------
    blocks : Blocks
    noise : RepeatedNoise
        Of every sum of a step; in a block it is divided by the block's precision.
    stage : ScalingStage or None
    ratio : float
        The noise of the first stage over that of a step.
    n_passes, n_models : int
    order : str
    n : float
        Number of records, or a public guess of it.
    rows : RowBound
    information : float
        About how many records each block has, times epsilon.
    choice : float or None
        Scale of the noise by which greedy coordinates are chosen.
    """

    blocks: Blocks
    noise: RepeatedNoise
    stage: ScalingStage | None
    ratio: float
    n_passes: int
    n_models: int
    order: str
    n: float
    rows: RowBound
    information: float
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
        """What a guarantee says of it."""
        steps = self.n_models * self.n_passes * (1 if self.choice else len(self.blocks))
        scaled = f"estimated means and scales ({self.stage.dim} sums), then " if self.stage else ""
        return f"{scaled}{steps} noisy gradients; {self.noise.guarantee.mechanism}"

    def stage_published(self) -> Publication:
        """Return how the sums of the first stage are published."""
        dim = self.stage.dim if self.stage else 0
        return self.noise.publication_for(np.full(dim, self.ratio), dim)

    def release_stage(self, exact: NDArray[Any], rng: Generator) -> FloatArray:
        """Release the exact sums of the scaling stage."""
        lattice, stretch = self.stage_published()
        draws = stretch * self.ratio * self.noise.rvs(rng, len(exact))
        return lattice.release(exact.tolist(), -GRAM_BITS, draws, rng)

    def published(self) -> Publication:
        """Return how the gradients of a pass are published."""
        # RowBound of bounded length pay for a pass together, and else each block pays for itself.
        together = self.blocks.dim if self.rows.bound is not None else int(max(self.blocks.sizes))
        factors = np.repeat(1 / self.rows.precision, self.blocks.sizes)
        return self.noise.publication_for(factors, together)

    def check_published(self) -> None:
        """Raise where 53 bits cannot keep the guarantee."""
        self.published()
        if self.stage:
            self.stage_published()

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise of a gradient in each pass, (dim,)."""
        noise_factor = 1 / self.rows.precision
        return np.asarray(np.repeat(noise_factor * math.sqrt(self.noise.var()), self.blocks.sizes))

    @property
    def averaged(self) -> FloatArray:
        """Standard deviation of the noise of a gradient, averaged over all passes, (dim,)."""
        return self.deviations * AVERAGED / math.sqrt(self.n_passes)


# Before the first stage: public things


@dataclass(frozen=True, kw_only=True)
class DescentTask(Task):
    """A task with the parameters of an estimator that the plan depends on.

    Attributes
    ----------
    blocks : Blocks
    mechanism : str or law
    share : float or None
        The share of the budget for the scaling stage; None leaves it to the rules.
    n_passes : int or None
        None leaves it to the rules.
    order : {"cyclic", "random", "greedy"}
    clips : bool
        Whether contributions are clipped one by one; rows are then not bounded.
    """

    blocks: Blocks
    mechanism: Any = "auto"
    share: float | None = None
    n_passes: int | None = None
    order: str = "cyclic"
    clips: bool = False

    @property
    def size(self) -> float:
        """Number of records, or a guess: as many as make the usual information."""
        models = len(self.blocks) * self.n_models
        return float(self.known or USUAL_INFORMATION / self.strength * models)

    @property
    def strength(self) -> float:
        """The epsilon that without a delta leaves about as much noise in the average."""
        return 4 / gaussian_scale(self.epsilon, self.delta) if self.delta > 0 else self.epsilon

    @property
    def information(self) -> float:
        """Records per block and model, times the strength."""
        return self.size * self.strength / (len(self.blocks) * self.n_models)

    @property
    def passes(self) -> int:
        """How many to make."""
        if self.n_passes is not None:
            return self.n_passes
        if self.order == "greedy":
            return _greedy_steps(self)
        if self.delta > 0:
            return _within(PASSES_RANGE, PASSES * more(self.information, PASSES_POWER))
        return _within(PURE_RANGE, PURE_PASSES * more(self.information, PURE_POWER))

    def noise(self, law: Any, shifts: list[tuple[float, int]]) -> tuple[RepeatedNoise, Any]:
        """Return calibrated noise, and the scale of that of greedy choices."""
        budget = {"epsilon": self.epsilon, "delta": self.delta}
        if self.order != "greedy":
            return calibrate_releases(law, shifts, neighbors=self.neighbors, **budget), None
        count = self.n_models * self.passes
        choices = choice_width(count, **budget), count
        noise = calibrate_with_choices(law, shifts, choices, neighbors=self.neighbors, **budget)
        # What the sampler of a choice is off by may add so much to its width.
        width = choices[0] - CHOICE_COST
        if not width > 0:
            raise fail("epsilon", "be great enough for so many choices")
        return noise, 2 * self.moved / width


def more(information: float, power: float) -> float:
    """Return a power of the information, over the usual one's."""
    return float((information / USUAL_INFORMATION) ** power)


def _within(ends: tuple[int, int], value: float) -> int:
    return round(min(max(value, ends[0]), ends[1]))


def _greedy_steps(task: DescentTask) -> int:
    """Return after how many steps noise hides a gradient of `STEEP` deviations per record."""
    highest = math.sqrt(2 * math.log(task.blocks.dim + 1))
    told = STEEP * task.size * task.strength / (task.n_models * task.moved * highest)
    return _within(STEPS_RANGE, told**2 / 16 if task.delta > 0 else told)


def row_lengths(task: DescentTask, estimated: bool, power: int = 2) -> RowBound:
    """Return how long rows may be, and how the noise is spread over the blocks.

    In units in which every number has the variance 1, or is taken to have it, all numbers are
    of the same precision, and a row of full weight is not longer than sum_g a_g^power b_g, with
    b = 1 for the intercept and for levels.
    """
    blocks = task.blocks
    radius = _radius(RADIUS, task.information)
    deviations = radius if estimated else usual_square(blocks) ** -0.5
    precision = np.array(blocks.sizes, dtype=float) ** LEVEL_PRECISION
    precision[: blocks.intercept] = INTERCEPT_PRECISION * _more_precise(task)
    precision[blocks.number_places] = deviations
    # The more is known, the less is gained by weights; all numbers are at most 1 in the domain.
    share = SHARE_OF_SQUARE * max(1.0, math.sqrt(more(task.information, 1.0) / 10))
    parts = precision**power
    parts[blocks.number_places] = share if estimated else min(share, deviations**power)
    return RowBound(precision, float(parts.sum()), radius, power)


def blocks_apart(task: DescentTask) -> RowBound:
    """Return the scaling where blocks are paid for one by one, all with the same noise."""
    return RowBound(np.ones(len(task.blocks)), None, _radius(BOX_RADIUS, task.information))


def _more_precise(task: DescentTask) -> float:
    """Return the factor on the precision of the intercept, 1 with the usual information."""
    return min(max(1.0, SCARCE / task.information), MOST_PRECISE)


def _radius(usual: float, information: float) -> float:
    return min(MOST_RADIUS, usual * max(1.0, more(information, RADIUS_POWER) / 2))


def plan_descent(task: DescentTask, stage: ScalingStage | None) -> DescentPlan:
    """Choose what is released, and calibrate its noise."""
    if stage is not None:
        plan = _least_noise(task, stage)
        if task.share or plan.ratio * math.sqrt(plan.noise.var()) <= MOST_STAGE_NOISE * plan.n:
            return plan
    return _least_noise(task, None)


def _least_noise(task: DescentTask, stage: ScalingStage | None) -> DescentPlan:
    """Return the better of rows of bounded length and blocks that are paid for one by one."""
    passes = task.n_models * task.passes
    power = _row_power(task)
    plans = []
    if power:
        rows = row_lengths(task, stage is not None, power)
        gaussian = task.mechanism == "auto" and power == 2
        size = task.moved * float(rows.bound or 0.0) ** (1 / power)
        law = "gaussian" if gaussian else task.mechanism
        plans.append(_planned(task, stage, rows, law, (size, passes)))
    if not power or (task.mechanism == "auto" and power == 2):
        rows = blocks_apart(task)
        count = passes * (1 if task.order == "greedy" else len(task.blocks))
        plans.append(_planned(task, stage, rows, task.mechanism, (task.moved, count)))
    return min(plans, key=_predicted_noise)


def _planned(
    task: DescentTask,
    stage: ScalingStage | None,
    rows: RowBound,
    law: Any,
    releases: tuple[float, int],
) -> DescentPlan:
    ratio, shifts = 1.0, [releases]
    if stage is not None:
        ratio = stage_ratio(stage, releases, task.share, task.delta)
        shifts += [(size / ratio, count) for size, count in stage.shifts]
    noise, choice = task.noise(law, shifts)
    facts = (
        task.passes,
        task.n_models,
        task.order,
        task.size,
        rows,
        task.information,
        choice,
    )
    return DescentPlan(task.blocks, noise, stage, ratio, *facts)


def stage_ratio(
    stage: ScalingStage, releases: tuple[float, int], share: float | None, delta: float
) -> float:
    """Return the noise of the stage over that of a step, for the stage to have its share."""
    # Squares of shifts add up for Gaussian noise, and shifts for Laplace noise.
    power, usual = (2, STAGE_SHARE) if delta > 0 else (1, PURE_STAGE_SHARE)
    share, (size, count) = share or usual, releases
    spent = share / (1 - share) * count * size**power
    return float((sum(c * s**power for s, c in stage.shifts) / spent) ** (1 / power))


def _row_power(task: DescentTask) -> int:
    """Return in which power rows are bounded, by Theorem 6: 0 where they are not."""
    if task.clips or task.order == "greedy":  # no rows, or a block again and again
        return 0
    if task.delta == 0:
        return 1
    law = task.mechanism.law if type(task.mechanism) is Independent else task.mechanism
    # A subclass of Gaussian may draw anything.
    gaussian = law in ("auto", "gaussian") if isinstance(law, str) else type(law) is Gaussian
    return 2 if gaussian else 0


def _predicted_noise(plan: DescentPlan) -> float:
    """Return what the noise costs predictions, if all numbers have the variance they should."""
    blocks, number = plan.blocks, plan.blocks.number_places
    cost = np.square(np.array(blocks.sizes, dtype=float))
    cost[number] = plan.rows.radius**2 if plan.stage else 1 / usual_square(blocks)
    return float(plan.noise.var() * np.sum(cost / plan.rows.precision**2))
