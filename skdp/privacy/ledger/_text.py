"""Privacy losses as text for a ledger's file: JSON of names and numbers, never code.

A loss without such a form, for instance one that is given by its profile only, is replaced by a
loss of finitely many values that dominates it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from skdp._arrays import FloatArray
from skdp._codec import VERSION, document, encode
from skdp._codec import from_text as content_of
from skdp.privacy.grid import multiples, upper
from skdp.privacy.profile import Losses
from skdp.privacy.losses import FiniteLoss, Profile, ProfileLoss

# Number of points on either side of 0. The last one is the first of _EPSILONS at which the profile
# is below e^_FAR or stops decreasing.
_POINTS = 64
_EPSILONS, _FAR = np.geomspace(1e-9, 700.0, 512), -80.0
# Amounts added to a profile: far more than rounding errors, and negligible.
_RAISED, _NUDGED = 1e-10, 1e-12


def kept(losses: Losses) -> Losses:
    """Return the losses as a file can hold them, or an empty tuple if it cannot.

    A loss that does not read back is replaced by one that dominates it, through points of its
    profile.
    """
    found = []
    for loss, count in losses:
        readable = loss if to_text(((loss, 1),)) else _by_points(loss)
        if readable is None:
            return ()
        found.append((readable, count))
    return tuple(found)


def to_text(losses: Losses) -> str | None:
    """Return the losses as text, or None if a file cannot hold them."""
    try:
        parts = encode("losses", losses)
    except ValueError:
        return None
    return json.dumps({"kind": "losses", "version": VERSION, "losses": parts}, allow_nan=False)


@lru_cache(maxsize=4096)
def from_text(text: str) -> Losses | None:
    """Return the losses, or None if the text is of a later version or has an unknown name."""
    try:
        content = content_of("losses", text)
        found: Losses = document("losses", {"losses": Losses}, content, ("losses",))["losses"]
        return found
    except ValueError:
        return None


def _by_points(loss: Profile) -> FiniteLoss | None:
    """Return a loss of finitely many values that dominates the loss, or None."""
    step = max(_end(loss), _end(loss.reversed())) / _POINTS
    curves = _table(loss, step), _table(loss.reversed(), step)
    pairs = ProfileLoss(*curves), ProfileLoss(*curves[::-1])
    # Each order of the pair by itself: in the other its far tail is a difference of numbers near 1.
    (x, log_p, p_mass), (y, log_q, q_mass) = (_tail(pair, step) for pair in pairs)
    logs = np.concatenate([(log_q - y)[::-1], log_p])
    values = np.concatenate([-y[::-1], x])
    if (rest := 1 - math.fsum(np.exp([*logs, p_mass]))) > 0:
        values, logs = np.insert(values, len(y), 0.0), np.insert(logs, len(y), math.log(rest))
    try:
        found = FiniteLoss(tuple(values), tuple(logs + _RAISED), p_mass, q_mass)
    except ValueError:  # the two curves are no profiles of a pair
        return None
    above = _lies_above(found, curves[0], x) and _lies_above(found.reversed(), curves[1], y)
    return found if above else None


def _end(loss: Profile) -> float:
    """Return an epsilon beyond which the profile is negligible or constant."""
    found = loss.log_delta(_EPSILONS)
    return float(_EPSILONS[np.argmax(found <= max(found[-1] + _RAISED, _FAR))])


def _table(loss: Profile, step: float) -> Callable[[FloatArray], FloatArray]:
    """Return a curve above the profile, for multiples of a step."""
    points = multiples(step, 0, _POINTS + 1)
    # Evaluated once: a bound may differ when it is evaluated again.
    log_delta = np.minimum(loss.log_delta(points * (1 - _NUDGED)) + _RAISED, 0.0)
    return lambda epsilon: np.asarray(log_delta[np.rint(epsilon / step).astype(int)])


def _tail(loss: Profile, step: float) -> tuple[FloatArray, FloatArray, float]:
    """Return the positive values of the least loss through points, with logs of P-masses."""
    masses = upper(loss, step, -_POINTS, _POINTS)
    some = (masses.masses > 0) & (masses.losses > 0)
    with np.errstate(divide="ignore"):
        infinite = float(np.log(masses.infinity_mass))
    return masses.losses[some], np.log(masses.masses[some]), infinite


def _lies_above(
    found: Profile, curve: Callable[[FloatArray], FloatArray], corners: FloatArray
) -> bool:
    """Return whether a profile lies above a curve at its corners, despite rounding."""
    return bool((found.log_delta(corners) >= curve(corners)).all())
