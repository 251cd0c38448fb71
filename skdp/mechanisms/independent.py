"""One law per coordinate: independent noise, calibrated at the worst difference."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._checks import check_choice, check_interval, check_positive, fail
from skdp.geometry import NormBall
from skdp.geometry.ball import FloatArray, ask
from skdp.mechanisms._scale import last_passing, least_scale, pure_scale
from skdp.mechanisms._shapes import FAMILIES, PLAIN, Family, best_law, corner_of
from skdp.mechanisms._worst_shift import Shift, WorstShift, worst_shift
from skdp.mechanisms.gaussian import gaussian_scale
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.noise.gaussian import Gaussian
from skdp.noise.law import Law
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.loss import Composition
from skdp.privacy.losses import GaussianLoss, PrivacyLoss, ShiftLoss

Losses = tuple[tuple[PrivacyLoss, int], ...]

NAMES = (*PLAIN, *FAMILIES)
# Exponents a of the proportions that are tried, half-width^a: 1/2 is best for Gaussian noise
# on a box, 1/3 for pure Laplace noise on a box, 1 on a ball whose corners lie on the axes.
_EXPONENTS = (0.0, 1 / 3, 1 / 2, 1.0)
# Composed bounds are about as sharp as this; one coordinate is calibrated to 1e-12.
_TOLERANCE = 1e-5
_COARSE = 1e-2
# Quantiles at which somebody else's law is looked at.
_PROBED = np.array([0.45, 0.3, 0.1, 1e-2, 1e-4, 1e-8, 1e-16])


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class IndependentNoise:
    """Independent noise, ready to draw: coordinate j is scale[j] X_j, X_j of one law.

    Attributes
    ----------
    law : Law
        The law of every X_j.
    scale : array of shape (dim,), units of the released value
    guarantee : Guarantee
        What adding one draw to the value it was calibrated for gives.
    losses : tuple of (PrivacyLoss, int)
        Dominates the privacy loss of that release at every epsilon: the loss of each
        coordinate, with the number of coordinates that have it.
    """

    law: Any
    scale: FloatArray
    guarantee: Guarantee
    losses: Losses = ()
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = np.array(self.scale, dtype=float)
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

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,)."""
        return np.asarray(self.scale * self.law.rvs(self.dim, rng))

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim)."""
        return np.diag(self.law.var() * self.scale**2)

    def expected_norm(self, ball: NormBall, *, draws: int = 4096) -> float:
        """Return the mean gauge of a draw in a ball's norm: a mean of ``draws``."""
        x = self.law.rvs((draws, self.dim), np.random.default_rng(0))
        return float(np.mean(ball.gauge(self.scale * x)))


@dataclass(frozen=True)
class Independent:
    """Independent noise of one even log-concave law in every coordinate.

    The noise hides the worst difference: an extreme point of the sensitivity's ball, or a shift
    that majorises all of them (``docs/proofs/worst_shift.md``). One coordinate is exact
    (``docs/proofs/one_release.md``), several are composed with certified bounds.

    Parameters
    ----------
    law : Law or str
        A law, whose shape is kept and whose scale is calibrated: one of `skdp.noise`, or any
        object with logpdf, logsf, isf, rvs, var and scaled whose density is even and
        log-concave. Or "laplace", "gaussian", "logistic", and with a shape chosen for the least
        variance "flipped_huber", "subbotin", "truncated_laplace" and "offset_gaussian".
    proportions : array-like of shape (dim,), entries > 0, or None
        Coordinate j has noise of scale proportional to proportions[j]; they must be public.
        None takes the powers 0, 1/3, 1/2 and 1 of the half-widths of the box around the
        differences, whichever gives the least total variance.

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
            _check_law(self.law)
        if self.proportions is not None:
            proportions = tuple(check_positive("proportions", p) for p in self.proportions)  # type: ignore[union-attr]
            object.__setattr__(self, "proportions", proportions)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> IndependentNoise:
        """Return such noise that is (epsilon, delta)-private.

        delta = 0 is for laws with a bounded privacy loss: Laplace, Logistic, Subbotin(1).
        """
        epsilon = check_positive("epsilon", epsilon)
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        budget = _Budget(epsilon, delta)
        law, proportions, worst, near = self._best(sensitivity, budget)
        scale = budget.scale(law, worst, near=near)
        losses = _losses(law, worst, scale)
        guarantee = Guarantee(
            epsilon,
            delta,
            neighbors=sensitivity.neighbors,
            mechanism=f"independent {law!r} noise for differences in {sensitivity.ball!r}",
            losses=losses if delta > 0 else (),
        )
        return IndependentNoise(law, scale * proportions, guarantee, losses)

    def _best(
        self, sensitivity: Sensitivity, budget: _Budget
    ) -> tuple[Any, FloatArray, WorstShift, float | None]:
        """Return law and proportions of the least total variance, and about which scale it has."""
        choices = _promising([(p, worst_shift(sensitivity, p)) for p in self._choices(sensitivity)])
        family, law = self._family_and_law()
        proportions, worst = choices[0]
        if len(choices) > 1:
            totals = [budget.log_variance(law, w, _COARSE) + _log_square(p) for p, w in choices]
            proportions, worst = choices[int(np.argmin(totals))]
        if family is None:
            return law, proportions, worst, None
        # Many different shifts take their time to compose; equal ones have the same best shape.
        alike = worst if worst.is_single else worst.rounded()
        law, log_variance = best_law(
            family,
            lambda shaped, tolerance: budget.log_variance(shaped, alike, tolerance),
            budget.corner(family, worst),
            coarse=not worst.is_single,
        )
        near = math.exp((log_variance - math.log(law.var())) / 2)
        return law, proportions, worst, near

    def _family_and_law(self) -> tuple[Family | None, Any]:
        """Return the family, if the shape is to be chosen, and a law of it."""
        if not isinstance(self.law, str):
            return None, self.law
        family = FAMILIES.get(self.law)
        return family, PLAIN[self.law] if family is None else family.law(1.0)

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


@dataclass(frozen=True)
class _Budget:
    """The (epsilon, delta) to be met, and what scale a law then needs."""

    epsilon: float
    delta: float

    def corner(self, family: Family, worst: WorstShift) -> tuple[float, float] | None:
        """Return where the variance of one coordinate may have a corner, and its log there."""
        if self.delta == 0 or not worst.is_single:
            return None
        return corner_of(family, worst.above[0][0], self.epsilon, self.delta)

    def log_variance(self, law: Any, worst: WorstShift, tolerance: float) -> float:
        """Return the log of the variance of the calibrated noise of proportion 1."""
        return math.log(law.var()) + 2 * math.log(self.scale(law, worst, tolerance))

    def scale(
        self,
        law: Any,
        worst: WorstShift,
        tolerance: float | None = None,
        near: float | None = None,
    ) -> float:
        """Return the scale that hides all differences, about ``near`` if that is given."""
        if type(law) is Gaussian:
            return least_scale(law, worst.length, epsilon=self.epsilon, delta=self.delta)
        if worst.is_single:
            return least_scale(
                law,
                worst.above[0][0],
                epsilon=self.epsilon,
                delta=self.delta,
                tolerance=tolerance or 1e-14,
                near=near,
            )
        pure = pure_scale(law, worst.total, self.epsilon, required=self.delta == 0)
        if self.delta == 0:
            return pure
        scale = 0.0
        for vertex in worst.vertices:
            if scale == 0 or self._excess(law, vertex, 1 / scale) > 0:
                scale = self._hiding(law, vertex, tolerance or _TOLERANCE, near)
        return min(scale, pure)

    def _hiding(self, law: Any, shift: Shift, tolerance: float, near: float | None) -> float:
        """Return the scale that hides one shift, composed over its coordinates."""
        length = math.sqrt(sum(count * size**2 for size, count in shift))
        like = length * gaussian_scale(self.epsilon, self.delta) / math.sqrt(law.var())
        found = last_passing(
            lambda x: math.expm1(min(self._excess(law, shift, x), 500.0) / 10),
            1 / (near or like),
            tolerance=tolerance,
            factor=1.25 if near is None else 1 + 1e-3,
        )
        return 1 / found

    def _excess(self, law: Any, shift: Shift, x: float) -> float:
        """Return by how much noise of scale 1 / x does not hide the shift, in logs."""
        parts = tuple((ShiftLoss(law, size * x), count) for size, count in shift)
        upper = Composition(parts).delta_at(self.epsilon).upper
        return math.log(upper / self.delta) if upper > 0 else -math.inf


def _promising(choices: list[tuple[FloatArray, WorstShift]]) -> list[tuple[FloatArray, WorstShift]]:
    """Return the choices that are best for pure Laplace noise and for Gaussian noise."""
    squares = [_log_square(p) for p, _ in choices]
    pure = [square + 2 * math.log(w.total) for square, (_, w) in zip(squares, choices, strict=True)]
    round_ = [
        square + 2 * math.log(w.length) for square, (_, w) in zip(squares, choices, strict=True)
    ]
    return [choices[k] for k in sorted({int(np.argmin(pure)), int(np.argmin(round_))})]


def _losses(law: Any, worst: WorstShift, scale: float) -> Losses:
    """Return the loss of each coordinate, for a shift that majorises every difference."""
    up = math.nextafter(1 / scale, math.inf)
    if type(law) is Gaussian:
        return ((GaussianLoss(math.nextafter(worst.length * up / law.scale, math.inf)), 1),)
    return tuple(
        (ShiftLoss(law, math.nextafter(size * up, math.inf)), count) for size, count in worst.above
    )


def _log_square(proportions: FloatArray) -> float:
    return math.log(float(np.sum(proportions**2)))


def _check_law(law: Any) -> None:
    """Raise unless the law has the members, and looks even and log-concave where it is probed."""
    if not isinstance(law, Law):
        remedy = "Give a law of skdp.noise, or an object with logpdf, logsf, isf, rvs, var, scaled."
        raise fail("law", "have the members of a law", type(law), remedy)
    if not isinstance(law, Hashable):
        raise fail("law", "be hashable", type(law), "Make it a frozen dataclass of numbers.")
    x = np.asarray(law.isf(_PROBED), dtype=float)
    left, right = np.asarray(law.logpdf(-x)), np.asarray(law.logpdf(x))
    if not np.allclose(left, right, rtol=1e-9, atol=1e-9):
        raise fail("law", "have a density that is even", law)
    points, heights = np.append(0.0, x), np.append(law.logpdf(0.0), right)
    keep = np.diff(points, prepend=-np.inf) > 1e-9 * x.max()
    slopes = np.diff(heights[keep]) / np.diff(points[keep])
    if not (np.diff(slopes, prepend=0.0) <= 1e-6 * (1 + np.abs(slopes))).all():
        raise fail("law", "have a log-concave density", law, "Take one of skdp.noise.")
