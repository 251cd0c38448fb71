"""From one statement of privacy to another: Gaussian DP, zCDP, Rényi divergences, epsilon alone.

Every conversion is an upper bound that holds whatever the mechanism, rounded to the safe side.
Where the privacy loss itself is known, `skdp.privacy.losses.losses` says more. Proofs are in
docs/proofs/conversions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfinv, log_ndtr, ndtri_exp

from skdp._checks import check_interval, check_positive, fail
from skdp.privacy._closed_profiles import (
    MARGIN,
    gaussian_log_delta,
    mixed_log_delta,
    renyi_log_delta,
    zcdp_log_delta,
)
from skdp.privacy._rounding import LEAST_LOG, at_least_tiny, exp_up

_FARTHEST = 1e300


class Concentrated(NamedTuple):
    """(xi, rho)-zCDP: the Rényi divergence of every order a > 1 is at most xi + rho a."""

    xi: float
    rho: float


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the least delta at epsilon of what is mu-Gaussian-DP.

    Parameters
    ----------
    mu : float in [0, inf)
        As hard to tell apart as two normal laws of variance 1 whose means are mu apart.
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, 1]
        ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Dong, Roth & Su 2022).

    Examples
    --------
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    mu, epsilon = _check_amount("mu", mu), _check_amount("epsilon", epsilon)
    return exp_up(gaussian_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon at delta of what is mu-Gaussian-DP; inf at delta = 0.

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-6), 5)
    4.88655
    """
    mu, delta = _check_amount("mu", mu), check_interval("delta", delta, 0, 1)
    if mu > 0 and delta == 0:
        return math.inf
    return _least_epsilon(lambda epsilon: gaussian_log_delta(mu, epsilon), delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the greatest mu that is (epsilon, delta)-private; 0 at delta = 0, inf at 1.

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-6), 6)
    0.236704
    """
    epsilon, delta = _check_amount("epsilon", epsilon), check_interval("delta", delta, 0, 1)
    return _greatest(lambda mu: gaussian_log_delta(mu, epsilon), delta)


def mu_of_pure(epsilon: float) -> float:
    """Return the least mu such that epsilon alone (delta = 0) implies mu-Gaussian-DP.

    Parameters
    ----------
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, inf)
        ``-2 Phi^-1(1 / (1 + e^epsilon))``, some 1.25 epsilon where this is small.

    Examples
    --------
    >>> round(mu_of_pure(1.0), 6)
    1.232035
    """
    epsilon = _check_amount("epsilon", epsilon)
    if epsilon < 1:  # Phi(mu/2) - 1/2 = tanh(epsilon/2) / 2, with no digits lost near 1/2
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    return at_least_tiny(mu * (1 + MARGIN), epsilon)


def pure_of_mu(mu: float) -> float:
    """Return the greatest epsilon that implies mu-Gaussian-DP, the inverse of `mu_of_pure`.

    Examples
    --------
    >>> mu_of_pure(pure_of_mu(0.3)) <= 0.3
    True
    """
    mu = _check_amount("mu", mu)
    if mu < 1:
        epsilon = 2 * math.atanh(float(erf(mu / math.sqrt(8))))
    else:
        epsilon = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return epsilon * (1 - 4 * MARGIN)


def mixed_delta(mu: float, pure: float, epsilon: float) -> float:
    """Return the least delta at epsilon of mu-Gaussian-DP together with another epsilon alone.

    Parameters
    ----------
    mu : float in [0, inf)
        What the one release, or several, is in Gaussian DP.
    pure : float in [0, inf)
        The epsilon of another, whose delta is 0.
    epsilon : float in [0, inf)
        At which to know the delta of both.

    Examples
    --------
    >>> mixed_delta(1.0, 0.5, 1.0) < gaussian_delta(1.0, 0.5)
    True
    """
    mu, pure = _check_amount("mu", mu), _check_amount("pure", pure)
    return exp_up(mixed_log_delta(mu, pure, _check_amount("epsilon", epsilon)))


def mixed_epsilon(mu: float, pure: float, delta: float) -> float:
    """Return the least epsilon at delta; parameters as in `mixed_delta`.

    Examples
    --------
    >>> 0.0 < mixed_epsilon(0.1, 0.5, 1e-6) - gaussian_epsilon(0.1, 1e-6) < 0.5
    True
    """
    mu, pure = _check_amount("mu", mu), _check_amount("pure", pure)
    delta = check_interval("delta", delta, 0, 1)
    if mu > 0 and delta == 0:
        return math.inf
    return _least_epsilon(lambda epsilon: mixed_log_delta(mu, pure, epsilon), delta)


def rho_of_pure(epsilon: float) -> float:
    """Return the least rho such that epsilon alone (delta = 0) implies rho-zCDP.

    Parameters
    ----------
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, inf)
        ``epsilon tanh(epsilon / 2)``, which is never above Bun & Steinke's ``epsilon^2 / 2``.

    Examples
    --------
    >>> round(rho_of_pure(1.0), 6)
    0.462117
    """
    epsilon = _check_amount("epsilon", epsilon)
    return at_least_tiny(epsilon * math.tanh(epsilon / 2) * (1 + MARGIN), epsilon)


def rho_of_mu(mu: float) -> float:
    """Return the least rho such that mu-Gaussian-DP implies rho-zCDP: mu^2 / 2."""
    mu = _check_amount("mu", mu)
    return at_least_tiny(mu * mu / 2 * (1 + MARGIN), mu)


def zcdp_delta(rho: float, epsilon: float, xi: float = 0.0) -> float:
    """Return a delta at epsilon for what is (xi, rho)-zCDP.

    Parameters
    ----------
    rho, xi : float in [0, inf)
        Rényi divergences of order a are at most ``xi + rho a``.
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, 1]
        The least over all orders of what `renyi_delta` gives (Canonne, Kamath & Steinke 2020).

    Examples
    --------
    >>> zcdp_delta(0.5, 1.0) > gaussian_delta(1.0, 1.0)
    True
    """
    rho, xi = _check_amount("rho", rho), _check_amount("xi", xi)
    return exp_up(zcdp_log_delta(rho, _check_amount("epsilon", epsilon) - xi))


def zcdp_epsilon(rho: float, delta: float, xi: float = 0.0) -> float:
    """Return an epsilon at delta for what is (xi, rho)-zCDP; inf at delta = 0 unless rho is 0.

    Examples
    --------
    >>> round(zcdp_epsilon(0.5, 1e-6), 4)
    5.2215
    """
    rho, xi = _check_amount("rho", rho), _check_amount("xi", xi)
    delta = check_interval("delta", delta, 0, 1)
    if rho > 0 and delta == 0:
        return math.inf
    return _least_epsilon(lambda epsilon: zcdp_log_delta(rho, epsilon - xi), delta)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the greatest rho whose `zcdp_delta` at epsilon is at most delta.

    Examples
    --------
    >>> zcdp_epsilon(zcdp_rho(1.0, 1e-6), 1e-6) <= 1.0
    True
    """
    epsilon, delta = _check_amount("epsilon", epsilon), check_interval("delta", delta, 0, 1)
    return _greatest(lambda rho: zcdp_log_delta(rho, epsilon), delta)


def renyi_delta(orders: ArrayLike, divergences: ArrayLike, epsilon: float) -> float:
    """Return a delta at epsilon from Rényi divergences.

    Parameters
    ----------
    orders : array of shape (k,), entries in (1, inf)
    divergences : array of shape (k,), entries in [0, inf]
        Upper bounds of the divergences of these orders, either way round.
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, 1]
        The least over the orders a of ``e^((a-1)(divergence - epsilon)) (1 - 1/a)^(a-1) / a``
        (Canonne, Kamath & Steinke 2020, Proposition 7).

    Raises
    ------
    ValueError
        If an order or a divergence is out of range, or the shapes differ.

    Examples
    --------
    >>> round(renyi_delta([10.0], [5.0], 6.0), 9)
    4.781e-06
    """
    a, d = _check_curve(orders, divergences)
    least = float(renyi_log_delta(a, d, _check_amount("epsilon", epsilon)).min())
    return exp_up(max(least, LEAST_LOG))


def renyi_epsilon(orders: ArrayLike, divergences: ArrayLike, delta: float) -> float:
    """Return an epsilon at delta from Rényi divergences; parameters as in `renyi_delta`.

    Examples
    --------
    >>> round(renyi_epsilon([10.0], [5.0], 4.781e-6), 4)
    6.0
    """
    a, d = _check_curve(orders, divergences)
    delta = check_interval("delta", delta, 0, 1)
    if delta == 0:
        return math.inf
    return _least_epsilon(lambda epsilon: float(renyi_log_delta(a, d, epsilon).min()), delta)


def flipped_huber_zcdp(alpha: float, gamma: float, shift: ArrayLike) -> Concentrated:
    """Return the zCDP of independent flipped Huber noise.

    Parameters
    ----------
    alpha, gamma : float in [0, inf) and in (0, inf), units of the released value
        The noise's density falls like ``e^(-alpha |t| / gamma^2)`` up to alpha, beyond it like
        that of a normal law of standard deviation gamma.
    shift : float or array of shape (dim,), units of the released value
        Greatest change of each coordinate.

    Returns
    -------
    Concentrated
        ``xi`` the sum of ``(alpha^2 - max(alpha - |shift|, 0)^2) / (2 gamma^2)`` and ``rho``
        that of ``shift^2 / (2 gamma^2)`` (Muthukrishnan & Kalyani 2023, section VI-A).

    Examples
    --------
    >>> xi, rho = flipped_huber_zcdp(2.0, 4.0, 1.0)
    >>> round(xi, 9), round(rho, 9)
    (0.09375, 0.03125)
    """
    alpha, gamma = _check_amount("alpha", alpha), check_positive("gamma", gamma)
    change = np.abs(np.atleast_1d(np.asarray(shift, dtype=float)))
    if change.ndim > 1 or not np.isfinite(change).all():
        raise fail("shift", "be a finite number or a vector of them")
    # alpha^2 - (alpha - v)^2 = v (2 alpha - v): nothing cancels.
    linear = np.minimum(change, alpha)
    xi = (linear * (2 * alpha - linear)).sum() / (2 * gamma**2)
    rho = (change**2).sum() / (2 * gamma**2)
    return Concentrated(float(xi) * (1 + MARGIN), float(rho) * (1 + MARGIN))


def _least_epsilon(log_delta: Callable[[float], float], delta: float) -> float:
    """Return the least epsilon >= 0 with log_delta at most log delta; an end that passed."""
    if delta == 1:
        return 0.0
    target = math.log(delta) if delta > 0 else -math.inf
    if log_delta(0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while log_delta(high) > target:
        low, high = high, 8 * high
        if high > _FARTHEST:
            return math.inf
    while high - low > 4e-16 * high and low < (middle := low / 2 + high / 2) < high:
        low, high = (low, middle) if log_delta(middle) <= target else (middle, high)
    return high


def _greatest(log_delta: Callable[[float], float], delta: float) -> float:
    """Return the greatest amount > 0 with log_delta at most log delta; an end that passed."""
    if delta in (0, 1):
        return math.inf if delta else 0.0
    low = 1.0
    while log_delta(low) > math.log(delta):
        low /= 8
        if low == 0:
            return 0.0
    high = 8 * low
    while log_delta(high) <= math.log(delta):
        low, high = high, 8 * high
        if high > _FARTHEST:
            return low
    while high - low > 4e-16 * low and low < (middle := low / 2 + high / 2) < high:
        low, high = (middle, high) if log_delta(middle) <= math.log(delta) else (low, middle)
    return low


def _check_amount(name: str, value: float) -> float:
    return check_interval(name, value, 0, math.inf, closed="left")


def _check_curve(orders: ArrayLike, divergences: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, d = np.atleast_1d(np.asarray(orders, float)), np.atleast_1d(np.asarray(divergences, float))
    if a.ndim != 1 or a.size == 0 or not ((a > 1) & np.isfinite(a)).all():
        raise fail("orders", "be one or more finite numbers > 1")
    if d.shape != a.shape or not (d >= 0).all():
        raise fail("divergences", "be as many numbers >= 0 as there are orders", d.shape)
    return a, d
