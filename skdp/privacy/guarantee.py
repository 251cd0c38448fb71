"""Trusted. The guarantee of a release and its conversions.

Conversions use the pair of distributions that dominates every (epsilon, delta)-private release
(Kairouz, Oh & Viswanath 2015, Theorem 2). With probability delta it tells the two data sets apart.
Otherwise it answers a yes-no question truthfully with odds e^epsilon.
"""

from __future__ import annotations

import decimal
import html
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._codec import VERSION, document, encode, hints_of
from skdp._search import narrowed
from skdp.privacy import profile as _profile
from skdp.trusted.arrays import add, add_multiples, as_decimal, at_least_tiny, float_above, tested
from skdp.trusted.certify import NoisySum, Release, certify
from skdp.trusted.checks import check_choice, check_count, check_interval, check_numbers, fail
from skdp.trusted.composition import composed_delta
from skdp.trusted.losses import Losses
from skdp.trusted.statement import NEIGHBORS, UNITS, Public, Statement

Made = TypeVar("Made")

__all__ = ["NEIGHBORS", "Guarantee"]

_PERSONS = {
    "replace_one": "all rows of any one person replaced by any others; the number of persons is"
    " public, the number of rows is private",
    "add_remove": "all rows of any one person added or removed; the numbers of persons and of rows"
    " are private",
}
_ODDS = {"replace_one": "between any two values of {}", "add_remove": "on {} being in the data"}
_TITLE = "Differential privacy guarantee"
_VOID = "VOID"
_INDENT = 12
_DELTAS = (1e-3, 1e-6, 1e-9)
PLANNED = "the guarantee of each part was fixed before the first part was released"
# Every conversion has fewer than ten roundings of half this size.
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class Guarantee(Statement):
    """A statement of differential privacy about one release, or about several together.

    Parameters
    ----------
    epsilon : float in [0, inf)
        Logarithm of the greatest factor by which a release may change the odds between neighbouring
        data sets.
    delta : float in [0, 1]
        Probability that this bound fails.
    neighbors : {"replace_one", "add_remove"}
        Neighbouring data sets. "replace_one": one record is replaced by another, and the number
        of records is public. "add_remove": one record is added or removed, and the number of
        records is private.
    mechanism : str
        Name of the noise or mechanism.
    assumptions : tuple of str
        Conditions under which the statement holds.
    void_because : tuple of str
        Reasons why the statement is void for this release; empty if it is valid.
    losses : tuple of pairs (loss, count)
        Laws of privacy losses (see `skdp.trusted.losses`), each with a number of releases. Their
        composition is a second upper bound on the privacy loss of this release, besides epsilon and
        delta. Conversions use both bounds.
    unit : {"row", "person"}
        What a record is: one row, or all rows of one person.

    Examples
    --------
    >>> from skdp.privacy import Guarantee
    >>> guarantee = Guarantee(epsilon=1.0, delta=1e-6, mechanism="gaussian")
    >>> guarantee.holds
    True
    >>> guarantee.delta_at(1.0)
    1e-06
    >>> round(guarantee.epsilon_at(0.1), 4)
    0.8529
    >>> print(Guarantee(epsilon=0.5, mechanism="laplace", assumptions=("Bounds are public.",)))
    Differential privacy guarantee
    ------------------------------
    epsilon     0.5
    delta       0.0
    neighbours  any one record replaced by any other; the number of records is
                public
    mechanism   laplace
    assumes     - Bounds are public.
    means       To somebody who knows every other record, the release changes the
                odds between any two values of this record by a factor of at most
                e^epsilon = 1.65.
                Any test between the two cases has rates of false alarms and of
                misses that add up to at least 0.755; blind guessing gives 1.
    also        Gaussian DP with mu = 0.624: no easier to tell than two normal
                laws of variance 1 whose means differ by 0.624.
                Zero-concentrated DP (zCDP) with rho = 0.123.
    """

    @property
    def mu(self) -> float:
        """Least known mu such that the release is mu-Gaussian-DP; inf if none is known."""
        return math.sqrt(self._equivalents.square) * (1 + _ROUNDING)

    @property
    def rho(self) -> float:
        """Least known rho such that the release is rho-zCDP; inf if none is known."""
        return self._equivalents.rho

    def delta_at(self, epsilon: float) -> float:
        """Return the least known delta at another epsilon, rounded up.

        Parameters
        ----------
        epsilon : float in [0, inf]

        Returns
        -------
        float in [0, 1]
            The lesser of two bounds. The first is
            ``delta + (1-delta) (e^self.epsilon - e^epsilon) / (1 + e^self.epsilon)`` if
            ``epsilon < self.epsilon``, and ``delta`` otherwise. The second follows from the losses.
        """
        epsilon = check_interval("epsilon", epsilon, 0, math.inf)
        delta = self._delta_of_pair(epsilon)
        if not self.losses or delta == 0 or math.isinf(epsilon):
            return delta
        return min(delta, composed_delta(self.losses, epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the least known epsilon at another delta, rounded up.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        float in [0, inf]
            The inverse of `delta_at`. It is inf if no epsilon is known, for example if
            ``delta < self.delta`` and there are no losses.
        """
        delta, epsilon = check_interval("delta", delta, 0, 1), math.inf
        if delta >= self._delta_of_pair(0.0):
            epsilon = 0.0
        elif delta >= self.delta:
            ends = 0.0, self.epsilon
            epsilon = narrowed(lambda e: self._delta_of_pair(e) <= delta, *ends, _ROUNDING)[1]
        if not self.losses or epsilon == 0:
            return epsilon
        if delta == 0:
            equal = self._equivalents
            return min(epsilon, equal.pure) if equal.gaussian == 0 else epsilon
        return min(epsilon, _profile.composed_epsilon(self.losses, delta))

    def group(self, k: int, unit: str | None = None) -> Guarantee:
        """Return the guarantee for any k records together.

        Parameters
        ----------
        k : int >= 1
        unit : {"row", "person"}, default=None
            The unit of the new guarantee; None keeps it. Under "add_remove",
            ``group(k, unit="person")`` of a guarantee for rows protects persons with at most k rows
            each. Under "replace_one" the number of rows is public, so a change of the number of
            rows of a person is not covered.

        Returns
        -------
        Guarantee
            Epsilon is multiplied by k, and delta by at most
            ``(e^(k epsilon) - 1) / (e^epsilon - 1)`` (Vadhan 2017, Lemma 2.2). The result has no
            losses.

        Raises
        ------
        ValueError
            If an argument is out of range or the unit cannot be converted.

        Examples
        --------
        >>> Guarantee(0.1, neighbors="add_remove").group(20, unit="person").epsilon
        2.0
        """
        k = check_count("k", k)
        unit = check_choice("unit", self.unit if unit is None else unit, UNITS)
        if unit != self.unit and (unit == "row" or self.neighbors == "replace_one"):
            rule = f"be {self.unit!r} for this guarantee under neighbors={self.neighbors!r}"
            remedy = "A guarantee for rows under 'add_remove' can become one for persons."
            raise fail("unit", rule, unit, remedy)
        if k == 1 and unit == self.unit:
            return self
        # 1 + e^epsilon + ... + e^((k - 1) epsilon), rounded up; inf if it overflows.
        powers = math.inf if k * self.epsilon > 700 else float(k)
        if powers < math.inf and self.epsilon > 0:
            powers = math.expm1(k * self.epsilon) / math.expm1(self.epsilon) * (1 + _ROUNDING)
        most = f"at most {k} {self.unit}s differ between neighbouring data sets"
        return replace(
            self,
            epsilon=float_above(add_multiples([(self.epsilon, k)])),
            delta=min(1.0, self.delta * powers) if self.delta else 0.0,
            assumptions=(*self.assumptions, most),
            losses=(),
            unit=unit,
        )

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64] | np.float64:
        """Return a lower bound on the type II error of tests between neighbouring data sets.

        Parameters
        ----------
        alpha : float or array of any shape, entries in [0, 1]
            Type I error of the test.

        Returns
        -------
        float or array of the same shape, entries in [0, 1]
            ``max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))``, or the bound
            from the losses if it is greater, rounded down.
        """
        alpha = check_numbers("alpha", alpha)
        if not np.all((alpha >= 0) & (alpha <= 1)):
            raise fail("alpha", "lie in [0, 1]")
        least = tested(self.epsilon, self.delta, alpha)
        if self.losses:
            least = np.maximum(least, _profile.tradeoff(self.losses, alpha))
        return least[()]

    def __str__(self) -> str:
        lines = [_TITLE, "-" * len(_TITLE)]
        for head, _, text in _rows(self):
            later = " " * (_INDENT + (2 if text.startswith("- ") else 0))
            lines += textwrap.wrap(
                text, 78, initial_indent=head.ljust(_INDENT), subsequent_indent=later
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as a dict of strings, numbers, lists and None.

        The privacy losses are omitted, because most of them are functions. `from_dict` returns a
        guarantee with the same epsilon and delta, whose conversions to other epsilons and deltas
        are valid but may be greater.

        Returns
        -------
        dict
            All parameters except ``losses``. ``equivalents`` contains ``mu`` and ``rho``, or None
            if they are not known or the guarantee is void.

        Examples
        --------
        >>> from skdp import Guarantee
        >>> for key, value in Guarantee(0.5, mechanism="laplace").to_dict().items():
        ...     print(key, "-", value)
        kind - Guarantee
        version - 1
        epsilon - 0.5
        delta - 0.0
        neighbors - replace_one
        mechanism - laplace
        assumptions - []
        void_because - []
        unit - row
        equivalents - {'mu': 0.6238..., 'rho': 0.1224...}
        """
        whole = {name: getattr(self, name) for name in _hints()}
        whole["equivalents"] = {
            name: float(value) if self.holds and value < math.inf else None
            for name, value in (("mu", self.mu), ("rho", self.rho))
        }
        return {"kind": "Guarantee", "version": VERSION, **encode("the guarantee", whole)}

    def to_dp_event(self) -> Any:
        """Return the event for an accountant of dp-accounting, an optional package.

        The event states the loss for the neighbours of this guarantee. Pass it to an accountant
        with the relation ``ADD_OR_REMOVE_ONE``, the default, even if ``neighbors`` is
        "replace_one": other accountants would count the replacement twice.

        Returns
        -------
        dp_accounting.DpEvent
            Exact for losses of Gaussian and Laplace noise, and for epsilon alone (a discrete
            Laplace event). Conservative for other bounded losses: the Gaussian event of the least
            mu that is known to dominate, or the discrete Laplace event of the bound. A loss without
            such a bound, or a delta without losses, is an ``UnsupportedDpEvent``, which an
            accountant refuses. A void guarantee is a ``NonPrivateDpEvent``.

        Raises
        ------
        ImportError
            If dp-accounting is not installed.
        """
        if not self.holds:
            return _profile.dp_event(math.inf, 1.0, ())
        return _profile.dp_event(self.epsilon, self.delta, self.losses)

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> Guarantee:
        """Return the guarantee of a dict, without privacy losses.

        Parameters
        ----------
        content : dict
            A result of `to_dict`. Its ``equivalents`` are not used.

        Raises
        ------
        ValueError
            If an entry is unknown, missing, of another type or out of range.
        """
        hints = _hints() | {"equivalents": {"mu": float | None, "rho": float | None}}
        parameters = document("the guarantee", hints, content, ("Guarantee",))
        del parameters["equivalents"]
        return cls(**parameters)

    def to_html(self) -> str:
        """Return the card as HTML: one element with inline styles, for any page."""
        # A style sheet would also change other content of the page, such as a diagram of a
        # pipeline. Text has the colour of the page, so it is readable on dark pages.
        edge = "#2f7d4f" if self.holds else "#c62828"
        parts = [
            f'<div class="skdp-guarantee" style="border:1px solid {edge};border-left:5px solid'
            f" {edge};border-radius:4px;max-width:46em;margin:0.5em 0;padding:0.6em 1em;"
            "display:grid;grid-template-columns:6.5em 1fr;gap:0.15em 0.8em;text-align:left;"
            'line-height:1.4"><div style="grid-column:1 / -1;font-weight:bold;'
            f'margin-bottom:0.2em">{_TITLE}</div>'
        ]
        for head, label, text in _rows(self):
            style = "font-weight:bold" if label == _VOID else "margin:0"
            parts.append(f'<div style="opacity:0.75">{html.escape(head)}</div>')
            parts.append(f'<div style="{style}">{html.escape(text)}</div>')
        return f"{''.join(parts)}</div>"

    _repr_html_ = to_html

    @property
    def _equivalents(self) -> _profile.Equivalents:
        return _profile.equivalents(self.epsilon, self.delta, self.losses)

    def _delta_of_pair(self, epsilon: float) -> float:
        excess = epsilon - self.epsilon
        if excess >= 0:
            return self.delta
        # Both exponentials are divided by e^self.epsilon, so none overflows.
        distinguished = -math.expm1(excess) / (1 + math.exp(-self.epsilon))
        delta = self.delta + (1 - self.delta) * distinguished
        return min(1.0, math.nextafter(delta * (1 + _ROUNDING), math.inf))


def _hints() -> dict[str, object]:
    return {name: hint for name, hint in hints_of(Guarantee).items() if name != "losses"}


def guarantee_of(releases: Sequence[Release], public: Public, mechanism: str = "") -> Guarantee:
    """Return the guarantee of releases together, which `skdp.trusted.certify` proves.

    No other function makes a `Guarantee` of releases. Those that it made are combined by `compose`.

    Parameters
    ----------
    releases : sequence of Release
    public : Public
    mechanism : str, default=""
        As in `skdp.trusted.certify`.

    Raises
    ------
    NotPrivate
        With the inequality that fails, and by how much.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> from skdp.privacy import guarantee_of
    >>> from skdp.trusted import NoisySum, Public
    >>> sums = Sensitivity(LpBall(3, p=1))
    >>> release = NoisySum("sums", sums, calibrate("l1", sums, epsilon=0.5))
    >>> round(guarantee_of([release, release], Public(epsilon=1.0)).epsilon_at(0.1), 3)
    0.598
    """
    return as_guarantee(certify(releases, public, mechanism))


def as_guarantee(statement: Statement) -> Guarantee:
    return statement if isinstance(statement, Guarantee) else Guarantee(**vars(statement))


def certified(
    noise: Made, change: Any, epsilon: float, delta: float = 0.0, mechanism: str = ""
) -> Made:
    """Return noise with the guarantee of one release of a sum whose changes are ``change``."""
    public = Public(float(epsilon), float(delta), change.neighbors)
    stated = guarantee_of([NoisySum("noise", change, noise)], public, mechanism)
    return replace(noise, guarantee=stated)  # type: ignore[type-var]


def compose(*guarantees: Guarantee, delta: float | None = None) -> Guarantee:
    """Return the guarantee of several releases together.

    By default this is basic composition: epsilons and deltas add (Dwork, McSherry, Nissim & Smith
    2006). If ``delta`` is given, or if parts have losses and a delta, epsilon is the lesser of that
    of basic composition and that of the exact composition of the losses.

    Basic composition is always valid. The exact one is valid only if the guarantees of all parts
    were fixed before the first release; otherwise use a `Ledger`.

    Parameters
    ----------
    *guarantees : Guarantee
        At least one, all with the same neighbouring relation and unit. A guarantee without losses
        counts as the worst release with its epsilon and delta.
    delta : float in [0, 1), optional
        The delta of the result. By default it is the sum of the deltas.

    Returns
    -------
    Guarantee
        Sums are exact sums of shortest decimals, rounded up, as in a `Ledger`: under basic
        composition the result fits a ledger if and only if its parts do. The assumptions, and the
        reasons for being void, of all parts are merged. If a part has losses or ``delta`` is given,
        the result has losses, and assumes that all guarantees were fixed in advance.

    Raises
    ------
    ValueError
        If there is no guarantee, if they differ in relation or unit, or if no epsilon is known at
        ``delta``.

    Examples
    --------
    >>> from skdp.privacy import Guarantee, compose
    >>> from skdp.privacy import GaussianLoss
    >>> both = compose(Guarantee(0.1, mechanism="laplace"), Guarantee(0.2, 1e-9))
    >>> both.epsilon, both.delta
    (0.3, 1e-09)
    >>> step = Guarantee(0.04, 1e-6, losses=((GaussianLoss(0.01), 1),))
    >>> round(compose(*[step] * 10_000, delta=1e-6).epsilon, 5)
    4.88655
    """
    if not guarantees or not all(isinstance(part, Guarantee) for part in guarantees):
        kinds = [type(part).__name__ for part in guarantees]
        raise fail("guarantees", "be one or more Guarantee objects", kinds)
    relations, units = {p.neighbors for p in guarantees}, {p.unit for p in guarantees}
    if len(relations) > 1:
        rule = "share one neighbouring relation"
        remedy = "Release everything under the same `neighbors`, or state the parts separately."
        raise fail("guarantees", rule, sorted(relations), remedy)
    if len(units) > 1:
        remedy = "Convert those for rows: guarantee.group(k, unit='person') for at most k rows."
        raise fail("guarantees", "share one unit", sorted(units), remedy)
    if len(guarantees) == 1 and delta is None:
        return guarantees[0]
    if delta is not None:
        delta = check_interval("delta", delta, 0, 1, closed="left")
    has_losses = delta is not None or any(part.losses for part in guarantees)
    losses = (_profile.joint(guarantees) or ()) if has_losses else ()
    assumptions = [sentence for part in guarantees for sentence in part.assumptions]
    if losses and guarantees[1:]:
        assumptions.append(PLANNED)
    epsilon = float_above(add(part.epsilon for part in guarantees))
    total = min(1.0, float_above(add(part.delta for part in guarantees)))
    if delta is not None or (losses and 0 < total < 1):
        delta = total if delta is None else delta
        epsilon = _least_epsilon(epsilon, total, losses, delta)
    names = Counter(part.mechanism for part in guarantees if part.mechanism)
    return replace(
        guarantees[0],
        epsilon=epsilon,
        delta=total if delta is None else delta,
        mechanism=" + ".join(name if n == 1 else f"{n} x {name}" for name, n in names.items()),
        assumptions=tuple(dict.fromkeys(assumptions)),
        void_because=tuple(dict.fromkeys(why for part in guarantees for why in part.void_because)),
        losses=losses,
    )


def _least_epsilon(epsilon: float, total: float, losses: Losses, delta: float) -> float:
    """Return the least epsilon known at delta; basic composition has ``epsilon`` and ``total``."""
    least = epsilon if as_decimal(total) <= as_decimal(delta) else math.inf
    if losses and delta > 0:
        least = min(least, _profile.composed_epsilon(losses, delta))
    if math.isinf(least):
        remedy = f"The deltas of the parts add up to {total!r}."
        raise fail("delta", "be large enough for some epsilon to be known", delta, remedy)
    return least


# The card


def _rows(guarantee: Guarantee) -> Iterator[tuple[str, str, str]]:
    """Yield heads, labels and sentences; a head is the label where it comes first, then empty."""
    holds, is_row = guarantee.holds, guarantee.unit == "row"
    rows = {
        _VOID: [f"THIS GUARANTEE DOES NOT HOLD: {why}" for why in guarantee.void_because],
        "epsilon": [repr(guarantee.epsilon)],
        "delta": [repr(guarantee.delta)],
        "profile": _profile_row(guarantee) if holds else (),
        "neighbours": [(NEIGHBORS if is_row else _PERSONS)[guarantee.neighbors]],
        "mechanism": [guarantee.mechanism or "not stated"],
        "assumes": [f"- {sentence}" for sentence in guarantee.assumptions],
        "means": _meaning(guarantee) if holds else (),
        "also": _equivalent_rows(guarantee) if holds else (),
    }
    for label, sentences in rows.items():
        for k, sentence in enumerate(sentences):
            yield "" if k else label, label, sentence


def _profile_row(guarantee: Guarantee) -> Iterable[str]:
    pairs = ((guarantee.epsilon_at(delta), delta) for delta in _DELTAS if guarantee.losses)
    shown = [f"{_near(epsilon)} at {delta:g}" for epsilon, delta in pairs if epsilon < math.inf]
    if shown:
        yield f"epsilon {', '.join(shown)}"


def _meaning(guarantee: Guarantee) -> tuple[str, str]:
    """Return the meaning of the numbers, which is exact for the dominating pair."""
    factor, epsilon = "e^epsilon", guarantee.epsilon
    if epsilon <= 700:  # e^709.8 is the greatest float
        factor += f" = {_digits(at_least_tiny(math.exp(epsilon), epsilon))}"
    record, is_row = UNITS[guarantee.unit], guarantee.unit == "row"
    one = "this record" if is_row else "the rows of this person"
    odds = f"the odds {_ODDS[guarantee.neighbors].format(one)} by a factor of at most {factor}"
    claim = (
        f"the release changes {odds}"
        if guarantee.delta == 0
        else f"the release tells no more than one that reveals {one} with "
        f"probability delta and otherwise changes {odds}"
    )
    errors = _digits(1 - guarantee.delta_at(0.0), decimal.ROUND_FLOOR)
    return (
        f"To somebody who knows every other {record}, {claim}.",
        "Any test between the two cases has rates of false alarms and of misses that "
        f"add up to at least {errors}; blind guessing gives 1.",
    )


def _equivalent_rows(guarantee: Guarantee) -> Iterable[str]:
    mu, rho = guarantee.mu, guarantee.rho
    if mu < math.inf:
        shown = _near(mu)
        yield (
            f"Gaussian DP with mu = {shown}: no easier to tell than two normal laws of "
            f"variance 1 whose means differ by {shown}."
        )
    if rho < math.inf:
        yield f"Zero-concentrated DP (zCDP) with rho = {_near(rho)}."


def _near(value: float) -> str:
    # The value was already rounded up by 1e-12; this avoids a second rise by a hundredth.
    return _digits(value * (1 - 1e-11))


def _digits(value: float, rounding: str = decimal.ROUND_CEILING) -> str:
    context = decimal.Context(prec=3, rounding=rounding)
    return f"{float(context.create_decimal_from_float(value)):g}"


# Warnings about what was not declared


class PrivacyLeakWarning(UserWarning):
    """Warning about values from the private data that no guarantee covers.

    They are undeclared labels, what steps of a pipeline learned before the model, and choices of
    searches by scores.

    Examples
    --------
    Labels that are not declared are read from ``y``. To turn the warning into an error:

    >>> import warnings
    >>> from skdp import Domain, DPLogisticRegression, PrivacyLeakWarning
    >>> model = DPLogisticRegression(domain=Domain({"age": (17, 90)}))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PrivacyLeakWarning)
    ...     model.fit([[25], [60]], ["no", "yes"])
    Traceback (most recent call last):
        ...
    skdp.privacy.guarantee.PrivacyLeakWarning: The labels were read from y, ...
    """


class UndeclaredDomainWarning(UserWarning):
    """Warning about a fit without a domain, which clips all cells to [-1, 1].

    It does not depend on the data: whether a cell lies outside of [-1, 1] is private. For those
    who may see the table, `Domain.check` counts the cells outside a domain.

    Examples
    --------
    If all columns are in [-1, 1], declare it. Then there is no warning:

    >>> import warnings
    >>> from skdp import Domain, DPHuberRegressor, UndeclaredDomainWarning
    >>> model = DPHuberRegressor(domain=Domain.unit_box(1, target=(-1, 1)))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UndeclaredDomainWarning)
    ...     _ = model.fit([[0.5], [-0.5]], [1.0, -1.0])
    """
