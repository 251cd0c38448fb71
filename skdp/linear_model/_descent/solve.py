"""Noisy proximal coordinate descent: models from many noisy gradients.

Each step releases the gradient of one block with noise and moves its coordinates. All other
computations use only released numbers, and so do scales, steps and penalties, which depend on the
scaling stage. The privacy proof holds for all of these choices (``docs/proofs/
coordinate_descent.md``). The origin of the constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

import numpy as np
from numpy.random import Generator

from skdp.linear_model._descent.advice import DescentPlan, more, usual_square
from skdp.linear_model._descent.gradients import Blocks, Exact, Gradients, Scaling, SoftmaxSlope
from skdp.linear_model._descent.theorem import RowBound
from skdp.linear_model._shared.gram import SUM_BITS, in_sum_units, release_exact, row_unit
from skdp.linear_model._shared.scaling import DESCENT
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import Release
from skdp.trusted.randomness import ahead, gumbels, publish

# The scaling stage


def release_stage(plan: DescentPlan, exact: Exact, rng: Generator) -> FloatArray:
    """Return exact sums of the scaling stage, in units of 2^-40, with noise."""
    stage, release = plan.stage, plan.releases[0]
    assert stage is not None
    if stage.norm is not None:
        return release_exact(release, exact, rng)
    sums = in_sum_units(exact).tolist()
    lattice, stretch = plan.published(plan.ratio * stage.units)
    scale = stretch * plan.ratio * stage.units

    def draw(generator: Generator) -> FloatArray:
        noise = scale * plan.noise.rvs(generator, len(sums))
        return lattice.release(sums, -SUM_BITS, noise, generator)

    facts = {"unit": -SUM_BITS, "scale": scale, "lattice": lattice}
    return publish(release, sums, draw, rng, **facts)


# The assumed variance of an encoded target, without a scaling stage.
USUAL_TARGET = 0.2
# Mean squares and shares of levels are increased by this many deviations of their noise: steps that
# are too long diverge, and shorter steps lose little.
CAUTION = 0.7


def scaling_of(plan: DescentPlan, released: FloatArray | None) -> Scaling:
    """Return the scaling from a stage's noisy sums, or that of the domain without a stage."""
    blocks, stage, rows = plan.blocks, plan.stage, plan.rows
    if stage is None or released is None:
        return plain_scaling(blocks, plan.size, rows)
    q, p, deviation = len(blocks.numbers), len(blocks.scaled), plan.stage_deviation
    # A count is at least one standard deviation of its noise.
    least = deviation * stage.units[0] if stage.sums.is_counted else 1.0
    seen = stage.sums.estimates(released, least=max(1.0, least))
    ends = np.cumsum([b.stop - b.start + 1 for b in blocks.level_columns])
    levels = np.split(seen.levels, ends[:-1])
    # Two levels are -1 and 1.
    flags = [float(shares[1] - shares[0]) for shares in compress(levels, blocks.is_flag)]
    mean = np.insert(seen.mean, [q] * len(flags), flags).clip(-1, 1)
    square = np.insert(seen.square, [q] * len(flags), 1.0).clip(0, 1)
    noise = np.full(len(mean), deviation / seen.n)
    noise[q:p] *= math.sqrt(2)
    centre = DESCENT.centre(mean, noise)
    # Noise must not hide that two levels vary.
    known = np.where(square < 1, mean, centre)
    if not blocks.intercept:  # numbers are not centred
        known[:q] = centre[:q] = 0.0
        centre[q:p] = -1.0
    variance = DESCENT.variance(square - known**2, noise)
    # High estimates of the mean squares about the centres.
    about = square - 2 * centre * mean + centre**2 + CAUTION * noise
    most = np.maximum(variance, np.minimum(about, (1 + np.abs(centre)) ** 2))
    squares = np.ones(blocks.dim)
    squares[blocks.number_places] = (most / variance)[:p] / rows.radius**2
    shares = np.concatenate([[], *(levels[k] for k in blocks.levels_of)]).clip(0)
    squares[blocks.first_levels :] = (shares + CAUTION * deviation / seen.n).clip(1 / seen.n, 1.0)
    deviations = np.sqrt(variance)
    target = (float(centre[-1]), float(deviations[-1])) if len(mean) > p else (0.0, 1.0)
    centre, scale = centre[:p], rows.radius * deviations[:p]
    # Encoded, two levels are 0 and 1.
    centre[q:] = (centre[q:] + 1) / 2
    scale[q:] /= 2
    return Scaling(seen.n, centre, scale, squares, *target, True, rows)


def plain_scaling(blocks: Blocks, n: float, rows: RowBound) -> Scaling:
    q, p = len(blocks.numbers), len(blocks.scaled)
    # Two levels are -1 and 1; without an intercept 0 and 1.
    centre = np.repeat([0.0, blocks.intercept / 2], [q, p - q])
    # Rows of a ball were divided by a power of two.
    unit = float(blocks.domain.radius or 1.0) / row_unit(blocks.domain)
    scale = np.repeat([unit, 1.0 - blocks.intercept / 2], [q, p - q])
    return Scaling(n, centre, scale, np.ones(blocks.dim), 0.0, math.sqrt(USUAL_TARGET), False, rows)


# Steps, penalties and clip radii

# Residuals are clipped at CLIP deviations of the target; the factor grows with this power of the
# information, as does the signal of a regression, and is at least LEAST. Without estimates, all
# passes together can move a mean by at least FARTHEST_MEAN.
CLIP, CLIP_POWER, LEAST, WHOLE_RANGE, FARTHEST_MEAN = 0.45, 0.33, 0.5, 2.0, 0.5
# For a joint model: assumptions of a `Kind`. The curvature is rarely near its bound in all classes,
# so steps are longer; they do not diverge below 2.
SIGNAL, MOST_STEP = 16.0, 1.8
# The penalty on differences of neighbouring coefficients of a spline, in units of the domain's.
SMOOTH = 0.5
# For each pass this many ridges are added to the curvature, up to a limit: shorter steps average
# the noise of many passes before slopes saturate.
DAMPING, MOST_DAMPING = 0.2, 3.0


@dataclass(frozen=True)
class Kind:
    """A loss, and assumptions of the rules about the model.

    The loss is the squared loss of a number (``is_regression``), or the logistic loss of labels.
    ``curvature`` and ``usual`` are its greatest and usual second derivative, ``score`` the mean
    squared derivative over the mean curvature. For the squared loss this and the following values
    are in units of the target's variance. All columns together add ``signal`` to the variance
    of the predictor at the usual information; it grows with the power ``signal_power`` of the
    information. ``intercept`` is the prior variance of the intercept, and ``step`` the usual length
    of steps in units of the inverse curvature.
    """

    is_regression: bool
    curvature: float
    usual: float
    score: float
    signal: float
    intercept: float
    step: float = 1.0
    signal_power: float = 0.0


LOGISTIC = Kind(False, 0.25, 0.25, score=0.6, signal=0.7, intercept=0.5)
# Where residuals are clipped the curvature is 0, so its mean is far below the greatest one. With
# more information they are clipped less, and smaller ridges are better.
SQUARED = Kind(True, 1.0, 1.0, score=0.5, signal=0.45, intercept=5.0, step=1.5, signal_power=0.5)


def joint_kind(slope: SoftmaxSlope) -> Kind:
    k, a = slope.n_classes, slope.normalizer
    step = min(k / 2, MOST_STEP)
    return Kind(False, a / 2, a * (1 - 1 / k) / k, 1 / a, SIGNAL, 0.5, step)


def information_of(plan: DescentPlan, scaling: Scaling) -> float:
    """Return the information; a private number of records is known by now, with noise."""
    return plan.information * scaling.n / plan.size


def curvatures(blocks: Blocks, scaling: Scaling, kind: Kind) -> FloatArray:
    """Return bounds on the second derivatives of the summed loss; estimates after a stage."""
    weight = _mean_weight(blocks, scaling.rows) if scaling.is_estimated else 1.0
    return np.asarray(scaling.n * weight * kind.curvature * scaling.square)


def _mean_weight(blocks: Blocks, rows: RowBound) -> float:
    """Return the approximate mean weight of records whose numbers all have variance 1."""
    numbers = max(len(blocks.scaled), 1)
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
    blocks = plan.blocks
    number, dim = blocks.number_places, blocks.dim
    share = {"l1": 1.0, "elasticnet": l1_ratio}.get(penalty, 0.0)
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
        grows = max(LEAST, more(information_of(plan, scaling), kind.signal_power))
        prior = np.full(dim, kind.signal * grows / max(1, len(blocks) - blocks.intercept))
        prior[number] *= per_number
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
    matrices = {}
    for block, differences in blocks.differences.items():
        place = blocks.places[block]
        unit, share = float(ridge[place].max()), scaling.square[place]
        inverse = unit / ridge[place]
        edges = -SMOOTH * differences * 2 / np.add.outer(inverse, inverse)
        np.fill_diagonal(edges, 0.0)
        matrix = np.diag(1 / inverse + edges.sum(axis=1)) - edges
        kept = share @ np.linalg.inv(matrix).diagonal() / (share @ inverse)
        matrices[block] = unit * kept * matrix
    return matrices


def residual_bound(plan: DescentPlan, scaling: Scaling) -> float:
    """Return the clip radius of residuals, for targets in [-1, 1]."""
    deviations = CLIP * max(LEAST, more(information_of(plan, scaling), CLIP_POWER))
    least = 0.0 if scaling.is_estimated else FARTHEST_MEAN / plan.passes
    return min(WHOLE_RANGE, max(least, deviations * scaling.target_deviation))


# The descent

# Called with the number of completed passes and the coordinates. Returns whether to stop.
Watch = Callable[[int, FloatArray], bool]

# Coordinates are clipped to this, so that coefficients are finite for any step size.
FARTHEST = 2.0**20
# Targets of steps with a penalty Q are clipped to this: sums of infinite ones are not defined.
_MOST_TARGET = 1e100
# The share of the passes before the average begins. More passes have less noise on average, but the
# first ones are far from the optimum.
SKIPPED = 0.25
# About how many numbers are drawn at once.
_DRAWN = 2**10
# Additional bits of the noise of a choice, relative to the sums.
_MORE_BITS = 34


@dataclass(frozen=True, eq=False)
class Descent:
    """The descent of one model, with parameters that are public or already released.

    A greedy pass is one step, which uses all gradients. The classes of a joint model are the last
    axis of coordinates and gradients. Then arrays of shape (dim,) have the shape (dim, 1).
    """

    plan: DescentPlan
    unit: FloatArray  # of the gradient of each coordinate, (dim,)
    step: FloatArray  # per unit of the summed gradient, (dim,); 0 where coordinates do not move
    l1: FloatArray  # the penalty sum_j l1_j |t_j| + ridge_j t_j^2 / 2 on the summed loss, (dim,)
    ridge: FloatArray
    average: bool  # whether to average over the passes, but for the first ones
    # For some blocks, whose l1 is 0, a matrix Q, (size, size), of the further penalty t'Q t / 2.
    rough: dict[int, FloatArray] = field(default_factory=dict)

    def run(
        self,
        gradients: Gradients,
        start: FloatArray,
        rng: Generator,
        watch: Watch,
    ) -> FloatArray:
        plan, places = self.plan, self.plan.blocks.places
        theta = start.clip(-FARTHEST, FARTHEST)
        for block, place in enumerate(places):
            gradients.move(block, theta[place])
        tail: list[FloatArray] = []
        releases = {own.name: own for own in plan.releases}
        passes = _passes(plan, releases["gradients"], rng)
        for done in range(1, plan.passes + 1):
            if plan.order == "greedy":
                exact = gradients.of_all()
                j = self._steepest(theta, exact, releases["choices"], rng)
                stops = [place.stop for place in places]
                block, place = int(np.searchsorted(stops, j, side="right")), slice(j, j + 1)
                change = np.zeros(plan.blocks.sizes[block])
                gradient = next(passes)(place, exact[place])
                change[j - places[block].start] = self._move(theta, block, place, gradient)[0]
                gradients.move(block, change)
            else:
                release = next(passes)  # in a pass each block occurs once
                order = range(len(places))
                is_random = plan.order == "random"
                for block in rng.permutation(len(places)).tolist() if is_random else order:
                    gradient = release(places[block], gradients.of_block(block))
                    gradients.move(block, self._move(theta, block, places[block], gradient))
            if done > SKIPPED * plan.passes:
                tail.append(theta.copy())
            if watch(done, theta.copy()):
                break
        if not (self.average and tail):
            return theta
        # The mean, or 0 if most values are 0, as with an l1 penalty.
        stacked = np.array(tail)
        mostly = np.mean(stacked == 0, axis=0) > 0.5
        return np.where(mostly, 0.0, stacked.mean(axis=0))

    def _steepest(self, theta: FloatArray, exact: Exact, release: Release, rng: Generator) -> int:
        """Draw a coordinate by the exponential mechanism; the score is the least subgradient."""
        scale, blocks = self.plan.choice, self.plan.blocks
        assert scale is not None
        slope = np.where(theta != 0, np.sign(theta) * self.l1 + self.ridge * theta, 0.0)
        for block, rough in self.rough.items():
            slope[blocks.places[block]] += rough @ theta[blocks.places[block]]
        slack = np.where(theta == 0, self.l1, 0.0)
        # Integers: rounding errors would depend on the sums. The noise has additional bits.
        sums, units = in_sum_units(exact).tolist(), self.unit
        public = [
            [round(math.ldexp(value, SUM_BITS)) for value in (values / units).tolist()]
            for values in (slope, slack)
        ]
        scores = [max(abs(g + k) - s, 0) for g, k, s in zip(sums, *public, strict=True)]
        free = np.flatnonzero(blocks.free).tolist()

        def draw(generator: Generator) -> int:
            noise = np.ldexp(scale * gumbels(len(theta), generator), SUM_BITS + _MORE_BITS)
            # The first of the greatest ones.
            return max(free, key=lambda j: (scores[j] << _MORE_BITS) + math.floor(noise[j]))

        facts = {"unit": -SUM_BITS, "scale": scale, "among": free}
        return publish(release, scores, draw, rng, **facts)

    @np.errstate(all="ignore")  # infinite coordinates are clipped to the box
    def _move(
        self, theta: FloatArray, block: int, place: slice, gradient: FloatArray
    ) -> FloatArray:
        if self.plan.classes:
            # A common move of all classes would change no prediction.
            gradient = gradient - gradient.mean(axis=-1, keepdims=True)
        step, old = self.step[place], theta[place].copy()
        target = old - step * self.unit[place] * gradient
        shrunk = np.sign(target) * np.maximum(np.abs(target) - step * self.l1[place], 0)
        kept = 1 + step * self.ridge[place]
        if block in self.rough:  # the minimiser of the model of a step with the penalty Q
            whole = self.plan.blocks.places[block]
            part = slice(place.start - whole.start, place.stop - whole.start)
            rough = self.rough[block][part]
            others = rough @ theta[whole] - rough[:, part] @ old
            matrix = np.diag(kept.ravel()) + step.reshape(-1, 1) * rough[:, part]
            target = (shrunk - step * others).clip(-_MOST_TARGET, _MOST_TARGET)
            new = np.linalg.solve(matrix, target)
        else:
            new = shrunk / kept
        theta[place] = new.clip(-FARTHEST, FARTHEST)
        return np.asarray(theta[place] - old)


def _passes(
    plan: DescentPlan, release: Release, rng: Generator
) -> Iterator[Callable[[slice, Exact], FloatArray]]:
    """Yield for each pass a function that adds noise to the exact sums at a place, and publishes.

    Exact sums are in units of 2^-40. The noise of some passes is drawn at once.
    """
    # With bounded rows one change bounds those of all blocks of a pass.
    parts = 1 if plan.rows.bound is None else len(plan.blocks)
    width, (lattice, stretch) = math.prod(plan.classes), plan.published(plan.factors)
    scale, add = stretch * plan.factors, lattice.adder(-SUM_BITS)
    dim, left = len(scale), plan.passes

    def released(
        grains: list[int], source: tuple[int | None, int, int], place: slice, exact: Exact
    ) -> FloatArray:
        part = slice(place.start * width, place.stop * width)
        sums = in_sum_units(exact.ravel()).tolist()
        facts = {"unit": -SUM_BITS, "scale": scale[part], "parts": parts, "lattice": lattice}
        facts["ahead"] = (*source, part, scale)
        found = publish(release, sums, lambda _: add(part, sums, grains[part]), rng, **facts)
        return np.reshape(found, exact.shape)

    while left > 0:
        count = min(left, max(1, _DRAWN // dim))
        left -= count
        stream = ahead(rng)
        draws = scale * plan.noise.rvs(rng, (count, dim))
        grains = lattice.repeated(count).grains(-SUM_BITS, draws.ravel(), rng)
        for at in range(0, len(grains), dim):
            yield partial(released, grains[at : at + dim], (stream, count, at))
