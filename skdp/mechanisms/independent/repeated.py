"""One law and one scale for many scalar releases.

An iterative method releases numbers one after the other, each with fresh noise of one law and
one scale. One record changes each number by at most a size that is known in advance, so the
privacy losses are known in advance and add up (``docs/proofs/repeated_releases.md``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import (
    check_choice,
    check_count,
    check_epsilon,
    check_interval,
    check_positive,
    fail,
)
from skdp._identity import remembered
from skdp.mechanisms.independent._budget import Budget
from skdp.mechanisms.independent._law import check_law
from skdp.mechanisms.independent._releases import calibrated
from skdp.mechanisms.independent._worst_shift import Shift
from skdp.mechanisms.independent.noise import NAMES, Independent
from skdp.mechanisms.noise import BaseNoise, Publication, paid_in_full, published
from skdp.noise.law import Size
from skdp.privacy.guarantee import NEIGHBORS, Guarantee
from skdp.privacy.losses.losses import PrivacyLoss
from skdp.randomness import Lattice, RandomStateLike, granularity_of

MECHANISMS = ("auto", *NAMES)


@dataclass(frozen=True)
class Releases:
    """Planned scalar releases, and how much one record changes each of them.

    Parameters
    ----------
    shifts : sequence of (size, count)
        ``count`` releases, an int >= 1, that one record changes by at most ``size``, a float in
        (0, inf) in units of the released value. Stored in falling order, equal sizes together.
    neighbors : {"replace_one", "add_remove"}
        Relation for which the sizes hold.

    Raises
    ------
    ValueError
        If there is no pair, or one is out of range.

    Examples
    --------
    >>> Releases([(0.5, 10), (2.0, 3), (0.5, 2)], "replace_one").shifts
    ((2.0, 3), (0.5, 12))
    """

    shifts: Shift
    neighbors: str

    def __init__(self, shifts: Sequence[tuple[float, int]], neighbors: str) -> None:
        object.__setattr__(self, "shifts", _checked(shifts))
        object.__setattr__(self, "neighbors", check_choice("neighbors", neighbors, NEIGHBORS))

    @property
    def count(self) -> int:
        """Number of releases."""
        return sum(count for _, count in self.shifts)


@dataclass(frozen=True)
class RepeatedNoise(BaseNoise):
    """Noise for each of several scalar releases.

    Attributes
    ----------
    law : Law
        The law of the noise of one release, in units of the released value.
    guarantee : Guarantee
        Guarantee of all releases together, each with a draw of its own.
    losses : tuple of (PrivacyLoss, int)
        Losses of the releases with their numbers. They dominate the privacy loss of all
        releases, also if later ones depend on earlier results. Those of Gaussian noise are one.
    shifts : tuple of (float, int)
        The releases of the calibration, as in `Releases`.

    Examples
    --------
    >>> from skdp.mechanisms import calibrate_releases
    >>> noise = calibrate_releases(
    ...     "auto", [(1.0, 100)], neighbors="add_remove", epsilon=1.0, delta=1e-6
    ... )
    >>> type(noise).__name__, noise.guarantee.epsilon
    ('RepeatedNoise', 1.0)
    >>> daily = [noise.release([float(count)]) for count in (12, 15, 11)]
    >>> len(daily)
    3
    """

    law: Any
    guarantee: Guarantee
    losses: tuple[tuple[PrivacyLoss, int], ...]
    shifts: Shift
    dim: ClassVar[int] = 1
    log_concave: ClassVar[bool] = True

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        return granularity_of(self.law)

    def rvs(self, rng: Generator, size: Size = None) -> FloatArray:
        """Return independent draws of shape ``size``, (1,) if None, for simulations."""
        return np.asarray(self.law.rvs(1 if size is None else size, rng))

    @cached_property
    def publication(self) -> Publication:
        """Lattice and stretch of the release of one number."""
        return self.publication_for(np.ones(1), 1)

    def publication_for(self, factors: FloatArray, numbers: int) -> Publication:
        """Return the lattice and stretch of draws, each times a public factor.

        Parameters
        ----------
        factors : ndarray of shape (k,), entries > 0
        numbers : int
            Greatest number of values that one of the ``shifts`` pays for together.
        """
        halves = np.array([size / 2 for size, _ in self.shifts])
        distance = float(np.min(-np.expm1(math.log(2) + np.asarray(self.law.logsf(halves)))))
        count = sum(count for _, count in self.shifts)
        whole = max(math.exp(float(loss.log_delta(0.0))) for loss, _ in self.losses)

        def shrink(lattice: Lattice) -> float:
            # Each release is paid by its own distance, or all by that of the composition.
            cost = numbers / lattice.dither
            return min(paid_in_full(cost, distance), paid_in_full(cost * count, whole))

        return published(factors * math.sqrt(self.var()), self.granularity, shrink)

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Return numbers, (k,), with a draw each, on a lattice; see `KNormNoise.release`.

        Each number is one of the releases for which the noise was calibrated.
        """
        count = np.size(value)
        lattice, stretch = self.publication_for(np.ones(count), 1)
        return lattice.publish(value, lambda generator: stretch * self.rvs(generator, count), rng)

    def var(self) -> float:
        """Return the variance of the noise of one release."""
        return float(self.law.var())

    def variance(self) -> FloatArray:
        """Return the variance of one draw, (1,)."""
        return np.array([self.var()])

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return self.rvs(rng, (n, 1))


def calibrate_releases(
    mechanism: Any,
    shifts: Sequence[tuple[float, int]],
    *,
    neighbors: str,
    epsilon: float,
    delta: float = 0.0,
) -> RepeatedNoise:
    """Return the noise of least variance for which all releases together are private.

    Parameters
    ----------
    mechanism : str, Law or Independent
        A law, or the name of one, as in `Independent`, or an `Independent` without proportions.
        "auto" takes the first of "laplace", "gaussian", "logistic", "flipped_huber" and
        "offset_gaussian" whose variance is within a thousandth of the least; with delta = 0
        it compares "laplace" and "logistic".
    shifts, neighbors
        As in `Releases`. The sizes must be public, and known in advance.
    epsilon : float in (0, inf)
    delta : float in [0, 1)
        0 is possible only for a law with a bounded privacy loss: "laplace", "logistic",
        `Subbotin(1)`, and any law with ``greatest_slope()``.

    Returns
    -------
    RepeatedNoise
        Each number needs a fresh draw. The released values, the order of the sizes and the time
        to stop may depend on earlier results. The greatest number of releases and their sizes
        may not (docs/proofs/repeated_releases.md, Theorem 1).

    Raises
    ------
    ValueError
        If a parameter is out of range, or the mechanism is not a law.

    Examples
    --------
    >>> noise = calibrate_releases(
    ...     "auto", [(0.1, 10_000)], neighbors="replace_one", epsilon=1.0, delta=1e-6
    ... )
    >>> type(noise.law).__name__, round(noise.law.std(), 2)
    ('Gaussian', 42.25)
    """
    releases = Releases(shifts, neighbors)
    budget = Budget(
        check_epsilon(epsilon),
        check_interval("delta", delta, 0.0, 1.0, closed="left"),
    )
    return _calibrated(_law_or_name(mechanism), releases, budget)


@remembered(maxsize=256)
def _calibrated(mechanism: Any, releases: Releases, budget: Budget) -> RepeatedNoise:
    law, losses, told = calibrated(mechanism, releases.shifts, budget)
    guarantee = Guarantee(
        budget.epsilon,
        budget.delta,
        neighbors=releases.neighbors,
        mechanism=told,
        losses=losses if budget.delta > 0 else (),
    )
    return RepeatedNoise(law, guarantee, losses, releases.shifts)


def _law_or_name(mechanism: Any) -> Any:
    """Return the checked law, or a name."""
    if type(mechanism) is Independent:
        if mechanism.proportions is not None:
            raise fail("mechanism", "have no proportions: there is one scale for all releases")
        return mechanism.law
    if isinstance(mechanism, str):
        return check_choice("mechanism", mechanism, MECHANISMS, "Or give a law, as Laplace().")
    check_law(mechanism, "mechanism")
    return mechanism


def _checked(shifts: Any) -> Shift:
    """Return the shifts in falling order, equal sizes counted together."""
    remedy = "Write shifts=[(2.0, 100)], say: 100 numbers that one record moves by at most 2."
    pairs = isinstance(shifts, tuple | list) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in shifts
    )
    if not pairs or not shifts:
        raise fail("shifts", "be one or more pairs of a size and a count", remedy=remedy)
    counts: Counter[float] = Counter()
    for size, count in shifts:
        counts[check_positive("size in shifts", size)] += check_count("count in shifts", count)
    return tuple(sorted(counts.items(), reverse=True))
