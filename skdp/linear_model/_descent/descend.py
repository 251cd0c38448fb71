"""Noisy proximal coordinate descent.

Each step releases the gradient of one block with noise and moves its coordinates; everything else
is made of what was released. Statement and proof: ``docs/proofs/coordinate_descent.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._draws import gumbels
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.records import Predictors
from skdp.linear_model._shared.gram import GRAM_BITS
from skdp.mechanisms.noise import Publication

# Called with the number of passes made and the coordinates; whether to stop.
Watch = Callable[[int, FloatArray], bool]

# Coordinates stay in this box: coefficients are finite whatever the steps.
FARTHEST = 2.0**20
# About so many numbers are drawn at once.
_DRAWN = 2**10
# How much finer than the sums the noise of a choice is.
_MORE_BITS = 64


@dataclass(frozen=True, eq=False)
class Descent:
    """How one model is fitted; public, or released by now.

    Attributes
    ----------
    blocks : Blocks
    unit : ndarray of shape (dim,)
        What a gradient of 1 stands for in each coordinate.
    clips : ndarray of shape (dim,) or None
        Bounds on what a record adds to each coordinate; None where the slope is bounded.
    noise_factor : ndarray of shape (blocks,)
        Factors on the noise of each block.
    step : ndarray of shape (dim,)
        Steps per unit of the summed gradient; 0 where a coordinate is not to move.
    l1, ridge : ndarray of shape (dim,)
        The penalty sum_j l1_j |t_j| + ridge_j t_j^2 / 2 on the summed loss.
    n_passes : int
    order : {"cyclic", "random", "greedy"}
        A greedy pass is one step: it takes all gradients.
    average : bool
        Whether to average over the second half of the passes.
    published : Publication
        How the gradients of a pass are published.
    choice : float or None
        Scale of the Gumbel noise by which greedy coordinates are chosen.
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

    def run(
        self,
        predictors: Predictors,
        start: FloatArray,
        noise: Any,
        rng: Generator,
        watch: Watch,
    ) -> FloatArray:
        """Return the coordinates after all passes, (dim,)."""
        theta = start.clip(-FARTHEST, FARTHEST)
        for block, place in enumerate(self.blocks.places):
            predictors.move(block, theta[place])
        tail: list[FloatArray] = []
        release = _Release(self, noise, rng)
        for done in range(1, self.n_passes + 1):
            self._pass(theta, predictors, release, rng)
            if 2 * done > self.n_passes:
                tail.append(theta.copy())
            if watch(done, theta.copy()):
                break
        return _averaged(tail) if self.average and tail else theta

    def _pass(
        self, theta: FloatArray, predictors: Predictors, release: _Release, rng: Generator
    ) -> None:
        if self.order == "greedy":
            self._greedy_step(theta, predictors, release, rng)
            return
        release.renew()  # once for a pass: no block comes twice
        for block in self._order(rng):
            place = self.blocks.places[block]
            gradient = release(place, predictors.gradient(block))
            predictors.move(block, self._move(theta, place, gradient))

    def _order(self, rng: Generator) -> Iterator[int]:
        count = len(self.blocks)
        if self.order == "random":
            return iter(rng.permutation(count).tolist())
        return iter(range(count))

    def _greedy_step(
        self, theta: FloatArray, predictors: Predictors, release: _Release, rng: Generator
    ) -> None:
        """Move the coordinate whose gradient seems steepest."""
        exact = predictors.gradients()
        j = self._steepest(theta, exact, rng)
        place = slice(j, j + 1)
        release.renew()
        gradient = release(place, exact[place])
        block = int(np.searchsorted([p.stop for p in self.blocks.places], j, side="right"))
        change = np.zeros(self.blocks.sizes[block])
        change[j - self.blocks.places[block].start] = self._move(theta, place, gradient)[0]
        predictors.move(block, change)

    def _steepest(self, theta: FloatArray, exact: NDArray[Any], rng: Generator) -> int:
        """Draw a coordinate by the exponential mechanism; the score is the least subgradient."""
        assert self.choice is not None
        known = np.where(theta != 0, np.sign(theta) * self.l1 + self.ridge * theta, 0.0)
        slack = np.where(theta == 0, self.l1, 0.0)
        known, slack = known / self.unit, slack / self.unit
        gumbel = self.choice * gumbels(len(theta), rng)
        best, at = -math.inf, 0
        for j in np.flatnonzero(self.blocks.free).tolist():
            # Integers: rounding would say something of the sums. The noise's own digits go on.
            score = max(abs(int(exact[j]) + _fixed(known[j])) - _fixed(slack[j]), 0)
            noisy = (score << _MORE_BITS) + math.floor(
                math.ldexp(gumbel[j], GRAM_BITS + _MORE_BITS)
            )
            if noisy > best:
                best, at = noisy, j
        return at

    @np.errstate(all="ignore")  # what overflows ends at the box
    def _move(self, theta: FloatArray, place: slice, gradient: FloatArray) -> FloatArray:
        """Move some coordinates, and return by how much."""
        step, old = self.step[place], theta[place].copy()
        target = old - step * self.unit[place] * gradient
        shrunk = np.sign(target) * np.maximum(np.abs(target) - step * self.l1[place], 0)
        theta[place] = (shrunk / (1 + step * self.ridge[place])).clip(-FARTHEST, FARTHEST)
        return np.asarray(theta[place] - old)


class _Release:
    """Releases the gradients of one model, with the noise of some passes drawn at once."""

    def __init__(self, descent: Descent, noise: Any, rng: Generator) -> None:
        blocks = descent.blocks
        self._noise, self._rng, self._open = noise, rng, descent.n_passes
        self._factors = np.repeat(descent.noise_factor, blocks.sizes)
        self._lattice, self._stretch = descent.published
        self._add = self._lattice.adder(-GRAM_BITS)
        self._passes: Iterator[list[int]] = iter(())

    def renew(self) -> None:
        """Take fresh noise for every coordinate."""
        grains = next(self._passes, None)
        if grains is None:
            self._passes = self._drawn()
            grains = next(self._passes)
        self._grains = grains

    def _drawn(self) -> Iterator[list[int]]:
        """Draw the noise of the next passes."""
        dim = len(self._factors)
        count = min(self._open, max(1, _DRAWN // dim))
        self._open -= count
        draws = self._stretch * self._factors * self._noise.rvs(self._rng, (count, dim))
        grains = self._lattice.repeated(count).grains(-GRAM_BITS, draws.ravel(), self._rng)
        return (grains[at : at + dim] for at in range(0, len(grains), dim))

    def __call__(self, place: slice, exact: NDArray[Any]) -> FloatArray:
        """Return exact sums in units of 2^-40 with their noise."""
        return self._add(place, exact.tolist(), self._grains[place])


def _fixed(value: float) -> int:
    """Return a public number in units of 2^-40."""
    return round(math.ldexp(value, GRAM_BITS))


def _averaged(tail: list[FloatArray]) -> FloatArray:
    """Return the mean; 0 where most are 0, as with an l1 penalty."""
    stacked = np.array(tail)
    mostly = np.mean(stacked == 0, axis=0) > 0.5
    return np.where(mostly, 0.0, stacked.mean(axis=0))
