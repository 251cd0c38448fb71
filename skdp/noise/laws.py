"""Trusted. Log-concave laws: Gaussian, Laplace, logistic, Subbotin's, and four of two pieces.

Hazards of the normal law go through Mills' ratio R(t) = P(Z > t) / phi(t), t >= 0; 1 / R is its
hazard rate (docs/proofs/noise_laws.md, section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import erf, erfcx, erfinv, exprel, gammainc, gammaincc, ndtri_exp, roots_legendre

from skdp.noise.law import CrossingLaw, EvenLaw, ScaleLaw, Size, check_offset, plain
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, check_positive
from skdp.trusted.losses import mills_ratio
from skdp.trusted.randomness import RandomStateLike, as_generator, gammas, normals, signed, uniforms

_SHORT = 0.5
# Of a unit interval; 8 nodes have sixteen digits of 1 / R on one of length _SHORT.
_NODES, _LENGTHS = roots_legendre(8)
_RULE = tuple(zip((1 + _NODES) / 2, _LENGTHS / 2, strict=True))


def hazard_between(start: float, length: FloatArray) -> FloatArray:
    """Return log P(Z > start) - log P(Z > start + length), in full precision."""
    short = np.minimum(length, _SHORT)
    rates = (w / mills_ratio(start + short * y) for y, w in _RULE)
    near = short * sum(rates, start=np.zeros(()))
    fall = np.log(mills_ratio(np.asarray(start)) / mills_ratio(start + length))
    return np.where(length <= _SHORT, near, length * (start + length / 2) + fall)


def excess_moments(t: float) -> tuple[float, float]:
    """Return E[Z - t | Z > t] and E[(Z - t)^2 | Z > t], in full precision.

    With I_n the integral of x^n exp(-t x - x^2 / 2) over x > 0, I_(n+1) = n I_(n-1) - t I_n.
    The upward recurrence cancels. The downward one is the continued fraction
    I_n / I_(n-1) = n / (t + I_(n+1) / I_n).
    """
    if t < 2:
        first = 1 / float(mills_ratio(np.asarray(t))) - t
        return first, 1 - t * first
    ratio = 0.0
    for n in range(150, 1, -1):
        ratio = n / (t + ratio)
    first = 1 / (t + ratio)
    return first, first * ratio


def fallen(rate: float, t: FloatArray | float) -> FloatArray:
    """Return the integral of exp(-rate s) over 0 < s < t."""
    t = np.asarray(t, dtype=float)
    return np.asarray(t * exprel(-rate * t))


def inverse_hazard(level: FloatArray, mass: float, log_rest: float) -> FloatArray:
    """Return t >= 0 with exp(-t) = 1 - mass (1 - exp(-level)).

    ``log_rest`` is log(1 - mass), which cannot be computed from a ``mass`` near 1.
    """
    spent = -mass * np.expm1(-level)
    near = -np.log1p(-np.minimum(spent, 0.5))
    return np.where(spent < 0.5, near, -np.logaddexp(math.log(mass) - level, log_rest))


@dataclass(frozen=True)
class Gaussian(ScaleLaw):
    """The centred normal law.

    Variance scale^2, entropy log(2 pi e scale^2) / 2, Fisher information 1 / scale^2. No law
    with this variance has less Fisher information.

    Parameters
    ----------
    scale : float in (0, inf), units of the released value
        Standard deviation.

    Examples
    --------
    >>> Gaussian(3.0).var()
    9.0
    >>> round(float(Gaussian().isf(1e-300)), 6)
    37.047096
    """

    @property
    def _log_peak(self) -> float:
        return -math.log(2 * math.pi) / 2 - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        return (x / self.scale) ** 2 / 2

    def _hazard(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        near = -np.log1p(-erf(np.minimum(t, _SHORT) / math.sqrt(2)))
        return np.where(t < _SHORT, near, t * t / 2 - np.log(erfcx(t / math.sqrt(2))))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        near = math.sqrt(2) * erfinv(-np.expm1(-level))
        return self.scale * np.where(level < 0.5, near, -ndtri_exp(-level - math.log(2)))

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return (apart / self.scale) * ((near + far) / (2 * self.scale))

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        return level * (self.scale / shift) * self.scale

    def rvs(self, size: Size = None, rng: RandomStateLike = None) -> FloatArray:
        return plain(self.scale * normals(size, as_generator(rng)))

    def _unit_variance(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Laplace(ScaleLaw):
    """Density exp(-|x| / scale) / (2 scale).

    Variance 2 scale^2, entropy 1 + log(2 scale), Fisher information 1 / scale^2.

    Parameters
    ----------
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> Laplace(2.0).var()
    8.0
    >>> round(float(Laplace().isf(1e-300)), 6)
    690.082381
    """

    # docs/proofs/conversions.md, 7.
    peaked: ClassVar[bool] = True

    def _potential(self, x: FloatArray) -> FloatArray:
        return x / self.scale

    def _hazard(self, x: FloatArray) -> FloatArray:
        return x / self.scale

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        return self.scale * level

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return apart / self.scale

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        return np.where(level < shift / self.scale, level * self.scale / 2, np.inf)

    def _unit_variance(self) -> float:
        return 2.0


@dataclass(frozen=True)
class Logistic(ScaleLaw):
    """Density 1 / (4 scale cosh(x / (2 scale))^2).

    Variance (pi scale)^2 / 3, entropy 2 + log(scale), Fisher information 1 / (3 scale^2).

    Parameters
    ----------
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> round(Logistic().var(), 6)
    3.289868
    >>> round(float(Logistic().isf(1e-300)), 6)
    690.775528
    """

    @property
    def _log_peak(self) -> float:
        return -math.log(4) - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        near = np.log1p(np.sinh(np.minimum(t, 1) / 2) ** 2)  # 2 log cosh(t / 2)
        far = t + 2 * np.log1p(np.exp(-t)) - math.log(4)
        return np.asarray(np.where(t < 1, near, far))

    def _hazard(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        near = np.log1p(np.expm1(np.minimum(t, 1)) / 2)  # log((1 + e^t) / 2)
        return np.where(t < 1, near, t + np.log1p(np.exp(-t)) - math.log(2))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        near = np.log1p(2 * np.expm1(np.minimum(level, 1)))
        far = level + math.log(2) + np.log1p(-np.exp(-level) / 2)
        return self.scale * np.where(level < 1, near, far)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        near, far, apart = near / self.scale, far / self.scale, apart / self.scale
        # cosh(a + b) / cosh(a - b) = (1 + t) / (1 - t) with t = tanh(a) tanh(b).
        t = np.tanh(near / 4 + far / 4) * np.tanh(apart / 4)
        in_tails = apart + 2 * (np.log1p(np.exp(-far)) - np.log1p(np.exp(-near)))
        return np.asarray(np.where(t < 0.5, 4 * np.arctanh(t), in_tails))

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        v = shift / self.scale
        # exp(m) = sinh((v + level) / 4) / sinh((v - level) / 4).
        left = -np.expm1((level - v) / 2)
        near = np.log1p(np.expm1(level / 2) * (1 + math.exp(-v / 2)) / left)
        far = level / 2 + np.log(-np.expm1(-(v + level) / 2) / left)
        return np.where(level < v, np.where(level < 1, near, far) * self.scale, np.inf)

    def _unit_variance(self) -> float:
        return math.pi**2 / 3


# z = |x / scale|^r / r. The series has sixteen digits for z <= _NEAR, and the continued fraction
# for z >= _FAR, where scipy's incomplete gamma function begins to underflow.
_NEAR, _FAR = 0.5, 100.0
_TINY = 1e-300
_TERMS, _LEVELS, _NEWTON = 16, 8, 5


@dataclass(frozen=True)
class Subbotin(EvenLaw):
    """Density proportional to exp(-|x / scale|^r / r).

    Laplace(scale) for r = 1, Gaussian(scale) for r = 2; for great r nearly uniform on
    [-scale, scale].

    Parameters
    ----------
    r : float in [1, inf)
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> round(Subbotin(r=1.0).var(), 12), round(Subbotin(r=2.0).var(), 12)
    (2.0, 1.0)
    >>> round(float(Subbotin(r=6.0).isf(1e-300)), 6)
    4.000253
    """

    r: float = 2.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        remedy = "For r < 1 the density is not log-concave."
        r = check_interval("r", self.r, 1.0, math.inf, "left", remedy)
        object.__setattr__(self, "r", r)
        object.__setattr__(self, "scale", check_positive("scale", self.scale))

    @cached_property
    def _log_half(self) -> float:
        """Return the log of the integral of exp(-t^r / r) over t > 0."""
        return math.log(self.r) / self.r + math.lgamma(1 + 1 / self.r)

    @property
    def _log_peak(self) -> float:
        return -math.log(2) - self._log_half - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        return np.asarray((x / self.scale) ** self.r / self.r)

    def _hazard(self, x: FloatArray) -> FloatArray:
        z = self._potential(x)
        within = self._within(np.asarray(x / self.scale), z)
        # For great r almost all mass lies within z < _NEAR, and 1 - within loses its digits.
        near = (z < _NEAR) & ((within < 0.9) | (z < _TINY))
        return np.where(near, -np.log1p(-within), self._tail_hazard(z))

    def _within(self, t: FloatArray, z: FloatArray) -> FloatArray:
        """Return P(|X| <= t) for z <= 1/2, by Kummer's series: all terms are positive."""
        a, z = 1 / self.r, np.minimum(z, _NEAR)
        total = term = np.ones_like(z)
        for k in range(1, _TERMS):
            term = term * z / (a + k)
            total = total + term
        return t * np.exp(-z - self._log_half) * total

    def _tail_hazard(self, z: FloatArray) -> FloatArray:
        """Return -log Q(1 / r, z), Q the regularised upper incomplete gamma function."""
        a, z = 1 / self.r, np.maximum(z, _TINY)
        near, far = -np.log(gammaincc(a, np.minimum(z, _FAR))), np.maximum(z, _FAR)
        # Legendre's continued fraction.
        rest = far + 2 * _LEVELS + 1 - a
        for k in range(_LEVELS, 0, -1):
            rest = far + 2 * k - 1 - a - k * (k - a) / rest
        hazard = far - a * np.log(far) + math.lgamma(a) + np.log(rest)
        return np.where(z < _FAR, near, np.where(np.isinf(far), np.inf, hazard))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        turn = float(self._tail_hazard(np.asarray(_NEAR)))
        near = self._near_inverse(np.minimum(level, turn))
        far = (self.r * self._far_inverse(np.maximum(level, turn))) ** (1 / self.r)
        return self.scale * np.where(level < turn, near, far)

    def _near_inverse(self, level: FloatArray) -> FloatArray:
        """Return t by Newton's method from the left: P(|X| <= t) is concave in t."""
        half = math.exp(self._log_half)
        within = -np.expm1(-level)
        t = within * half
        for _ in range(_NEWTON):
            z = t**self.r / self.r
            t = t + (within - self._within(t, z)) * np.exp(z) * half
        return t

    def _far_inverse(self, level: FloatArray) -> FloatArray:
        """Return z by Newton's method from the left: the hazard is concave in z."""
        a, z = 1 / self.r, np.full_like(level, _NEAR)
        for _ in range(_NEWTON):
            hazard = self._tail_hazard(z)
            log_rate = (a - 1) * np.log(z) - z - math.lgamma(a) + hazard
            z = z + (level - hazard) * np.exp(-log_rate)
        return z

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        # far^r - near^r is r (far - near) far^(r - 1) times a mean of (s / far)^(r - 1).
        part = apart / far
        mean = np.where(part > 0, np.expm1(self.r * np.log1p(-part)) / (-self.r * part), 1.0)
        return (apart / self.scale) * (far / self.scale) ** (self.r - 1) * mean

    def rvs(self, size: Size = None, rng: RandomStateLike = None) -> FloatArray:
        rng = as_generator(rng)
        # |X| is uniform below a power of a Gamma(1 + 1 / r) variable. |X| itself is a power of a
        # Gamma(1 / r) variable, which underflows for great r.
        edge = (self.r * gammas(1 + 1 / self.r, () if size is None else size, rng)) ** (1 / self.r)
        return plain(signed(np.asarray(self.scale * edge * uniforms(size, rng)), rng))

    def _unit_variance(self) -> float:
        a = 1 / self.r
        gammas = math.gamma(1 + 3 * a) / math.gamma(1 + a)
        return math.pow(self.r, 2 * a) * gammas / 3


@dataclass(frozen=True)
class TruncatedLaplace(CrossingLaw):
    """Density proportional to exp(-|x| / scale) on [-bound, bound], 0 outside.

    The density jumps at the bound, so the Fisher information is infinite, and every release has
    delta > 0.

    Parameters
    ----------
    bound : float in (0, inf), units of the released value
        At least 1e-100 scales.
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> law = TruncatedLaplace(bound=3.0)
    >>> law.isf(0.0), law.sf(3.0)
    (np.float64(3.0), np.float64(0.0))
    >>> round(law.var(), 6)
    1.214065
    """

    bound: float
    scale: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("bound", "scale")

    def __post_init__(self) -> None:
        for name in self._lengths:
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))
        # With less the law is uniform in every digit and its moments underflow.
        if not self._length >= 1e-100:
            check_interval("bound / scale", self._length, 1e-100, math.inf, "left")

    @property
    def _length(self) -> float:
        return self.bound / self.scale

    @property
    def _half_mass(self) -> float:
        return -math.expm1(-self._length)

    def support(self) -> float:
        """Return the half-width of the interval on which the density is positive: the bound."""
        return self.bound

    def _potential(self, x: FloatArray) -> FloatArray:
        return np.where(x > self.bound, np.inf, x / self.scale)

    def _hazard(self, x: FloatArray) -> FloatArray:
        t, left = x / self.scale, np.maximum(self.bound - x, 0) / self.scale
        within = -np.expm1(-t) / self._half_mass
        near = -np.log1p(-np.minimum(within, 0.5))
        return np.where(within < 0.5, near, t - np.log(-np.expm1(-left) / self._half_mass))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        x = self.scale * inverse_hazard(level, self._half_mass, -self._length)
        return np.minimum(x, self.bound)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return np.where(far > self.bound, np.inf, apart / self.scale)

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        edge = max(self.bound - shift / 2, 0.0)
        in_slope = level < shift / self.scale
        return np.where(in_slope, np.minimum(level * self.scale / 2, edge), edge)

    def _unit_variance(self) -> float:
        return 2 * float(gammainc(3, self._length)) / self._half_mass


_ROOT_2 = math.sqrt(2)


@dataclass(frozen=True)
class FlippedHuber(CrossingLaw):
    """Density proportional to exp(-rho(x) / gamma^2) (Muthukrishnan & Kalyani 2023).

    rho(x) = alpha |x| for |x| <= alpha, and (x^2 + alpha^2) / 2 beyond. With alpha = 0 this is
    Gaussian(gamma); for great alpha / gamma it tends to Laplace(gamma^2 / alpha).

    Parameters
    ----------
    alpha : float in [0, inf), units of the released value
        Half-width of the exponential centre, at most 1e150 gamma.
    gamma : float in (0, inf), units of the released value
        Standard deviation of the Gaussian tails.

    Examples
    --------
    >>> FlippedHuber(0.0, 2.0).var()
    4.0
    >>> round(FlippedHuber(1.0, 1.0).var(), 6)
    0.88133
    """

    alpha: float = 1.0
    gamma: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("alpha", "gamma")

    def __post_init__(self) -> None:
        check_offset(self, "alpha", "gamma")

    # In units of gamma the potential is b t + max(t - b, 0)^2 / 2, b the knot.

    @cached_property
    def _knot(self) -> float:
        return self.alpha / self.gamma

    @cached_property
    def _mills(self) -> float:
        return float(mills_ratio(np.asarray(self._knot)))

    @cached_property
    def _inner_mass(self) -> float:
        """Return the integral of exp(-potential) over 0 < t < b."""
        return float(fallen(self._knot, self._knot))

    @cached_property
    def _half_mass(self) -> float:
        return self._inner_mass + math.exp(-self._knot * self._knot) * self._mills

    @cached_property
    def _level_at_knot(self) -> float:
        return float(self._hazard(np.asarray(self.alpha)))

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.gamma
        # The minimum avoids 0 times inf; where it differs from t the square is infinite.
        return self._knot * np.minimum(t, 1e300) + np.maximum(t - self._knot, 0) ** 2 / 2

    def _hazard(self, x: FloatArray) -> FloatArray:
        t, b = x / self.gamma, self._knot
        # The integral of exp(-potential) from 0 to t.
        outer = erf(np.maximum(t, b) / _ROOT_2) - math.erf(b / _ROOT_2)
        within = (fallen(b, np.minimum(t, b)) + _gaussian_mass(b) * outer) / self._half_mass
        near = -np.log1p(-np.minimum(within, 0.5))
        # The integral from t on, divided by the value at t.
        left = np.maximum(b - t, 0)
        centre = fallen(b, left) + np.exp(-b * left) * self._mills
        tail = np.where(t < b, centre, mills_ratio(np.maximum(t, b)))
        return np.where(within < 0.5, near, self._potential(x) - np.log(tail / self._half_mass))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        inner = self._inner_inverse(level) if self._knot > 0 else np.zeros_like(level)
        outer = np.maximum(self._outer_inverse(level), self._knot)
        return self.gamma * np.where(level <= self._level_at_knot, inner, outer)

    def _inner_inverse(self, level: FloatArray) -> FloatArray:
        b = self._knot
        rest = 1 - b * self._mills  # if it rounds to 0, its log has no effect
        log_rest = -b * b + math.log(rest) if rest > 0 else -math.inf
        return inverse_hazard(level, b * self._half_mass, log_rest) / b

    def _outer_inverse(self, level: FloatArray) -> FloatArray:
        b = self._knot
        log_tail = math.log(self._half_mass) + b * b / 2 - math.log(2 * math.pi) / 2 - level
        far = -ndtri_exp(np.minimum(log_tail, -math.log(2)))
        if self._level_at_knot >= 0.5:
            return far
        total = _gaussian_mass(b)
        # The mass of the centre beyond that of a Gaussian's, of order b^3.
        surplus = self._inner_mass / total - math.erf(b / _ROOT_2)
        within = -np.expm1(-level) * self._half_mass / total - surplus
        return np.where(level < 0.5, _ROOT_2 * erfinv(np.clip(within, 0, 1)), far)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        near, far, apart = near / self.gamma, far / self.gamma, apart / self.gamma
        b = self._knot
        p, q = np.maximum(far - b, 0), np.maximum(near - b, 0)
        return b * apart + np.where(near >= b, apart, p) * (p / 2 + q / 2)

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        b, h = self._knot, shift / (2 * self.gamma)
        ends = [
            2 * max(b, h) * min(h, abs(b - h)),
            2 * b * h + max(2 * h - b, 0.0) ** 2 / 2,
            2 * h * (h + b),
        ]
        y = level / (2 * h)
        outer = np.sqrt(2 * np.maximum(level - 2 * b * h, 0)) + b - h
        y = np.where(level < ends[2], outer, y)
        y = np.where(level < ends[1], np.sqrt(2 * level + 4 * b * h) - b - h, y)
        y = np.where(level < ends[0], level / (2 * max(b, h)), y)
        return np.asarray(self.gamma * y)

    def _unit_variance(self) -> float:
        b = self._knot
        # Below 1e-9 the centre's share, of order b^3, is negligible and would underflow.
        inner = 2 * float(gammainc(3, b * b)) / b / b / b if b > 1e-9 else 0.0
        outer = math.exp(-b * b) * (b + self._mills)
        return (inner + outer) / self._half_mass


def _gaussian_mass(knot: float) -> float:
    """Return the integral over t > 0 of the Gaussian that equals the density beyond the knot."""
    return math.exp(-knot * knot / 2) * math.sqrt(math.pi / 2)


_STEPS = 4


@dataclass(frozen=True)
class OffsetGaussian(CrossingLaw):
    """Density proportional to exp(-(|x| + offset)^2 / (2 scale^2)) (Sadeghi & Korki 2022).

    |X| is distributed as Z - offset given Z > offset, Z a centred normal variable. With offset 0
    this is Gaussian(scale); for great offset / scale it tends to Laplace(scale^2 / offset).

    Parameters
    ----------
    offset : float in [0, inf), units of the released value
        At most 1e150 scales.
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> OffsetGaussian(0.0, 2.0).var()
    4.0
    >>> round(OffsetGaussian(1.0).var(), 6)
    0.474865
    """

    offset: float = 1.0
    scale: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("offset", "scale")
    # docs/proofs/conversions.md, 7.
    peaked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_offset(self, "offset", "scale")

    @property
    def _start(self) -> float:
        return self.offset / self.scale

    @cached_property
    def _half_mass(self) -> float:
        return float(mills_ratio(np.asarray(self._start)))

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        return t * (self._start + t / 2)

    def _hazard(self, x: FloatArray) -> FloatArray:
        return hazard_between(self._start, x / self.scale)

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        # The hazard rate h = 1 / R is convex and h' = h (h - t). Its tangent at the start gives
        # a point beyond the root; from there Newton's method falls to it, as H is convex.
        rate = 1 / self._half_mass
        slope = rate * excess_moments(self._start)[0]
        t = 2 * level / (rate + np.sqrt(rate * rate + 2 * slope * level))
        for _ in range(_STEPS):
            t = t + (level - hazard_between(self._start, t)) * mills_ratio(self._start + t)
        return self.scale * t

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return (apart / self.scale) * (self._start + (near + far) / (2 * self.scale))

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        half = shift / (2 * self.scale)
        inner = level / (2 * (self._start + half))
        outer = level / (2 * half) - self._start
        return self.scale * np.where(inner <= half, inner, outer)

    def _unit_variance(self) -> float:
        return excess_moments(self._start)[1]
