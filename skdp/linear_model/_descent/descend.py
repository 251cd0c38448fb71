"""Noisy proximal coordinate descent.

Each step releases the gradient of one block with noise and moves its coordinates. All other
computations use only released numbers. Statement and proof: ``docs/proofs/coordinate_descent.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._draws import gumbels
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.gradients import Gradients
from skdp.linear_model._shared.gram import SUM_BITS, in_sum_units
from skdp.mechanisms.noise import Publication

# Called with the number of completed passes and the coordinates. Returns whether to stop.
Watch = Callable[[int, FloatArray], bool]

# Coordinates are clipped to this, so that coefficients are finite for any step size.
FARTHEST = 2.0**20
# Targets of steps with a penalty Q are clipped to this: sums of infinite ones are not defined.
_MOST = 1e100
# About how many numbers are drawn at once.
_DRAWN = 2**10
# Additional bits of the noise of a choice, relative to the sums.
_MORE_BITS = 34


@dataclass(frozen=True, eq=False)
class Descent:
    """The parameters of the descent of one model; public or already released.

    Attributes
    ----------
    unit : ndarray of shape (dim,)
        Unit of the gradient of each coordinate.
    clips : ndarray of shape (dim,) or None
        Bounds on the contribution of a record to each coordinate. None if the derivative of the
        loss is bounded.
    noise_factor : ndarray of shape (blocks,)
        Factors on the noise of each block.
    step : ndarray of shape (dim,)
        Step per unit of the summed gradient; 0 for coordinates that do not move.
    l1, ridge : ndarray of shape (dim,)
        The penalty sum_j l1_j |t_j| + ridge_j t_j^2 / 2 on the summed loss.
    order : {"cyclic", "random", "greedy"}
        A greedy pass is one step, which uses all gradients.
    average : bool
        Whether to average over the second half of the passes.
    published : Publication
        How the gradients of a pass are published.
    choice : float or None
        Scale of the Gumbel noise by which greedy coordinates are chosen.
    classes : tuple of int
        The number of classes of a joint model, which are the last axis of coordinates and
        gradients, or nothing. Then arrays of shape (dim,) have the shape (dim, 1).
    rough : dict of int to ndarray
        For some blocks, whose l1 is 0, a matrix Q of shape (size, size) of the further penalty
        t'Q t / 2.
    """

    blocks: Blocks
    unit: FloatArray
    clips: FloatArray | None
    noise_factor: FloatArray
    step: FloatArray
    l1: FloatArray
    ridge: FloatArray
    n_passes: int
    order: str
    average: bool
    published: Publication
    choice: float | None = None
    classes: tuple[int, ...] = ()
    rough: dict[int, FloatArray] = field(default_factory=dict)

    def run(
        self, gradients: Gradients, start: FloatArray, noise: Any, rng: Generator, watch: Watch
    ) -> FloatArray:
        """Return the coordinates after all passes, (dim, *classes)."""
        theta = start.clip(-FARTHEST, FARTHEST)
        for block, place in enumerate(self.blocks.places):
            gradients.move(block, theta[place])
        tail: list[FloatArray] = []
        release = _Release(self, noise, rng)
        for done in range(1, self.n_passes + 1):
            self._pass(theta, gradients, release, rng)
            if 2 * done > self.n_passes:
                tail.append(theta.copy())
            if watch(done, theta.copy()):
                break
        return _averaged(tail) if self.average and tail else theta

    def _pass(
        self, theta: FloatArray, gradients: Gradients, release: _Release, rng: Generator
    ) -> None:
        if self.order == "greedy":
            self._greedy_step(theta, gradients, release, rng)
            return
        release.renew()  # once per pass, in which each block occurs once
        count = len(self.blocks)
        blocks = rng.permutation(count).tolist() if self.order == "random" else range(count)
        for block in blocks:
            place = self.blocks.places[block]
            gradient = release(place, gradients.of_block(block))
            gradients.move(block, self._move(theta, block, place, gradient))

    def _greedy_step(
        self, theta: FloatArray, gradients: Gradients, release: _Release, rng: Generator
    ) -> None:
        """Move the coordinate with the largest noisy gradient."""
        exact = gradients.of_all()
        j = self._steepest(theta, exact, rng)
        place = slice(j, j + 1)
        release.renew()
        gradient = release(place, exact[place])
        block = int(np.searchsorted([p.stop for p in self.blocks.places], j, side="right"))
        change = np.zeros(self.blocks.sizes[block])
        moved = self._move(theta, block, place, gradient)
        change[j - self.blocks.places[block].start] = moved[0]
        gradients.move(block, change)

    def _steepest(self, theta: FloatArray, exact: NDArray[Any], rng: Generator) -> int:
        """Draw a coordinate by the exponential mechanism; the score is the least subgradient."""
        assert self.choice is not None
        known = np.where(theta != 0, np.sign(theta) * self.l1 + self.ridge * theta, 0.0)
        for block, rough in self.rough.items():
            known[self.blocks.places[block]] += rough @ theta[self.blocks.places[block]]
        slack = np.where(theta == 0, self.l1, 0.0)
        known, slack = known / self.unit, slack / self.unit
        gumbel = self.choice * gumbels(len(theta), rng)
        best, at, sums = -math.inf, 0, in_sum_units(exact).tolist()
        for j in np.flatnonzero(self.blocks.free).tolist():
            # Integers: rounding errors would depend on the sums. The noise has additional bits.
            score = max(abs(sums[j] + _fixed(known[j])) - _fixed(slack[j]), 0)
            noisy = (score << _MORE_BITS) + math.floor(math.ldexp(gumbel[j], SUM_BITS + _MORE_BITS))
            if noisy > best:
                best, at = noisy, j
        return at

    @np.errstate(all="ignore")  # infinite coordinates are clipped to the box
    def _move(
        self, theta: FloatArray, block: int, place: slice, gradient: FloatArray
    ) -> FloatArray:
        """Move some coordinates, and return the change."""
        if self.classes:
            # A common move of all classes would change no prediction.
            gradient = gradient - gradient.mean(axis=-1, keepdims=True)
        step, old = self.step[place], theta[place].copy()
        target = old - step * self.unit[place] * gradient
        shrunk = np.sign(target) * np.maximum(np.abs(target) - step * self.l1[place], 0)
        kept = 1 + step * self.ridge[place]
        if block in self.rough:
            moved = self._smooth(theta, block, place, shrunk, kept)
        else:
            moved = shrunk / kept
        theta[place] = moved.clip(-FARTHEST, FARTHEST)
        return np.asarray(theta[place] - old)

    def _smooth(
        self, theta: FloatArray, block: int, place: slice, target: FloatArray, kept: FloatArray
    ) -> FloatArray:
        """Return the coordinates that minimise the model of a step with the penalty Q."""
        whole, step = self.blocks.places[block], self.step[place]
        own = slice(place.start - whole.start, place.stop - whole.start)
        rough = self.rough[block][own]
        others = rough @ theta[whole] - rough[:, own] @ theta[place]
        matrix = np.diag(kept.ravel()) + step.reshape(-1, 1) * rough[:, own]
        return np.linalg.solve(matrix, (target - step * others).clip(-_MOST, _MOST))


class _Release:
    """Releases of the gradients of one model; the noise of some passes is drawn at once."""

    def __init__(self, descent: Descent, noise: Any, rng: Generator) -> None:
        self._noise, self._rng, self._n_passes = noise, rng, descent.n_passes
        self._width = math.prod(descent.classes)
        self._factors = np.repeat(descent.noise_factor, descent.blocks.sizes).repeat(self._width)
        self._lattice, self._stretch = descent.published
        self._add = self._lattice.adder(-SUM_BITS)
        self._passes = self._drawn()

    def renew(self) -> None:
        """Use new noise for every coordinate."""
        self._grains = next(self._passes)

    def _drawn(self) -> Iterator[list[int]]:
        """Yield the noise of each pass; that of some passes is drawn at once."""
        dim, left = len(self._factors), self._n_passes
        while left > 0:
            count = min(left, max(1, _DRAWN // dim))
            left -= count
            draws = self._stretch * self._factors * self._noise.rvs(self._rng, (count, dim))
            grains = self._lattice.repeated(count).grains(-SUM_BITS, draws.ravel(), self._rng)
            yield from (grains[at : at + dim] for at in range(0, len(grains), dim))

    def __call__(self, place: slice, exact: NDArray[Any]) -> FloatArray:
        """Return exact sums, in units of 2^-40, plus their noise."""
        own = slice(place.start * self._width, place.stop * self._width)
        found = self._add(own, in_sum_units(exact.ravel()).tolist(), self._grains[own])
        return found.reshape(exact.shape)


def _fixed(value: float) -> int:
    """Return a public number in units of 2^-70."""
    return round(math.ldexp(value, SUM_BITS))


def _averaged(tail: list[FloatArray]) -> FloatArray:
    """Return the mean, or 0 if most values are 0, as with an l1 penalty."""
    stacked = np.array(tail)
    mostly = np.mean(stacked == 0, axis=0) > 0.5
    return np.where(mostly, 0.0, stacked.mean(axis=0))
