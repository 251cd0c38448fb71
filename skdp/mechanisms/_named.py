"""Named mechanisms."""

from __future__ import annotations

from typing import Any

from skdp.mechanisms.gaussian.elliptic import EllipticGaussian
from skdp.mechanisms.gaussian.noise import IsotropicGaussian
from skdp.mechanisms.independent.noise import Independent
from skdp.mechanisms.knorm.elliptic import EllipticKNorm
from skdp.mechanisms.knorm.noise import NAMES, KNorm

GAUSSIANS = {"gaussian": IsotropicGaussian, "elliptic": EllipticGaussian}
# Independent noise of one law in each coordinate, with a shape of least variance.
LAWS = ("logistic", "subbotin", "flipped_huber", "truncated_laplace", "offset_gaussian")
CHOICES = (*NAMES, "elliptic_l2", *GAUSSIANS, *LAWS)


def named(name: str) -> Any:
    """Return the mechanism with a name of `CHOICES`."""
    if name in LAWS:
        return Independent(name)
    if name == "elliptic_l2":
        return EllipticKNorm()
    return GAUSSIANS[name]() if name in GAUSSIANS else KNorm(name)
