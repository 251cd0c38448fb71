"""The noise that a mechanism makes, and the release of a value with it: K-norm and Gaussian noise.

Gaussian noise A Z is as private as N(0, 1) and N(mu, 1), mu = |A^-1 u|_2. The log-density of
K-norm noise changes by at most the gauge of a change over the scale. With a delta its losses are
those of one Laplace variable or, for Euclidean balls and their linear images, those of their
radial law (docs/proofs/knorm_delta.md, Theorems 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import (
    NormBall,
    length_in,
    parts_of,
    uniform_covariance,
    uniform_first_covariance,
    uniform_variance,
)
from skdp.trusted.checks import check_count, check_numbers, check_positive, fail, is_ours
from skdp.trusted.losses import GaussianLoss, Losses
from skdp.trusted.radial import MOST_SHIFT, RadialLoss
from skdp.trusted.randomness import (
    GRANULARITY,
    Lattice,
    RandomStateLike,
    as_generator,
    gamma,
    granularity_of,
    normals,
    publish,
)
from skdp.trusted.statement import NotPrivate, Public, Spent, up

# The noise is stretched by no more than this share; below the first one the dither is not widened.
_USUAL_STRETCH, _MOST_STRETCH = 2.0**-8, 2.0**-4
_USUAL_DITHER, _WIDEST_DITHER = 7, 2


class Publication(NamedTuple):
    """Public constants of the releases with a noise, the same for every value.

    Attributes
    ----------
    lattice : Lattice
    stretch : float >= 1
        Factor of each draw. It pays for the discrete Laplace noise of the lattice
        (``docs/proofs/lattice_release.md``, Theorem 2).
    """

    lattice: Lattice
    stretch: float


class BaseNoise:
    """Base class of the noises of this package.

    A subclass adds ``guarantee``, ``dim``, ``_draw`` and ``variance``. It overrides ``covariance``
    if its coordinates are correlated, and ``_draws`` if it draws many vectors together.
    """

    guarantee: Any
    # Whether `spent` is that of all releases of the change, whose number it states.
    spends_all: ClassVar[bool] = False
    # Not in files: it is a claim, from which nothing is proved.
    unwritten: ClassVar = {"guarantee": None}

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        return GRANULARITY

    def spent(self, change: Any, public: Public) -> Spent:
        """Return the privacy loss of the noise for a body of changes."""
        raise NotImplementedError

    def rvs(self, rng: RandomStateLike = None, size: int | None = None) -> FloatArray:
        """Return a draw, (dim,), or (size, dim), for simulations; ``release`` publishes a value."""
        generator = as_generator(rng)
        if size is None:
            return self._draw(generator)
        return self._draws(check_count("size", size), generator)

    def _draw(self, rng: Generator) -> FloatArray:
        raise NotImplementedError

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of a draw, (dim,)."""
        raise NotImplementedError

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim)."""
        return np.diag(self.variance())

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        if type(self).covariance is not BaseNoise.covariance:
            return np.asarray(self.covariance()[0])
        return np.append(self.variance()[:1], np.zeros(len(self.variance()) - 1))

    def expected_norm(self, ball: NormBall, *, draws: int = 4096) -> float:
        """Return the mean gauge of a draw in a ball's norm, estimated from ``draws`` draws."""
        return float(np.mean(ball.gauge(self._draws(draws, np.random.default_rng(0)))))

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        """Return n draws, (n, dim)."""
        return np.array([self._draw(rng) for _ in range(n)])

    @cached_property
    def publication(self) -> Publication:
        """Lattice and stretch of the releases."""
        stated = self.guarantee
        return publication_of(self, stated.epsilon, stated.delta, stated.losses)

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Return the value with noise, on a lattice that does not depend on the value.

        This is the only way to publish a value with this noise. ``value + noise.rvs(rng)`` is
        not private: the low bits of a sum of floats reveal its terms.

        Parameters
        ----------
        value : array-like of shape (dim,), finite
            The exact value, for whose neighbours the sensitivity holds.
        rng : None, int, numpy.random.Generator or numpy.random.RandomState
            None draws from ChaCha20 under a fresh key. Other values are for tests.

        Returns
        -------
        ndarray of shape (dim,)
            Multiples of ``2.0**publication.lattice.spacing``, about 2^-30 standard deviations.

        Raises
        ------
        ValueError
            If ``value`` does not have ``dim`` finite entries.
        """
        return release(self, value, rng)


def release(noise: Any, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
    """Return a value with noise from any object with guarantee, rvs and covariance.

    The guarantee is kept if the noise is log-concave, or if its log-density changes by at most
    epsilon along a difference and in proportion to it. For any other noise each number costs up
    to 2^-34 more in epsilon (docs/proofs/lattice_release.md, Theorems 1 and 2).

    Parameters
    ----------
    noise : Noise, or a `skdp.trusted.NoisySum` with one
        A draw must differ from a draw of the exact law by at most ``noise.granularity`` standard
        deviations in each coordinate; without that attribute by at most 2^-43.
    value : array-like of shape (dim,), finite
    rng : None, int, numpy.random.Generator or numpy.random.RandomState

    Returns
    -------
    ndarray of shape (dim,)

    Raises
    ------
    ValueError
        If ``value`` does not have ``dim`` finite entries, or epsilon is too small to be kept by
        numbers of 53 bits.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate, release
    >>> from skdp.testing.examples import LaplaceInTheBox
    >>> noise = calibrate(LaplaceInTheBox(), Sensitivity(LpBall(2)), epsilon=1.0)
    >>> release(noise, [12.0, -3.0]).shape
    (2,)
    """
    named, noise = noise, getattr(noise, "noise", noise)
    lattice, stretch = publication(named)

    def draw(generator: Generator) -> FloatArray:
        return np.asarray(stretch * noise.rvs(generator))

    return lattice.publish(value, draw, rng, named, stretch)


def release_integers(release: Any, exact: Sequence[int], unit: int, rng: Generator) -> FloatArray:
    """Return exact integers in units of 2^unit with the noise of a `NoisySum`, (dim,)."""
    lattice, stretch = Publication(*release.publication)

    def draw(generator: Generator) -> FloatArray:
        noise = stretch * release.noise.rvs(generator)
        return lattice.release(exact, unit, noise, generator)

    facts = {"unit": unit, "scale": stretch, "lattice": lattice}
    return np.asarray(publish(release, exact, draw, rng, **facts))


def variances(noise: Any) -> FloatArray:
    """Return the variance of each coordinate of a draw, (dim,), which may be an estimate."""
    if hasattr(noise, "variance"):
        return np.asarray(noise.variance(), dtype=float)
    return np.diag(noise.covariance()).copy()


def first_covariance(noise: Any) -> FloatArray:
    """Return the covariance of each coordinate of a draw with the first one, (dim,)."""
    own = getattr(noise, "first_covariance", None)
    return np.asarray(noise.covariance()[0] if own is None else own(), dtype=float)


def publication_of(noise: Any, epsilon: float, delta: float, losses: Losses) -> Publication:
    """Return the lattice and stretch for a noise with this guarantee and these losses.

    It is an error if the lattice would cost more than the guarantee has to spend.
    """

    def shrink(lattice: Lattice) -> float:
        """Return the share by which differences must shrink against the noise to pay."""
        if losses:
            # The total variation distance of the pair that is claimed, or of one that it bounds.
            measured = getattr(noise, "distance", None)
            distances = [math.exp(float(loss.log_delta(0.0))) for loss, _ in losses]
            distance = max(distances) if measured is None else measured(losses)
            return paid_in_full(lattice.cost, distance)
        if epsilon == 0:
            return -lattice.cost / math.log1p(-delta)
        return lattice.cost * max(2 / float(epsilon), 1.5)

    return published(np.sqrt(variances(noise)), granularity_of(noise), shrink)


def published(
    sizes: FloatArray, granularity: float, shrink: Callable[[Lattice], float]
) -> Publication:
    """Return the lattice of the narrowest dither whose cost is a small share of the noise."""
    for bits in range(_USUAL_DITHER, _WIDEST_DITHER - 1, -1):
        lattice = Lattice.of(sizes, granularity, bits)
        share = shrink(lattice)
        if share <= _USUAL_STRETCH:
            break
    if not share <= _MOST_STRETCH:
        remedy = "Ask for more, or release fewer numbers."
        rule = f"be great enough for {len(sizes)} numbers of 53 bits to keep it"
        raise fail("epsilon", rule, remedy=remedy)
    return Publication(lattice, (1 + 1e-9) / (1 - share))


def publication(noise: Any) -> Publication:
    """Return the noise's own ``publication``, or else that of its guarantee."""
    if not hasattr(noise, "publication"):
        stated = noise.guarantee
        return publication_of(noise, stated.epsilon, stated.delta, stated.losses)
    found = noise.publication
    if not isinstance(found, Publication):
        raise fail("noise", "have a publication that is a Publication, or none", type(noise))
    return found


def paid_in_full(cost: float, distance: float) -> float:
    """Return the share that pays ``cost`` at every epsilon (Lemma 2), for a distance > 0."""
    return 3 * cost / (distance * (1 - 1e-9)) if distance > 0 else math.inf


def law_of(noise: Any) -> str:
    """Return the law of a noise in a few words."""
    law, ball = getattr(noise, "law", None), getattr(noise, "ball", None)
    if law is not None:
        return repr(law)
    kind = type(noise).__name__
    return kind if ball is None else f"{kind}({type(ball).__name__})"


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class GaussianNoise(BaseNoise):
    """Centred Gaussian noise A Z, with Z standard normal.

    Attributes
    ----------
    dim : int, >= 1
        Number of coordinates.
    factor : float, or array of shape (dim,) or (dim, dim), units of the released value
        A; a number stands for a multiple of the identity, a vector for a diagonal matrix.
    guarantee : Guarantee
        Guarantee of one release.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("gaussian", Sensitivity(LpBall(2)), epsilon=1.0, delta=1e-6)
    >>> type(noise).__name__, noise.guarantee.delta
    ('GaussianNoise', 1e-06)
    >>> noise.covariance().diagonal().round(1).tolist()
    [17.8, 17.8]
    >>> noise.release([12.0, -3.0]).shape
    (2,)
    """

    dim: int
    factor: float | FloatArray
    guarantee: Any = None  # stated by `certified`
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        factor = check_numbers("factor", self.factor)
        if factor.shape not in ((), (self.dim,), (self.dim, self.dim)):
            raise fail("factor", f"be a number or have {self.dim} rows", factor.shape)
        if not np.isfinite(factor).all():
            remedy = "Measure the released values in greater units."
            raise fail("factor", "contain finite numbers", remedy=remedy)
        if factor.ndim < 2 and not (factor != 0).all():
            raise fail("factor", "contain no 0: without noise nothing is private")
        object.__setattr__(self, "factor", factor if factor.ndim else float(factor))

    @property
    def granularity(self) -> float:
        # A product with a matrix rounds once for each term.
        mixed = np.ndim(self.factor) == 2
        return float(max(GRANULARITY, mixed * 2.0**-48 * self.dim**1.5))

    def spent(self, change: Any, public: Public) -> Spent:
        """Return the loss of N(mu, 1) against N(0, 1), mu the greatest |A^-1 u|_2."""
        length = length_in(self.factor, change)
        if not length < math.inf:
            raise NotPrivate("the factor of Gaussian noise is not invertible in 53 bits")
        return Spent(math.inf, ((GaussianLoss(up(length)), 1),))

    def _draw(self, rng: Generator) -> FloatArray:
        return self._spread(normals(self.dim, rng))

    def variance(self) -> FloatArray:
        factor = np.asarray(self.factor)
        squares = factor**2
        return squares.sum(axis=1) if factor.ndim == 2 else np.full(self.dim, squares)

    def covariance(self) -> FloatArray:
        root = self._spread(np.eye(self.dim))
        return np.asarray(root.T @ root)

    def first_covariance(self) -> FloatArray:
        factor = np.asarray(self.factor)
        if factor.ndim == 2:
            return np.asarray(factor @ factor[0])
        return np.append(self.variance()[:1], np.zeros(self.dim - 1))

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return self._spread(normals((n, self.dim), rng))

    def _spread(self, z: FloatArray) -> FloatArray:
        """Return A z for z of shape (..., dim)."""
        factor = np.asarray(self.factor)
        return np.asarray(z @ factor.T if factor.ndim == 2 else z * factor)


def losses_of(ball: NormBall, shift: float) -> Losses:
    """Return a privacy loss that dominates that of noise of scale 1 for such a difference."""
    # In one dimension it is the loss of a Laplace variable.
    has_radial_law = ball.dim > 1 and is_round(ball) and shift <= MOST_SHIFT
    return ((RadialLoss(ball.dim if has_radial_law else 1, shift), 1),)


def is_round(ball: NormBall) -> bool:
    """Return whether a ball is known to be a linear image of the Euclidean ball."""
    # A subclass may have another gauge.
    return is_ours(ball) and bool(getattr(ball, "is_round", False))


@dataclass(frozen=True)
class KNormNoise(BaseNoise):
    """Noise with density proportional to exp(-|v|_K / scale).

    Attributes
    ----------
    ball : NormBall
        K.
    scale : float > 0, units of the released value
    guarantee : Guarantee
        Guarantee of one release.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("l2", Sensitivity(LpBall(3)), epsilon=1.0)
    >>> type(noise).__name__, noise.guarantee.delta
    ('KNormNoise', 0.0)
    >>> noise.covariance().diagonal().round(6).tolist()
    [4.0, 4.0, 4.0]
    """

    ball: NormBall
    scale: float
    guarantee: Any = None  # stated by `certified`
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.ball.dim

    @property
    def granularity(self) -> float:
        return _granularity(self.ball)

    def spent(self, change: Any, public: Public) -> Spent:
        """Return the greatest gauge of a change over the scale, and losses that dominate it."""
        # By the triangle inequality the log-density changes by at most the gauge of a change.
        shift = up(float(change.radius_in(self.ball)) / self.scale)
        return Spent(shift, losses_of(self.ball, shift))

    def _draw(self, rng: Generator) -> FloatArray:
        # The direction is uniform in K, not on its boundary, hence dim + 1 and not dim.
        radius = self.scale * gamma(self.dim + 1, rng)
        return np.asarray(radius * self.ball.sample(1, rng)[0])

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, (dim,), an estimate if the ball has none."""
        return np.asarray(self._second_moment * uniform_variance(self.ball))

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim), an estimate if the ball has none."""
        return np.asarray(self._second_moment * uniform_covariance(self.ball)[0])

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,), or an estimate."""
        return np.asarray(self._second_moment * uniform_first_covariance(self.ball))

    @property
    def _second_moment(self) -> float:
        """Covariance of a draw over that of a uniform draw from the ball."""
        return (self.dim + 1) * (self.dim + 2) * self.scale**2

    def expected_norm(self, ball: NormBall, *, draws: int = 4096) -> float:
        """Return the mean gauge of a draw, exact in K itself, else from ``draws`` draws."""
        if ball is self.ball or ball == self.ball:
            return self.dim * self.scale
        directions = self.ball.sample(draws, np.random.default_rng(0))
        return float((self.dim + 1) * self.scale * np.mean(ball.gauge(directions)))


def _granularity(ball: NormBall) -> float:
    """Return the granularity of a K-norm law (docs/proofs/lattice_release.md, Lemma 3)."""
    found = max([GRANULARITY, *map(_granularity, parts_of(ball))])
    # A sum of ``dim`` terms may round once for each of them.
    summed = 2.0**-50 * ball.dim**2
    if getattr(ball, "mixes", False):
        mixed = ball.absolute_image(np.sqrt(uniform_variance(parts_of(ball)[0])))  # type: ignore[attr-defined]
        found = (found + summed) * float(np.max(mixed / np.sqrt(uniform_variance(ball))))
    elif getattr(ball, "sums_terms", False) or not is_ours(ball):
        found = max(found, summed)
    return found
