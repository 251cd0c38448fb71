"""Independent noise of one law in each coordinate, calibrated at the worst difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import (
    check_choice,
    check_epsilon,
    check_interval,
    check_numbers,
    check_positives,
    fail,
)
from skdp._identity import relied_on
from skdp.geometry.ball import ask
from skdp.mechanisms.independent.scale import (
    FAMILIES,
    NAMES,
    PLAIN,
    Losses,
    check_law,
    law_of,
    losses_of,
    pure_scale,
    worst_scale,
)
from skdp.mechanisms.independent.worst_shift import WorstShift, worst_shift
from skdp.mechanisms.noise import BaseNoise
from skdp.mechanisms.sensitivity.base import Sensitivity
from skdp.privacy.guarantee import Guarantee
from skdp.randomness import granularity_of

# Delta is spent only if it reduces the scale by more than this share.
LEAST_GAIN = 1e-3
# Proportions half-width^a are tried for these a: 1/2 is best for Gaussian noise on a box, 1/3 for
# pure Laplace noise on a box, and 1 for a ball whose corners lie on the axes.
_EXPONENTS = (0.0, 1 / 3, 1 / 2, 1.0)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class IndependentNoise(BaseNoise):
    """Independent noise: coordinate j is scale[j] X_j, all X_j of one law.

    Attributes
    ----------
    law : Law
        The law of every X_j.
    scale : array of shape (dim,), units of the released value
    guarantee : Guarantee
        Guarantee of one release.
    losses : tuple of (PrivacyLoss, int)
        Losses of the coordinates with their numbers. They dominate the privacy loss of the
        release at every epsilon.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("flipped_huber", Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01)
    >>> type(noise).__name__, float(noise.covariance()[0, 0].round(3))
    ('IndependentNoise', 1.704)
    >>> noise.release([412.0]).shape
    (1,)
    """

    law: Any
    scale: FloatArray
    guarantee: Guarantee
    losses: Losses = ()
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = check_numbers("scale", self.scale)
        if scale.ndim != 1 or not (np.isfinite(scale) & (scale > 0)).all():
            raise fail("scale", "hold one finite number > 0 for each coordinate", scale.shape)
        scale.setflags(write=False)
        object.__setattr__(self, "scale", scale)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.scale)

    def coordinate(self, j: int = 0) -> Any:
        """Return the law of the noise in coordinate j."""
        return self.law.scaled(float(self.scale[j]))

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        return granularity_of(self.law)

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,), for simulations; use ``release`` to publish a value."""
        return np.asarray(self.scale * self.law.rvs(self.dim, rng))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of a draw, (dim,)."""
        return np.asarray(self.law.var() * self.scale**2)

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return np.asarray(self.scale * self.law.rvs((n, self.dim), rng))


@dataclass(frozen=True)
class Independent:
    """Independent noise of one even log-concave law in every coordinate.

    The scale is calibrated at the worst difference: an extreme point of the sensitivity's ball,
    or a shift that majorises all of them (``docs/proofs/worst_shift.md``). The calibration of
    one coordinate is exact (``docs/proofs/one_release.md``); several coordinates are composed
    with certified bounds.

    Parameters
    ----------
    law : Law or str
        A law of `skdp.noise`, or any object with logpdf, logsf, isf, rvs, var and scaled whose
        density is even and log-concave. Its scale is calibrated. Or a name: "laplace",
        "gaussian", "logistic", or, with a shape of least variance, "flipped_huber", "subbotin",
        "truncated_laplace" and "offset_gaussian".
    proportions : array-like of shape (dim,), entries > 0, or None
        Scales of the coordinates up to a factor; they must be public. None tries the powers 0,
        1/3, 1/2 and 1 of the half-widths of the box around the differences, and takes those of
        least total variance.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = Independent("flipped_huber").calibrate(
    ...     Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01
    ... )
    >>> noise.covariance().round(4)
    array([[1.7038]])
    """

    law: Any
    proportions: ArrayLike | None = None

    def __post_init__(self) -> None:
        if isinstance(self.law, str):
            check_choice("law", self.law, NAMES, "Or give a law, such as Laplace().")
        else:
            check_law(self.law)
        if self.proportions is not None:
            proportions = check_positives("proportions", self.proportions)
            object.__setattr__(self, "proportions", proportions)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> IndependentNoise:
        """Return such noise that is (epsilon, delta)-private.

        delta = 0 is possible for laws with a bounded privacy loss: Laplace, Logistic, Subbotin(1).
        If delta reduces their scale by less than a thousandth, as for a Laplace variable and a
        small delta, it is not spent and the guarantee has delta = 0.
        """
        epsilon = check_epsilon(epsilon)
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        law, proportions, worst = self._best(sensitivity, epsilon, delta)
        scale = worst_scale(law, worst, epsilon, delta)
        pure = pure_scale(law, worst.total, epsilon, required=False)
        if delta > 0 and pure <= scale * (1 + LEAST_GAIN):
            scale, delta = pure, 0.0
        losses = losses_of(law, worst.above, worst.length, scale)
        guarantee = Guarantee(
            epsilon,
            delta,
            neighbors=sensitivity.neighbors,
            mechanism=f"independent {law!r} noise for differences in {sensitivity.ball!r}",
            assumptions=relied_on(law, sensitivity.ball),
            losses=losses if delta > 0 else (),
        )
        return IndependentNoise(law, scale * proportions, guarantee, losses)

    def _best(
        self, sensitivity: Sensitivity, epsilon: float, delta: float
    ) -> tuple[Any, FloatArray, WorstShift]:
        """Return law, proportions and worst shift of least total variance."""
        choices = _promising([(p, worst_shift(sensitivity, p)) for p in self._choices(sensitivity)])
        proportions, worst = choices[0]
        if len(choices) > 1:
            law = self._plain_law()
            totals = [
                2 * math.log(worst_scale(law, w, epsilon, delta, is_rough=True)) + _log_square(p)
                for p, w in choices
            ]
            proportions, worst = choices[int(np.argmin(totals))]
        return law_of(self.law, worst, epsilon, delta), proportions, worst

    def _plain_law(self) -> Any:
        """Return the law, or one of the family that is named."""
        if self.law in FAMILIES:
            return FAMILIES[self.law][0](1.0)
        return PLAIN[self.law] if isinstance(self.law, str) else self.law

    def _choices(self, sensitivity: Sensitivity) -> list[FloatArray]:
        """Return the proportions to try, greatest entry 1."""
        ball = sensitivity.ball
        if self.proportions is not None:
            given = np.asarray(self.proportions)
            if len(given) != ball.dim:
                rule = f"have {ball.dim} entries, one for each coordinate"
                raise fail("proportions", rule, len(given))
            return [given / given.max()]
        widths = ask(ball, "bounding_box")
        widths = widths / widths.max()
        if widths.min() > 1 - 1e-9:
            return [np.ones(ball.dim)]
        return [widths**a for a in _EXPONENTS]


def _promising(choices: list[tuple[FloatArray, WorstShift]]) -> list[tuple[FloatArray, WorstShift]]:
    """Return the choices that are best for pure Laplace noise and for Gaussian noise."""
    squares = [_log_square(p) for p, _ in choices]
    pure = [square + 2 * math.log(w.total) for square, (_, w) in zip(squares, choices, strict=True)]
    round_ = [
        square + 2 * math.log(w.length) for square, (_, w) in zip(squares, choices, strict=True)
    ]
    return [choices[k] for k in sorted({int(np.argmin(pure)), int(np.argmin(round_))})]


def _log_square(proportions: FloatArray) -> float:
    return math.log(float(np.sum(proportions**2)))
