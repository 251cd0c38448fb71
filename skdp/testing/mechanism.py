"""Whether a mechanism is one: `check_mechanism` and what it consists of.

False alarms. The mean and the covariance of DRAWS = 20,000 draws are held against SIGMAS = 8 of
their own standard errors, as in `skdp.testing.ball`, and the audit against ALARM = 1e-8.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._checks import check_count, check_interval, check_positive
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity
from skdp.mechanisms.calibrate import mechanism_of
from skdp.mechanisms.noise import publication_of
from skdp.privacy import Guarantee
from skdp.randomness import RandomStateLike, as_generator
from skdp.testing._require import agree, members_of, require
from skdp.testing.audit import ALARM, epsilon_lower_bound
from skdp.testing.ball import corners

Array = NDArray[np.float64]
DRAWS = 20_000
SIGMAS = 8.0
MEMBERS = ("guarantee", "rvs", "covariance", "expected_norm")
# A search for a shape stops somewhere: noise may grow by so much where it should not.
SEARCH = 1e-3
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
    """Raise AssertionError unless an object is a mechanism that estimators can rely on.

    It must make noise for a sensitivity, which promises no more privacy than was asked for, is
    what it says it is, and grows with the sensitivity and as epsilon falls. Its draws are
    audited: the value 0 and values that a neighbour could have are told apart by them no better
    than epsilon allows.

    Parameters
    ----------
    mechanism : object, or name
        What `skdp.mechanisms.calibrate` takes.
    sensitivity : Sensitivity or None
        What the noise is for; None takes a box of three dimensions.
    epsilon : float > 0, default=1.0
        An audit sees most between 1 and 2.
    delta : float in [0, 1), default=0.0
    random_state : None, int, Generator or RandomState, default=0
        Where the draws come from.
    draws : int >= 400, default=20_000
        As many again are drawn for the neighbour.

    Raises
    ------
    AssertionError
        With a sentence that says what broke which rule.

    Notes
    -----
    An audit proves nothing (see `epsilon_lower_bound`): it sees noise that is half of what it
    should be, and not noise that is 5 % less; of a delta of 1e-6 it sees nothing.

    Examples
    --------
    >>> from skdp.mechanisms import KNorm
    >>> from skdp.testing import check_mechanism
    >>> check_mechanism(KNorm("linf"))
    """
    sensitivity = Sensitivity(LpBall(3, p=math.inf)) if sensitivity is None else sensitivity
    asked = {"epsilon": check_positive("epsilon", epsilon)}
    asked["delta"] = check_interval("delta", delta, 0.0, 1.0, closed="left")
    draws, rng = check_count("draws", draws, 400), as_generator(random_state)
    mechanism = mechanism_of(mechanism)
    noise = mechanism.calibrate(sensitivity, **asked)
    check_promise(noise, sensitivity, **asked)
    check_noise(noise, sensitivity, rng, draws)
    check_order(mechanism, sensitivity, **asked)
    check_audit(noise, sensitivity, rng, draws, **asked)


def check_promise(noise: Any, sensitivity: Sensitivity, *, epsilon: float, delta: float) -> None:
    """Check that the noise has its members, and promises what was asked for."""
    members_of(noise, MEMBERS)
    name, promise = f"{type(noise).__name__}.guarantee", noise.guarantee
    require(isinstance(promise, Guarantee), name, "be a Guarantee", type(promise))
    # Less epsilon than was asked for is welcome; a mechanism that gives more has misunderstood.
    rule = f"promise epsilon <= {epsilon:g}"
    require(promise.epsilon <= epsilon * (1 + 1e-9), name, rule, promise.epsilon)
    require(promise.delta <= delta, name, f"promise delta <= {delta:g}", promise.delta)
    rule = f"be under neighbors={sensitivity.neighbors!r} like the sensitivity"
    require(promise.neighbors == sensitivity.neighbors, name, rule, promise.neighbors)
    require(promise.holds, name, "hold before anything was drawn", promise.void_because)


def check_noise(noise: Any, sensitivity: Sensitivity, rng: Generator, draws: int) -> None:
    """Check that draws come from rng alone, are centred, and have the covariance that is told."""
    name, dim = type(noise).__name__, sensitivity.ball.dim
    _check_repeats(noise, name, dim)
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
    # One that was estimated from a few thousand directions is off by about as much again.
    close = np.abs(second - covariance) <= 2 * SIGMAS * error + 1e-12 * covariance.max()
    require(close, f"{name}.covariance", "be that of the draws")
    g = np.asarray(sensitivity.ball.gauge(x))
    close = abs(g.mean() - noise.expected_norm(sensitivity.ball)) <= 2 * SIGMAS * _error(g)
    require(close, f"{name}.expected_norm", "be the mean gauge of the draws")


def _check_repeats(noise: Any, name: str, dim: int) -> None:
    try:
        copy = pickle.loads(pickle.dumps(noise))
    except Exception as error:
        require(False, name, "be picklable", repr(error))
    draws = ((noise, 1), (copy, 1), (noise, 2))
    one, two, three = (np.asarray(law.rvs(np.random.default_rng(s))) for law, s in draws)
    require(one.shape == (dim,), f"{name}.rvs", f"draw {dim} numbers", one.shape)
    agree(one, two, 0.0, f"{name}.rvs", "draw from the bits of rng alone")
    require((one != three).any(), f"{name}.rvs", "draw from the bits of rng")


def check_order(mechanism: Any, sensitivity: Sensitivity, *, epsilon: float, delta: float) -> None:
    """Check that less epsilon needs more noise, and twice the sensitivity twice as much."""
    name = type(mechanism).__name__ if not isinstance(mechanism, str) else mechanism
    wider = Sensitivity(sensitivity.ball, 2 * sensitivity.radius, sensitivity.neighbors)
    usual = _size(mechanism.calibrate(sensitivity, epsilon=epsilon, delta=delta))
    less = _size(mechanism.calibrate(sensitivity, epsilon=epsilon / 2, delta=delta))
    wide = _size(mechanism.calibrate(wider, epsilon=epsilon, delta=delta))
    rule = "make more noise for half of epsilon"
    require(less >= usual * (1 - SEARCH), name, rule, f"{less / usual:.3g} of it")
    rule = "make twice the noise for twice the sensitivity"
    require(abs(wide / usual - 2) <= 2 * SEARCH, name, rule, f"{wide / usual:.3g} of it")


def check_audit(
    noise: Any,
    sensitivity: Sensitivity,
    rng: Generator,
    draws: int,
    *,
    epsilon: float,
    delta: float,
) -> None:
    """Check that the draws tell 0 from no neighbour's value better than epsilon allows."""
    # On a lattice, as releases are: else the last bits of a float tell which sum it came from.
    spacing = np.ldexp(1.0, publication_of(noise).lattice.spacing)

    def round_(v: Array) -> Array:
        return np.floor(v / spacing) * spacing

    x, y = round_(_drawn(noise, rng, draws)), round_(_drawn(noise, rng, draws))
    shifts, found = [round_(v) for v in _shifts(sensitivity)], 0.0
    for v in shifts:
        look = _looking(noise, sensitivity, v)
        alarm = ALARM / len(shifts)
        found = max(found, epsilon_lower_bound(look(x), look(y + v), delta=delta, alarm=alarm))
    rule = f"be ({epsilon:g}, {delta:g})-private: an audit must not show more"
    require(found <= epsilon, f"{type(noise).__name__}.rvs", rule, f"epsilon >= {found:.3g}")


def _shifts(sensitivity: Sensitivity) -> list[Array]:
    """Return a few of the greatest differences."""
    ball = sensitivity.ball
    candidates = np.vstack([np.ones(ball.dim), np.eye(ball.dim)])
    points = corners(ball)
    if points is not None:
        candidates = np.vstack([points, candidates])
    at = np.unique(np.linspace(0, len(candidates) - 1, _MOST_SHIFTS).astype(int))
    return [sensitivity.radius * v / float(ball.gauge(v)) for v in candidates[at]]


def _looking(noise: Any, sensitivity: Sensitivity, v: Array) -> Callable[[Array], Array]:
    """Return what is looked at of outputs: likelihood ratios of usual noise, for the shift v."""
    covariance = np.asarray(noise.covariance())
    whitened = np.linalg.lstsq(covariance, v, rcond=None)[0]
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    gauge = sensitivity.ball.gauge

    def look(x: Array) -> Array:
        laplace = ((np.abs(x) - np.abs(x - v)) / scale).sum(axis=1)
        knorm = gauge(x) - gauge(x - v)
        return np.column_stack([x @ v, x @ whitened, laplace, knorm])

    return look


def _drawn(noise: Any, rng: Generator, draws: int) -> Array:
    return np.array([noise.rvs(rng) for _ in range(draws)], dtype=float)


def _size(noise: Any) -> float:
    return math.sqrt(float(np.trace(np.asarray(noise.covariance()))))


def _error(values: Array) -> float:
    return float(values.std() / math.sqrt(len(values))) + 1e-12
