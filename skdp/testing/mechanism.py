"""Checks of mechanisms: `check_mechanism` and its parts.

False alarms. The mean and the covariance of DRAWS = 20,000 draws may be off by SIGMAS = 8 of
their own standard errors, as in `skdp.testing.ball`. The audit has a false-alarm rate of
ALARM = 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity
from skdp.mechanisms.calibrate import Noise, mechanism_of
from skdp.testing._require import agree, members_of, pickled, require
from skdp.testing.audit import ALARM, epsilon_lower_bound
from skdp.testing.ball import corners
from skdp.trusted.checks import check_count, check_interval, check_positive
from skdp.trusted.noise import publication
from skdp.trusted.randomness import RandomStateLike, as_generator
from skdp.trusted.statement import Statement

Array = NDArray[np.float64]

DRAWS = 20_000
SIGMAS = 8.0
MEMBERS = ("guarantee", "rvs", "covariance", "expected_norm")
# Searches for shapes are inexact: noise may grow by this share where it should not.
_SEARCH = 1e-3
_MOST_SHIFTS = 4


def check_mechanism(
    mechanism: Any,
    sensitivity: Sensitivity | None = None,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    random_state: RandomStateLike = 0,
    draws: int = DRAWS,
) -> None:
    """Raise AssertionError unless an object is a mechanism that estimators can use.

    It must make noise for a sensitivity. The noise must claim the guarantee that was asked for,
    have the covariance that it states, and grow with the sensitivity and as epsilon falls. Its
    draws are audited: they must not distinguish the value 0 from values of a neighbour better
    than epsilon allows.

    Parameters
    ----------
    mechanism : object or str
        As in `skdp.mechanisms.calibrate`.
    sensitivity : Sensitivity or None, default=None
        None takes a box of three dimensions.
    epsilon : float > 0, default=1.0
        The audit is most sensitive between 1 and 2.
    delta : float in [0, 1), default=0.0
    random_state : None, int, Generator or RandomState, default=0
        Source of the draws.
    draws : int >= 400, default=20_000
        Number of draws for the value 0, and again for the neighbour.

    Raises
    ------
    AssertionError
        If a rule is broken; the message gives the member and the rule.

    Notes
    -----
    An audit proves nothing (see `epsilon_lower_bound`). It detects half of the required noise,
    but not 5 % too little noise, and no violation of a delta of 1e-6.

    Examples
    --------
    >>> from skdp.mechanisms import KNorm
    >>> from skdp.testing import check_mechanism
    >>> check_mechanism(KNorm("linf"))
    """
    sensitivity = Sensitivity(LpBall(3, p=math.inf)) if sensitivity is None else sensitivity
    budget = {"epsilon": check_positive("epsilon", epsilon)}
    budget["delta"] = check_interval("delta", delta, 0.0, 1.0, closed="left")
    draws, rng = check_count("draws", draws, 400), as_generator(random_state)
    mechanism = mechanism_of(mechanism)
    noise = mechanism.calibrate(sensitivity, **budget)
    members_of(noise, MEMBERS)
    name, claim = f"{type(noise).__name__}.guarantee", noise.guarantee
    require(isinstance(claim, Statement), name, "be a Guarantee or a Statement", type(claim))
    for spent, most in budget.items():
        rule, found = f"claim {spent} <= {most:g}, the {spent} asked for", getattr(claim, spent)
        require(found <= most * (1 + 1e-9), name, rule, found)
    relation = sensitivity.neighbors
    require(claim.neighbors == relation, name, f"be under neighbors={relation!r}", claim.neighbors)
    require(claim.holds, name, "hold without a seed", claim.void_because)
    check_noise(noise, sensitivity, rng, draws)
    # Half of epsilon needs more noise, and twice the sensitivity twice the noise.
    wider = Sensitivity(sensitivity.ball, 2 * sensitivity.radius, sensitivity.neighbors)
    half = budget | {"epsilon": budget["epsilon"] / 2}
    usual, less, wide = (
        math.sqrt(np.trace(mechanism.calibrate(own, **given).covariance()))
        for own, given in ((sensitivity, budget), (sensitivity, half), (wider, budget))
    )
    name = type(mechanism).__name__
    rule = "make more noise for half of epsilon"
    require(less >= usual * (1 - _SEARCH), name, rule, f"{less / usual:.3g} of it")
    rule = "make twice the noise for twice the sensitivity"
    require(abs(wide / usual - 2) <= 2 * _SEARCH, name, rule, f"{wide / usual:.3g} of it")
    check_audit(noise, sensitivity, rng, draws, **budget)


def check_noise(noise: Noise, sensitivity: Sensitivity, rng: Generator, draws: int) -> None:
    """Check that draws depend on rng only, are centred, and have the stated covariance."""
    name, dim = type(noise).__name__, sensitivity.ball.dim
    seeded = ((noise, 1), (pickled(noise, name), 1), (noise, 2))
    one, two, three = (np.asarray(law.rvs(np.random.default_rng(s))) for law, s in seeded)
    require(one.shape == (dim,), f"{name}.rvs", f"draw {dim} numbers", one.shape)
    agree(one, two, 0.0, f"{name}.rvs", "draw from the bits of rng alone")
    require((one != three).any(), f"{name}.rvs", "draw from the bits of rng")
    x = _drawn(noise, rng, draws)
    square = x**2
    error = np.sqrt(np.maximum(square.mean(axis=0), 1e-300) / draws)
    rule = "be centred: its mean is 0"
    require(np.abs(x.mean(axis=0)) <= SIGMAS * error, f"{name}.rvs", rule)
    covariance = np.asarray(noise.covariance())
    found = covariance.shape
    require(found == (dim, dim), f"{name}.covariance", f"be of shape ({dim}, {dim})", found)
    second = x.T @ x / draws
    error = np.sqrt(np.maximum(square.T @ square / draws - second**2, 0) / draws)
    # A covariance estimated from a few thousand directions has about the same error again.
    close = np.abs(second - covariance) <= 2 * SIGMAS * error + 1e-12 * covariance.max()
    require(close, f"{name}.covariance", "be that of the draws")
    g = np.asarray(sensitivity.ball.gauge(x))
    error = float(g.std() / math.sqrt(draws)) + 1e-12
    close = abs(g.mean() - noise.expected_norm(sensitivity.ball)) <= 2 * SIGMAS * error
    require(close, f"{name}.expected_norm", "be the mean gauge of the draws")


def check_audit(
    noise: Noise,
    sensitivity: Sensitivity,
    rng: Generator,
    draws: int,
    *,
    epsilon: float,
    delta: float,
) -> None:
    """Check that draws distinguish 0 from values of a neighbour no better than epsilon allows."""
    # On a lattice, like releases: otherwise the last bits of a float depend on the value.
    spacing = np.ldexp(1.0, publication(noise).lattice.spacing)
    x, y = (np.floor(_drawn(noise, rng, draws) / spacing) * spacing for _ in "ab")
    shifts, found = [np.floor(v / spacing) * spacing for v in _shifts(sensitivity)], 0.0
    for v in shifts:
        statistics = _statistics(noise, sensitivity, v)
        pair, alarm = (statistics(x), statistics(y + v)), ALARM / len(shifts)
        found = max(found, epsilon_lower_bound(*pair, delta=delta, alarm=alarm))
    rule = f"be ({epsilon:g}, {delta:g})-private: an audit must not show more"
    require(found <= epsilon, f"{type(noise).__name__}.rvs", rule, f"epsilon >= {found:.3g}")


def _shifts(sensitivity: Sensitivity) -> list[Array]:
    """Return some differences on the boundary of the sensitivity."""
    ball, points = sensitivity.ball, corners(sensitivity.ball)
    candidates = np.vstack([np.ones(ball.dim), np.eye(ball.dim)])
    if points is not None:
        candidates = np.vstack([points, candidates])
    at = np.unique(np.linspace(0, len(candidates) - 1, _MOST_SHIFTS).astype(int))
    return [sensitivity.radius * v / float(ball.gauge(v)) for v in candidates[at]]


def _statistics(noise: Noise, sensitivity: Sensitivity, v: Array) -> Callable[[Array], Array]:
    """Return the statistics of outputs: log-likelihood ratios of common noise for the shift v."""
    covariance = np.asarray(noise.covariance())
    whitened = np.linalg.lstsq(covariance, v, rcond=None)[0]
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    gauge = sensitivity.ball.gauge

    def statistics(x: Array) -> Array:
        laplace = ((np.abs(x) - np.abs(x - v)) / scale).sum(axis=1)
        knorm = gauge(x) - gauge(x - v)
        return np.column_stack([x @ v, x @ whitened, laplace, knorm])

    return statistics


def _drawn(noise: Noise, rng: Generator, draws: int) -> Array:
    return np.array([noise.rvs(rng) for _ in range(draws)], dtype=float)
