"""Privacy losses: the law of L = log dP/dQ of a pair that dominates a release.

A pair (P, Q) dominates a release if, for every two neighbouring data sets with output laws P', Q'
and for every epsilon, sup over S of P'(S) - e^epsilon Q'(S) is at most that of (P, Q). Composition
needs its profile, log delta(epsilon), and the two tails of L.

N(mu, 1) against N(0, 1) at epsilon has delta = Phi(-a) - e^epsilon Phi(-b), a = epsilon / mu -
mu / 2, b = a + mu (Balle & Wang 2018, Theorem 8; docs/proofs/gaussian.md, Theorem 1).
`gaussian_log_delta` returns its logarithm at many epsilons, in full precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, logsumexp, roots_legendre

from skdp.trusted.arrays import LEAST_LOG, FloatArray
from skdp.trusted.checks import check_interval, check_positive, fail

# The short rule has sixteen digits for widths up to .5, the long one for all others.
_SHORT, _LONG = roots_legendre(8), roots_legendre(24)
# For greater t the series of 1 - t R(t) has sixteen digits, and the difference loses four.
_FAR = 100.0
# For fewer points the number of calls determines the time: all nodes are taken at once.
_FEW = 2048


def gaussian_log_delta(mu: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return the log of the least delta of N(mu, 1) against N(0, 1), in full precision.

    mu > 0 and epsilon, any real numbers, are broadcast.

    Examples
    --------
    >>> round(math.exp(gaussian_log_delta(1.0, 1.0)), 6)
    0.126937
    """
    mu, epsilon = np.broadcast_arrays(*(np.asarray(own, dtype=float) for own in (mu, epsilon)))
    a = np.asarray(epsilon / mu - mu / 2)
    found = np.empty(a.shape)
    # A delta near 1 is computed from its distance to 1.
    high = a < -2
    if high.any():
        found[high] = np.log1p(-np.exp(log_spared(mu[high], epsilon[high])))
    # e^epsilon phi(b) = phi(a): delta = phi(a) (R(a) - R(b)), R = Phi(-t) / phi(t).
    low = a[~high]
    with np.errstate(divide="ignore", over="ignore"):
        drop = np.log(fall_of_mills_ratio(low, mu[~high]))
        found[~high] = -low * low / 2 - math.log(2 * math.pi) / 2 + drop
    # delta is never 0, even if a square or a difference is beyond the floats.
    return np.where(epsilon < np.inf, np.maximum(found, LEAST_LOG), found)


def error_of_arguments(mu: float, epsilon: ArrayLike) -> FloatArray:
    """Return a bound on the error of log delta from rounded arguments of the normal tails.

    An error of u in an argument changes log delta by u times the argument.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        a = np.abs(epsilon / mu - mu / 2)
        error = 4e-16 * (np.abs(epsilon) / mu + mu / 2) * (1 + a)
    return np.where(np.abs(epsilon) < np.inf, error, 0.0)


def log_spared(mu: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return the log of one minus the least delta: Phi(a) + e^epsilon Phi(-b)."""
    mu, epsilon = np.asarray(mu, dtype=float), np.asarray(epsilon, dtype=float)
    a = epsilon / mu - mu / 2
    spared = np.logaddexp(log_ndtr(a), epsilon + log_ndtr(-a - mu))
    return np.asarray(np.minimum(spared, 0.0))


# Mills' ratio R(t) = P(Z > t) / phi(t), and its differences


def mills_ratio(t: FloatArray | float) -> FloatArray:
    """Return R(t) for t > -38, of the shape of t."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(np.asarray(t) / math.sqrt(2)))


def fall_of_mills_ratio(t: FloatArray | float, width: FloatArray | float) -> FloatArray:
    """Return R(t) - R(t + width) for t > -38 and width >= 0, broadcast, in full precision."""
    t, width = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(width, dtype=float))
    fall = np.zeros(t.shape)
    wide = width > np.maximum(1.0, t / 2)
    if wide.any():
        fall[wide] = mills_ratio(t[wide]) - mills_ratio(t[wide] + width[wide])
    # Close values cancel, but -R' = 1 - t R(t) is positive and smooth.
    near = ~wide & (t <= 1e100)
    fall[near] = _integral_of_slope(t[near], width[near] / 2)
    return fall


def _integral_of_slope(t: FloatArray, half: FloatArray) -> FloatArray:
    nodes, lengths = _SHORT if half.max(initial=0.0) <= 0.25 else _LONG
    total, at_once = np.zeros(t.shape), len(nodes) if t.size <= _FEW else 1
    for start in range(0, len(nodes), at_once):
        some = slice(start, start + at_once)
        slopes = _slope(t + half * (1 + nodes[some, None]))
        for slope, length in zip(slopes, lengths[some], strict=True):
            total += length * slope
    return half * total


def _slope(t: FloatArray) -> FloatArray:
    """Return 1 - t R(t), which is -R'(t)."""
    slope = 1 - t * mills_ratio(t)
    far = t > _FAR
    if far.any():
        s = t[far] ** -2.0
        slope[far] = s * (1 - s * (3 - s * (15 - s * (105 - s * 945))))
    return slope


Tails = tuple[FloatArray, FloatArray, FloatArray, FloatArray]

# Largest accepted error of the sum of rounded probabilities.
_SLACK = 1e-9
_ROUNDING = 8 * np.finfo(float).eps
LOG_HALF = -math.log(2)


def log1mexp(log_x: ArrayLike) -> FloatArray:
    """Return log(1 - x) from log x <= 0, in full precision at both ends."""
    log_x = np.asarray(log_x, dtype=float)
    with np.errstate(divide="ignore"):
        near, far = np.log(-np.expm1(log_x)), np.log1p(-np.exp(np.minimum(log_x, 0.0)))
        return np.asarray(np.where(log_x > LOG_HALF, near, far))


class Profile(Protocol):
    """An upper bound for delta(epsilon) of a release: the least that composition needs."""

    def __hash__(self) -> int:
        """Return a hash. Equal losses are counted together: ``==`` compares all that decides."""

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same profile as (P, Q)."""

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return log sup over S of P(S) - e^epsilon Q(S), for any real epsilon.

        The relative error of delta is at most 10^-12. Epsilon is accurate to fifteen digits, less
        the digits of the log of delta. An upper bound (`ProfileLoss`) may exceed the truth by any
        amount.
        """

    def reversed(self) -> Profile:
        """Return the profile of (Q, P)."""


Losses = tuple[tuple[Profile, int], ...]


class PrivacyLoss(Profile, Protocol):
    """The law of L = log dP/dQ. P may have mass at L = inf, and Q at L = -inf.

    Examples
    --------
    >>> loss: PrivacyLoss = GaussianLoss(1.0)
    >>> [round(math.exp(log_share), 4) for log_share in loss.log_tails(0.5)]
    [0.5, 0.1587, 0.5, 0.8413]
    """

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""

    def reversed(self) -> PrivacyLoss:
        """Return the loss of (Q, P), whose law is that of -L with P and Q exchanged."""


def counted(parts: Iterable[tuple[Profile, int]]) -> Losses:
    """Return the losses in their order, equal ones counted together."""
    found: dict[Profile, int] = {}
    for loss, count in parts:
        found[loss] = found.get(loss, 0) + count
    return tuple(found.items())


class SymmetricLoss:
    """Base class of losses that are the same for (Q, P)."""

    symmetric: ClassVar[bool] = True

    def reversed(self) -> Self:
        """Return the loss of (Q, P), which is this one."""
        return self


@dataclass(frozen=True)
class GaussianLoss(SymmetricLoss):
    """The loss of Gaussian noise: N(mu, 1) against N(0, 1).

    Parameters
    ----------
    mu : float in (0, inf)
        The shift, in standard deviations of the noise.

    Examples
    --------
    >>> round(math.exp(GaussianLoss(1.0).log_delta(1.0)), 6)
    0.126937
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_positive("mu", self.mu))

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""
        a = np.asarray(loss, dtype=float) / self.mu - self.mu / 2
        b = a + self.mu
        return log_ndtr(-a), log_ndtr(-b), log_ndtr(a), log_ndtr(b)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at each epsilon."""
        return gaussian_log_delta(self.mu, np.asarray(epsilon, dtype=float))


@dataclass(frozen=True)
class FiniteLoss:
    """A loss of finitely many values.

    Parameters
    ----------
    losses : tuple of floats, increasing
        The finite values of log dP/dQ.
    log_p : tuple of floats, of the same length
        Logs of their probabilities under P; those under Q are ``log_p - losses``.
    log_p_infinity_mass, log_q_infinity_mass : float in [-inf, 0]
        Log of the P-mass where Q has none (L = inf), and of the Q-mass where P has none.

    Raises
    ------
    ValueError
        If the losses do not increase, or P or Q does not add up to 1.

    Examples
    --------
    >>> answer = FiniteLoss.between([0.25, 0.75], [0.75, 0.25])
    >>> answer.symmetric
    True
    >>> round(math.exp(answer.log_delta(0.0)), 12)
    0.5
    """

    losses: tuple[float, ...]
    log_p: tuple[float, ...]
    log_p_infinity_mass: float = -math.inf
    log_q_infinity_mass: float = -math.inf

    def __post_init__(self) -> None:
        losses, log_p = np.asarray(self.losses, dtype=float), np.asarray(self.log_p, dtype=float)
        if losses.ndim != 1 or not (np.isfinite(losses).all() and (np.diff(losses) > 0).all()):
            raise fail("losses", "be finite numbers in increasing order")
        if log_p.shape != losses.shape:
            raise fail("log_p", f"have as many entries as losses, {len(losses)}", log_p.shape)
        for name, value in (("losses", losses), ("log_p", log_p)):
            object.__setattr__(self, name, tuple(value.tolist()))
        for name, logs, infinity_mass in (
            ("log_p", log_p, self.log_p_infinity_mass),
            ("log_p - losses", log_p - losses, self.log_q_infinity_mass),
        ):
            if not abs(logsumexp([*logs, infinity_mass])) <= _SLACK:
                rule = "be logs of probabilities that add up to 1 with the infinity mass"
                raise fail(name, rule)

    @classmethod
    def between(cls, p: ArrayLike, q: ArrayLike) -> FiniteLoss:
        """Return the loss of two probability vectors over the same finite set of outcomes.

        Parameters
        ----------
        p, q : array of shape (n_outcomes,)
            Nonnegative, each with sum 1.

        Raises
        ------
        ValueError
            If the two are no such vectors.
        """
        p, q = (np.asarray(v, dtype=float) for v in (p, q))
        if p.ndim != 1 or p.shape != q.shape or not (p >= 0).all() or not (q >= 0).all():
            raise fail("p, q", "be vectors of nonnegative numbers of one length")
        both = (p > 0) & (q > 0)
        losses, place = np.unique(np.log(p[both]) - np.log(q[both]), return_inverse=True)
        with np.errstate(divide="ignore"):
            infinite = float(np.log(p[q == 0].sum())), float(np.log(q[p == 0].sum()))
            log_p = np.log(np.bincount(place, p[both], len(losses)))
        return cls(tuple(losses.tolist()), tuple(log_p.tolist()), *infinite)

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same law of losses, to a few units in the last place."""
        other = self.reversed()
        mine, its = (
            [
                *loss.losses,
                *np.exp([*loss.log_p, loss.log_p_infinity_mass, loss.log_q_infinity_mass]),
            ]
            for loss in (self, other)
        )
        return bool(np.allclose(mine, its, rtol=_ROUNDING, atol=0))

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""
        place = np.searchsorted(self._losses, loss, side="right")
        above_p, above_q, below_p, below_q = self._sums
        return above_p[place], above_q[place], below_p[place], below_q[place]

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at each epsilon."""
        epsilon = np.asarray(epsilon, dtype=float)
        found = np.full(epsilon.shape, self.log_p_infinity_mass)
        for value, log_p in zip(self.losses, self.log_p, strict=True):
            with np.errstate(divide="ignore"):
                part = log_p + np.log(-np.expm1(np.minimum(epsilon - value, 0.0)))
            found = np.logaddexp(found, part)
        return found

    def reversed(self) -> FiniteLoss:
        """Return the loss of (Q, P)."""
        losses = tuple(-value for value in self.losses[::-1])
        log_q = tuple((self._log_p - self._losses)[::-1].tolist())
        return FiniteLoss(losses, log_q, self.log_q_infinity_mass, self.log_p_infinity_mass)

    @property
    def finite(self) -> FiniteLoss:
        """The loss itself; losses with this member consist of atoms only."""
        return self

    @cached_property
    def _losses(self) -> FloatArray:
        return np.asarray(self.losses)

    @cached_property
    def _log_p(self) -> FloatArray:
        return np.asarray(self.log_p)

    @cached_property
    def _sums(self) -> Tails:
        """Logs of the four tails, before each value and after the last."""
        p, q = self._log_p, self._log_p - self._losses

        def below(logs: FloatArray, infinity_mass: float) -> FloatArray:
            return np.logaddexp.accumulate(np.concatenate([[infinity_mass], logs]))

        return (
            below(p[::-1], self.log_p_infinity_mass)[::-1],
            below(q[::-1], -math.inf)[::-1],
            below(p, -math.inf),
            below(q, self.log_q_infinity_mass),
        )


@dataclass(frozen=True)
class PairLoss(SymmetricLoss):
    """The loss of the pair that dominates every (epsilon, delta)-private release.

    With probability delta the pair tells the two data sets apart. Otherwise it answers a yes-no
    question truthfully with odds e^epsilon (Kairouz, Oh & Viswanath 2015, Theorem 2).

    Parameters
    ----------
    epsilon : float in [0, inf)
    delta : float in [0, 1)

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> round(math.exp(PairLoss(1.0, delta=1e-6).log_delta(1.0)), 12)
    1e-06
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon = check_interval("epsilon", self.epsilon, 0.0, math.inf, closed="left")
        delta = check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""
        return self.finite.log_tails(loss)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at each epsilon."""
        return self.finite.log_delta(epsilon)

    @cached_property
    def finite(self) -> FiniteLoss:
        """The same loss, as a `FiniteLoss`."""
        infinite = math.log(self.delta) if self.delta else -math.inf
        answered = math.log1p(-self.delta)
        if not self.epsilon:
            return FiniteLoss((0.0,), (answered,), infinite, infinite)
        true = answered - math.log1p(math.exp(-self.epsilon))
        losses, log_p = (-self.epsilon, self.epsilon), (true - self.epsilon, true)
        return FiniteLoss(losses, log_p, infinite, infinite)


@dataclass(frozen=True)
class ProfileLoss:
    """The loss of a release for which only an upper bound of the profile is known.

    In upper bounds of a composition, it counts as a pair whose profile has the bound's values at
    the points of a grid. In lower bounds it counts as no loss.

    Parameters
    ----------
    profile : callable
        Function of an array of epsilons >= 0 that returns log delta, never below the truth.
    reverse : callable, optional
        The function for (Q, P), if it is another one.

    Raises
    ------
    ValueError
        If one of the two cannot be called.

    Examples
    --------
    >>> bound = ProfileLoss(GaussianLoss(1.0).log_delta)
    >>> bool(bound.log_delta(-0.5).round(12) == GaussianLoss(1.0).log_delta(-0.5).round(12))
    True
    """

    profile: Callable[[FloatArray], FloatArray]
    reverse: Callable[[FloatArray], FloatArray] | None = None

    def __post_init__(self) -> None:
        for name, value in (("profile", self.profile), ("reverse", self.reverse or self.profile)):
            if not callable(value):
                raise fail(name, "be a function of epsilon", type(value))

    @property
    def symmetric(self) -> bool:
        """Whether one function holds for both orders."""
        return self.reverse is None

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the bound for log delta at each epsilon; it is at most 0."""
        epsilon = np.asarray(epsilon, dtype=float)
        ahead = np.minimum(self.profile(np.maximum(epsilon, 0.0)), 0.0)
        behind = np.minimum((self.reverse or self.profile)(np.maximum(-epsilon, 0.0)), 0.0)
        # E_Q (Lambda - gamma)_+ = 1 - gamma + gamma E_P (1/Lambda - 1/gamma)_+, gamma = e^epsilon.
        with np.errstate(divide="ignore"):
            certain = np.log(-np.expm1(np.minimum(epsilon, 0.0)))
        return np.where(epsilon < 0, np.logaddexp(certain, epsilon + behind), ahead)

    def reversed(self) -> ProfileLoss:
        """Return the loss of (Q, P)."""
        return self if self.reverse is None else ProfileLoss(self.reverse, self.profile)


@dataclass(frozen=True)
class SelectionLoss(SymmetricLoss):
    """The loss of the pair that dominates every choice with a bounded range.

    The choice is the index of the greatest score plus Gumbel noise. One record changes all its log
    probabilities by amounts from one interval (Durfee & Rogers 2019: bounded range). Of all pairs
    of laws whose loss stays in an interval of length w = ``width``, the greatest profile is
    ``(e^(w/2) - e^(epsilon/2))^2 / (e^w - 1)``, for epsilon from -w to w. It belongs to the loss
    with density proportional to e^(l/2) on [-w, w] (docs/proofs/coordinate_descent.md, Theorem 5).

    Parameters
    ----------
    width : float in (0, inf)
        Length of an interval that holds log P(i) - log Q(i) for all candidates i. The interval
        may depend on the data. The index of the greatest of scores plus Gumbel noise of scale s
        has width 2 D / s if one record changes each score by at most D in either direction, and
        D / s if it changes all scores in the same direction.

    Raises
    ------
    ValueError
        If ``width`` is out of range.

    Examples
    --------
    The worst release with epsilon = 1 and delta = 0 has delta = 0.462 at epsilon = 0. The choice
    has less:

    >>> choice = SelectionLoss(1.0)
    >>> round(float(np.exp(choice.log_delta(0.0))), 6)
    0.244919
    """

    width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check_positive("width", self.width))

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""
        at = np.clip(np.asarray(loss, dtype=float), -self.width, self.width)
        return self._heavy(at), self._light(at), self._light(-at), self._heavy(-at)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at each epsilon."""
        epsilon = np.asarray(epsilon, dtype=float)
        inside = np.clip(epsilon, -self.width, self.width)
        found = 2 * log1mexp((inside - self.width) / 2) - log1mexp(-self.width)
        # Below the least loss every outcome counts: delta is 1 - e^epsilon.
        certain = log1mexp(np.minimum(epsilon, 0.0))
        return np.asarray(np.where(epsilon < -self.width, certain, found))

    def _heavy(self, at: FloatArray) -> FloatArray:
        """Return log P(L > at) = log Q(L < -at)."""
        # Logs of neighbouring numbers may be out of order by the last bit.
        found = log1mexp((at - self.width) / 2) - log1mexp(-self.width)
        return np.asarray(np.minimum(found, 0.0))

    def _light(self, at: FloatArray) -> FloatArray:
        """Return log Q(L > at) = log P(L < -at)."""
        return np.asarray(self._heavy(at) - (at + self.width) / 2)
