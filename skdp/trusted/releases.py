"""Releases: what is published, with which noise, and what one record can change.

Every release states its change and its noise as objects. `Release.spent` evaluates the theorem of
the release from these objects, and not from a number that a rule of accuracy claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, check_epsilon, check_interval, check_positive
from skdp._identity import is_ours
from skdp.geometry import LpBall, MappedBall
from skdp.geometry.moment_layout import MomentLayout
from skdp.privacy.guarantee import NEIGHBORS, UNITS, Guarantee
from skdp.privacy.losses import GaussianLoss, Losses, PairLoss, SelectionLoss
from skdp.trusted.change import ROUND_UP, Change, greatest_image, greatest_square
from skdp.trusted.independent import (
    MOST_SIZES,
    IndependentNoise,
    RepeatedNoise,
    fewer,
    greatest_slope,
    length_of,
    worst_shift,
)
from skdp.trusted.independent import losses_of as losses_of_law
from skdp.trusted.matrix import MatrixGaussianNoise, MatrixLaplaceNoise, losses_of_trace
from skdp.trusted.noise import (
    GaussianNoise,
    KNormNoise,
    Publication,
    law_of,
    losses_of,
    publication,
    publication_of,
    variances,
)


class NotPrivate(ValueError):
    """A computation spends more than the privacy budget that it states.

    Examples
    --------
    >>> from skdp.trusted import NotPrivate
    >>> issubclass(NotPrivate, ValueError)
    True
    """


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
    assumptions, void_because : tuple of str
        Sentences of the guarantee.

    Examples
    --------
    >>> from skdp.trusted import Public
    >>> Public(epsilon=1.0, neighbors="add_remove").records_changed
    1
    """

    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    unit: str = "row"
    in_two_steps: bool = False
    assumptions: tuple[str, ...] = ()
    void_because: tuple[str, ...] = ()
    # Not in files: the guarantee has them.
    unwritten: ClassVar = {"assumptions": (), "void_because": ()}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        check_choice("neighbors", self.neighbors, NEIGHBORS)
        check_choice("unit", self.unit, UNITS)

    @property
    def relation(self) -> str:
        """The relation for which the changes of the releases hold."""
        return "add_remove" if self.in_two_steps else self.neighbors

    @property
    def records_changed(self) -> int:
        """The number of records whose contributions change."""
        return records_changed(self.relation)


def records_changed(neighbors: str) -> int:
    """Return the number of records whose contributions differ between neighbouring data sets."""
    return 2 if neighbors == "replace_one" else 1


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

    @property
    def description(self) -> str:
        """What is published, and with which noise."""

    @property
    def publication(self) -> Any:
        """How values are published; an error if 53-bit floats cannot keep the guarantee."""

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss."""


@dataclass(frozen=True, repr=False)
class NoisySum:
    """A sum over records of a bounded statistic, plus noise.

    Attributes
    ----------
    name : str
        What is published.
    change : Sensitivity
        What one record can change, from the layout of the records.
    noise : Noise
        The noise that is added to the sum.
    theorem : str
        The page and the theorem of the proof.
    times : int
        How many sums are published, one after the other. The change holds the sizes of all.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> from skdp.trusted import NoisySum, Public
    >>> change = Sensitivity(LpBall(2), radius=3.0)
    >>> noise = calibrate("l2", change, epsilon=1.0)
    >>> round(NoisySum("sums", change, noise).spent(Public(epsilon=1.0)).epsilon, 9)
    1.0
    """

    name: str
    change: Any
    noise: Any
    theorem: str = ""
    times: int = 1

    def __post_init__(self) -> None:
        check_count("times", self.times)

    @property
    def law(self) -> str:
        """The law of the noise."""
        return law_of(self.noise)

    @property
    def deviation(self) -> float:
        """The root mean square of the noise in a number, in the units of the change."""
        return math.sqrt(float(variances(self.noise).mean()))

    def __repr__(self) -> str:
        return described(self)

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of the noise for the worst change."""
        if self.change.neighbors != public.relation:
            raise NotPrivate(
                f"{self.name}: its change is one under {self.change.neighbors!r}, and the guarantee"
                f" is one under {public.relation!r}"
            )
        dim = getattr(getattr(self.change, "ball", None), "dim", None)
        if dim is not None and getattr(self.noise, "dim", dim) != dim:
            raise NotPrivate(
                f"{self.name}: the noise has {self.noise.dim} numbers, and changes {dim}"
            )
        return _spent_by(self.noise, self.change, public)

    @property
    def description(self) -> str:
        """What is published, and with which noise."""
        return f"{f'{self.times} ' * (self.times > 1)}{self.name} with {self.law}"

    @cached_property
    def publication(self) -> Publication:
        """Lattice and stretch of the published values."""
        if not is_ours(self.noise):
            return publication(self.noise)
        epsilon, losses = self.spent(Public(1.0, neighbors=self.change.neighbors))
        return publication_of(self.noise, epsilon, 0.0, losses)


def _spent_by(noise: Any, change: Any, public: Public) -> Spent:
    """Return the privacy loss of noise for a body of changes."""
    match noise if is_ours(noise) else None:
        case KNormNoise():
            # By the triangle inequality the log-density changes by at most the gauge of a change.
            shift = up(_gauge_in(noise.ball, change) / noise.scale)
            return Spent(shift, losses_of(noise.ball, shift))
        case IndependentNoise():
            worst = worst_shift(change, noise.scale)
            slope = greatest_slope(noise.law)
            losses = losses_of_law(noise.law, worst.above, worst.length, 1.0)
            return Spent(up(worst.total * slope), losses)
        case RepeatedNoise():
            length, total = length_of(change.shifts), math.fsum(n * v for v, n in change.shifts)
            slope = greatest_slope(noise.law)
            few = fewer(change.shifts, MOST_SIZES)  # they majorise all of them
            return Spent(up(total * slope), losses_of_law(noise.law, few, length, 1.0))
        case GaussianNoise():
            return Spent(math.inf, ((GaussianLoss(up(length_in(noise.factor, change))), 1),))
        case MatrixLaplaceNoise():
            # |S^1/2 (v v' - u u') S^1/2|_1 <= v'Sv + u'Su.
            trace = up(public.records_changed * _row_square(noise, change, noise.precision))
            return Spent(trace, losses_of_trace(trace, public.records_changed))
        case MatrixGaussianNoise():
            # |v v' - u u'|_F <= sqrt(2) for rows of length at most 1.
            square = _row_square(noise, change, np.ones(noise.layout.n_rows))
            distance = math.sqrt(public.records_changed) * square
            return Spent(math.inf, ((GaussianLoss(up(distance / noise.deviation)), 1),))
    # A part of the curator's own states what it spends; the card names its class.
    stated = getattr(noise, "guarantee", None)
    if isinstance(stated, Guarantee) and stated.neighbors == public.relation and stated.holds:
        losses = ((PairLoss(stated.epsilon, stated.delta), 1),)
        return Spent(math.inf if stated.delta else stated.epsilon, losses)
    raise NotPrivate(f"no theorem is known for noise of the class {type(noise).__name__}")


@dataclass(frozen=True)
class RowsWithin:
    """The changes of moments v v' by records whose rows have |v|_2^2 <= ``square``."""

    layout: MomentLayout
    square: float
    neighbors: str

    def __post_init__(self) -> None:
        check_positive("square", self.square)
        check_choice("neighbors", self.neighbors, NEIGHBORS)

    def row_square(self, weights: FloatArray) -> float:
        """Return a bound on the weighted sum of squares of a row."""
        return up(self.square * float(np.max(weights)))


def _row_square(noise: Any, change: Any, weights: FloatArray) -> float:
    """Return a bound on the weighted sum of squares of the rows whose moments change."""
    rows = change if isinstance(change, RowsWithin) else change.ball
    if noise.layout != rows.layout or getattr(change, "radius", 1.0) != 1.0:
        raise NotPrivate("the noise is one of other moments than those that change")
    return float((rows if hasattr(rows, "row_square") else rows.layout).row_square(weights))


def up(x: float) -> float:
    """Return the next float above a computed bound that is rounded up already."""
    return math.nextafter(float(x), math.inf)


def _gauge_in(ball: Any, change: Any) -> float:
    """Return a bound on the gauge of any change."""
    is_round = type(ball) is MappedBall and type(ball.ball) is LpBall
    is_round = is_round and ball.ball.p == 2 and ball.ball.weights is None
    if is_round and isinstance(change, Change) and ball is not change.ball:
        return length_in(ball.matrix, change) / float(ball.ball.radius) * ROUND_UP
    return float(change.radius_in(ball))


def length_in(factor: Any, change: Any) -> float:
    """Return a bound on |A^-1 u|_2 over all changes u, for noise A Z."""
    if not isinstance(change, Change):
        return float(change.length_in(factor))
    ball, dim, a = change.ball, change.ball.dim, np.asarray(factor)
    if a.ndim < 2:
        square = greatest_square(ball, np.broadcast_to(a, (dim,)) ** -2.0)
    else:
        square = greatest_image(np.linalg.inv(a), ball)
        # The error of an inverse grows with the condition number.
        square *= (1 + dim**2 * np.finfo(float).eps * float(np.linalg.cond(a))) ** 2
    return change.radius * math.sqrt(square)


@dataclass(frozen=True, repr=False)
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
    publication: ClassVar[None] = None  # a choice is no number

    def __post_init__(self) -> None:
        check_count("times", self.times)
        check_positive("width", self.width)

    @property
    def law(self) -> str:
        """The law of the noise of a score."""
        return "Gumbel"

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise, in units of log-probabilities."""
        return math.pi / math.sqrt(6)

    def __repr__(self) -> str:
        return described(self)

    @property
    def description(self) -> str:
        """What is chosen."""
        return f"{self.times} {self.name}"

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of all choices."""
        return Spent(up(self.times * self.width), ((SelectionLoss(self.width), self.times),))


def described(release: Listed) -> str:
    """Return the facts of a release that do not depend on a guarantee, on one line."""
    times = f", {release.times} times" if release.times > 1 else ""
    return f"{type(release).__name__}({release.name!r}, {release.law}{times}, {release.theorem!r})"


class Listed(Release, Protocol):
    """A release that `overview` describes."""

    @property
    def law(self) -> str:
        """The law of the noise."""

    @property
    def times(self) -> int:
        """How often it is published, at most."""

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in a number."""


class Line(NamedTuple):
    """What is to be known of a release: a line of `overview`.

    Attributes
    ----------
    name, theorem : str
    law : str
        The law of the noise.
    times : int
        How often it is published, at most.
    deviation : float
        The standard deviation of the noise in a published number, or its root mean square over
        the numbers, in the units of the release.
    epsilon : float or None
        A bound on its privacy loss; None if it is known only with a delta. Under a guarantee in
        two steps it is that of one of them, and counts twice.

    Examples
    --------
    >>> from skdp.trusted import Public, overview
    >>> from skdp.trusted.releases import PrivateChoice
    >>> overview([PrivateChoice("choices", 0.1, 5, "private_selection.md")], Public(1.0))[0].times
    5
    """

    name: str
    theorem: str
    law: str
    times: int
    deviation: float
    epsilon: float | None


def overview(releases: Iterable[Listed], public: Public) -> tuple[Line, ...]:
    """Return what is to be known of releases, a line for each.

    Parameters
    ----------
    releases : iterable of Release
        The attribute ``releases_`` of a model, say.
    public : Public
        For which they are certified: the attribute ``public_``.

    Returns
    -------
    tuple of Line

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLogisticRegression
    >>> from skdp.trusted import overview
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2))
    >>> y = (X[:, 0] > X[:, 1]).astype(int)
    >>> model = DPLogisticRegression(domain=Domain.unit_box(2, target=[0, 1])).fit(X, y)
    >>> for release in overview(model.releases_, model.public_):
    ...     print(release.name, release.law, round(release.epsilon, 4))
    scaling KNormNoise(SquaresBall) 0.1084
    objective KNormNoise(ProductBall) 0.8916
    """
    own = tuple(releases)
    spent = [release.spent(public).epsilon for release in own]
    budget = public.epsilon / (2 if public.in_two_steps else 1)
    # If the finite ones exceed it, all are composed together.
    if math.fsum(epsilon for epsilon in spent if epsilon < math.inf) > budget * (1 + 1e-9):
        spent = [math.inf] * len(own)
    return tuple(
        Line(r.name, r.theorem, r.law, r.times, r.deviation, e if e < math.inf else None)
        for r, e in zip(own, spent, strict=True)
    )
