"""A second truth for noise laws: fifty digits, from nothing but the shape of the density.

An `ExactLaw` is given the potential -log f + log f(0) and the points where it is not smooth.
Everything else is a quadrature by mpmath: no closed form, no special function is shared with
the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import mpmath
from mpmath import mpf

from skdp import noise
from skdp.noise import FlippedHuber, Gaussian, Laplace, Logistic, OffsetGaussian, Subbotin

DIGITS = 50
# exp(-130) is the 57th digit of an integral that starts with 1.
DEPTH = 130


@dataclass(frozen=True)
class ExactLaw:
    """The even law with density proportional to exp(-potential(|x|)) up to ``end``."""

    potential: Callable[[Any], Any]
    kinks: tuple[Any, ...] = ()
    end: Any = mpmath.inf

    @cached_property
    def half(self) -> Any:
        return self.tail_integral(mpf(0))

    def log_tail(self, x: Any) -> Any:
        """log P(X > x), x >= 0."""
        return mpmath.log(self.tail_integral(x) / (2 * self.half)) - self.potential(x)

    def share_within(self, x: Any) -> Any:
        """P(0 < X < x)."""
        inner = [k for k in self.kinks if k < x]
        points = [mpf(0), *(x * k / 4 for k in range(1, 4)), x, *inner]
        return self.integral(lambda t: mpmath.exp(-self.potential(t)), points) / (2 * self.half)

    def log_density(self, x: Any) -> Any:
        return -self.potential(x) - mpmath.log(2 * self.half)

    def variance(self) -> Any:
        return self.tail_integral(mpf(0), lambda t: t * t) / self.half

    def tail_integral(self, start: Any, g: Callable[[Any], Any] = lambda t: 1) -> Any:
        """The integral of g(t) exp(potential(start) - potential(t)) over t > start."""
        base, points, step = self.potential(start), [start], self._width(start)
        while points[-1] < self.end and self.potential(points[-1]) - base < DEPTH:
            points.append(min(points[-1] + step, self.end))
            step = min(2 * step, self._width(points[-1]) * 4)
        points += [k for k in self.kinks if start < k < points[-1]]
        return self.integral(lambda t: g(t) * mpmath.exp(base - self.potential(t)), points)

    def integral(self, f: Callable[[Any], Any], points: list[Any]) -> Any:
        ends = sorted(points)
        pieces = [piece for pair in pairwise(ends) for piece in self._split(*pair)]
        values, errors = zip(*(_quad(f, *piece) for piece in pieces), strict=True)
        total = mpmath.fsum(values)
        assert mpmath.fsum(errors) < 1e-25 * abs(total)
        return total

    def _split(self, left: Any, right: Any) -> list[tuple[Any, Any]]:
        """Halve a piece until the potential grows at not too unlike rates on its halves."""
        middle = (left + right) / 2
        first, second = (
            self.potential(middle) - self.potential(left),
            self.potential(right) - self.potential(middle),
        )
        if second < mpf(10) ** -60 or second < 30 * first:
            return [(left, right)]
        return self._split(left, middle) + self._split(middle, right)

    def _width(self, start: Any) -> Any:
        """A step over which the potential grows by about one."""
        width, base = start / 4 if start else mpf(1), self.potential(start)
        while self.potential(start + width) - base > 2:
            width /= 2
        while self.potential(start + width) - base < 1:
            width *= 2
        return width


def _quad(f: Callable[[Any], Any], left: Any, right: Any) -> tuple[Any, Any]:
    # A potential may have no second derivative at 0.
    method = "tanh-sinh" if 1000 * left < right else "gauss-legendre"
    return mpmath.quad(f, [left, right], method=method, maxdegree=7, error=True)


def exact(law: Any) -> ExactLaw:
    """The same law, told by its density alone."""
    make = SHAPES[type(law)]
    return make(*map(mpf, astuple(law)))


def _flipped_huber(alpha: Any, gamma: Any) -> ExactLaw:
    def potential(t: Any) -> Any:
        return (alpha * t if t <= alpha else (t * t + alpha * alpha) / 2) / gamma**2

    return ExactLaw(potential, (alpha,) if alpha > 0 else ())


SHAPES: dict[type, Callable[..., ExactLaw]] = {
    Laplace: lambda s: ExactLaw(lambda t: t / s),
    Gaussian: lambda s: ExactLaw(lambda t: t * t / (2 * s * s)),
    Logistic: lambda s: ExactLaw(lambda t: 2 * mpmath.log(mpmath.cosh(t / (2 * s)))),
    Subbotin: lambda r, s: ExactLaw(lambda t: (t / s) ** r / r),
    FlippedHuber: _flipped_huber,
    noise.TruncatedLaplace: lambda b, s: ExactLaw(lambda t: t / s, end=b),
    OffsetGaussian: lambda o, s: ExactLaw(lambda t: ((t + o) ** 2 - o * o) / (2 * s * s)),
}
