"""Check of the noise that a mechanism has made."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._checks import fail
from skdp._identity import is_ours
from skdp.mechanisms.sensitivity.base import Sensitivity
from skdp.privacy.guarantee import Guarantee

_MEMBERS = ("guarantee", "rvs", "covariance")
# In more dimensions the covariance is not checked, to save time.
_MOST_DIM = 256


def check_noise(
    mechanism: Any, noise: Any, sensitivity: Sensitivity, epsilon: float, delta: float
) -> None:
    """Raise unless the guarantee is within epsilon and delta and the noise has its members.

    Noise of a mechanism from outside this package is also drawn, with fixed generators.
    """
    kind = type(noise).__name__
    lacking = [name for name in _MEMBERS if not hasattr(noise, name)]
    if lacking or isinstance(noise, type):
        rule = f"make noise with {', '.join(_MEMBERS)}"
        raise fail("mechanism", rule, type(noise), f"It has no {', '.join(lacking)}.")
    claimed = noise.guarantee
    if not isinstance(claimed, Guarantee):
        raise fail("mechanism", f"make noise whose guarantee is a Guarantee, {kind}", type(claimed))
    if claimed.epsilon > epsilon or claimed.delta > delta:
        rule = f"make noise with epsilon <= {epsilon:g} and delta <= {delta:g}"
        raise fail("mechanism", rule, (claimed.epsilon, claimed.delta))
    if claimed.neighbors != sensitivity.neighbors:
        rule = f"claim privacy under the sensitivity's neighbors={sensitivity.neighbors!r}"
        raise fail("mechanism", rule, claimed.neighbors)
    if not claimed.holds:
        raise fail("mechanism", "claim a guarantee that holds", claimed.void_because)
    if not is_ours(mechanism):
        _check_draws(noise, kind, sensitivity.ball.dim)


def _check_draws(noise: Any, kind: str, dim: int) -> None:
    seeds = (0, 0, 1)
    one, again, other = (np.asarray(noise.rvs(np.random.default_rng(seed))) for seed in seeds)
    if one.shape != (dim,) or one.dtype.kind != "f" or not np.isfinite([one, other]).all():
        rule = f"make noise whose rvs(rng) returns {dim} finite floats"
        raise fail("mechanism", rule, (kind, one.dtype, one.shape))
    if not np.array_equal(one, again) or (one == other).all():
        raise fail("mechanism", "make noise whose rvs(rng) draws from rng, and from it alone", kind)
    if dim > _MOST_DIM:
        return
    covariance = np.asarray(noise.covariance())
    fits = covariance.shape == (dim, dim) and bool(np.isfinite(covariance).all())
    if not (fits and (np.diag(covariance) > 0).all()):
        rule = f"make noise with a covariance() of shape ({dim}, {dim}), its variances > 0"
        raise fail("mechanism", rule, (kind, covariance.shape))
