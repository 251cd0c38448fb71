"""The privacy profile of two normal laws: log delta at many epsilons, no digits lost.

N(mu, 1) against N(0, 1) at epsilon has delta = Phi(-a) - e^epsilon Phi(-b), a = epsilon / mu -
mu / 2, b = a + mu (Balle & Wang 2018, Theorem 8; docs/proofs/gaussian.md, Theorem 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from skdp.privacy.mills import fall_of_mills_ratio

FloatArray = NDArray[np.float64]


def log_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """Return the log of the least delta of N(mu, 1) against N(0, 1), any real epsilons."""
    a = np.asarray(epsilon / mu - mu / 2)
    found = np.empty(a.shape)
    # Next to 1 the digits of delta are in its distance to 1.
    high = a < -2
    spared = np.logaddexp(log_ndtr(a[high]), epsilon[high] + log_ndtr(-a[high] - mu))
    found[high] = np.log1p(-np.exp(np.minimum(spared, 0.0)))
    # e^epsilon phi(b) = phi(a): delta = phi(a) (R(a) - R(b)), R = Phi(-t) / phi(t).
    low = a[~high]
    with np.errstate(divide="ignore", over="ignore"):
        drop = np.log(fall_of_mills_ratio(low, mu))
        found[~high] = -low * low / 2 - math.log(2 * math.pi) / 2 + drop
    return found
