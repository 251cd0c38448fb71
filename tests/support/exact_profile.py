"""The least delta of a shifted law in many digits, from the densities' definitions alone."""

from dataclasses import dataclass

import mpmath as mp


def facts(law):
    """Potential and upper tail at x >= 0, half-width of the support, greatest slope of a law."""
    return _FACTS[type(law).__name__](law)


def _laplace(law):
    s = mp.mpf(law.scale)
    return lambda x: x / s, lambda x: mp.exp(-x / s) / 2, mp.inf, 1 / s


def _gaussian(law):
    s = mp.mpf(law.scale)
    return lambda x: (x / s) ** 2 / 2, lambda x: mp.erfc(x / s / mp.sqrt(2)) / 2, mp.inf, mp.inf


def _logistic(law):
    s = mp.mpf(law.scale)
    return (
        lambda x: 2 * mp.log(mp.cosh(x / s / 2)),
        lambda x: 1 / (1 + mp.exp(x / s)),
        mp.inf,
        1 / s,
    )


def _subbotin(law):
    r, s = mp.mpf(law.r), mp.mpf(law.scale)

    def tail(x):
        return mp.gammainc(1 / r, (x / s) ** r / r, mp.inf, regularized=True) / 2

    return lambda x: (x / s) ** r / r, tail, mp.inf, 1 / s if r == 1 else mp.inf


def _flipped_huber(law):
    g, b = mp.mpf(law.gamma), mp.mpf(law.alpha) / mp.mpf(law.gamma)

    def potential(x):
        t = x / g
        return b * t if t <= b else (t * t + b * b) / 2

    def above(t):
        outer = mp.exp(-b * b / 2) * mp.sqrt(mp.pi / 2) * mp.erfc(max(t, b) / mp.sqrt(2))
        inner = (mp.exp(-b * t) - mp.exp(-b * b)) / b if t < b else 0
        return outer + inner

    total = above(mp.mpf(0))
    return potential, lambda x: above(x / g) / total / 2, mp.inf, mp.inf


def _truncated_laplace(law):
    s, bound = mp.mpf(law.scale), mp.mpf(law.bound)
    rest = mp.exp(-bound / s)

    def tail(x):
        return (mp.exp(-x / s) - rest) / (1 - rest) / 2 if x < bound else mp.mpf(0)

    return lambda x: x / s if x <= bound else mp.inf, tail, bound, mp.inf


def _offset_gaussian(law):
    s, o = mp.mpf(law.scale), mp.mpf(law.offset)
    total = mp.erfc(o / s / mp.sqrt(2))

    def tail(x):
        return mp.erfc((x + o) / s / mp.sqrt(2)) / total / 2

    return lambda x: ((x + o) / s) ** 2 / 2, tail, mp.inf, mp.inf


_FACTS = {
    "Laplace": _laplace,
    "Gaussian": _gaussian,
    "Logistic": _logistic,
    "Subbotin": _subbotin,
    "FlippedHuber": _flipped_huber,
    "TruncatedLaplace": _truncated_laplace,
    "OffsetGaussian": _offset_gaussian,
}


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
