"""Privacy losses as text, to be kept in a file: JSON of names and numbers, never code.

The laws of `skdp.noise` are found by name among the modules that are loaded, since this room
imports none of them. A loss that has no such form is not kept; its epsilon and delta are.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from skdp.privacy._profile import Losses
from skdp.privacy.losses import FiniteLoss, GaussianLoss, PairLoss, Profile, ShiftLoss
from skdp.privacy.radial import RadialLoss

VERSION = 1
_LAWS = (
    *("Laplace", "Gaussian", "Logistic", "Subbotin"),
    *("FlippedHuber", "TruncatedLaplace", "OffsetGaussian"),
)
_KINDS: dict[str, type] = {
    "gaussian": GaussianLoss,
    "pair": PairLoss,
    "radial": RadialLoss,
    "finite": FiniteLoss,
}


def to_text(losses: Losses) -> str | None:
    """Return the losses as text, None if they would not read back as they are."""
    parts = [{**_form(loss), "count": count} for loss, count in losses]
    text = json.dumps({"version": VERSION, "losses": parts})
    return text if from_text(text) == losses else None


@lru_cache(maxsize=4096)
def from_text(text: str) -> Losses | None:
    """Return the losses, None if the text is of a later version or names what is not known."""
    try:
        content = json.loads(text)
        if content["version"] != VERSION:
            return None
        return tuple((_loss(part), int(part["count"])) for part in content["losses"])
    except (ValueError, TypeError, KeyError):
        return None


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
        return ShiftLoss(_law(law.pop("law"))(**law), part["shift"])
    numbers = {name: value for name, value in part.items() if name not in ("kind", "count")}
    loss: Profile = _KINDS[kind](**{name: _tuple(value) for name, value in numbers.items()})
    return loss


def _law(name: str) -> Any:
    if name not in _LAWS:
        raise KeyError(name)
    return getattr(sys.modules.get("skdp.noise"), name)


def _numbers(parts: Any) -> dict[str, Any]:
    """Return the parameters of a dataclass; what is none has none, and does not read back."""
    names = fields(parts) if is_dataclass(parts) else ()
    values = {field.name: getattr(parts, field.name) for field in names}
    plain = all(isinstance(value, int | float | tuple) for value in values.values())
    return values if plain else {}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
