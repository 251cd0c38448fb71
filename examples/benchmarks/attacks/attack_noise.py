"""Attacks 2 and 3 on single numbers: cells that the sampler reaches unevenly, and plain floats.

Of numpy's Gaussian sampler everything is public: strip i of 256 gives a whole number below 2^52
times a float. So the probability of each lattice cell can be counted, and with it the likelihood
ratio of two values that a neighbour may have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.benchmarks.attacks.attack_report import (
    ALARM,
    FloatArray,
    Verdict,
    guesses,
    hits,
    refused,
)
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate
from skdp.mechanisms.independent import calibrate_releases
from skdp.noise.independent import RepeatedNoise

STRIPS, TOP, UNIT = 256, 2.0**52, 2.0**40
# Where the sampler's strips end.
LAST = 3.6541528853610088
# Two values at most 1 apart, whose difference has a lowest bit of 2^-40.
FIRST, SECOND = 0, 2**40 - 1
EXAMPLE = Path(__file__).parents[2] / "07_your_own_parts.py"
RELEASES, MOST = 10_000, 1000


def attacks(fits: int, seed: int) -> Iterator[Verdict]:
    """Attack Gaussian noise in one dimension, and what a user would publish."""
    draws = 400 * fits
    yield reached_delta(0.01, draws, np.random.default_rng([seed, 2, 0]))
    yield identified(0.001, draws, np.random.default_rng([seed, 2, 1]))
    yield many_releases(fits // 2, np.random.default_rng([seed, 2, 2]))
    for name, delta in (("laplace", 0.0), ("gaussian", 1e-6)):
        yield near_zero(name, delta, draws // 4, np.random.default_rng([seed, 3, 0]))
    code = re.sub(r"#.*", "", EXAMPLE.read_text(encoding="utf-8"))
    told = re.search(r"[+-] *\w+\.rvs\(", code)
    error = None if told else "adds no rvs"
    yield refused("rvs as a release in example 07", error, "adds rvs to a number")


def reached_delta(epsilon: float, draws: int, rng: np.random.Generator) -> Verdict:
    """Estimate delta(epsilon) by the exact probabilities of the cells that were released."""
    noise = one_number(epsilon, 1e-6)
    one, other = log_chances(noise, draws, rng)
    excess = -np.expm1(np.minimum(epsilon + other - one, 0.0))
    found = float(excess.mean())
    # Hoeffding, for what lies in [0, 1] and has a mean of at most delta; counted to a share
    # of the cells, an exact ratio may be off by 2^-20 or so.
    most = binomial_most(draws, 1e-6) / draws + 2.0**-18
    allowed = f"delta({epsilon:g}) 1e-06, {most:.1e} by chance 1e-6"
    return Verdict(f"coarse noise, {epsilon=:g}", f"delta {found:.2e}", allowed, found <= most)


def binomial_most(draws: int, chance: float) -> int:
    """Return what a sum of draws in [0, 1] of this mean exceeds with probability 1e-6 at most."""
    k = 1
    # The tail of a sum is at most (e c n / k)^k for k above its mean c n (Chernoff).
    while k * (math.log(k / (chance * draws)) - 1) + chance * draws < -math.log(ALARM):
        k += 1
    return k


def identified(epsilon: float, draws: int, rng: np.random.Generator) -> Verdict:
    """Count releases that cannot come from the other value."""
    noise = one_number(epsilon, 1e-6)
    one, other = log_chances(noise, draws, rng)
    events = int(((other == -np.inf) & (one > -np.inf)).sum())
    return hits(f"coarse noise, {epsilon=:g}", events, draws, 1e-6, "identified")


def many_releases(trials: int, rng: np.random.Generator) -> Verdict:
    """Guess a bit from ten thousand releases, which are (1, 1e-6)-private together."""
    noise = calibrate_releases(
        "gaussian", [(1.0, RELEASES)], neighbors="add_remove", epsilon=1.0, delta=1e-6
    )
    right = 0
    for truth in rng.integers(2, size=trials):
        one, other = log_chances(noise, RELEASES, rng, swapped=bool(truth))
        ratio = np.nan_to_num(one - other, nan=0.0, posinf=1e6, neginf=-1e6).sum()
        right += bool(ratio > 0)
    return guesses("coarse noise, 10,000 releases", right, trials, noise.guarantee)


def near_zero(name: str, delta: float, draws: int, rng: np.random.Generator) -> Verdict:
    """Publish 0 and look for numbers near it that cannot come from publishing 1.

    A float in [1/2, 1] is a multiple of 2^-54: so is a sum near 0 of 1 and noise.
    """
    noise = calibrate(name, Sensitivity(LpBall(1)), epsilon=1.0, delta=delta)
    tables = [published(noise, value, draws, rng) for value in (0.0, 1.0)]
    events, never = (
        int(((np.abs(v) < 0.5) & (np.mod(v * 2.0**54, 1.0) != 0)).sum()) for v in tables
    )
    assert not never
    return hits(f"published numbers, {name}", events, draws, delta, "not from the other")


def one_number(epsilon: float, delta: float) -> Any:
    return calibrate("gaussian", Sensitivity(LpBall(1)), epsilon=epsilon, delta=delta)


def published(noise: Any, value: float, count: int, rng: np.random.Generator) -> FloatArray:
    """Publish a number as often as asked, as the manual says."""
    if isinstance(noise, RepeatedNoise):
        return np.asarray(noise.release(np.full(count, value), rng))
    return np.array([noise.release(np.array([value]), rng)[0] for _ in range(count)])


def log_chances(
    noise: Any, draws: int, rng: np.random.Generator, swapped: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Publish a value, and return the log probabilities of what came from it and the other."""
    scale = math.sqrt(float(noise.covariance()[0, 0]))
    truth, lie = (SECOND, FIRST) if swapped else (FIRST, SECOND)
    seen = [round(v * UNIT) for v in published(noise, truth / UNIT, draws, rng).tolist()]
    # The public spacing, read off what is released.
    together = math.gcd(*seen)
    step = together & -together
    found = []
    for value in (truth, lie):
        rest = np.array([v - value for v in seen], dtype=np.int64)
        parts = [log_counts(rest[at : at + MOST], step, scale) for at in range(0, draws, MOST)]
        found.append(np.concatenate(parts))
    unknown = np.isnan(found[0]) | np.isnan(found[1])
    one, other = (np.where(unknown, 0.0, logs) for logs in found)
    return one, other


def log_counts(rest: NDArray[np.int64], step: int, scale: float) -> FloatArray:
    """Return logs of how much of the sampler falls in cells [rest, rest + step) of the lattice.

    Where a float's last bit is above the step, cells are as wide as that bit. NaN stands for the
    tail beyond the strips, which is drawn in another way.
    """
    bits = np.maximum(np.frexp(np.abs(rest.astype(float)))[1] - 53, 0)
    width = np.maximum(step, 2**bits)
    low = rest // width * width
    near = np.where(low >= 0, low, -low - width)[:, None].astype(float)
    far = near + width[:, None]
    # Rounding down puts the end that is nearer to 0 into a negative cell's neighbour.
    open_ends = (low < 0)[:, None]
    first, last = (below(end, open_ends, scale) for end in (near, far))
    counts = ((last - first) * kept(near / UNIT / scale)).sum(axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(counts) - np.log(width)
    return np.where(far[:, 0] / UNIT / scale < LAST, logs, np.nan)


def below(end: FloatArray, open_end: NDArray[np.bool_], scale: float) -> FloatArray:
    """Return how many numbers of each strip give noise below ``end``, or up to it."""
    factor = tables()
    near = np.floor(end / UNIT / scale / factor)[:, :, None] + np.arange(-3.0, 5.0)
    noise = (near * factor[:, None]) * scale * UNIT
    inside = np.where(open_end[:, :, None], noise <= end[:, :, None], noise < end[:, :, None])
    return np.clip(near[:, :, 0] + inside.sum(axis=2), 0.0, TOP)


def kept(z: FloatArray) -> FloatArray:
    """Return which share of each strip's numbers near z is kept by the sampler."""
    edges = tables() * TOP
    inner = np.concatenate([[LAST], [0.0], edges[1:-1]])
    heights = np.exp(-np.square(edges) / 2)
    above = np.concatenate([[1.0], [1.0], heights[1:-1]])
    wedge = (np.exp(-np.square(z) / 2) - heights) / (above - heights)
    return np.where(z < inner, 1.0, np.clip(wedge, 0.0, 1.0) * (np.arange(STRIPS) > 0))


@cache
def tables() -> FloatArray:
    """Return the 256 factors, (256,): the floats that explain draws of known bits."""
    raw, drawn = np.random.PCG64(0), np.random.default_rng(np.random.PCG64(0))
    seen: list[list[tuple[int, float]]] = [[] for _ in range(STRIPS)]
    for _ in range(60_000):
        raw.state = drawn.bit_generator.state
        x = abs(drawn.standard_normal())
        bits = int(raw.random_raw())
        # One word gives strip and number; a second one keeps or rejects what is at the edge.
        ends = raw.state, raw.advance(1).state
        if drawn.bit_generator.state in ends:
            seen[bits & 255].append(((bits >> 9) & (2**52 - 1), x))
    return np.array([explained(pairs) for pairs in seen])


def explained(pairs: list[tuple[int, float]]) -> float:
    """Return the factor with number * factor == x for all pairs."""
    numbers, x = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    guess = x[np.argmax(numbers)] / numbers.max()
    tried = guess + np.spacing(guess) * np.arange(-4, 5)
    fits = (tried[:, None] * numbers == x).all(axis=1)
    assert fits.sum() == 1
    return float(tried[fits][0])
