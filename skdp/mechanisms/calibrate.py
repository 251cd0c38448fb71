"""Calibration of any mechanism to a sensitivity and a guarantee."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast, overload

from skdp._checks import check_choice, fail
from skdp.geometry import NormBall
from skdp.mechanisms._named import CHOICES, GAUSSIANS, LAWS, named
from skdp.mechanisms.auto import Auto
from skdp.mechanisms.knorm.noise import KNorm
from skdp.mechanisms.noise import BaseNoise, Noise, check_noise
from skdp.mechanisms.sensitivity.base import Sensitivity

__all__ = ["GAUSSIANS", "LAWS", "Noise", "calibrate"]

_NAMES = ("auto", *CHOICES)
N = TypeVar("N", covariant=True)


class Mechanism(Protocol[N]):
    """An object that calibrates noise."""

    def calibrate(self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0) -> N:
        """Return noise that makes a release (epsilon, delta)-private."""


@overload
def calibrate(
    mechanism: str | NormBall, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> BaseNoise: ...


@overload
def calibrate(
    mechanism: Mechanism[N], sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> N: ...


def calibrate(
    mechanism: Any, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> Any:
    """Return the noise of a mechanism that makes a release (epsilon, delta)-private.

    Parameters
    ----------
    mechanism : str, NormBall, or object with ``calibrate``
        "laplace" (also "l1"), "l2", "linf", "hull" and balls stand for `KNorm`, and
        "elliptic_l2" for `EllipticKNorm`. "gaussian" stands for `IsotropicGaussian` and
        "elliptic" for `EllipticGaussian`; both need delta > 0. "flipped_huber", "logistic",
        "offset_gaussian", "subbotin" and "truncated_laplace" stand for `Independent` noise of
        that law, with a shape of least variance. "auto" stands for `Auto`, which takes the least
        expected squared error. Of other objects ``mechanism.calibrate(sensitivity,
        epsilon=epsilon, delta=delta)`` is called.
    sensitivity : Sensitivity
        Set of the changes that one record can make.
    epsilon : float > 0
    delta : float in [0, 1)

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = calibrate("l1", Sensitivity(LpBall(2, p=1), radius=3.0), epsilon=1.5)
    >>> round(noise.scale, 6)
    2.0
    """
    chosen, given = mechanism_of(mechanism), cast("object", sensitivity)
    if not isinstance(given, Sensitivity):
        remedy = "For d sums that change by at most r in the l1 norm: Sensitivity(LpBall(d, 1), r)."
        raise fail("sensitivity", "be a Sensitivity", sensitivity, remedy)
    made: Noise = chosen.calibrate(sensitivity, epsilon=epsilon, delta=delta)
    check_noise(chosen, made, sensitivity.neighbors, sensitivity.ball.dim, epsilon, delta)
    return made


def mechanism_of(mechanism: Any) -> Any:
    """Return the object with ``calibrate`` that a name or a ball stands for."""
    remedy = "Or give a norm ball, or an object with calibrate(sensitivity, *, epsilon, delta)."
    remedy += " A law is given as Independent(law)."
    if isinstance(mechanism, str):
        check_choice("mechanism", mechanism, _NAMES, remedy)
        mechanism = Auto() if mechanism == "auto" else named(mechanism)
    elif isinstance(mechanism, NormBall):
        mechanism = KNorm(mechanism)
    if isinstance(mechanism, type) or not callable(getattr(mechanism, "calibrate", None)):
        raise fail("mechanism", f"be one of {sorted(_NAMES)}", mechanism, remedy)
    return mechanism
