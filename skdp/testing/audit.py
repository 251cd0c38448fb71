"""Audits: lower bounds on epsilon from outputs alone.

A release is (epsilon, delta)-private if P(E) <= e^epsilon P'(E) + delta for every event E, with
P and P' its laws under two neighbouring data sets. An audit takes many outputs under each and
searches for an event that violates the inequality. The event is chosen on a quarter of the outputs
and counted on the others, independently of the choice. There it occurs in K of n and in K' of m.
For the true p = P(E) and q = P'(E) the numbers A = P(Bin(n, p) >= K) and B = P(Bin(m, q) <= K') are
p-values (Clopper & Pearson 1934), and independent. So A B <= c has probability at most
c (1 - log c) (Fisher 1932, section 21.1). If this is the alarm, then with probability at least
1 - alarm, for all laws,

    epsilon >= min {log((p - delta) / q) : A B > c}.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw
from scipy.stats import beta, norm

from skdp.trusted.checks import check_interval, fail

ALARM = 1e-8
LEAST = 40
_THRESHOLDS = 100
_MANY = 12
_CELLS = 256
Array = NDArray[np.float64]


def epsilon_lower_bound(
    first: ArrayLike, second: ArrayLike, *, delta: float = 0.0, alarm: float = ALARM
) -> float:
    """Return a lower bound on the epsilon for which outputs are (epsilon, delta)-private.

    Parameters
    ----------
    first, second : array-like of shape (n,) or (n, n_statistics), n >= 40
        Independent outputs under one data set, and under a neighbour of it.
    delta : float in [0, 1)
        Claimed delta.
    alarm : float in (0, 1)
        Greatest probability that the bound is too large.

    Returns
    -------
    float >= 0
        An audit detects violations and proves no guarantee; 0 is no information. It does not
        detect events that are missing from the outputs, such as one of probability delta, or
        violations for other pairs of data sets. n outputs cannot show an epsilon much above
        log(n): 60 of each that are fully apart show 2.3 at an alarm of 1/20, and 0.97 at 1e-8.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import epsilon_lower_bound
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.laplace(size=5000), rng.laplace(size=5000) + 1
    >>> round(epsilon_lower_bound(x, y), 2)  # the truth is 1
    0.74
    """
    x, y = _table("first", first), _table("second", second)
    if x.shape[1] != y.shape[1]:
        raise fail("second", f"have {x.shape[1]} statistics like first", y.shape[1])
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    alarm = check_interval("alarm", alarm, 0.0, 1.0, closed="neither")
    learnt, statistics = np.vstack([x[::4], y[::4]]), x.shape[1]
    centre = np.median(learnt, axis=0)
    scale = np.abs(learnt - centre).mean(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    x, y = (_with_features((z - centre) / scale) for z in (x, y))
    direction, threshold, swapped = _best_event((x[::4], y[::4]), statistics, delta, alarm)
    pair = (y, x) if swapped else (x, y)
    sure, unsure = (np.delete(z, np.s_[::4], axis=0) @ direction > threshold for z in pair)
    return max(0.0, ratio_bound(sure, unsure, delta, alarm))


def _with_features(z: Array) -> Array:
    """Return outputs, (n, d), with nonlinear features if d is small.

    Log-likelihood ratios of most noise are not linear. That of K-norm noise in a box, for instance,
    is constant in a coordinate where another one is greater.
    """
    if z.shape[1] > _MANY:
        return z
    near = np.exp(-np.abs(z))
    crossed = (z[:, :, None] * near[:, None, :]).reshape(len(z), -1)
    return np.hstack([z, np.abs(z), np.sign(z) * np.sqrt(np.abs(z)), crossed])


def _table(name: str, outputs: ArrayLike) -> Array:
    table = np.asarray(outputs, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) < LEAST or not np.isfinite(table).all():
        rule = f"be finite numbers of shape (n,) or (n, n_statistics), n >= {LEAST}"
        raise fail(name, rule, table.shape)
    return table


def _best_event(
    halves: tuple[Array, Array], statistics: int, delta: float, alarm: float
) -> tuple[Array, float, bool]:
    """Return the half-space that violates the inequality most on these outputs.

    It is given by a direction, a threshold, and whether it is likelier under the second data set.
    Limits of the normal law suffice for the choice, and are fast.
    """
    best, found = -math.inf, (np.zeros(halves[0].shape[1]), 0.0, False)
    z = float(norm.isf(alarm / 2))
    for direction in _directions(*halves, statistics):
        x, y = (np.sort(half @ direction) for half in halves)
        t = np.quantile(np.concatenate([x, y]), np.linspace(0, 1, _THRESHOLDS + 1)[:-1])
        for swapped in (False, True):
            sure, unsure = (y, x) if swapped else (x, y)
            low, high = _wilson(sure, t, -z) - delta, _wilson(unsure, t, z)
            gains = np.log(np.maximum(low, 1e-300) / high)
            at = int(np.argmax(gains))
            if gains[at] > best:
                best, found = float(gains[at]), (direction, float(t[at]), swapped)
    return found


def _directions(x: Array, y: Array, statistics: int) -> list[Array]:
    """Return both signs of the best linear discriminant, of each statistic and of its size."""
    centred = np.vstack([x - x.mean(axis=0), y - y.mean(axis=0)])
    covariance = np.atleast_2d(np.cov(centred.T))
    best = np.linalg.pinv(covariance) @ (x.mean(axis=0) - y.mean(axis=0))
    plain = np.eye(x.shape[1])[: 2 * statistics]
    return [sign * way for way in (best, *plain) for sign in (1.0, -1.0)]


def _wilson(sorted_values: Array, thresholds: Array, z: float) -> Array:
    """Return Wilson's limit of the probability above each threshold: the upper one for z > 0."""
    n = len(sorted_values)
    share = (n - np.searchsorted(sorted_values, thresholds, "right")) / n
    root = np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.asarray((share + z * z / (2 * n) + z * root) / (1 + z * z / n))


def ratio_bound(
    sure: NDArray[np.bool_], unsure: NDArray[np.bool_], delta: float, alarm: float
) -> float:
    """Return the lower bound on epsilon from the occurrences of an event under two data sets.

    It is the least log((p - delta) / q) with A B > c; -inf if a p <= delta. The event must be
    chosen independently of these outputs.
    """
    (hits, others), (n, m) = (int(sure.sum()), int(unsure.sum())), (len(sure), len(unsure))
    # The logs x of B, from log c to 0, in cells. In a cell p and q are bounded by those at its
    # ends. c (1 - log c) = alarm has the solution log c = 1 + W(-alarm / e), W the lower branch.
    x = np.linspace(1 + lambertw(-alarm / math.e, -1).real, 0.0, _CELLS + 1)
    p = beta.ppf(np.exp(x), hits, n - hits + 1)[::-1][:-1] if hits else np.zeros(_CELLS)
    q = beta.isf(np.exp(x), others + 1, m - others)[:-1] if others < m else np.ones(_CELLS)
    return float(np.log((p - delta) / q).min()) if (p > delta).all() else -math.inf
