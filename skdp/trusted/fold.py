"""Privacy losses on a grid, and their sums by Fourier transforms of tilted laws, with error bounds.

H(gamma) = E_Q (Lambda - gamma)_+ is the profile at epsilon = log gamma, a convex function. A
convex polygon with corners at the grid points gamma_i is the H of a pair with losses on the grid
and P-masses gamma_i (slope change at gamma_i). Chords of H lie above it, and supporting lines lie
below it (docs/proofs/loss_distributions.md, Theorems 2 and 3).

Under P the masses p of a loss are tilted to q(l) = p(l) e^(theta l) / M(theta). The q's are
convolved. Then delta at epsilon is e^(K - theta epsilon) times the mean of
e^(-theta x) (1 - e^-x) over x = l - epsilon > 0, K the sum of the log M. Floating point errors are
relative to the first factor, which differs from delta by a moderate factor only, however small
delta is (docs/proofs/loss_distributions.md, Theorems 4 and 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import remembered
from skdp.trusted.losses import Profile

# Two units in the last place of the proofs, which are of 2^-53.
_UNIT = np.finfo(float).eps
# Bounds on the relative error of a profile's delta and tails, and on the error of its epsilon
# relative to the greatest of the grid, times 1 - the log of delta (losses.Profile, `depth_of`).
ACCURACY, SHAKE = 1e-12, 16 * _UNIT
# A profile's log falls by this much at an atom; elsewhere it takes a thousand times the distance.
_DROP = 3.0
# Numbers with a smaller log round to 0.
_LEAST_LOG = -746.0
# A greater loss counts as infinite.
_GREATEST = 1e300


def moved_log_delta(loss: Profile, epsilon: ArrayLike, sign: int) -> FloatArray:
    """Return a bound for a loss's log delta: the upper one for sign = 1, the lower for -1.

    The value may have an error of `ACCURACY`, and belong to an epsilon with a relative error of
    `SHAKE`, times 1 - the log of delta. A loss of finitely many values has no error in epsilon:
    differences from its values are exact.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    found = np.asarray(loss.log_delta(epsilon))
    if not hasattr(loss, "finite"):
        share = np.minimum(SHAKE * (1 - np.minimum(found, 0.0)), 0.5)
        moved = np.asarray(loss.log_delta(epsilon - sign * share * np.abs(epsilon)))
        found = np.where(np.isneginf(found) | np.isinf(epsilon), found, moved)
    return np.asarray(np.minimum(found + sign * ACCURACY, 0.0))


def multiples(step: float, first: int, count: int) -> FloatArray:
    """Return ``count`` consecutive multiples of a step, beginning with the first."""
    return np.asarray(step * np.arange(first, first + count, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Masses:
    """A law of losses on a grid, under P; not normalised.

    Attributes
    ----------
    step : float
        Distance of the grid points, which are its whole multiples.
    first : int
        The multiple at which ``masses`` begins.
    masses : array of shape (n,)
        P-masses, nonnegative.
    infinity_mass : float
        P-mass at L = inf.
    margin, nudge : float
        The profile times 1 + margin, for losses less by nudge, is an upper bound. Divided by
        1 + margin, for losses greater by nudge, it is a lower bound.
    """

    step: float
    first: int
    masses: FloatArray
    infinity_mass: float
    margin: float
    nudge: float

    @property
    def losses(self) -> FloatArray:
        """The grid points, of the shape of ``masses``."""
        return multiples(self.step, self.first, len(self.masses))

    @cached_property
    def logs(self) -> FloatArray:
        """Logs of the masses, -inf for none."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    @property
    def last(self) -> int:
        """The greatest multiple that has mass."""
        return self.first + int(np.flatnonzero(self.masses)[-1])


@remembered(maxsize=16)
def upper(loss: Profile, step: float, first: int, last: int) -> Masses:
    """Return a law that dominates the loss: chords of H between grid points first..last."""
    logs = profile_logs(loss, step, first, last)
    forward, behind = map(np.exp, logs)
    excess = np.concatenate([(behind * np.exp(-multiples(step, 1, -first)))[::-1], forward])
    nudge = SHAKE * depth_of(*logs) * step * max(last, -first)
    return polygon(step, first, excess, margin_of(first, last), nudge)


def margin_of(first: int, last: int) -> float:
    """Return a bound on the relative rounding error of a profile."""
    return 4 * ACCURACY + 32 * (last - first + 2) * _UNIT


@remembered(maxsize=16)
def profile_logs(
    loss: Profile, step: float, first: int, last: int
) -> tuple[FloatArray, FloatArray]:
    """Return log delta at the multiples 0..last, and that of the reversed loss at 1..-first."""
    forward = np.minimum(loss.log_delta(multiples(step, 0, last + 1)), 0.0)
    if loss.symmetric and -first <= last:
        return forward, forward[1 : 1 - first]
    return forward, np.minimum(loss.reversed().log_delta(multiples(step, 1, -first)), 0.0)


def depth_of(*parts: FloatArray) -> float:
    """Return the factor by which large logs of tails increase the error of epsilon."""
    # Values below the least float add nothing.
    return 1.0 - min(float(np.min(logs, where=logs > _LEAST_LOG, initial=0.0)) for logs in parts)


def polygon(step: float, first: int, excess: FloatArray, margin: float, nudge: float) -> Masses:
    """Return the masses of the greatest convex polygon below the given corners.

    ``excess`` is H - (1 - gamma)_+ at the corners. A corner on or above the chord of its
    neighbours is not a corner of the hull. All such corners are dropped at once, until none is
    left.
    """
    count, place = len(excess), np.arange(len(excess))
    corners = multiples(step, first, count)
    while not ((masses := _slope_changes(corners[place], excess)) > 0).all():
        kept = masses > 0
        # If all of the mass is at infinity, the last corner holds it.
        kept[-1] |= not kept.any()
        if kept.all():
            break
        place, excess = place[kept], excess[kept]
    spread = np.zeros(count)
    spread[place] = np.maximum(masses, 0.0)
    if not spread.any():  # all mass is at infinity; this adds nothing to it
        spread[-1] = np.finfo(float).tiny
    # H at the last corner: the excess, and 1 - gamma if the corner is below 0.
    infinite = float(excess[-1] - np.expm1(min(corners[place[-1]], 0.0)))
    return Masses(step, first, spread, infinite, margin, nudge)


def _slope_changes(losses: FloatArray, excess: FloatArray) -> FloatArray:
    """Return gamma_i times the change of slope at each corner, with (0, 1) before the first."""
    gap, low = np.diff(losses), np.minimum(losses, 0.0)
    # In this form no exponential of a wide gap is needed.
    fall = -np.exp(low[1:]) * np.expm1(-np.diff(low)) - np.diff(excess)
    with np.errstate(over="ignore"):
        before = np.concatenate([[np.exp(low[0]) - excess[0]], fall / -np.expm1(-gap)])
        after = np.concatenate([fall / np.expm1(gap), [0.0]])
    return np.asarray(before - after)


@remembered(maxsize=8192)
def extent(loss: Profile, log_target: float, log_share: float) -> tuple[float, float, bool]:
    """Return the length of a grid below and above 0, and whether an atom ends it.

    Above the second the profile is at most e^log_target, or all mass is at infinity. If it drops
    there, an atom ends the grid. Stopping at minus the first raises the profile by less than the
    share e^log_share.
    """
    back = loss.reversed()
    infinite, back_infinite = (log_infinity_mass(part) + ACCURACY for part in (loss, back))

    def is_below(x: FloatArray) -> NDArray[np.bool_]:
        found = back.log_delta(x)
        with np.errstate(divide="ignore"):
            share = found - x - np.log(-np.expm1(-x))
        return np.asarray((share <= log_share) | (found <= back_infinite))

    def is_above(x: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(loss.log_delta(x) <= max(log_target, infinite))

    dropped = max(log_target - _DROP, infinite)
    (_, below), (least, above) = _first(is_below), _first(is_above)
    if not loss.log_delta(above) <= dropped:
        return below, above, False
    # An atom will lie on the grid: its place is needed in full precision.
    above = _narrowed(is_above, (least, above), 256, 5)[1]
    return below, above, bool(loss.log_delta(above * (1 + ACCURACY)) <= dropped)


def log_infinity_mass(loss: Profile) -> float:
    """Return the log of the infinity mass, or -inf if only a bound of the profile is known."""
    if not hasattr(loss, "log_tails"):
        return -math.inf
    return float(loss.log_delta(_GREATEST))


def _first(holds: Callable[[FloatArray], NDArray[np.bool_]]) -> tuple[float, float]:
    """Return close numbers: beyond the greater one, which is > 0, a condition holds."""
    powers = np.ldexp(1.0, np.arange(-64, 24))
    high = int(np.argmax(holds(powers)))
    return _narrowed(holds, (powers[max(high - 1, 0)], powers[high]), 32, 2)


def _narrowed(
    holds: Callable[[FloatArray], NDArray[np.bool_]],
    ends: tuple[float, float],
    cells: int,
    rounds: int,
) -> tuple[float, float]:
    """Return the ends of the cell in which a condition begins to hold, divided several times."""
    low, high = ends
    for _ in range(rounds):
        points = np.linspace(low, high, cells + 1)
        place = max(int(np.argmax(holds(points))), 1)
        low, high = points[place - 1], points[place]
    return float(low), float(high)


Parts = Sequence[tuple[Masses, int]]

# Two units in the last place of the proofs, which are of 2^-53.
# The relative error of a transform of n numbers is less than this times log2(n) (Higham 2002,
# Theorem 24.2, has 7 units in the last place for each step).
_TRANSFORM = 4 * _UNIT
# Arguments of Chernoff's bounds are chosen for shares of the mass down to e^-_DEEP. Frequencies of
# smaller modulus are left out, and counted as errors.
_DEEP = 90.0
# Exponentials of numbers up to this are floats.
_LARGE = 600.0
# Arguments of Chernoff's bound for the mass beyond the window, as shares of the greatest.
_TRIES = np.geomspace(0.005, 1.0, 16)
# A window has at least this many steps more than the sum's law needs, half on either side.
SPARE_STEPS = 64


# Tilted losses, and Chernoff's bounds for their sum


@dataclass(frozen=True, eq=False)
class Tilted:
    """One tilted loss: logs of probabilities at the multiples start, start + 1, ... of a step."""

    step: float
    start: int
    logs: FloatArray
    log_scale: float

    @cached_property
    def chances(self) -> FloatArray:
        """Probabilities, with sum 1."""
        return np.asarray(np.exp(self.logs))

    @property
    def losses(self) -> FloatArray:
        """The points, of the shape of ``chances``."""
        return multiples(self.step, self.start, len(self.logs))

    @cached_property
    def mean(self) -> float:
        """Mean loss."""
        return float(self.chances @ self.losses)

    def log_moments(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logs of the means of e^(s (loss - mean)), and of e^-(s (loss - mean))."""
        exponents = np.multiply.outer(s, self.losses - self.mean)
        if max(exponents.max(), -exponents.min()) < _LARGE:
            powers = np.exp(exponents)
            return np.log(powers @ self.chances), np.log((1 / powers) @ self.chances)
        return self._log_moment(exponents), self._log_moment(-exponents)

    def _log_moment(self, exponents: FloatArray) -> FloatArray:
        exponents = exponents + self.logs
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))


def tilt(masses: Masses, theta: float) -> Tilted:
    """Return the normalised masses times e^(theta loss)."""
    logs = masses.logs + theta * masses.losses
    top = float(logs.max())
    log_scale = top + math.log(float(np.exp(logs - top).sum()))
    return Tilted(masses.step, masses.first, logs - log_scale, log_scale)


@dataclass(frozen=True, eq=False)
class Spread:
    """Chernoff's bounds for a sum of tilted losses around its mean, at some s > 0 and -s."""

    s: FloatArray
    ahead: FloatArray
    behind: FloatArray

    @classmethod
    def start(cls, parts: Sequence[tuple[Tilted, int]]) -> Spread:
        """Return the bounds for no loss, at values of s that suit the sum of the parts."""
        variance = sum(n * float(q.chances @ (q.losses - q.mean) ** 2) for q, n in parts)
        # At most 4 per step: a window has at least half of SPARE_STEPS beyond the mean.
        most = 4 / min(q.step for q, _ in parts)
        s = min(3 * math.sqrt(2 * _DEEP / max(variance, 1e-300)), most) * _TRIES
        return cls(s, np.zeros(len(s)), np.zeros(len(s)))

    @classmethod
    def of(cls, parts: Sequence[tuple[Tilted, int]]) -> Spread:
        """Return the bounds for ``count`` losses of each kind."""
        found = cls.start(parts)
        for q, n in parts:
            found = found.plus(q, n)
        return found

    def plus(self, q: Tilted, n: int) -> Spread:
        """Return the bounds with ``n`` more losses of one kind."""
        ahead, behind = q.log_moments(self.s)
        return Spread(self.s, self.ahead + n * ahead, self.behind + n * behind)

    def widths(self, log_share: float) -> tuple[float, float]:
        """Return distances below and above the mean that hold all but a share of e^log_share."""
        below, above = (((tail - log_share) / self.s).min() for tail in (self.behind, self.ahead))
        return float(below), float(above)

    def beyond(self, below: float, above: float) -> float:
        """Return a bound on the share outside the two distances from the mean."""
        exponents = (self.behind - self.s * below).min(), (self.ahead - self.s * above).min()
        return float(np.exp(np.minimum(exponents, 0.0)).sum())


# The sum


@dataclass(frozen=True, eq=False)
class Sum:
    """The law of a sum of losses, tilted.

    Attributes
    ----------
    theta, log_scale : float
        The tilt theta, and K.
    step, first : float, int
        The grid points are ``step`` times first, first + 1, ...
    law : array of shape (n,)
        Tilted masses; those beyond the window are wrapped into it.
    error : float
        Bound on the Euclidean norm of the rounding error of ``law``.
    outside : float
        Bound on the mass beyond the window.
    log_infinity_mass : float
        Log of the mass at L = inf.
    log_margin : float
        Bound on the log of the ratio of the truth to the exact sum.
    nudge : float
        Bound on the total distance of the true losses from these.
    greatest : float
        The greatest finite value of the sum.
    """

    theta: float
    log_scale: float
    step: float
    first: int
    law: FloatArray
    error: float
    outside: float
    log_infinity_mass: float
    log_margin: float
    nudge: float
    greatest: float

    def log_upper(self, epsilon: float) -> float:
        """Return a value >= log delta at epsilon."""
        return self._log_delta(epsilon - self.nudge, 1)

    def log_lower(self, epsilon: float) -> float:
        """Return a value <= log delta at epsilon."""
        return self._log_delta(epsilon + self.nudge, -1)

    def _log_delta(self, epsilon: float, sign: int) -> float:
        value, error = self._mean(epsilon)
        value += sign * error
        exponent, most = self.log_scale - self.theta * epsilon, abs(self.log_scale)
        finite = exponent + math.log(value) if value > 0 else -math.inf
        finite += sign * 8 * _UNIT * (most + self.theta * abs(epsilon))
        return float(np.logaddexp(self.log_infinity_mass, finite)) + sign * self.log_margin

    def _mean(self, epsilon: float) -> tuple[float, float]:
        """Return the mean of e^(-theta x) (1 - e^-x) over x > 0, and a bound on its error."""
        if epsilon >= self.greatest:
            return 0.0, 0.0
        start = max(math.floor(epsilon / self.step) + 1 - self.first, 0)
        if start >= len(self.law):
            return 0.0, self.outside
        x = self.step * (self.first + start) - epsilon
        slow, fast, length = _weights(self.theta, self.step, len(self.law))
        law = self.law[start:]
        whole = math.exp(-self.theta * x) * float(law @ slow[: len(law)])
        taken = math.exp(-(self.theta + 1) * x) * float(law @ fast[: len(law)])
        # An exponent t has an error of t units in the last place, and t e^-t < 1.
        rounding = _UNIT * (2 * len(self.law) * (abs(whole) + abs(taken)) + 8)
        return whole - taken, rounding + self.error * length + self.outside


@lru_cache(maxsize=2)
def _weights(theta: float, step: float, size: int) -> tuple[FloatArray, FloatArray, float]:
    """Return e^(-theta x) and e^(-(theta + 1) x) at the multiples of a step, and a norm.

    The norm bounds that of e^(-theta x) (1 - e^-x), x moved by up to one step.
    """
    slow, fast = _powers(theta * step, size), _powers((theta + 1) * step, size)
    return slow, fast, _length(slow - fast * math.exp(-step))


def _powers(rate: float, size: int) -> FloatArray:
    """Return e^(-rate k), k = 0, ..., size - 1, from few exponentials; size is a power of 2."""
    root = 2 ** (size.bit_length() // 2)
    coarse, fine = np.arange(0, size, root), np.arange(root)
    return np.multiply.outer(np.exp(-rate * coarse), np.exp(-rate * fine)).ravel()


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """The transform of a convolution at the frequencies that are not negligible.

    Attributes
    ----------
    size : int, power of 2
        Length of the transform.
    kept : int array
        The frequencies.
    values : complex array, of the same length as ``kept``, as the following
        The transform.
    greatest : float array
        Bounds on its absolute values: the products of the bounds of the factors.
    turns : float array
        Bounds on the rounding errors of both products, relative to the second, in units of 4 eps.
    rise : float
        Bound on the log of the growth of the other frequencies since they were left out.
    """

    size: int
    kept: NDArray[np.intp]
    values: NDArray[np.complex128]
    greatest: FloatArray
    turns: FloatArray
    rise: float = 0.0

    @classmethod
    def of_nothing(cls, size: int) -> _Spectrum:
        """Return the transform of the law of no loss."""
        count = size // 2 + 1
        ones = np.ones(count)
        return cls(size, np.arange(count), ones.astype(complex), ones, 2 * ones)

    def times(self, tilted: Tilted, move: int, n: int) -> _Spectrum:
        """Return the transform with ``n`` more losses of a kind, each moved by some steps."""
        values, off = _transform(tilted, move, self.size)
        # The value at frequency 0, a sum of nonnegative numbers, is the greatest.
        rise = self.rise + n * max(math.log(abs(values[0]) + 3 * off), 0.0)
        values = values[self.kept]
        bounds, turns = np.abs(values) + off, np.ones(len(values))
        if n > 1:
            logs = np.log(np.where(values == 0, np.finfo(float).tiny, values))
            values, bounds = np.exp(n * logs), np.exp(n * np.log(bounds))
            turns += n * (1 + np.abs(logs))
        greatest = self.greatest * bounds
        some = greatest > math.exp(-_DEEP)
        return _Spectrum(
            self.size,
            self.kept[some],
            (self.values * values)[some],
            greatest[some],
            (self.turns + turns)[some],
            rise,
        )

    def law(self) -> tuple[FloatArray, float]:
        """Return the circular convolution, and a bound on the norm of its error."""
        spectrum = np.zeros(self.size // 2 + 1, dtype=complex)
        spectrum[self.kept] = self.values
        wrong = np.maximum(self.greatest - np.abs(self.values), 0.0)
        wrong += self.greatest * 4 * _UNIT * self.turns
        law = np.fft.irfft(spectrum, self.size)
        error = math.sqrt(2 / self.size) * _length(wrong) + math.exp(self.rise - _DEEP)
        return law, error + _TRANSFORM * math.log2(self.size) * _length(law)


@dataclass(frozen=True, eq=False)
class Folded:
    """A sum of tilted losses, to which further losses can be added.

    Attributes
    ----------
    step, theta : float
        Distance of the grid points, and tilt.
    spread : Spread
        Chernoff's bounds for the sum around its mean.
    spectrum : _Spectrum
        Transform of its law, moved by ``moved`` steps.
    moved : int
        Each loss is moved by a whole number of steps, so that the mean of the sum is near 0.
    mean, log_scale, log_margin, nudge : float
        Sums over the losses.
    last : int
        The greatest value, in steps.
    log_spared : float
        Log of the probability that no loss is infinite.
    """

    step: float
    theta: float
    spread: Spread
    spectrum: _Spectrum
    moved: int = 0
    mean: float = 0.0
    log_scale: float = 0.0
    log_margin: float = 0.0
    nudge: float = 0.0
    last: int = 0
    log_spared: float = 0.0

    @classmethod
    def of(cls, parts: Parts, theta: float, size: int) -> Folded:
        """Return the sum of ``count`` losses of each kind, all with one step.

        The window has ``size`` steps, a power of 2.
        """
        tilted = [(tilt(masses, theta), n) for masses, n in parts]
        spread = Spread.start(tilted)
        found = cls(parts[0][0].step, theta, spread, _Spectrum.of_nothing(size))
        for (masses, n), (q, _) in zip(parts, tilted, strict=True):
            found = found._plus(masses, q, n)
        return found

    def plus(self, masses: Masses, n: int) -> Folded:
        """Return the sum with ``n`` more losses of one kind on the same grid."""
        return self._plus(masses, tilt(masses, self.theta), n)

    def _plus(self, masses: Masses, q: Tilted, n: int) -> Folded:
        move = round(q.mean / self.step)
        infinite = masses.infinity_mass
        spared = n * math.log1p(-infinite) if infinite < 1 else -math.inf
        return Folded(
            self.step,
            self.theta,
            self.spread.plus(q, n),
            self.spectrum.times(q, move, n),
            self.moved + n * move,
            self.mean + n * q.mean,
            self.log_scale + n * q.log_scale,
            self.log_margin + n * _log_margin(masses, q, self.theta),
            self.nudge + n * masses.nudge,
            self.last + n * masses.last,
            self.log_spared + spared,
        )

    def sum(self) -> Sum:
        """Return the law of the sum."""
        size, step = self.spectrum.size, self.step
        law, error = self.spectrum.law()
        off = self.mean - step * self.moved
        below, above = self.spread.widths(-_DEEP / 2)
        left = SPARE_STEPS // 2 + round((size - SPARE_STEPS) * below / (below + above) - off / step)
        outside = self.spread.beyond(step * (left - 1) + off, step * (size - left - 1) - off)
        infinite = -math.expm1(self.log_spared)
        return Sum(
            self.theta,
            self.log_scale,
            step,
            self.moved - left,
            np.roll(law, left),
            error,
            outside,
            math.log(infinite) if infinite > 0 else -math.inf,
            self.log_margin,
            self.nudge,
            step * self.last,
        )


def _transform(tilted: Tilted, move: int, size: int) -> tuple[NDArray[np.complex128], float]:
    """Return the transform of the moved, wrapped law, and a bound on the error of each entry."""
    place = np.arange(tilted.start - move, tilted.start - move + len(tilted.logs)) % size
    wrapped = np.bincount(place, tilted.chances, size).astype(float)
    error = _TRANSFORM * math.log2(size) * math.sqrt(size) * _length(wrapped)
    return np.fft.rfft(wrapped), error


def _length(v: FloatArray) -> float:
    return float(np.linalg.norm(v))


def _log_margin(masses: Masses, tilted: Tilted, theta: float) -> float:
    """Return a bound on the error of the log of one factor, from the grid and from rounding."""
    farthest = theta * max(abs(tilted.losses[0]), abs(tilted.losses[-1]))
    return float(masses.margin + _UNIT * (1024 + 4 * farthest + 4 * abs(tilted.log_scale)))
