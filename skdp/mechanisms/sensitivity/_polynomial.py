"""Polynomials of degree at most two with exact arithmetic.

If a function of the numbers of a record returns such polynomials when it is called with them, it
is a polynomial of degree at most two. This is a proof, not a test at some values. Coefficients are
rational numbers, as every float is, so nothing is rounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, NoReturn

# Indices of the variables of a term, in order: (), (i,) or (i, j).
Term = tuple[int, ...]


class NotPolynomial(TypeError):
    """An operation whose result is not a polynomial of degree at most two."""


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial of degree at most two, in variables given by their indices.

    Parameters
    ----------
    terms : dict of tuple of int to Fraction
        Coefficients other than 0.
    size : float
        Result of the same computation with absolute values everywhere.
    steps : int
        Number of operations. The error of the computation in floats is at most about
        2^-53 * steps * size.
    """

    terms: dict[Term, Fraction]
    size: float = 0.0
    steps: int = 0
    __array_priority__: float = field(default=1e3, init=False, repr=False)

    @classmethod
    def variable(cls, index: int, bound: float) -> Polynomial:
        """Return the variable itself, whose absolute value is at most ``bound``."""
        return cls({(index,): Fraction(1)}, bound)

    @classmethod
    def of(cls, value: Any) -> Polynomial:
        """Return a number as a polynomial."""
        if isinstance(value, Polynomial):
            return value
        if not isinstance(value, Real) or value != value or abs(value) == float("inf"):
            raise NotPolynomial(f"a value of kind {type(value).__name__} that is no finite number")
        exact = Fraction(value) if isinstance(value, Fraction) else _fraction(value)
        return cls({(): exact} if exact else {}, abs(float(value)))

    def __add__(self, other: Any) -> Polynomial:
        other = _operand(other)
        if other is None:
            return NotImplemented
        terms = [*self.terms.items(), *other.terms.items()]
        return Polynomial(_sum(terms), self.size + other.size, self.steps + other.steps + 1)

    def __mul__(self, other: Any) -> Polynomial:
        other = _operand(other)
        if other is None:
            return NotImplemented
        terms = [
            (tuple(sorted(s + t)), c * d)
            for s, c in self.terms.items()
            for t, d in other.terms.items()
        ]
        if any(len(t) > 2 for t, _ in terms):
            raise NotPolynomial("a product of degree above two")
        return Polynomial(_sum(terms), self.size * other.size, self.steps + other.steps + 1)

    def __neg__(self) -> Polynomial:
        return Polynomial({t: -c for t, c in self.terms.items()}, self.size, self.steps)

    def __pos__(self) -> Polynomial:
        return self

    def __sub__(self, other: Any) -> Polynomial:
        other = _operand(other)
        return NotImplemented if other is None else self + -other

    def __rsub__(self, other: Any) -> Polynomial:
        return self.__neg__().__add__(other)

    def __truediv__(self, other: Any) -> Polynomial:
        other = _operand(other)
        if other is None:
            return NotImplemented
        if set(other.terms) != {()}:
            raise NotPolynomial("a division by anything but a number other than 0")
        divisor = other.terms[()]
        terms = {t: c / divisor for t, c in self.terms.items()}
        return Polynomial(terms, self.size / abs(float(divisor)), self.steps + other.steps + 1)

    def __rtruediv__(self, other: Any) -> Polynomial:
        return Polynomial.of(other) / self

    def __pow__(self, power: Any) -> Polynomial:
        if not isinstance(power, Real) or power not in (0, 1, 2):
            raise NotPolynomial(f"a power {power!r}")
        return self * self if power == 2 else self if power == 1 else Polynomial.of(1)

    __radd__, __rmul__ = __add__, __mul__

    def conjugate(self) -> Polynomial:
        """Return the polynomial itself, which is real."""
        return self

    def _refuse(self, *_: Any) -> NoReturn:
        raise NotPolynomial("a comparison, or a use as a plain number or index")

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __abs__ = __bool__ = __float__ = __int__ = __index__ = _refuse
    __round__ = __floordiv__ = __mod__ = __rpow__ = __floor__ = __ceil__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def _operand(value: Any) -> Polynomial | None:
    """Return a number as a polynomial; None for an array, whose own operator then takes over."""
    return None if hasattr(value, "shape") and value.shape else Polynomial.of(value)


def _fraction(value: Any) -> Fraction:
    # Through Python numbers, as those of numpy overflow.
    return Fraction(int(value) if isinstance(value, Integral) else float(value))


def _sum(terms: Iterable[tuple[Term, Fraction]]) -> dict[Term, Fraction]:
    total: defaultdict[Term, Fraction] = defaultdict(Fraction)
    for term, coefficient in terms:
        total[term] += coefficient
    return {term: c for term, c in total.items() if c}
