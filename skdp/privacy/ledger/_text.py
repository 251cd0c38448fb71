"""Privacy losses as text for a ledger's file: JSON of names and numbers, never code.

A loss without such a form, for instance one that is given by its profile only, is replaced by a
loss of finitely many values that dominates it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.privacy.composition.grid import multiples, upper
from skdp.privacy.guarantee.profile import Losses
from skdp.privacy.losses.losses import (
    FiniteLoss,
    GaussianLoss,
    PairLoss,
    Profile,
    ProfileLoss,
    ShiftLoss,
)
from skdp.privacy.losses.radial import RadialLoss
from skdp.privacy.losses.selection import SelectionLoss

VERSION = 1
_KINDS: dict[str, type] = {
    "gaussian": GaussianLoss,
    "pair": PairLoss,
    "radial": RadialLoss,
    "finite": FiniteLoss,
    "selection": SelectionLoss,
}

# Fields whose names in files differ from those in the code.
_FILE_NAMES = {"log_p_infinity_mass": "log_p_alone", "log_q_infinity_mass": "log_q_alone"}
_FIELDS = {name: field for field, name in _FILE_NAMES.items()}
# The laws that a file may name, which `skdp.privacy` does not import unless a file names one.
_LAWS = {
    "FlippedHuber",
    "Gaussian",
    "Laplace",
    "Logistic",
    "OffsetGaussian",
    "Subbotin",
    "TruncatedLaplace",
}

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
    """Return the losses as text, or None if they would not read back unchanged."""
    parts = [{**_form(loss), "count": count} for loss, count in losses]
    text = json.dumps({"version": VERSION, "losses": parts})
    return text if from_text(text) == losses else None


@lru_cache(maxsize=4096)
def from_text(text: str) -> Losses | None:
    """Return the losses, or None if the text is of a later version or has an unknown name."""
    try:
        content = json.loads(text)
        if content["version"] != VERSION:
            return None
        return tuple((_loss(part), int(part["count"])) for part in content["losses"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
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


def _form(loss: Profile) -> dict[str, Any]:
    if isinstance(loss, ShiftLoss):
        law = {"law": type(loss.law).__name__, **_numbers(loss.law)}
        return {"kind": "shift", "shift": loss.shift, "of": law}
    for kind, known in _KINDS.items():
        if type(loss) is known:
            return {"kind": kind, **_numbers(loss)}
    return {"kind": "unknown"}


def _loss(part: dict[str, Any]) -> Profile:
    kind = part["kind"]
    if kind == "shift":
        law = dict(part["of"])
        return ShiftLoss(_law_named(law.pop("law"))(**law), part["shift"])
    numbers = {_FIELDS.get(name, name): _tuple(value) for name, value in part.items()}
    del numbers["kind"], numbers["count"]
    loss: Profile = _KINDS[kind](**numbers)
    return loss


def _law_named(name: str) -> Any:
    if name not in _LAWS:
        raise KeyError(name)
    return getattr(import_module("skdp.noise"), name)


def _numbers(parts: Any) -> dict[str, Any]:
    """Return the parameters of a dataclass; other objects have none, and do not read back."""
    names = fields(parts) if is_dataclass(parts) else ()
    values = {_FILE_NAMES.get(f.name, f.name): getattr(parts, f.name) for f in names}
    plain = all(isinstance(value, int | float | tuple) for value in values.values())
    return values if plain else {}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
