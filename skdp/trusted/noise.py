"""The noise that a mechanism makes, and the release of a value with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._publish import publish
from skdp.geometry import NormBall
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses import Losses
from skdp.randomness import GRANULARITY, Lattice, RandomStateLike, granularity_of

# The noise is stretched by no more than this share; below the first one the dither is not widened.
_USUAL_STRETCH, _MOST_STRETCH = 2.0**-8, 2.0**-4
_USUAL_DITHER, _WIDEST_DITHER = 7, 2


class Noise(Protocol):
    """The result of :func:`calibrate`.

    The noises of this package also have ``release(value, rng=None)``, the only way to publish a
    value. `skdp.mechanisms.release` does the same for any object with these members.
    """

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of one release with this noise."""

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,)."""

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim)."""

    def expected_norm(self, ball: NormBall) -> float:
        """Return the mean gauge of a draw in a ball's norm."""


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

    A subclass adds ``guarantee``, ``dim``, ``rvs`` and ``variance``. It overrides ``covariance``
    if its coordinates are correlated, and ``_draws`` if it draws many vectors together.
    """

    guarantee: Guarantee
    # Not in files: it is a claim, from which nothing is proved.
    unwritten: ClassVar = {"guarantee": None}

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        return GRANULARITY

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,), for simulations; use ``release`` to publish a value."""
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
        """Return n draws, (n, dim), for `expected_norm`."""
        return np.array([self.rvs(rng) for _ in range(n)])

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
        deviations in each coordinate; without that attribute by at most 2^-42.
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
