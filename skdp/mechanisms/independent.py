"""Independent noise of one law: in each coordinate of a release, or for many scalar releases.

An iterative method releases numbers one after the other, each with fresh noise of one law and
one scale. One record changes each number by at most a size that is known in advance, so the
privacy losses are known in advance and add up (``docs/proofs/repeated_releases.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from skdp.mechanisms.gaussian import gaussian_scale, spendable
from skdp.mechanisms.scales import (
    FAMILIES,
    NAMES,
    PLAIN,
    certified_at_first,
    check_law,
    composed_scale,
    excess_at,
    law_of,
    pure_scale,
    scaled,
    worst_scale,
)
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.noise.independent import (
    MOST_SIZES,
    IndependentNoise,
    Releases,
    RepeatedNoise,
    Shift,
    WorstShift,
    fewer,
    length_of,
    worst_shift,
)
from skdp.noise.law import Law
from skdp.privacy.guarantee import certified, guarantee_of
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import ask
from skdp.trusted.checks import (
    check_choice,
    check_count,
    check_epsilon,
    check_interval,
    check_positive,
    check_positives,
    fail,
)
from skdp.trusted.identity import remembered
from skdp.trusted.losses import Losses, SelectionLoss
from skdp.trusted.releases import NoisySum, PrivateChoice, Release
from skdp.trusted.statement import Public

# Delta is spent only if it reduces the scale by more than this share.
LEAST_GAIN = 1e-3
# Proportions half-width^a are tried for these a: 1/2 is best for Gaussian noise on a box, 1/3 for
# pure Laplace noise on a box, and 1 for a ball whose corners lie on the axes.
_EXPONENTS = (0.0, 1 / 3, 1 / 2, 1.0)


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
        density is even and log-concave. Its scale is calibrated. Alternatively a name: "laplace",
        "gaussian", "logistic", or, with the shape of least variance, "flipped_huber", "subbotin",
        "truncated_laplace" or "offset_gaussian".
    proportions : array-like of shape (dim,), entries > 0, or None
        Scales of the coordinates up to a factor; they must be public. None tries the powers 0, 1/3,
        1/2 and 1 of the half-widths of the box around the differences, and chooses the power with
        the least total variance.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = Independent("flipped_huber").calibrate(
    ...     Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01
    ... )
    >>> noise.covariance().round(4)
    array([[1.7038]])
    """

    law: str | Law
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
        scale = worst_scale(law, worst, epsilon, spendable(delta))
        pure = pure_scale(law, worst.total, epsilon, required=False)
        if delta > 0 and pure <= scale * (1 + LEAST_GAIN):
            scale, delta = pure, 0.0
        said = f"independent {law!r} noise for differences in {sensitivity.ball!r}"

        def made(factor: float) -> IndependentNoise:
            noise = IndependentNoise(law, factor * scale * proportions)
            return certified(noise, sensitivity, epsilon, delta, said)

        return certified_at_first(made)

    def _best(
        self, sensitivity: Sensitivity, epsilon: float, delta: float
    ) -> tuple[Law, FloatArray, WorstShift]:
        """Return law, proportions and worst shift of least total variance."""
        choices = _promising([(p, worst_shift(sensitivity, p)) for p in self._choices(sensitivity)])
        proportions, worst = choices[0]
        if len(choices) > 1:
            law = self.law
            if isinstance(law, str):  # of a family any law will do
                law = FAMILIES[law][0](1.0) if law in FAMILIES else PLAIN[law]
            totals = [
                2 * math.log(worst_scale(law, w, epsilon, delta, is_rough=True)) + _log_square(p)
                for p, w in choices
            ]
            proportions, worst = choices[int(np.argmin(totals))]
        return law_of(self.law, worst, epsilon, delta), proportions, worst

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


MECHANISMS = ("auto", *NAMES)
# Share of private choices in the budget: in epsilon, or in the variance of the privacy loss.
SHARE = 0.5


def calibrate_releases(
    mechanism: str | Law | Independent,
    shifts: Sequence[tuple[float, int]],
    *,
    neighbors: str,
    epsilon: float,
    delta: float = 0.0,
    choices: tuple[float, int] | None = None,
) -> RepeatedNoise:
    """Return the noise of least variance for which all releases together are private.

    Parameters
    ----------
    mechanism : str, Law or Independent
        A law, or the name of one, as in `Independent`, or an `Independent` without proportions.
        "auto" is the better of "laplace" and "gaussian", and "laplace" if delta = 0. Other laws
        have less variance in a few settings, by at most a sixth.
    shifts, neighbors
        As in `Releases`. The sizes must be public, and known in advance.
    epsilon : float in (0, inf)
    delta : float in [0, 1)
        0 is possible only for a law with a bounded privacy loss: "laplace", "logistic",
        `Subbotin(1)`, and any law with ``greatest_slope()``.
    choices : (float, int), optional
        Width and number of private choices that the guarantee also covers; see `choice_width`.

    Returns
    -------
    RepeatedNoise
        Each number needs a new draw. The released values, the order of the sizes and the time to
        stop may depend on earlier results. The greatest number of releases and their sizes must not
        (docs/proofs/repeated_releases.md, Theorem 1).

    Raises
    ------
    ValueError
        If a parameter is out of range, or the mechanism is not a law.

    Examples
    --------
    >>> noise = calibrate_releases(
    ...     "auto", [(0.1, 10_000)], neighbors="replace_one", epsilon=1.0, delta=1e-6
    ... )
    >>> type(noise.law).__name__, round(noise.law.std(), 2)
    ('Gaussian', 42.25)

    Twenty numbers, and twenty choices of what to release:

    >>> budget = {"epsilon": 1.0, "delta": 1e-6}
    >>> choices = (choice_width(20, **budget), 20)
    >>> noise = calibrate_releases(
    ...     "gaussian", [(2.0, 20)], neighbors="replace_one", choices=choices, **budget
    ... )
    >>> round(noise.law.std() / 2.0, 1)
    26.2
    """
    releases = Releases(shifts, neighbors)
    epsilon = check_epsilon(epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if type(mechanism) is Independent:
        if mechanism.proportions is not None:
            raise fail("mechanism", "have no proportions: there is one scale for all releases")
        mechanism = mechanism.law
    elif isinstance(mechanism, str):
        check_choice("mechanism", mechanism, MECHANISMS, "Or give a law, as Laplace().")
    else:
        check_law(mechanism, "mechanism")
    return _calibrated(cast("str | Law", mechanism), releases, epsilon, delta, choices)


@remembered(maxsize=256)
def _calibrated(
    mechanism: str | Law,
    releases: Releases,
    epsilon: float,
    delta: float,
    choices: tuple[float, int] | None,
) -> RepeatedNoise:
    few = fewer(releases.shifts, MOST_SIZES) if delta > 0 else releases.shifts
    worst = WorstShift(few, length_of(releases.shifts))
    beside: Losses = ()
    rest = epsilon
    if choices is not None:
        width, count = choices
        beside = ((SelectionLoss(width), count),)
        if delta == 0:
            rest = (epsilon - count * width) * (1 - 1e-12)
            if not rest > 0:
                raise fail("choices", f"cost less than epsilon = {epsilon:g}", count * width)

    def scale_of(law: Law) -> float:
        if beside and delta > 0:
            return composed_scale(law, few, epsilon, spendable(delta), beside)
        return worst_scale(law, worst, rest, spendable(delta))

    law = law_of("laplace" if mechanism == "auto" else mechanism, worst, rest, delta)
    if mechanism == "auto" and delta > 0:
        # The scale at which Laplace noise has the variance that Gaussian noise needs.
        limit = scale_of(PLAIN["gaussian"]) / math.sqrt(2)
        is_pure = not beside and pure_scale(law, worst.total, epsilon, required=True) <= limit
        if not is_pure and excess_at(law, few, beside, epsilon, delta, 1 / limit) > 0:
            law = PLAIN["gaussian"]
    scale = scale_of(law)

    def made(factor: float) -> RepeatedNoise:
        noise = RepeatedNoise(scaled(law, factor * scale), releases.shifts)
        shifts = _told(releases.shifts)
        told = f"{noise.law!r} noise in each of {releases.count} releases with shifts {shifts}"
        planned: list[Release] = [NoisySum("releases", releases, noise)]
        if choices is not None:
            planned.append(PrivateChoice("choices", *choices))
            told += f", and {choices[1]} private choices"
        public = Public(epsilon, delta, releases.neighbors)
        return replace(noise, guarantee=guarantee_of(planned, public, told))

    return certified_at_first(made)


def choice_width(count: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Return the width of the losses of ``count`` choices with `SHARE` of a budget.

    It is for `SelectionLoss`. The maximum of scores with Gumbel noise of scale 2 D / width has this
    loss, if one record changes a score by at most D.
    """
    count, epsilon = check_count("count", count), check_positive("epsilon", epsilon)
    if delta == 0:
        return SHARE * epsilon / count
    # The loss of a choice of width w, uniform on [-w, w] for small w, has the variance w^2 / 3.
    return math.sqrt(SHARE * 3 / count) / gaussian_scale(epsilon, delta)


def _told(shifts: Shift) -> str:
    """Return the shifts in words, abbreviated if there are many."""
    told = [f"{count} x {size:.6g}" for size, count in shifts]
    return ", ".join(told if len(told) <= 4 else [*told[:2], "...", told[-1]])
