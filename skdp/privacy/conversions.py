"""Trusted. Conversions between pure, (epsilon, delta)-, Gaussian and zero-concentrated DP.

Every conversion holds for all mechanisms and is rounded to the safe side. If the privacy loss is
known, `skdp.trusted.losses` gives tighter bounds. Proofs are in docs/proofs/conversions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erf, erfinv, log_ndtr, ndtri_exp

from skdp._search import narrowed
from skdp.trusted.arrays import LEAST_LOG, at_least_tiny, exp_up
from skdp.trusted.checks import check_interval
from skdp.trusted.losses import GaussianLoss, error_of_arguments

_FARTHEST = 1e300
# Results are moved to the safe side by this share of themselves: a thousand roundings.
_MARGIN = 1e-12


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the least delta at epsilon that mu-Gaussian-DP implies.

    Parameters
    ----------
    mu : float in [0, inf)
        Distance of the means of two normal laws of variance 1.
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
    return exp_up(_gaussian_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon at delta that mu-Gaussian-DP implies; inf at delta = 0.

    Parameters are as in `gaussian_delta`; delta is in [0, 1].

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-6), 5)
    4.88655
    """
    mu = _check_amount("mu", mu)
    return _least_epsilon(lambda epsilon: _gaussian_log_delta(mu, epsilon), delta, mu == 0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the greatest mu that implies (epsilon, delta)-DP; 0 at delta = 0, inf at 1.

    Parameters are as in `gaussian_delta`; delta is in [0, 1].

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-6), 6)
    0.236704
    """
    epsilon, delta = _check_amount("epsilon", epsilon), check_interval("delta", delta, 0, 1)
    return _greatest(lambda mu: _gaussian_log_delta(mu, epsilon), delta)


def mu_of_pure(epsilon: float) -> float:
    """Return the least mu such that pure epsilon-DP implies mu-Gaussian-DP.

    Parameters
    ----------
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, inf)
        ``-2 Phi^-1(1 / (1 + e^epsilon))``, about 1.25 epsilon for a small epsilon.

    Examples
    --------
    >>> round(mu_of_pure(1.0), 6)
    1.232035
    """
    epsilon = _check_amount("epsilon", epsilon)
    if epsilon < 1:  # Phi(mu/2) - 1/2 = tanh(epsilon/2) / 2 keeps all digits near 1/2
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    return at_least_tiny(mu * (1 + _MARGIN), epsilon)


def pure_of_mu(mu: float) -> float:
    """Return the greatest epsilon such that pure epsilon-DP implies mu-Gaussian-DP.

    It is the inverse of `mu_of_pure`.

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
    return epsilon * (1 - 4 * _MARGIN)


def mixed_delta(mu: float, pure: float, epsilon: float) -> float:
    """Return the least delta at epsilon of a mu-Gaussian-DP and a pure-DP release together.

    Parameters
    ----------
    mu : float in [0, inf)
        Gaussian-DP parameter of the one.
    pure : float in [0, inf)
        Epsilon of the other, whose delta is 0.
    epsilon : float in [0, inf)
        Epsilon of both together.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> mixed_delta(1.0, 0.5, 1.0) < gaussian_delta(1.0, 0.5)
    True
    """
    mu, pure = _check_amount("mu", mu), _check_amount("pure", pure)
    return exp_up(_mixed_log_delta(mu, pure, _check_amount("epsilon", epsilon)))


def mixed_epsilon(mu: float, pure: float, delta: float) -> float:
    """Return the least epsilon at delta; the inverse of `mixed_delta`.

    Examples
    --------
    >>> 0.0 < mixed_epsilon(0.1, 0.5, 1e-6) - gaussian_epsilon(0.1, 1e-6) < 0.5
    True
    """
    mu, pure = _check_amount("mu", mu), _check_amount("pure", pure)
    return _least_epsilon(lambda epsilon: _mixed_log_delta(mu, pure, epsilon), delta, mu == 0)


def rho_of_pure(epsilon: float) -> float:
    """Return the least rho such that pure epsilon-DP implies rho-zCDP.

    Parameters
    ----------
    epsilon : float in [0, inf)

    Returns
    -------
    float in [0, inf)
        ``epsilon tanh(epsilon / 2)``, at most Bun & Steinke's ``epsilon^2 / 2``.

    Examples
    --------
    >>> round(rho_of_pure(1.0), 6)
    0.462117
    """
    epsilon = _check_amount("epsilon", epsilon)
    return at_least_tiny(epsilon * math.tanh(epsilon / 2) * (1 + _MARGIN), epsilon)


def rho_of_mu(mu: float) -> float:
    """Return the least rho such that mu-Gaussian-DP implies rho-zCDP: mu^2 / 2.

    Examples
    --------
    >>> round(rho_of_mu(1.0), 9)
    0.5
    """
    mu = _check_amount("mu", mu)
    return at_least_tiny(mu * mu / 2 * (1 + _MARGIN), mu)


def _least_epsilon(
    log_delta: Callable[[float], float], delta: float, bounded: bool = False
) -> float:
    """Return the least epsilon >= 0, rounded up; if ``bounded``, some epsilon has delta = 0."""
    delta = check_interval("delta", delta, 0, 1)
    if delta == 0 and not bounded:
        return math.inf
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
    return narrowed(lambda epsilon: log_delta(epsilon) <= target, low, high, 4e-16)[1]


def _greatest(log_delta: Callable[[float], float], delta: float) -> float:
    """Return the greatest amount > 0, rounded down."""
    if delta in (0, 1):
        return math.inf if delta else 0.0
    low, target = 1.0, math.log(delta)
    while log_delta(low) > target:
        low /= 8
        if low == 0:
            return 0.0
    high = 8 * low
    while log_delta(high) <= target:
        low, high = high, 8 * high
        if high > _FARTHEST:
            return low
    return narrowed(lambda amount: log_delta(amount) > target, low, high, 4e-16)[0]


def _check_amount(name: str, value: float) -> float:
    return check_interval(name, value, 0, math.inf, closed="left")


# Logs of delta at epsilon in closed form, rounded up


def _gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta of mu-Gaussian-DP; epsilon may be negative."""
    if mu == 0:
        return -math.inf if epsilon >= 0 else math.log(-math.expm1(epsilon))
    error = _MARGIN + float(error_of_arguments(mu, epsilon))
    if error == math.inf:  # delta is 1, or no float is so small
        size = abs(epsilon) / mu + mu / 2
        return 0.0 if epsilon / mu - mu / 2 < size / 2 else LEAST_LOG / 2
    return min(0.0, float(np.asarray(GaussianLoss(mu).log_delta(epsilon))) + error)


def _mixed_log_delta(mu: float, pure: float, epsilon: float) -> float:
    """Return log delta of a Gaussian loss plus a loss of +-pure, with odds e^pure for plus."""
    plus = _gaussian_log_delta(mu, epsilon - pure) - float(np.logaddexp(0.0, -pure))
    minus = _gaussian_log_delta(mu, epsilon + pure) - float(np.logaddexp(0.0, pure))
    # delta is less sensitive to rounded arguments than e^epsilon.
    return min(0.0, float(np.logaddexp(plus, minus)) + 1e-15 * (1 + epsilon + pure))
