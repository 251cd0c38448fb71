"""The least delta of a shifted law in many digits, from the densities' definitions alone."""

from dataclasses import astuple, dataclass

import mpmath as mp
from exact_law import exact


def _flipped_huber(x, alpha, gamma):
    b = alpha / gamma

    def above(t):
        outer = mp.exp(-b * b / 2) * mp.sqrt(mp.pi / 2) * mp.erfc(max(t, b) / mp.sqrt(2))
        inner = (mp.exp(-b * t) - mp.exp(-b * b)) / b if t < b else 0
        return outer + inner

    return above(x / gamma) / above(mp.mpf(0)) / 2


def _truncated_laplace(x, bound, s):
    rest = mp.exp(-bound / s)
    return (mp.exp(-x / s) - rest) / (1 - rest) / 2 if x < bound else mp.mpf(0)


# P(X > x) for x >= 0, from the parameters of a law.
TAILS = {
    "Laplace": lambda x, s: mp.exp(-x / s) / 2,
    "Gaussian": lambda x, s: mp.erfc(x / s / mp.sqrt(2)) / 2,
    "Logistic": lambda x, s: 1 / (1 + mp.exp(x / s)),
    "Subbotin": lambda x, r, s: mp.gammainc(1 / r, (x / s) ** r / r, mp.inf, regularized=True) / 2,
    "FlippedHuber": _flipped_huber,
    "TruncatedLaplace": _truncated_laplace,
    "OffsetGaussian": lambda x, o, s: (
        mp.erfc((x + o) / s / mp.sqrt(2)) / mp.erfc(o / s / mp.sqrt(2)) / 2
    ),
}


def facts(law):
    """Potential and upper tail at x >= 0, half-width of the support, greatest slope of a law."""
    own, parameters = exact(law), [mp.mpf(value) for value in astuple(law)]

    def potential(x):
        return own.potential(x) if x <= own.end else mp.inf

    is_steep = type(law).__name__ in ("Laplace", "Logistic") or getattr(law, "r", 0) == 1
    slope = 1 / mp.mpf(law.scale) if is_steep else mp.inf
    return potential, lambda x: TAILS[type(law).__name__](x, *parameters), own.end, slope


def exact_delta(law, shift, epsilon, digits=60):
    """The least delta and one minus it; shift and epsilon may be mpf."""
    with mp.workdps(digits):
        v, e = mp.mpf(shift), mp.mpf(epsilon)
        potential, tail, bound, slope = facts(law)

        def sf(x):
            return tail(x) if x >= 0 else 1 - tail(-x)

        def loss(x):
            ahead, here = potential(abs(x + v)), potential(abs(x))
            return mp.sign(x + v / 2) * mp.inf if mp.isinf(ahead + here) else ahead - here

        if v * slope <= e:
            return mp.mpf(0), mp.mpf(1)
        c = _crossing(loss, v, e, bound)
        rest = mp.exp(e) * sf(c + v)
        return sf(c) - rest, sf(-c) + rest


def _crossing(loss, v, e, bound):
    """sup {x : loss <= e} for e >= 0, by bisection."""
    if mp.isfinite(bound) and (v >= 2 * bound or loss(bound - v) <= e):
        return bound - v
    low, high = -v / 2, v / 2 + 1
    while loss(high) <= e:
        low, high = high, 4 * high
    # delta is stationary in c: half of the digits are enough.
    while high - low > mp.mpf(10) ** (-mp.mp.dps // 2 - 5) * (abs(low) + v):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) <= e else (low, middle)
    return low


@dataclass(frozen=True)
class Bare:
    """Somebody else's law: the same as another one, with the required members alone."""

    law: object

    def logpdf(self, x):
        return self.law.logpdf(x)

    def logsf(self, x):
        return self.law.logsf(x)

    def isf(self, q):
        return self.law.isf(q)


def gaussian_delta(mu, epsilon):
    """The least delta of two normal laws mu deviations apart, at the working precision."""
    mu, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
