"""Releases, and the checker that proves the guarantees of fits and of estimated domains.

Every release states its change and its noise as objects. `Release.spent` evaluates the theorem of
the release from these objects, and not from a number that a rule of accuracy claims.

`certify` composes the losses of the releases. Changes and laws of noise are fixed before the data
are read, and a release depends on earlier results only through the statistic that it sums. Then
losses add up (docs/proofs/certify.md).

`certify` takes the least of three bounds, all of them sums of losses. Pure losses add up. Pure
losses are taken off epsilon, and the other ones are composed at what is left. All of them are
composed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from skdp.trusted.arrays import add, add_multiples, exp_up, float_above, float_below, subtract
from skdp.trusted.checks import check_count, check_positive, is_ours, relied_on
from skdp.trusted.composition import composed_delta
from skdp.trusted.losses import Losses, PairLoss, ProfileLoss, SelectionLoss
from skdp.trusted.noise import Publication, law_of, publication, publication_of, variances
from skdp.trusted.statement import NotPrivate, Public, Spent, Statement, up


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


def described(release: Listed) -> str:
    """Return the facts of a release that do not depend on a guarantee, on one line."""
    times = f", {release.times} times" if release.times > 1 else ""
    return f"{type(release).__name__}({release.name!r}, {release.law}{times}, {release.theorem!r})"


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
        How many sums are published, one after the other. Each has the change, but the change of
        `skdp.mechanisms.RepeatedNoise` holds the sizes of all.

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

    __repr__ = described

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
        epsilon, losses = self._spent_once(public)
        spends_all = is_ours(self.noise) and getattr(self.noise, "spends_all", False)
        times = 1 if spends_all else self.times
        # A product of a float and a whole number rounds by half a unit in the last place.
        whole = epsilon if times == 1 else up(times * epsilon)
        return Spent(whole, tuple((loss, times * count) for loss, count in losses))

    def _spent_once(self, public: Public) -> Spent:
        if is_ours(self.noise) and hasattr(self.noise, "spent"):
            return Spent(*self.noise.spent(self.change, public))
        # A part of the curator's own states what it spends; the card names its class.
        stated = getattr(self.noise, "guarantee", None)
        if isinstance(stated, Statement) and stated.neighbors == public.relation and stated.holds:
            losses = ((PairLoss(stated.epsilon, stated.delta), 1),)
            return Spent(math.inf if stated.delta else stated.epsilon, losses)
        kind = type(self.noise).__name__
        raise NotPrivate(f"{self.name}: no theorem is known for noise of the class {kind}")

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

    __repr__ = described

    @property
    def description(self) -> str:
        """What is chosen."""
        return f"{self.times} {self.name}"

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of all choices."""
        return Spent(up(self.times * self.width), ((SelectionLoss(self.width), self.times),))


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
    >>> from skdp.trusted.certify import PrivateChoice
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
    scaling KNormNoise(SquaresBall) 0.05
    objective KNormNoise(ProductBall) 0.95
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


def certify(releases: Sequence[Release], public: Public, mechanism: str = "") -> Statement:
    """Return what holds for releases together, or raise `NotPrivate`.

    No other function makes a `Statement`. `skdp.privacy.guarantee_of` returns it as a `Guarantee`,
    with conversions and a card.

    Parameters
    ----------
    releases : sequence of Release
        In their order. Each is fixed before the data are read.
    public : Public
        The guarantee that is asked for, with the relation and the unit for which it is stated.
    mechanism : str, default=""
        The releases in words. By default it is made of their descriptions.

    Returns
    -------
    Statement
        Its epsilon is ``public.epsilon``. Its delta is 0 if pure losses add up to at most epsilon,
        and ``public.delta`` otherwise.

    Raises
    ------
    NotPrivate
        With the inequality that fails, and by how much.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> from skdp.trusted import NoisySum, Public, certify
    >>> three = Sensitivity(LpBall(3, p=1))  # a record moves three sums by at most 1 in all
    >>> noise = calibrate("l1", three, epsilon=0.5)
    >>> release = NoisySum("sums", three, noise)
    >>> certify([release, release], Public(epsilon=1.0, delta=1e-6)).delta
    0.0
    >>> certify([release] * 3, Public(epsilon=1.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    skdp.trusted.statement.NotPrivate: sums, sums, sums: epsilons add up to 1.5, and ...
    """
    epsilon, delta = public.epsilon, public.delta
    if public.in_two_steps:
        # (e, d) for a removal and for an addition is (2 e, d (1 + e^e)) for both.
        epsilon /= 2
        delta = math.nextafter(delta / (1 + math.exp(epsilon)), 0.0) if epsilon < 700 else 0.0
        delta = max(delta * (1 - 1e-15), 0.0)  # the exponential and the sum round
    spent = [release.spent(public) for release in releases]
    for release, own in zip(releases, spent, strict=True):
        known = own.epsilon < math.inf or own.losses
        if not (own.epsilon >= 0 and known) or any(count < 1 for _, count in own.losses):
            raise NotPrivate(f"{release.name}: its privacy loss is not known, or not a number")
    pure = [own.epsilon for own in spent if own.epsilon < math.inf]
    mixed = [own.losses for own in spent if own.epsilon == math.inf]
    losses: Losses = sum((own.losses for own in spent), ()) if all(o.losses for o in spent) else ()
    exact = add(pure)
    total = float_above(exact)
    is_pure = not mixed and total <= epsilon
    if not is_pure:
        left = float_below(subtract(epsilon, exact)) if total <= epsilon else -1.0
        reached = _composed(sum(mixed, ()), left)
        if not reached <= delta:  # NaN is no bound
            reached = min(_composed(losses, epsilon), reached)
        if not reached <= delta:
            names = ", ".join(release.name for release in releases)
            words = f"delta at epsilon = {epsilon:.9g} is {reached:.9g}, and {delta:.9g} is stated"
            if delta == 0:
                words = f"epsilons add up to {total:.9g}, and epsilon = {epsilon:.9g} is stated"
            raise NotPrivate(f"{names}: {words}")
    if public.in_two_steps or (is_pure and any(type(loss) is PairLoss for loss, _ in losses)):
        losses = ()  # they are those of one step, or say no more than epsilon
    return Statement(
        public.epsilon,
        0.0 if is_pure else public.delta,
        neighbors=public.neighbors,
        mechanism=mechanism or ", then ".join(release.description for release in releases),
        assumptions=tuple(dict.fromkeys((*public.assumptions, *relied_on(*releases)))),
        void_because=public.void_because,
        losses=losses,
        unit=public.unit,
    )


def _composed(losses: Losses, epsilon: float) -> float:
    """Return an upper bound on delta at ``epsilon``, or 1 if nothing is known."""
    if not losses or epsilon < 0:
        return 1.0
    if all(type(loss) is PairLoss for loss, _ in losses):
        # Epsilons and deltas add up, as exact decimals.
        sums = [[(getattr(o, name), n) for o, n in losses] for name in ("epsilon", "delta")]
        whole, delta = (float_above(add_multiples(pairs)) for pairs in sums)
        if whole <= epsilon:
            return delta
    if len(losses) == 1 and losses[0][1] == 1 and type(losses[0][0]) is ProfileLoss:
        # Its function is never below the truth, at this very epsilon.
        orders = losses[0][0], losses[0][0].reversed()
        logs = [float(loss.log_delta(epsilon)) for loss in orders]
        return 1.0 if any(map(math.isnan, logs)) else exp_up(max(logs))
    return composed_delta(losses, epsilon)
