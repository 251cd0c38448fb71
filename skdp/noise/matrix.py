"""Trusted. Noise for a matrix of moments: the difference of two Wishart matrices.

For S symmetric positive definite let f(W) be proportional to exp(-tr S W) on the positive
semidefinite W: a Wishart law with one more degree of freedom than rows. The density h of
W - W', two independent draws of it, satisfies |log h(M + D) - log h(M)| <= |S^1/2 D S^1/2|_1,
the sum of the absolute eigenvalues. For D = v v' - u u' that is at most v'Sv + u'Su. As h is
log-concave, the privacy loss is dominated by that of one Laplace variable shifted by this bound.
Statements and proofs: ``docs/proofs/matrix_laplace.md``, Theorem 1 and Corollary 2. For replaced
records the loss is smaller (Theorem 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammainc

from skdp.geometry.moments import MomentLayout
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import NormBall
from skdp.trusted.checks import check_choice, check_numbers, check_positive, fail, remembered
from skdp.trusted.losses import FiniteLoss, GaussianLoss, Losses
from skdp.trusted.noise import BaseNoise
from skdp.trusted.radial import RadialLoss
from skdp.trusted.randomness import GRANULARITY, normals, wishart
from skdp.trusted.statement import NEIGHBORS, NotPrivate, Public, Spent, up

# For other norms the loss is that of one Laplace variable, which is about as small.
LEAST_NORM, MOST_NORM = 1e-4, 2.5


def losses_of_trace(norm: float, records: float) -> Losses:
    """Return losses that dominate that of a release with matrix Laplace noise.

    ``norm`` bounds |S^1/2 D S^1/2|_1 for all differences D: it is ``records`` times the bound on
    v'Sv. ``records`` is 1 if one record is added or removed, and 2 if one is replaced.
    """
    if records == 2 and LEAST_NORM <= norm <= MOST_NORM:
        return ((_replaced(norm), 1),)
    return ((RadialLoss(1, norm), 1),)  # that of a Laplace variable


def distance_of_three(rho: float) -> float:
    """Return P(|Z| < rho) for the sum Z of three Laplace variables of scale 1.

    It is the total variation distance for two rows and the difference diag(rho, -rho).
    """
    # 1 - e^-rho (rho^2 + 5 rho + 8) / 8, as a sum of positive terms.
    return float(gammainc(3.0, rho)) + math.exp(-rho) * 3 * rho * (1 + rho) / 8


@remembered(maxsize=64)
def _replaced(norm: float) -> FiniteLoss:
    """Return the loss of a pair with a profile above that of every replaced record.

    With g = e^epsilon the profile is at most the greater of 1 - sqrt(g) e^(-rho/2), for
    differences of rank one, and of the line from the total variation distance at g = 1 to 0 at
    g = e^norm. The pair's profile interpolates this at some points, linearly in g.
    """
    rho = norm / 2
    start, root = distance_of_three(rho), math.exp(-rho / 2)
    fall = start / math.expm1(norm)
    # Where both are equal: fall g - root sqrt(g) + 1 - start - fall = 0.
    rest = 1 - start - fall
    cross = 2 * math.log(2 * rest / (root + math.sqrt(root**2 - 4 * fall * rest)))
    at = np.append(np.linspace(0, cross, 9), norm)
    delta = np.append(-np.expm1((at[:-1] - rho) / 2) * (1 + 1e-9), 0.0)  # raised for rounding
    # The slope of the profile at e^epsilon is -Q(L > epsilon).
    slopes = np.diff(delta) / np.diff(np.expm1(at))
    values, q = at[1:], np.diff(np.append(slopes, 0.0))
    p = q * np.exp(values)
    losses = np.concatenate([-values[::-1], [0.0], values])
    masses = np.concatenate([q[::-1], [1 - p.sum() - q.sum()], p])
    return FiniteLoss(tuple(losses.tolist()), tuple(np.log(masses).tolist()))


@dataclass(frozen=True)
class RowsWithin:
    """The changes of moments v v' by records whose rows have |v|_2^2 <= ``square``."""

    layout: MomentLayout
    square: float
    neighbors: str

    def __post_init__(self) -> None:
        check_positive("square", self.square)
        check_choice("neighbors", self.neighbors, NEIGHBORS)

    def row_square(self, weights: FloatArray) -> float:
        """Return a bound on the weighted sum of squares of a row."""
        return up(self.square * float(np.max(weights)))


def _row_square(layout: MomentLayout, change: Any, weights: FloatArray) -> float:
    """Return a bound on the weighted sum of squares of the rows whose moments change."""
    rows = change if isinstance(change, RowsWithin) else change.ball
    if layout != rows.layout or getattr(change, "radius", 1.0) != 1.0:
        raise NotPrivate("the noise is one of other moments than those that change")
    return float((rows if hasattr(rows, "row_square") else rows.layout).row_square(weights))


class MatrixNoise(BaseNoise):
    """Base class of noises of moments, whose matrix entries are uncorrelated.

    A subclass adds ``guarantee``, ``_draw`` and ``entry_variance``.
    """

    layout: MomentLayout

    def entry_variance(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        """Return the variance of entries (i, j) of the matrix, of any shape."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Number of released entries."""
        return self.layout.dim

    def variance(self) -> FloatArray:
        layout = self.layout
        own = layout.scale**2 * self.entry_variance(*layout.pairs.T)
        return np.asarray(own + layout.shift**2 * self.entry_variance(0, 0))

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each entry with the first, the count, (dim,)."""
        counted = np.where(self.layout.kinds == "count", self.layout.scale, -self.layout.shift)
        return np.asarray(self.entry_variance(0, 0) * counted)

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim); it is 0 but for entries with the count."""
        layout = self.layout
        i, j = layout.pairs.T
        counted = np.where(i + j == 0, layout.scale, 0.0) - layout.shift
        own = np.where(i + j == 0, 0.0, layout.scale**2 * self.entry_variance(i, j))
        return np.asarray(np.diag(own) + self.entry_variance(0, 0) * np.outer(counted, counted))

    def expected_norm(self, ball: NormBall, *, draws: int = 256) -> float:
        return super().expected_norm(ball, draws=draws)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MatrixGaussianNoise(MatrixNoise):
    """Gaussian noise with the same law in all directions of the symmetric matrices.

    It is the Gaussian mechanism in the Frobenius norm. For rows of length at most 1 the matrices
    of two records differ by at most sqrt(2), and one matrix has norm at most 1
    (``docs/proofs/matrix_laplace.md``, Lemma 4).

    Attributes
    ----------
    layout : MomentLayout
        Released entries of the matrix.
    deviation : float > 0
        Standard deviation on the diagonal; off the diagonal it is divided by sqrt(2).
    guarantee : Guarantee

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.geometry import MomentLayout
    >>> from skdp.mechanisms import MatrixGaussianNoise
    >>> noise = MatrixGaussianNoise(MomentLayout(2, range(2)), 3.0)
    >>> noise.rvs(np.random.default_rng(0)).shape == (noise.dim,)
    True
    """

    layout: MomentLayout
    deviation: float
    guarantee: Any = None  # stated by `certified`

    def __post_init__(self) -> None:
        check_positive("deviation", self.deviation)

    def spent(self, change: object, public: Public) -> Spent:
        """Return the loss of N(mu, 1) against N(0, 1), mu the greatest |D|_F over the deviation."""
        # |v v' - u u'|_F <= sqrt(2) for rows of length at most 1.
        square = _row_square(self.layout, change, np.ones(self.layout.n_rows))
        distance = math.sqrt(public.records_changed) * square
        return Spent(math.inf, ((GaussianLoss(up(distance / self.deviation)), 1),))

    def _draw(self, rng: Generator) -> FloatArray:
        square = normals((self.layout.n_rows,) * 2, rng)
        return self.layout.statistic(self.deviation / 2 * (square + square.T))

    def entry_variance(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        return np.asarray(self.deviation**2 / 2 * (1.0 + np.equal(i, j)))


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MatrixLaplaceNoise(MatrixNoise):
    """Noise of `MatrixLaplace` for moments.

    Attributes
    ----------
    layout : MomentLayout
        Released entries of the matrix.
    precision : ndarray of shape (n_rows,)
        The diagonal of S: entry (i, j) of the matrix has variance (n_rows + 1) / 2 over
        S_ii S_jj, on the diagonal twice that.
    guarantee : Guarantee

    Examples
    --------
    >>> from skdp.geometry import MomentBall, MomentLayout
    >>> from skdp.mechanisms import MatrixLaplace, Sensitivity
    >>> moments = MomentBall(MomentLayout(2, range(2)), level=0)
    >>> noise = MatrixLaplace().calibrate(Sensitivity(moments), epsilon=1.0)
    >>> type(noise).__name__, noise.dim == moments.dim
    ('MatrixLaplaceNoise', True)
    """

    layout: MomentLayout
    precision: FloatArray
    guarantee: Any = None  # stated by `certified`

    def __post_init__(self) -> None:
        precision = check_numbers("precision", self.precision)
        if not (np.isfinite(precision) & (precision > 0)).all():
            raise fail("precision", "contain finite numbers > 0")
        object.__setattr__(self, "precision", precision)

    def spent(self, change: object, public: Public) -> Spent:
        """Return the greatest |S^1/2 D S^1/2|_1 over all changes, and losses that dominate it."""
        # |S^1/2 (v v' - u u') S^1/2|_1 <= v'Sv + u'Su.
        square = _row_square(self.layout, change, self.precision)
        trace = up(public.records_changed * square)
        return Spent(trace, losses_of_trace(trace, public.records_changed))

    @property
    def granularity(self) -> float:
        return max(GRANULARITY, 2.0**-47 * math.sqrt(self.layout.n_rows))

    @staticmethod
    def distance(losses: Losses) -> float:
        """Return the total variation distance of the worst change with these losses.

        The losses of a replaced record are upper bounds on the least delta, and are at least
        this distance at epsilon = 0 (``docs/proofs/matrix_laplace.md``, Theorem 5).
        """
        ((loss, _),) = losses
        if isinstance(loss, FiniteLoss):
            return distance_of_three(loss.losses[-1] / 2)
        return math.exp(float(loss.log_delta(0.0)))

    def _draw(self, rng: Generator) -> FloatArray:
        rows = self.layout.n_rows
        # Rows with covariance S^-1 / 2 make the density exp(-tr S W).
        root = np.sqrt(0.5 / self.precision)
        difference = wishart(rows, rows + 1, rng) - wishart(rows, rows + 1, rng)
        return self.layout.statistic(difference * np.outer(root, root))

    def entry_variance(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        i, j = np.asarray(i), np.asarray(j)
        doubled = (self.layout.n_rows + 1) / 2 * (1.0 + np.equal(i, j))
        return np.asarray(doubled / (self.precision[i] * self.precision[j]))
