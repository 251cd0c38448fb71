"""Uniform draws from a body given by its gauge and support.

Rejection from a box around the body is exact. The probability that a uniform point of a box L
falls into K is vol K / vol L. It is also the mean over U uniform on L of (|U|_L / |U|_K)^d, the
measure of K along a ray over that of L, which can be estimated even if no point falls into K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray

# Rays for the estimate of a share, fewer if each of them needs a solver.
PILOT = {True: 1024, False: 48}
# Greatest number of points of one trial.
BLOCK = 2**15


class Body(Protocol):
    """A symmetric convex body with interior."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""

    @property
    def decided(self) -> bool:
        """Whether the gauge is exact up to rounding, without a solver's tolerance."""

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""

    def contains(self, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether v is in the body, (..., dim) to (...)."""

    def support(self, w: ArrayLike) -> FloatArray:
        """Return an upper bound on <w, u>, tight to a solver's tolerance: (..., dim) to (...)."""


@dataclass(frozen=True, eq=False)
class Box:
    """The box {u : |axes u| <= half_widths}, rows of ``axes`` orthonormal."""

    axes: FloatArray
    half_widths: FloatArray

    def log_volume(self) -> float:
        return float(np.log(2 * self.half_widths).sum())

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        return np.asarray(rng.uniform(-1, 1, (n, len(self.axes))) * self.half_widths @ self.axes)

    def shares(self, body: Body, n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return n draws and (|U|_L / |U|_K)^d of each, whose mean is vol K / vol L."""
        unit = rng.uniform(-1, 1, (n, len(self.axes)))
        u = unit * self.half_widths @ self.axes
        return u, (np.abs(unit).max(axis=1) / body.gauge(u)) ** len(self.axes)


def box_around(body: Body, rng: Generator) -> tuple[Box, float]:
    """Return the lesser of two boxes around a body, and about the body's share of its volume.

    One is along the coordinates, the other along the principal axes of the body.
    """
    first = _box(body, np.eye(body.dim))
    pilot = PILOT[body.decided]
    u, shares = first.shares(body, pilot, rng)
    # The ray of a point is shorter in K by |U|_L / |U|_K.
    inside = u * shares[:, None] ** (1 / body.dim)
    second = np.einsum("n,ni,nj->ij", shares, inside, inside)
    _, axes = np.linalg.eigh(second)
    other = _box(body, axes.T)
    if other.log_volume() > first.log_volume() - 0.05:
        return first, float(shares.mean())
    return other, float(other.shares(body, pilot, rng)[1].mean())


def reject(body: Body, box: Box, share: float, n: int, rng: Generator) -> FloatArray:
    """Return n uniform draws, (n, dim), by rejection from the box."""
    kept, count = [np.empty((0, body.dim))], 0
    while count < n:
        tries = int(min(BLOCK, 16 + 1.2 * (n - count) / share))
        tried = box.sample(tries, rng)
        inside = tried[body.contains(tried)]
        kept.append(inside)
        count += len(inside)
    return np.concatenate(kept)[:n]


def walk(body: Body, box: Box, n: int, rng: Generator, steps: int) -> FloatArray:
    """Return n ends of hit-and-run walks from 0, (n, dim), nearly uniform after many steps."""
    x = np.zeros((n, body.dim))
    for _ in range(steps if n else 0):
        way = rng.standard_normal(x.shape) * box.half_widths @ box.axes
        x = _hit(body, x, way, rng)
    return x


def _box(body: Body, axes: FloatArray) -> Box:
    return Box(axes, body.support(axes))


def _hit(body: Body, x: FloatArray, way: FloatArray, rng: Generator) -> FloatArray:
    """Move each row to a uniform point of the chord through it."""
    # The chord lies within 2 / |way|; a miss excludes the points beyond it.
    high = 2 / body.gauge(way)
    low, t = -high, rng.uniform(-high, high)
    out = ~body.contains(x + t[:, None] * way)
    while out.any():
        low, high = np.where(out & (t < 0), t, low), np.where(out & (t > 0), t, high)
        t = np.where(out, rng.uniform(low, high), t)
        out[out] = ~body.contains((x + t[:, None] * way)[out])
    return np.asarray(x + t[:, None] * way)
