"""Polynomial statistics of one record over a domain, and their support bounds.

For each choice of levels the statistic of a record is f(z), a polynomial map of degree at most two
of its numbers z, which lie in [-1, 1]^p or in a ball. `Quadratic.bound` bounds <w, f(z)> from
above, in closed form or by a semidefinite relaxation whose dual solution proves the bound.

If a function of the numbers of a record returns polynomials when it is called with them, it is a
polynomial. This is a proof, not a test at some values. Coefficients are rational numbers, as every
float is, so nothing is rounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from numbers import Integral, Real
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from skdp.domain import Domain
from skdp.geometry import LpBall, NormBall
from skdp.geometry.conic import flat
from skdp.geometry.hull import Hull, PolytopeHull, polytope_around
from skdp.geometry.polytope import MOST_PAIRS, null_direction
from skdp.geometry.programs import ConeSet, Expression, load_cvxpy
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import sign_patterns
from skdp.trusted.checks import fail

# Indices of the variables of a term, in order: (), (i,) or (i, j).
Term = tuple[int, ...]


class NotPolynomial(TypeError):
    """An operation whose result is not a polynomial of degree at most two."""


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial of degree at most two, in variables given by their indices.

    ``terms`` has coefficients other than 0, ``size`` is the result of the same computation with
    absolute values everywhere, and ``steps`` the number of operations. The error of the computation
    in floats is at most about 2^-53 * steps * size.
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
    def of(cls, value: object) -> Polynomial:
        if isinstance(value, Polynomial):
            return value
        if not isinstance(value, Real) or value != value or abs(value) == float("inf"):
            raise NotPolynomial(f"a value of kind {type(value).__name__} that is no finite number")
        # Through Python numbers, as those of numpy overflow.
        if not isinstance(value, Fraction):
            value = Fraction(int(value) if isinstance(value, Integral) else float(value))
        return cls({(): value} if value else {}, abs(float(value)))

    def __add__(self, other: object) -> Polynomial:
        other = _operand(other)
        if other is None:
            return NotImplemented
        terms = [*self.terms.items(), *other.terms.items()]
        return Polynomial(_sum(terms), self.size + other.size, self.steps + other.steps + 1)

    def __mul__(self, other: object) -> Polynomial:
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

    def __sub__(self, other: object) -> Polynomial:
        other = _operand(other)
        return NotImplemented if other is None else self + -other

    def __rsub__(self, other: object) -> Polynomial:
        return self.__neg__().__add__(other)

    def __truediv__(self, other: object) -> Polynomial:
        other = _operand(other)
        if other is None:
            return NotImplemented
        if set(other.terms) != {()}:
            raise NotPolynomial("a division by anything but a number other than 0")
        divisor = other.terms[()]
        terms = {t: c / divisor for t, c in self.terms.items()}
        return Polynomial(terms, self.size / abs(float(divisor)), self.steps + other.steps + 1)

    def __rtruediv__(self, other: object) -> Polynomial:
        return Polynomial.of(other) / self

    def __pow__(self, power: object) -> Polynomial:
        if not isinstance(power, Real) or power not in (0, 1, 2):
            raise NotPolynomial(f"a power {power!r}")
        return self * self if power == 2 else self if power == 1 else Polynomial.of(1)

    __radd__, __rmul__ = __add__, __mul__

    def conjugate(self) -> Polynomial:
        """Return the polynomial itself, which is real."""
        return self

    def _refuse(self, *_: object) -> NoReturn:
        raise NotPolynomial("a comparison, or a use as a plain number or index")

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __abs__ = __bool__ = __float__ = __int__ = __index__ = _refuse
    __round__ = __floordiv__ = __mod__ = __rpow__ = __floor__ = __ceil__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def _operand(value: object) -> Polynomial | None:
    """Return a number as a polynomial; None for an array, whose own operator then takes over."""
    return None if hasattr(value, "shape") and value.shape else Polynomial.of(value)


def _sum(terms: Iterable[tuple[Term, Fraction]]) -> dict[Term, Fraction]:
    total: defaultdict[Term, Fraction] = defaultdict(Fraction)
    for term, coefficient in terms:
        total[term] += coefficient
    return {term: c for term, c in total.items() if c}


# Greatest number of choices of levels, of numbers whose products are bounded by a semidefinite
# program, and of corners of an affine statistic for which the hull is computed.
MOST_CHOICES, MOST_LIFTED, MOST_CORNERS = 4096, 10, 1024
# Error of a float computation per step, relative to its size: twice the bound.
ROUNDING = 2.0**-52
REMEDY = "Pass its possible values to Sensitivity.from_points, or a ball to Sensitivity."


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Maps f_c(z) = constant_c + linear_c z + z' square_c z, one for each choice c of levels."""

    constant: FloatArray  # (n_choices, dim)
    linear: FloatArray  # (n_choices, dim, p)
    square: FloatArray  # (n_choices, dim, p, p), symmetric
    rounding: FloatArray  # bound on the rounding error of a computed f, (dim,)
    radius: float | None  # z is in the ball of this radius, or in [-1, 1]^p

    @property
    def dim(self) -> int:
        return int(self.constant.shape[1])

    @property
    def n_numbers(self) -> int:
        return int(self.linear.shape[2])

    @property
    def is_affine(self) -> bool:
        """Whether there is no term of degree two."""
        return not self.square.any()

    def bound(self, w: FloatArray) -> float:
        """Return an upper bound on <w, f(z)> over all records."""
        flat, slope = self.constant @ w, w @ self.linear
        square = np.tensordot(self.square, w, axes=(1, 0))
        of_rest = self._in_box if self.radius is None else self._in_ball
        quick = flat + of_rest(slope, square)
        best = -np.inf
        for c in np.argsort(-quick):
            if quick[c] <= best:
                break
            tight = flat[c] + self._lifted(slope[c], square[c])
            best = max(best, min(float(quick[c]), tight))
        return float(best + np.abs(w) @ (self.rounding + self.own_rounding))

    @cached_property
    def own_rounding(self) -> FloatArray:
        """Bound on the rounding errors of the coefficients and sums of `bound`, for each axis."""
        r = max(1.0, self.radius or 1.0)
        size = np.abs(self.constant) + r * np.abs(self.linear).sum(axis=2)
        size += r**2 * np.abs(self.square).sum(axis=(2, 3))
        steps = 16 + self.dim + self.n_numbers + self.n_numbers**2
        return np.asarray(steps * ROUNDING * size.max(axis=0))

    def corners(self) -> FloatArray:
        """Return f at the corners of the box, (n_choices * 2^p, dim)."""
        signs = sign_patterns(self.n_numbers)
        points = self.constant[:, None, :] + np.einsum("cdp,sp->csd", self.linear, signs)
        return np.asarray(points.reshape(-1, self.dim))

    def null_direction(self, differences: bool) -> FloatArray | None:
        """Return w for which <w, f> is constant (0 unless ``differences``), or None."""
        origin = self.constant[0] if differences else 0.0
        terms = [self.constant - origin, *np.moveaxis(self.linear, 2, 0)]
        terms += list(np.moveaxis(self.square.reshape(*self.square.shape[:2], -1), 2, 0))
        return null_direction(np.concatenate(terms))

    def _in_box(self, slope: FloatArray, square: FloatArray) -> FloatArray:
        """Bound the terms of each number by their maximum, and products by their size."""
        own = np.einsum("cii->ci", square)
        # The maximum of a t^2 + b t over [-1, 1], inside only if a < 0 and |b| < -2 a.
        inside = (own < 0) & (np.abs(slope) < -2 * own)
        top = np.where(inside, -(slope**2) / np.where(inside, 4 * own, -1.0), own + np.abs(slope))
        total = top.sum(axis=1) + np.abs(square).sum(axis=(1, 2))
        return np.asarray(total - np.abs(own).sum(axis=1))

    def _in_ball(self, slope: FloatArray, square: FloatArray) -> FloatArray:
        r = float(self.radius or 0.0)
        greatest = np.linalg.eigvalsh(square)[:, -1].clip(min=0.0) if square.size else 0.0
        return np.asarray(greatest * r**2 + np.linalg.norm(slope, axis=1) * r)

    def _lifted(self, slope: FloatArray, square: FloatArray) -> float:
        """Bound slope'z + z'square z by the semidefinite relaxation; inf if it does not help."""
        mixed = square - np.diag(np.diag(square)) if self.radius is None else square
        used = np.flatnonzero(np.abs(square).sum(axis=0) + np.abs(slope))
        if not mixed.any() or len(used) > MOST_LIFTED:
            return float("inf")
        upper = np.triu_indices(len(used))
        products = square[np.ix_(used, used)] * (2 - np.eye(len(used)))
        w = np.concatenate([slope[used], products[upper]])
        size = np.abs(w).max()
        return float(size * _moments(len(used), self.radius).bound(w / size))


@cache
def _moments(p: int, radius: float | None) -> ConeSet:
    """Return an outer body of {(z, the upper triangle of zz')}: Shor's, with products of bounds."""
    cp = load_cvxpy()

    upper = np.triu_indices(p)
    flat = cp.Variable(p + len(upper[0]))
    packed = np.zeros((p, p), dtype=int)
    packed[upper] = np.arange(len(upper[0]))
    packed = np.maximum(packed, packed.T)
    z, Z = flat[:p], [[flat[p + k] for k in row] for row in packed.tolist()]
    whole = cp.bmat([[1.0, *z], *([z[i], *Z[i]] for i in range(p))])
    constraints: list[Expression] = [whole >> 0]
    if radius is None:
        # (1 +- z_i)(1 +- z_j) >= 0.
        for i, j, s, t in product(range(p), range(p), (1, -1), (1, -1)):
            if i <= j:
                constraints.append(1 + s * z[i] + t * z[j] + s * t * Z[i][j] >= 0)
    else:
        constraints.append(sum(Z[i][i] for i in range(p)) <= radius**2)
    return ConeSet.compiled(flat, constraints)


def quadratic_of(function: Callable[..., object], domain: Domain) -> Quadratic:
    """Return the polynomials of a function, by calling it with polynomials as numbers."""
    if not isinstance(domain, Domain):
        raise fail("domain", "be a Domain", type(domain))
    bound = domain.radius if domain.radius is not None else 1.0
    if domain.radius is not None and domain.target_bounds is not None:
        remedy = "Declare the columns as bounded numbers instead."
        raise fail("domain", "have no target of numbers where rows are in a ball", None, remedy)
    rows = [_outputs(function, record) for record in _records(domain, bound)]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise fail("function", "return as many numbers, at least one, for every record")
    shape, p = (len(rows), len(rows[0])), domain.n_numbers + (domain.target_bounds is not None)
    constant, linear, square = np.zeros(shape), np.zeros((*shape, p)), np.zeros((*shape, p, p))
    rounding = np.zeros(shape)
    for place in np.ndindex(shape):
        polynomial = rows[place[0]][place[1]]
        rounding[place] = ROUNDING * (polynomial.steps + 1) * polynomial.size
        for term, coefficient in polynomial.terms.items():
            if len(term) == 2:
                square[place][term] += float(coefficient) / 2
                square[place][term[::-1]] += float(coefficient) / 2
            elif term:
                linear[place][term] = float(coefficient)
            else:
                constant[place] = float(coefficient)
    return Quadratic(constant, linear, square, rounding.max(axis=0), domain.radius)


def _records(domain: Domain, bound: float) -> Iterator[tuple[object, ...]]:
    """Yield a record for each choice of levels and nodes of splines, with variables as numbers."""
    labels = domain.target_labels or (None,)
    choices = [range(count) for count in domain.block_positions]
    count = int(np.prod([len(c) for c in choices], dtype=float)) * len(labels)
    if count > MOST_CHOICES:
        rule = f"have at most {MOST_CHOICES} choices of levels"
        raise fail("domain", rule, count, "Take fewer columns of levels and splines at a time.")
    for chosen, label in product(product(*choices), labels):
        x = np.full(domain.n_encoded, 0.0, dtype=object)
        for block, table, level in zip(domain.blocks, domain.block_tables, chosen, strict=True):
            if table is not None:
                x[block] = table[level]
            elif level:
                x[block.start + level - 1] = 1.0
        for k, place in enumerate(domain.number_index):
            x[place] = Polynomial.variable(k, bound)
        if domain.target is None:
            yield (x,)
        else:
            yield x, Polynomial.variable(domain.n_numbers, 1.0) if label is None else label


def _outputs(function: Callable[..., object], record: tuple[object, ...]) -> list[Polynomial]:
    try:
        out = np.asarray(function(*record), dtype=object)
        return [Polynomial.of(value) for value in np.ravel(out)]
    except NotPolynomial as error:
        rule = f"be a polynomial of degree at most two in the numbers of a record, not {error}"
        raise fail("function", rule, None, REMEDY) from None
    except Exception as error:
        rule = "be sums and products of the entries of its arguments, with numpy or without"
        raise fail("function", rule, f"{type(error).__name__}: {error}", REMEDY) from error


SLACK = 1e-12

Support = Callable[[FloatArray], FloatArray]


def two_sided(bound: Callable[[FloatArray], float], differences: bool) -> Support:
    """Return bounds on |<w, d>| over the differences of a set, or over it and its negative."""

    def support(rows: FloatArray) -> FloatArray:
        both = np.array([[bound(w), bound(-w)] for w in rows])
        return np.asarray(both.sum(axis=1) if differences else np.abs(both).max(axis=1))

    return support


def ball_of_maps(
    maps: Quadratic, differences: bool, directions: ArrayLike | int | None
) -> NormBall:
    """Return a ball that holds all f(z) - f(z'), or all f(z) and -f(z)."""
    if (w := maps.null_direction(differences)) is not None:
        raise flat(w)
    if directions is None and (hull := _affine_hull(maps, differences)) is not None:
        return hull
    support = two_sided(maps.bound, differences)
    if directions is None and maps.dim not in MOST_PAIRS:
        return LpBall(maps.dim, p=np.inf, weights=1 / (support(np.eye(maps.dim)) * (1 + SLACK)))

    def rounded(rows: FloatArray) -> FloatArray:
        # Bounds from a solver have errors of 1e-9. Unless they are raised by 1e-7 and rounded to
        # seven digits, facets that share a corner meet in many corners too close to each other.
        values = support(rows)
        unit = 2 ** np.floor(np.log2(np.maximum(values, np.finfo(float).tiny)))
        return np.asarray(np.maximum(values, np.round(values / unit, 7) * unit * (1 + 1e-7)))

    return polytope_around(support if maps.is_affine else rounded, maps.dim, directions)


def _affine_hull(maps: Quadratic, differences: bool) -> Hull | None:
    """Return the hull of the differences of an affine statistic, if it is small."""
    n_corners = len(maps.constant) * 2.0**maps.n_numbers
    if not maps.is_affine or maps.radius is not None or n_corners > MOST_CORNERS:
        return None
    hull = (Hull.difference_of if differences else Hull.from_points)(maps.corners())
    if not isinstance(hull, PolytopeHull):
        return None
    # Room for the rounding of two statistics, along each axis.
    room = float(hull.gauge(np.diag(2 * (maps.rounding + maps.own_rounding))).sum())
    return Hull.from_points(hull.extreme_points() * (1 + room + SLACK))
