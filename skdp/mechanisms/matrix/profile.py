"""Privacy losses of matrix Laplace noise.

A difference v v' - u u' has two eigenvalues a >= 0 >= -b with a, b <= rho, in the metric of S. The
noise on the plane of their eigenvectors is a matrix Laplace law with two rows, independent of the
rest. So the privacy loss is no greater than with two rows, for which the total variation distance
is known in closed form. Statement and proof: ``docs/proofs/matrix_laplace.md``, Theorem 5.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammainc

from skdp._identity import remembered
from skdp.noise.laplace import Laplace
from skdp.privacy.losses import FiniteLoss, PrivacyLoss, ShiftLoss

Losses = tuple[tuple[PrivacyLoss, int], ...]

# For other norms the loss is that of one Laplace variable, which is about as small.
LEAST_NORM, MOST_NORM = 1e-4, 2.5
# Points on the curved part of the profile, and the share by which it is raised for rounding.
_POINTS, _ROUND_UP = 9, 1 + 1e-9


def losses_of_trace(norm: float, records: float) -> Losses:
    """Return losses that dominate that of a release with matrix Laplace noise.

    Parameters
    ----------
    norm : float > 0
        Bound on |S^1/2 D S^1/2|_1 for all differences D: ``records`` times the bound on v'Sv.
    records : {1, 2}
        1 if one record is added or removed, 2 if one is replaced.
    """
    if records == 2 and LEAST_NORM <= norm <= MOST_NORM:
        return ((_replaced(norm), 1),)
    return ((ShiftLoss(Laplace(), norm), 1),)


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
    at = np.append(np.linspace(0, cross, _POINTS), norm)
    delta = np.append(-np.expm1((at[:-1] - rho) / 2) * _ROUND_UP, 0.0)
    # The slope of the profile at e^epsilon is -Q(L > epsilon).
    slopes = np.diff(delta) / np.diff(np.expm1(at))
    values, q = at[1:], np.diff(np.append(slopes, 0.0))
    p = q * np.exp(values)
    losses = np.concatenate([-values[::-1], [0.0], values])
    masses = np.concatenate([q[::-1], [1 - p.sum() - q.sum()], p])
    return FiniteLoss(tuple(losses.tolist()), tuple(np.log(masses).tolist()))
