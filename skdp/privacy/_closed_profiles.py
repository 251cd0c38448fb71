"""Logs of delta at epsilon in closed form, rounded up. Proofs: docs/proofs/conversions.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from skdp.privacy.rounding import LEAST_LOG
from skdp.privacy.losses import GaussianLoss
from skdp.privacy.normal import error_of_arguments

# Results are moved to the safe side by this share of themselves: a thousand roundings.
MARGIN = 1e-12


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta of mu-Gaussian-DP; epsilon may be negative."""
    if mu == 0:
        return -math.inf if epsilon >= 0 else math.log(-math.expm1(epsilon))
    found = float(np.asarray(GaussianLoss(mu).log_delta(epsilon)))
    off = MARGIN + float(error_of_arguments(mu, epsilon))
    if off == math.inf:  # delta is 1, or no float is so small
        size = abs(epsilon) / mu + mu / 2
        return 0.0 if epsilon / mu - mu / 2 < size / 2 else LEAST_LOG / 2
    return min(0.0, found + off)


def mixed_log_delta(mu: float, pure: float, epsilon: float) -> float:
    """Return log delta of a Gaussian loss plus a loss of +-pure, with odds e^pure for plus."""
    plus = gaussian_log_delta(mu, epsilon - pure) - float(np.logaddexp(0.0, -pure))
    minus = gaussian_log_delta(mu, epsilon + pure) - float(np.logaddexp(0.0, pure))
    # delta is less sensitive to rounded arguments than e^epsilon.
    return min(0.0, float(np.logaddexp(plus, minus)) + 1e-15 * (1 + epsilon + pure))


def renyi_log_delta(a: ArrayLike, divergence: ArrayLike, epsilon: float) -> np.ndarray:
    """Return log delta for a Rényi divergence of each order a."""
    a = np.asarray(a)
    with np.errstate(over="ignore"):
        rest = np.clip((a - 1) * (np.asarray(divergence) - epsilon), LEAST_LOG / 2, math.inf)
    # (a-1) log(1 - 1/a) - log a, an entropy. For a near 1 xlogy keeps it finite.
    entropy = xlogy(a - 1, a - 1) - xlogy(a, a) if np.max(a) < 2 else _log_peak(a)
    return np.asarray(rest + entropy + MARGIN * (1 + np.abs(rest)))


def _log_peak(a: np.ndarray) -> np.ndarray:
    return np.asarray((a - 1) * np.log1p(-1 / a) - np.log(a))


def zcdp_log_delta(rho: float, epsilon: float) -> float:
    """Return the least log delta over all orders; epsilon may be negative."""
    if rho == 0:
        return -math.inf if epsilon >= 0 else math.log(-math.expm1(epsilon))

    # The derivative with respect to a = 1 + t grows with t.
    def slope(t: float) -> float:
        return (2 * t + 1) * rho - epsilon - math.log1p(1 / t)

    low, high = -690.0, 690.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(math.exp(middle)) < 0 else (low, middle)
    t = math.exp(high)  # a valid bound for every order
    found = float(renyi_log_delta(1 + t, (1 + t) * rho, epsilon))
    return min(0.0, max(found, LEAST_LOG))
