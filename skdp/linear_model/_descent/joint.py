"""Joint models of several classes: for which noise there is one, and its normalizer.

Both depend on public information only. Statement and proof: ``docs/proofs/coordinate_descent.md``,
Theorem 8. The origin of the constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from typing import Any

from skdp.linear_model._descent.slopes import SoftmaxSlope
from skdp.mechanisms.independent import Independent
from skdp.noise.laws import Gaussian

# The normalizer of a joint loss rises by RISE with each doubling of the information, from 0 at
# FROM doublings of 1 on. With delta = 0 there is more noise for the same information.
FROM, RISE, LEAST = 1.5, 0.14, 0.4
PURE_FROM, PURE_RISE, PURE_LEAST = 4.5, 0.125, 0.2


def joint_slope(n_classes: int, information: float, delta: float) -> SoftmaxSlope:
    """Return the derivatives of the loss of several classes for an information and a delta."""
    # Squared shifts add up for Gaussian noise, and otherwise shifts.
    power = 2 if delta > 0 else 1
    start, rise, least = (FROM, RISE, LEAST) if delta > 0 else (PURE_FROM, PURE_RISE, PURE_LEAST)
    found = rise * (math.log2(information) - start)
    return SoftmaxSlope(n_classes, min(max(found, least), 1.0), power)


def may_be_joint(order: str, mechanism: Any, delta: float) -> bool:
    """Return whether the noise of a descent allows a joint model of several classes."""
    if order == "greedy":
        return False
    return delta == 0 or is_gaussian(mechanism, ("auto", "gaussian"))


def is_gaussian(mechanism: Any, names: tuple[str, ...] = ("gaussian",)) -> bool:
    """Return whether a mechanism is Gaussian noise, or has one of the names."""
    law = mechanism.law if type(mechanism) is Independent else mechanism
    # By type: a subclass of Gaussian may draw from another law.
    return law in names if isinstance(law, str) else type(law) is Gaussian
