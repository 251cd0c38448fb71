"""Releases: what is published, with which noise, and what one record can change.

Every release states its change and its noise as objects. `Release.spent` evaluates the theorem of
the release from these objects, and not from a number that a rule of accuracy claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from skdp._arrays import FloatArray
from skdp.geometry import LpBall, MappedBall, NormBall, ProductBall, SquaresBall, SumBall
from skdp.mechanisms.ellipsoid import greatest_square
from skdp.mechanisms.gaussian import GaussianNoise
from skdp.mechanisms.independent import IndependentNoise, RepeatedNoise
from skdp.mechanisms.knorm import KNormNoise, losses_of
from skdp.mechanisms.matrix import MatrixGaussianNoise, MatrixLaplaceNoise, losses_of_trace
from skdp.mechanisms.scales import greatest_slope, worst_shift
from skdp.mechanisms.scales import losses_of as losses_of_law
from skdp.mechanisms.sensitivity import ROUND_UP, Sensitivity
from skdp.privacy.losses import GaussianLoss, Losses, SelectionLoss


class NotPrivate(ValueError):
    """A computation spends more than the privacy budget that it states."""


@dataclass(frozen=True)
class Public:
    """What may be known of a computation on private records.

    Parameters
    ----------
    epsilon : float in (0, inf)
    delta : float in [0, 1)
        The guarantee that the computation states.
    neighbors : {"replace_one", "add_remove"}
    unit : {"row", "person"}
    in_two_steps : bool
        Whether a replacement is a removal and then an addition. The releases then state the
        changes of one of these steps.
    """

    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    unit: str = "row"
    in_two_steps: bool = False

    @property
    def relation(self) -> str:
        """The relation for which the changes of the releases hold."""
        return "add_remove" if self.in_two_steps else self.neighbors

    @property
    def records_changed(self) -> int:
        """The number of records whose contributions change."""
        return 2 if self.relation == "replace_one" else 1


class Spent(NamedTuple):
    """The privacy loss of a release.

    Attributes
    ----------
    epsilon : float
        A bound on it, or inf.
    losses : tuple of (PrivacyLoss, int)
        Losses, with numbers of them, whose composition dominates it; empty if only ``epsilon`` is
        known.
    """

    epsilon: float
    losses: Losses = ()


class Release(Protocol):
    """One published quantity. ``spent`` raises `NotPrivate` if its own hypotheses do not hold."""

    @property
    def name(self) -> str:
        """What is published."""

    @property
    def theorem(self) -> str:
        """The page and the theorem of the proof."""

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss."""


@dataclass(frozen=True)
class NoisySum:
    """A sum over records of a bounded statistic, plus noise.

    Attributes
    ----------
    name : str
    change : Sensitivity
        What one record can change, from the layout of the records.
    noise : Noise
    theorem : str
    """

    name: str
    change: Any
    noise: Any
    theorem: str = ""

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of the noise for the worst change."""
        if self.change.neighbors != public.relation:
            raise NotPrivate(
                f"{self.name}: its change is one under {self.change.neighbors!r}, and the guarantee"
                f" is one under {public.relation!r}"
            )
        return _spent_by(self.noise, self.change, public)


def _spent_by(noise: Any, change: Any, public: Public) -> Spent:
    """Return the privacy loss of noise for a body of changes."""
    match noise:
        case KNormNoise():
            # By the triangle inequality the log-density changes by at most the gauge of a change.
            shift = up(greatest_gauge(noise.ball, change) / noise.scale)
            return Spent(shift, losses_of(noise.ball, shift))
        case IndependentNoise():
            worst = worst_shift(change, noise.scale)
            slope = greatest_slope(noise.law, required=False)
            losses = losses_of_law(noise.law, worst.above, worst.length, 1.0)
            return Spent(up(worst.total * slope), losses)
        case RepeatedNoise():
            length = math.sqrt(math.fsum(count * size**2 for size, count in change.shifts))
            total = math.fsum(count * size for size, count in change.shifts)
            slope = greatest_slope(noise.law, required=False)
            return Spent(up(total * slope), losses_of_law(noise.law, change.shifts, length, 1.0))
        case GaussianNoise():
            return Spent(math.inf, ((GaussianLoss(up(_length_in(noise.factor, change))), 1),))
        case MatrixLaplaceNoise():
            # |S^1/2 (v v' - u u') S^1/2|_1 <= v'Sv + u'Su.
            trace = up(public.records_changed * change.row_square(noise.precision))
            return Spent(trace, losses_of_trace(trace, public.records_changed))
        case MatrixGaussianNoise():
            # |v v' - u u'|_F <= sqrt(2) for rows of length at most 1.
            square = change.row_square(np.ones(noise.layout.n_rows))
            distance = math.sqrt(public.records_changed) * square
            return Spent(math.inf, ((GaussianLoss(up(distance / noise.deviation)), 1),))
    raise NotPrivate(f"no theorem is known for noise of the class {type(noise).__name__}")


@dataclass(frozen=True)
class RowsWithin:
    """The changes of moments v v' by records whose rows have |v|_2^2 <= ``square``."""

    square: float
    neighbors: str

    def row_square(self, weights: FloatArray) -> float:
        """Return a bound on the weighted sum of squares of a row."""
        return up(self.square * float(np.max(weights)))


@dataclass(frozen=True)
class RowsOf:
    """The changes of moments v v' by records with the rows of a moment ball."""

    ball: Any
    neighbors: str

    def row_square(self, weights: FloatArray) -> float:
        """Return a bound on the weighted sum of squares of a row."""
        bounded = self.ball if hasattr(self.ball, "row_square") else self.ball.layout
        return float(bounded.row_square(weights))


def up(x: float) -> float:
    """Return the next float above a computed bound that is rounded up already."""
    return math.nextafter(float(x), math.inf)


def greatest_gauge(ball: NormBall, change: Sensitivity) -> float:
    """Return a bound on the gauge of any change.

    Where both the ball and the body of changes are made of parts on the same coordinates, a sum
    of gauges is at most the sum of the greatest gauges of the parts, and a maximum at most their
    maximum.
    """
    return change.radius * _gauge_over(ball, change.ball)


def _gauge_over(ball: NormBall, body: NormBall) -> float:
    if ball is body or ball == body:
        return 1.0
    if type(ball) is MappedBall and type(ball.ball) is LpBall and ball.ball.p == 2:
        return _length_in(ball.matrix, Sensitivity(body)) / ball.ball.radius * ROUND_UP
    if isinstance(ball, SumBall | ProductBall):
        inside = [_projection(body, places.tolist()) for places in ball.places]
        known = [part for part in inside if part is not None]
        if len(known) == len(inside):
            gauges = [_gauge_over(*pair) for pair in zip(ball.balls, known, strict=True)]
            if isinstance(ball, ProductBall):
                return max(gauges)
            return math.fsum(w * own for w, own in zip(ball.weights, gauges, strict=True))
    return Sensitivity(body).radius_in(ball)


def _projection(body: NormBall, places: list[int]) -> NormBall | None:
    """Return a body that holds the projection to some coordinates, in their order, or None."""
    if places == list(range(body.dim)):
        return body
    if type(body) is SquaresBall and places == sorted(places):
        k, counted = body.n_numbers, body.counted
        numbers = [place - counted for place in places if counted <= place < counted + k]
        squares = [place - counted - k for place in places if place >= counted + k]
        if not numbers or numbers != squares:
            return None
        # Beside the count a number z gives z and 2 z^2 - 1, both in [-1, 1].
        if counted and places[0] > 0:
            return LpBall(2 * len(numbers), p=math.inf)
        return SquaresBall(len(numbers), counted)
    if type(body) is not ProductBall:
        return None
    position = {place: k for k, place in enumerate(places)}
    balls, index = [], []
    for own, at in zip(body.balls, body.places, strict=True):
        kept = [k for k, place in enumerate(at.tolist()) if place in position]
        part = _projection(own, kept) if kept else None
        if kept and part is None:
            return None
        if part is not None:
            balls.append(part)
            index.append(tuple(position[int(at[k])] for k in kept))
    if len(balls) == 1 and list(index[0]) == sorted(index[0]):
        return balls[0]
    return ProductBall(tuple(balls), tuple(index))


def _length_in(factor: Any, change: Sensitivity) -> float:
    """Return a bound on |A^-1 u|_2 over all changes u, for noise A Z."""
    ball, dim, a = change.ball, change.ball.dim, np.asarray(factor)
    if a.ndim < 2:
        square = greatest_square(ball, np.broadcast_to(a, (dim,)) ** -2.0)
    else:
        square = greatest_square(MappedBall(ball, np.linalg.inv(a)), np.ones(dim))
    return change.radius * math.sqrt(square)


@dataclass(frozen=True)
class PrivateChoice:
    """Choices among finitely many candidates, each by scores plus Gumbel noise.

    Attributes
    ----------
    name : str
    width : float
        The log-probabilities of one choice change within an interval of this length.
    times : int
    theorem : str
    """

    name: str
    width: float
    times: int = 1
    theorem: str = ""

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of all choices."""
        return Spent(up(self.times * self.width), ((SelectionLoss(self.width), self.times),))
