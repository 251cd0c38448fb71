"""What is proved of a computation, for whom, and the error where nothing is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from skdp.trusted.checks import (
    check_choice,
    check_count,
    check_epsilon,
    check_interval,
    fail,
    require_comparable,
)
from skdp.trusted.losses import Losses

NEIGHBORS = {
    "replace_one": "any one record replaced by any other; the number of records is public",
    "add_remove": "any one record added or removed; the number of records is private",
}
UNITS = {"row": "record", "person": "person"}


@dataclass(frozen=True)
class Statement:
    """A statement of differential privacy about one release, or several composed.

    Parameters
    ----------
    epsilon : float in [0, inf)
    delta : float in [0, 1]
        The odds between neighbouring data sets change by a factor of at most e^epsilon, but with
        probability delta.
    neighbors : {"replace_one", "add_remove"}
    mechanism : str
    assumptions, void_because : tuple of str
        Conditions under which it holds, and reasons why it does not.
    losses : tuple of pairs (loss, count)
        Privacy losses whose composition dominates the release; empty if only epsilon is known.
    unit : {"row", "person"}
        As in `skdp.privacy.Guarantee`, which adds conversions and a card.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skdp.trusted import Statement
    >>> Statement(epsilon=1.0, mechanism="laplace").holds
    True
    """

    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    mechanism: str = ""
    assumptions: tuple[str, ...] = ()
    void_because: tuple[str, ...] = ()
    losses: Losses = ()
    unit: str = "row"

    def __post_init__(self) -> None:
        check_choice("neighbors", self.neighbors, NEIGHBORS)
        check_choice("unit", self.unit, UNITS)
        if not isinstance(self.mechanism, str):
            raise fail("mechanism", "be a string", type(self.mechanism))
        checked = {
            "epsilon": check_interval("epsilon", self.epsilon, 0, math.inf, closed="left"),
            "delta": check_interval("delta", self.delta, 0, 1),
            "assumptions": _check_sentences("assumptions", self.assumptions),
            "void_because": _check_sentences("void_because", self.void_because),
            "losses": _check_losses(self.losses),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def holds(self) -> bool:
        """Whether the statement holds, that is, ``void_because`` is empty."""
        return not self.void_because


def _check_sentences(name: str, value: Any) -> tuple[str, ...]:
    # A single string is iterable too, and would become a tuple of letters.
    if not isinstance(value, tuple | list) or not all(isinstance(item, str) for item in value):
        raise fail(name, "be a tuple of strings", type(value), f"Write {name}=('...',).")
    return tuple(value)


def _check_losses(value: Any) -> Losses:
    pairs = isinstance(value, tuple | list) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 and hasattr(pair[0], "log_delta")
        for pair in value
    )
    if not pairs:
        rule = "be a tuple of pairs of a privacy loss and a count"
        raise fail("losses", rule, type(value), "Write losses=((GaussianLoss(0.1), 1),), say.")
    for loss, _ in value:
        require_comparable(loss, "a privacy loss")
    return tuple((loss, check_count("count in losses", count)) for loss, count in value)


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
        Whether a replacement is a removal and then an addition, as where the weights of records
        are private. The releases then state the changes of one of these steps.
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


def up(x: float) -> float:
    """Return the next float above a computed bound that is rounded up already."""
    return math.nextafter(float(x), math.inf)
