"""Independent noise of one law: in each coordinate of a release, or for many scalar releases.

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
    check_numbers,
    check_positive,
    check_positives,
    fail,
)
from skdp._identity import relied_on, remembered
from skdp.geometry.ball import ask
from skdp.mechanisms.gaussian import gaussian_scale
from skdp.mechanisms.noise import BaseNoise, Publication, paid_in_full, published
from skdp.mechanisms.scales import (
    FAMILIES,
    NAMES,
    PLAIN,
    Losses,
    Shift,
    WorstShift,
    check_law,
    composed_scale,
    excess_at,
    law_of,
    length_of,
    losses_of,
    pure_scale,
    scaled,
    worst_scale,
    worst_shift,
)
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.noise.law import Size
from skdp.privacy.guarantee import NEIGHBORS, Guarantee
from skdp.privacy.losses import PrivacyLoss, SelectionLoss
from skdp.randomness import Lattice, RandomStateLike, granularity_of

# Delta is spent only if it reduces the scale by more than this share.
LEAST_GAIN = 1e-3
# Proportions half-width^a are tried for these a: 1/2 is best for Gaussian noise on a box, 1/3 for
# pure Laplace noise on a box, and 1 for a ball whose corners lie on the axes.
_EXPONENTS = (0.0, 1 / 3, 1 / 2, 1.0)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class IndependentNoise(BaseNoise):
    """Independent noise: coordinate j is scale[j] X_j, all X_j of one law.

    Attributes
    ----------
    law : Law
        The law of every X_j.
    scale : array of shape (dim,), units of the released value
    guarantee : Guarantee
        Guarantee of one release.
    losses : tuple of (PrivacyLoss, int)
        Losses of the coordinates with their numbers. They dominate the privacy loss of the
        release at every epsilon.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("flipped_huber", Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01)
    >>> type(noise).__name__, float(noise.covariance()[0, 0].round(3))
    ('IndependentNoise', 1.704)
    >>> noise.release([412.0]).shape
    (1,)
    """

    law: Any
    scale: FloatArray
    guarantee: Guarantee
    losses: Losses = ()
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = check_numbers("scale", self.scale)
        if scale.ndim != 1 or not (np.isfinite(scale) & (scale > 0)).all():
            raise fail("scale", "hold one finite number > 0 for each coordinate", scale.shape)
        scale.setflags(write=False)
        object.__setattr__(self, "scale", scale)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.scale)

    def coordinate(self, j: int = 0) -> Any:
        """Return the law of the noise in coordinate j."""
        return self.law.scaled(float(self.scale[j]))

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        return granularity_of(self.law)

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,), for simulations; use ``release`` to publish a value."""
        return np.asarray(self.scale * self.law.rvs(self.dim, rng))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of a draw, (dim,)."""
        return np.asarray(self.law.var() * self.scale**2)

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return np.asarray(self.scale * self.law.rvs((n, self.dim), rng))


@dataclass(frozen=True)
class Independent:
    """Independent noise of one even log-concave law in every coordinate.

    The scale is calibrated at the worst difference: an extreme point of the sensitivity's ball,
    or a shift that majorises all of them (``docs/proofs/worst_shift.md``). The calibration of
    one coordinate is exact (``docs/proofs/one_release.md``); several coordinates are composed
    with certified bounds.

    Parameters
    ----------
    law : Law or str
        A law of `skdp.noise`, or any object with logpdf, logsf, isf, rvs, var and scaled whose
        density is even and log-concave. Its scale is calibrated. Or a name: "laplace",
        "gaussian", "logistic", or, with a shape of least variance, "flipped_huber", "subbotin",
        "truncated_laplace" and "offset_gaussian".
    proportions : array-like of shape (dim,), entries > 0, or None
        Scales of the coordinates up to a factor; they must be public. None tries the powers 0,
        1/3, 1/2 and 1 of the half-widths of the box around the differences, and takes those of
        least total variance.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = Independent("flipped_huber").calibrate(
    ...     Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01
    ... )
    >>> noise.covariance().round(4)
    array([[1.7038]])
    """

    law: Any
    proportions: ArrayLike | None = None

    def __post_init__(self) -> None:
        if isinstance(self.law, str):
            check_choice("law", self.law, NAMES, "Or give a law, such as Laplace().")
        else:
            check_law(self.law)
        if self.proportions is not None:
            proportions = check_positives("proportions", self.proportions)
            object.__setattr__(self, "proportions", proportions)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> IndependentNoise:
        """Return such noise that is (epsilon, delta)-private.

        delta = 0 is possible for laws with a bounded privacy loss: Laplace, Logistic, Subbotin(1).
        If delta reduces their scale by less than a thousandth, as for a Laplace variable and a
        small delta, it is not spent and the guarantee has delta = 0.
        """
        epsilon = check_epsilon(epsilon)
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        law, proportions, worst = self._best(sensitivity, epsilon, delta)
        scale = worst_scale(law, worst, epsilon, delta)
        pure = pure_scale(law, worst.total, epsilon, required=False)
        if delta > 0 and pure <= scale * (1 + LEAST_GAIN):
            scale, delta = pure, 0.0
        losses = losses_of(law, worst.above, worst.length, scale)
        guarantee = Guarantee(
            epsilon,
            delta,
            neighbors=sensitivity.neighbors,
            mechanism=f"independent {law!r} noise for differences in {sensitivity.ball!r}",
            assumptions=relied_on(law, sensitivity.ball),
            losses=losses if delta > 0 else (),
        )
        return IndependentNoise(law, scale * proportions, guarantee, losses)

    def _best(
        self, sensitivity: Sensitivity, epsilon: float, delta: float
    ) -> tuple[Any, FloatArray, WorstShift]:
        """Return law, proportions and worst shift of least total variance."""
        choices = _promising([(p, worst_shift(sensitivity, p)) for p in self._choices(sensitivity)])
        proportions, worst = choices[0]
        if len(choices) > 1:
            law = self.law
            if isinstance(law, str):  # of a family any law will do
                law = FAMILIES[law][0](1.0) if law in FAMILIES else PLAIN[law]
            totals = [
                2 * math.log(worst_scale(law, w, epsilon, delta, is_rough=True)) + _log_square(p)
                for p, w in choices
            ]
            proportions, worst = choices[int(np.argmin(totals))]
        return law_of(self.law, worst, epsilon, delta), proportions, worst

    def _choices(self, sensitivity: Sensitivity) -> list[FloatArray]:
        """Return the proportions to try, greatest entry 1."""
        ball = sensitivity.ball
        if self.proportions is not None:
            given = np.asarray(self.proportions)
            if len(given) != ball.dim:
                rule = f"have {ball.dim} entries, one for each coordinate"
                raise fail("proportions", rule, len(given))
            return [given / given.max()]
        widths = ask(ball, "bounding_box")
        widths = widths / widths.max()
        if widths.min() > 1 - 1e-9:
            return [np.ones(ball.dim)]
        return [widths**a for a in _EXPONENTS]


def _promising(choices: list[tuple[FloatArray, WorstShift]]) -> list[tuple[FloatArray, WorstShift]]:
    """Return the choices that are best for pure Laplace noise and for Gaussian noise."""
    squares = [_log_square(p) for p, _ in choices]
    pure = [square + 2 * math.log(w.total) for square, (_, w) in zip(squares, choices, strict=True)]
    round_ = [
        square + 2 * math.log(w.length) for square, (_, w) in zip(squares, choices, strict=True)
    ]
    return [choices[k] for k in sorted({int(np.argmin(pure)), int(np.argmin(round_))})]


def _log_square(proportions: FloatArray) -> float:
    return math.log(float(np.sum(proportions**2)))


MECHANISMS = ("auto", *NAMES)
# Up to so many sizes are composed one by one; more are replaced by a few that are worse.
MOST_SIZES = 16
# Share of private choices in the budget: in epsilon, or in the variance of the privacy loss.
SHARE = 0.5


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

        def draw(generator: Generator) -> FloatArray:
            return stretch * self.rvs(generator, count)

        return lattice.publish(value, draw, rng, self, stretch)

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
    choices: tuple[float, int] | None = None,
) -> RepeatedNoise:
    """Return the noise of least variance for which all releases together are private.

    Parameters
    ----------
    mechanism : str, Law or Independent
        A law, or the name of one, as in `Independent`, or an `Independent` without proportions.
        "auto" takes the better of "laplace" and "gaussian"; with delta = 0 it is "laplace".
        Other laws have less variance in a few settings, at most a sixth less.
    shifts, neighbors
        As in `Releases`. The sizes must be public, and known in advance.
    epsilon : float in (0, inf)
    delta : float in [0, 1)
        0 is possible only for a law with a bounded privacy loss: "laplace", "logistic",
        `Subbotin(1)`, and any law with ``greatest_slope()``.
    choices : (float, int), optional
        Width and number of private choices that the guarantee covers too, as from `choice_width`.

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

    Twenty numbers, and twenty choices of what to release:

    >>> budget = {"epsilon": 1.0, "delta": 1e-6}
    >>> choices = (choice_width(20, **budget), 20)
    >>> noise = calibrate_releases(
    ...     "gaussian", [(2.0, 20)], neighbors="replace_one", choices=choices, **budget
    ... )
    >>> round(noise.law.std() / 2.0, 1)
    26.2
    """
    releases = Releases(shifts, neighbors)
    epsilon = check_epsilon(epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if type(mechanism) is Independent:
        if mechanism.proportions is not None:
            raise fail("mechanism", "have no proportions: there is one scale for all releases")
        mechanism = mechanism.law
    elif isinstance(mechanism, str):
        check_choice("mechanism", mechanism, MECHANISMS, "Or give a law, as Laplace().")
    else:
        check_law(mechanism, "mechanism")
    return _calibrated(mechanism, releases, epsilon, delta, choices)


@remembered(maxsize=256)
def _calibrated(
    mechanism: Any,
    releases: Releases,
    epsilon: float,
    delta: float,
    choices: tuple[float, int] | None,
) -> RepeatedNoise:
    few = releases.shifts
    if delta > 0 and len(few) > MOST_SIZES:
        few = fewer(few, MOST_SIZES)
    length = length_of(releases.shifts)
    worst = WorstShift((few,), few, length)
    beside: Losses = ()
    rest = epsilon
    if choices is not None:
        width, count = choices
        beside = ((SelectionLoss(width), count),)
        if delta == 0:
            rest = (epsilon - count * width) * (1 - 1e-12)
            if not rest > 0:
                raise fail("choices", f"cost less than epsilon = {epsilon:g}", count * width)

    def scale_of(law: Any) -> float:
        if beside and delta > 0:
            return composed_scale(law, few, epsilon, delta, beside)
        return worst_scale(law, worst, rest, delta)

    law = law_of("laplace" if mechanism == "auto" else mechanism, worst, rest, delta)
    if mechanism == "auto" and delta > 0:
        # The scale at which Laplace noise has the variance that Gaussian noise needs.
        limit = scale_of(PLAIN["gaussian"]) / math.sqrt(2)
        is_pure = not beside and pure_scale(law, worst.total, epsilon, required=True) <= limit
        if not is_pure and excess_at(law, few, beside, epsilon, delta, 1 / limit) > 0:
            law = PLAIN["gaussian"]
    scale = scale_of(law)
    losses = (*losses_of(law, few, length, scale), *beside)
    law = scaled(law, scale)
    shifts = _told(releases.shifts)
    told = f"{law!r} noise in each of {releases.count} releases with shifts {shifts}"
    if choices is not None:
        told += f", and {choices[1]} private choices"
    guarantee = Guarantee(
        epsilon,
        delta,
        neighbors=releases.neighbors,
        mechanism=told,
        assumptions=relied_on(law),
        losses=losses if delta > 0 or beside else (),
    )
    return RepeatedNoise(law, guarantee, losses, releases.shifts)


def choice_width(count: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Return the width of the losses of ``count`` choices with `SHARE` of a budget.

    It is for `SelectionLoss`. The maximum of scores with Gumbel noise of scale 2 D / width has this
    loss, if one record changes a score by at most D.
    """
    count, epsilon = check_count("count", count), check_positive("epsilon", epsilon)
    if delta == 0:
        return SHARE * epsilon / count
    # The loss of a choice of width w, uniform on [-w, w] for small w, has the variance w^2 / 3.
    return math.sqrt(SHARE * 3 / count) / gaussian_scale(epsilon, delta)


def fewer(shifts: Shift, most: int) -> Shift:
    """Return at most ``most`` sizes whose k greatest have no lesser sum, for every k.

    The sum of the k greatest sizes is a concave function of k. Tangents lie above it, and so does
    the polygon that leaves each tangent at an integer k, at or after the crossing with the next.
    """
    sizes, counts = (np.array(column, dtype=float) for column in zip(*shifts, strict=True))
    ends = np.cumsum(counts)
    at = np.searchsorted(ends, np.linspace(0, ends[-1], most))
    touched = np.unique(np.minimum(at, len(sizes) - 1))
    slopes, heights = sizes[touched], (np.cumsum(sizes * counts) - sizes * ends)[touched]
    crossed = np.floor(np.diff(heights) / -np.diff(slopes)) + 1
    places = np.maximum.accumulate(np.minimum(np.append(crossed, ends[-1]), ends[-1]))
    steps = np.diff(places, prepend=0.0)
    return tuple((float(s), int(n)) for s, n in zip(slopes, steps, strict=True) if n > 0)


def _told(shifts: Shift) -> str:
    """Return the shifts in words, abbreviated if there are many."""
    told = [f"{count} x {size:.6g}" for size, count in shifts]
    return ", ".join(told if len(told) <= 4 else [*told[:2], "...", told[-1]])


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
