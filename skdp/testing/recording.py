"""Replay: a fit is recorded, and repeated on a neighbouring table with the same published values.

Everything that leaves a fit must be a function of public facts and published values. So a second
fit, to a neighbouring table, which is given the published values of the first one, must show the
same: the same releases in their order, attributes, files, warnings and messages, bit for bit. The
exact statistics of both fits may differ, within the bodies that the releases state. The loss of the
published values follows from the laws of the noise, exactly, and adds up to at most epsilon.

Only the samplers are left for other tests. The idea of record and replay is that of Cebere et al.
(2026, arXiv 2602.17454).
"""

from __future__ import annotations

import copy
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fractions import Fraction
from io import StringIO
from itertools import starmap
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from sklearn.base import clone

from skdp.noise.independent import Releases, RepeatedNoise
from skdp.privacy import Guarantee
from skdp.testing._realised import (
    Interval,
    Published,
    differences,
    linear_term_at,
    loss_of,
    size_of_change,
    size_of_repeated,
    size_of_shift,
    text_of,
)
from skdp.trusted.certify import Listed, PrivateChoice, certify
from skdp.trusted.randomness import Recorder, discrete_laplace
from skdp.trusted.statement import NotPrivate, Public

# Covers the rounding of gauges, determinants and sums.
SLACK = 1e-6
# The same for the changes of sums, which are integers.
EXACT = 1e-10


# Returns a value to publish in the place of the one that was drawn, or None.
Choose = Callable[[Published], object]


class Tape(Recorder):
    """A generator that records what is published, or repeats what another one has recorded."""

    def __init__(
        self, seed: int, recorded: Tape | None = None, choose: Choose | None = None
    ) -> None:
        super().__init__(PCG64(seed))
        self.seed, self.recorded, self.choose = seed, recorded, choose
        self.entries: list[Published] = []
        self._grains: tuple[int | None, list[int]] = (None, [])
        self.wrong: list[str] = []

    def __repr__(self) -> str:
        return "Tape()"

    def __deepcopy__(self, memo: object = None) -> Tape:
        return self

    __copy__ = __deepcopy__

    def published(
        self, release: Any, exact: Any, draw: Callable[[Generator], Any], facts: dict[str, Any]
    ) -> Any:
        """Draw and store a value; return it, or the one that was recorded or chosen."""
        exact = copy.copy(exact)
        if facts.get("unit", 0) is None:
            exact, facts = [m * Fraction(2) ** e for m, e in exact], facts | {"unit": 0}
        self._start(len(self.entries), 0)
        drawn = Published(release, exact, draw(self), facts)
        value, before = drawn.value, len(self.entries)
        self._check_noise(drawn)
        if self.recorded is not None:
            if before >= len(self.recorded.entries):
                raise RuntimeError(f"{drawn.name} is published once more")
            value = self.recorded.entries[before].value
        elif self.choose is not None and (chosen := self.choose(drawn)) is not None:
            value = chosen
        self.entries.append(Published(release, exact, value, facts))
        self.restart()
        return copy.copy(value)

    def restart(self) -> int:
        """Continue with the stream that follows the last published value."""
        self._start(len(self.entries), 1)
        return len(self.entries)

    def _start(self, number: int, what: int) -> None:
        """Start the stream of a published value (0), the one before it (1), or another."""
        # What is drawn may depend on the data, as in a search: then the streams must meet again.
        self.bit_generator.state = PCG64(SeedSequence([self.seed, number, what])).state

    # The noise

    def _check_noise(self, drawn: Published) -> None:
        is_right = True
        if drawn.is_minimiser:
            is_right = self._is_perturbed(drawn)
        elif drawn.is_sum and hasattr(drawn.noise, "guarantee"):
            # The changes of a repeated noise are in units of the scale.
            is_right = isinstance(drawn.noise, RepeatedNoise) or drawn.facts["scale"] >= 1
            is_right = is_right and np.array_equal(self._expected(drawn), drawn.value)
        if not is_right:
            self.wrong.append(f"noise: {drawn.name} does not have the noise of its release")

    def _expected(self, drawn: Published) -> Any:
        """Return the exact statistic with a draw of the release's noise from the same stream."""
        facts, unit = drawn.facts, drawn.facts["unit"]
        if "ahead" in facts:  # noise of several passes was drawn at once
            stream, count, at, place, scale = facts["ahead"]
            if self._grains[0] != stream:
                draws = self._noise(drawn.noise, (stream, 1), (count, len(scale)))
                lattice = facts["lattice"].repeated(count)
                self._grains = stream, lattice.grains(unit, (scale * draws).ravel(), self)
            own = self._grains[1][at : at + len(scale)][place]
            return facts["lattice"].adder(unit)(place, drawn.exact, own)
        size = (len(drawn.exact),) if isinstance(drawn.noise, RepeatedNoise) else ()
        draws = facts["scale"] * self._noise(drawn.noise, (len(self.entries), 0), *size)
        pairs = [Fraction(own).as_integer_ratio() for own in drawn.exact]
        numbers, units = [m for m, _ in pairs], [unit + 1 - d.bit_length() for _, d in pairs]
        return facts["lattice"].release(numbers, np.array(units), draws, self)

    def _noise(self, noise: Any, stream: tuple[int, int], *size: Any) -> Any:
        """Return a draw of noise from a stream; two streams and two draws are not the same."""
        self._start(len(self.entries), 2)
        other = noise.rvs(self, *size)
        self._start(*stream)
        found = noise.rvs(self, *size)
        if len(np.unique([found, other])) < 2 * np.size(found):
            self.wrong.append(f"noise: draws of {type(noise).__name__} are the same")
        return found

    def _is_perturbed(self, drawn: Published) -> bool:
        """Return whether a point is the minimiser for a draw of V, with the output noise."""
        release, point = drawn.release, np.ravel(drawn.value)
        hidden = release.publication
        linear_term = self._noise(release.noise, (len(self.entries), 0))
        if release.n_classes > 1:
            by_class = linear_term.reshape(release.n_classes, -1)
            linear_term = (by_class - by_class.mean(axis=0)).ravel()
        output = discrete_laplace(hidden.scale, len(point), self)
        near = point - np.ldexp(output.astype(float), hidden.exponent)  # what the solver found
        found = drawn.exact.hessian(near)
        if found.core.shape != (1, len(point)):  # the matrix has parts only
            return True
        at = found.core[0]
        moved = (linear_term_at(drawn, near) - linear_term)[at]
        # The distance from the minimiser, to first order, in steps of the output noise.
        steps = np.ldexp(np.linalg.solve(found.matrix[0], moved), -hidden.exponent)
        return bool(np.abs(steps).sum() <= hidden.steps)


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee that the recorded fit states.
    losses : dict of str to (float, float)
        The realised privacy loss of each release: exact, or an interval that holds it.
    changes : dict of str to float
        The change of the exact statistic of each release, over the greatest one that it allows.
    cost : float
        What the lattices of the published numbers may add to the loss.
    n_published : int
        Number of published values.
    violations : tuple of str
        What contradicts the guarantee, in sentences.
    error : str
        The error of the recorded fit, if it raised one. Then the guarantee is not known.
    """

    epsilon: float
    delta: float
    losses: dict[str, Interval]
    changes: dict[str, float]
    cost: float
    n_published: int
    violations: tuple[str, ...]
    error: str = ""

    @property
    def loss(self) -> float:
        """Absolute value of the realised loss of all releases, or a bound on it."""
        low, high = map(math.fsum, zip(*self.losses.values(), (0.0, 0.0), strict=True))
        return max(high, -low)

    def check(self) -> Replay:
        """Raise AssertionError if there is a violation; return the result otherwise."""
        assert not self.violations, str(self)
        return self

    def __str__(self) -> str:
        parts = [
            f"  {name}: loss {max(abs(low), abs(high)):.6g}{'' if low == high else ' at most'},"
            f" change {self.changes.get(name, 0.0):.4g} of its bound"
            for name, (low, high) in self.losses.items()
        ]
        whole = f"loss {self.loss:.6g} of epsilon = {self.epsilon:g}, delta = {self.delta:g}"
        found = [f"  {sentence}" for sentence in self.violations] or ["  none"]
        return "\n".join(
            [f"{self.n_published} published values, {whole}", *parts, "violations:", *found]
        )


def replay(
    estimator: object,
    table: object,
    neighbour: object,
    *,
    seed: int = 0,
    choose: Choose | None = None,
) -> Replay:
    """Record a fit to a table, repeat it on a neighbouring one, and compare.

    Parameters
    ----------
    estimator : estimator or callable
        An estimator with ``random_state`` whose ``fit`` publishes by `skdp.mechanisms.release` or
        another function of this package, and sets ``guarantee_``. Or a function with this keyword
        that returns an object with a guarantee, such as ``partial(estimate_domain, epsilon=1.0)``
        or ``partial(model.infer, epsilon=1.0)``.
    table, neighbour : tuple or dict
        The arguments of ``fit``, or of the function, for two neighbouring data sets.
    seed : int
        Seed of the noise.
    choose : callable or None
        ``choose(entry)`` returns a value to publish instead of the one that was drawn, or None.
        The entry has ``release``, ``exact``, ``value`` and ``facts``. For a pure guarantee the loss
        of any value must be at most epsilon.

    Returns
    -------
    Replay
        Its ``check()`` raises AssertionError if there are violations.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> from skdp.testing import replay
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20, 2))
    >>> y = X[:, 0]
    >>> other = X.copy()
    >>> other[3] = [1.0, -1.0]
    >>> model = DPLinearRegression(domain=Domain.unit_box(2, target=(-1, 1)))
    >>> found = replay(model, (X, y), (other, y)).check()
    >>> found.violations, bool(found.loss <= 1.0)
    ((), True)
    """
    tape = Tape(seed, choose=choose)
    again = Tape(seed, recorded=tape)
    first, second = _shown(estimator, table, tape), _shown(estimator, neighbour, again)
    # Of a fitted model, an inference or an estimated domain.
    stated = (getattr(first.model, name, None) for name in ("guarantee_", "guarantee", "estimated"))
    guarantee = next((own for own in stated if isinstance(own, Guarantee)), None)
    wrong = [*dict.fromkeys([*tape.wrong, *again.wrong]), *_flow(first, second, tape, again)]
    both = zip(tape.entries, again.entries, strict=False)
    pairs = [(own, other) for own, other in both if own.name == other.name]
    relation = "replace_one" if guarantee is None else guarantee.neighbors
    steps = _steps(first.model)
    public = None
    if guarantee is not None:
        facts = guarantee.delta, guarantee.neighbors, guarantee.unit, bool(steps)
        public = Public(guarantee.epsilon, *facts)
    unproven = [] if public is None else _proof(first.model, tape, public)
    by_release: dict[int, list[tuple[Published, Published]]] = {}
    for pair in pairs:
        by_release.setdefault(id(pair[0].release), []).append(pair)
    changes: dict[str, float] = {}
    losses: dict[str, Interval] = {}
    claims: list[str] = []
    for same in by_release.values():
        name, ends = same[0][0].name, list(starmap(loss_of, same))
        for low, high in ends:
            before = losses.get(name, (0.0, 0.0))
            losses[name] = before[0] + low, before[1] + high
        size = _change(same, "add_remove" if steps else relation)
        changes[name] = max(changes.get(name, 0.0), size)
        if public is not None and not unproven:
            claims += _claims(same, ends, public, steps)
    wrong += unproven + [
        f"change: {name} changes by {size:.6g} of what its release allows"
        for name, size in changes.items()
        if not size <= steps.get(name, 1) * (1 + (SLACK if name == "objective" else EXACT))
    ]
    wrong += claims
    # Bounds on what the lattices add to the losses, under both tables.
    sums = [entry for entry in tape.entries if entry.is_sum]
    cost = math.fsum(2 * len(own.exact) / own.facts["lattice"].dither for own in sums)
    epsilon, delta = (math.inf, 0.0) if guarantee is None else (guarantee.epsilon, guarantee.delta)
    found = Replay(
        float(epsilon), float(delta), losses, changes, cost, len(tape.entries), (), first.error
    )
    if delta == 0 and not found.loss + cost <= epsilon * (1 + SLACK):
        wrong.append(f"loss: the realised loss is {found.loss:.9g}, and epsilon is {epsilon:.9g}")
    return Replay(**vars(found) | {"violations": tuple(wrong)})


@dataclass
class _Shown:
    model: object = None
    messages: list[str] = field(default_factory=list)  # warnings, printed text, the error
    text: str = ""
    error: str = ""


def _shown(estimator: Any, table: Any, tape: Tape) -> _Shown:
    shown, printed = _Shown(), StringIO()
    fit, model = estimator, None
    if hasattr(estimator, "fit"):
        model = clone(estimator) if hasattr(estimator, "get_params") else copy.deepcopy(estimator)
        model.random_state = tape
        if getattr(model, "ledger", None) is not None:
            model.ledger = None
        fit = model.fit
    given = {} if model is not None else {"random_state": tape}
    arguments, named = ((), table) if isinstance(table, dict) else (table, {})
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        try:
            shown.model = fit(*arguments, **named, **given)
            text = getattr(shown.model, "to_json", None)
            shown.text = "" if text is None else text()
        except Exception as error:
            lines: list[str] = []
            cause: BaseException | None = error
            while cause is not None:
                lines += [f"{type(cause).__name__}: {cause}", *getattr(cause, "__notes__", ())]
                cause = cause.__cause__ or cause.__context__
            shown.messages += [f"the error {line}" for line in lines]
            shown.error = "\n".join(lines)
    shown.messages += [f"the warning {own.category.__name__}: {own.message}" for own in caught]
    shown.messages.append(f"the printed text {printed.getvalue()!r}")
    return shown


def _releases_of(model: object) -> tuple[Listed, ...] | None:
    found = getattr(model, "releases_", getattr(model, "releases", None))
    return found if isinstance(found, tuple) else None


def _flow(first: _Shown, second: _Shown, tape: Tape, again: Tape) -> Iterator[str]:
    """Yield what is not the same in two fits that published the same values."""
    for one, other in ((first, second), (second, first)):
        yield from (
            f"flow: one fit only has {line}" for line in one.messages if line not in other.messages
        )
    if first.messages != second.messages and sorted(first.messages) == sorted(second.messages):
        yield "flow: messages have another order"
    names = [[entry.name for entry in own.entries] for own in (tape, again)]
    if names[0] != names[1]:
        unlike = [pair for pair in zip(*names, strict=False) if pair[0] != pair[1]]
        what = " and ".join(unlike[0]) if unlike else f"{len(names[0])} and {len(names[1])} values"
        yield f"flow: the published values are not those of the same releases ({what})"
    for entry, same in zip(tape.entries, again.entries, strict=False):
        found = [*differences("release", entry.release, same.release)]
        found += differences("facts", entry.facts, same.facts)
        if found:
            yield f"flow: {entry.name} is not published in the same way ({found[0]})"
            break
    yield from _certified(first.model, tape)
    for place in differences("model", first.model, second.model):
        yield f"flow: {place} is not the same"
    if first.text != second.text:
        yield "flow: the JSON text of the model is not the same"
    if text_of(first.model) != text_of(second.model):
        yield "flow: the repr of the model is not the same"


def _certified(model: object, tape: Tape) -> Iterator[str]:
    """Yield what was published beyond the releases that a model states."""
    releases = _releases_of(model)
    if releases is None:
        return
    stated = _by_name(releases)
    entries = {id(entry.release): entry for entry in tape.entries}.values()
    times = Counter(entry.name for entry in tape.entries)
    for name, own in _by_name(entries).items():
        pairs = zip([entry.release for entry in own], stated.get(name, ()), strict=False)
        if len(own) > len(stated.get(name, ())):
            yield f"flow: {name} is published, and no release of the model"
        elif any(any(differences("release", *pair)) for pair in pairs):
            yield f"flow: {name} is not published as the model's release states"
        if times[name] > (most := sum(map(_times, own))):
            yield f"flow: of {name} {times[name]} values are published, and {most} are stated"
    yield from (f"flow: {name} is stated and not published" for name in stated if name not in times)


def _by_name(named: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for own in named:
        found.setdefault(own.name, []).append(own)
    return found


def _steps(model: object) -> dict[str, int]:
    """Return the releases whose changes are those of one of the two steps of a replacement.

    The difference of a removal and an addition is at most twice as great.
    """
    fitted = getattr(model, "best_estimator_", model)
    fitted = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
    public = getattr(fitted, "public_", getattr(fitted, "public", None))
    in_two_steps, releases = getattr(public, "in_two_steps", False), _releases_of(fitted)
    return dict.fromkeys((own.name for own in releases or ()), 2) if in_two_steps else {}


def _proof(model: object, tape: Tape, public: Public) -> list[str]:
    """Return why what was published does not prove a guarantee."""
    releases = [*{id(entry.release): entry.release for entry in tape.entries}.values()]
    # Bounds on compositions depend a little on the order.
    order = [own.name for own in _releases_of(model) or ()]
    names = [getattr(release, "name", None) for release in releases]
    if {*names} <= {*order}:
        releases = sorted(releases, key=lambda own: order.index(own.name))
    # The fits of a search, to disjoint parts of the records, have releases of the same names.
    is_search = len(set(names)) < len(names) and sorted(map(str, names)) != sorted(order)
    if is_search or not all(hasattr(own, "spent") for own in releases):
        return []
    try:
        certify([*releases], public)
    except NotPrivate as error:
        return [f"proof: {error}"]
    return []


def _claims(
    pairs: list[tuple[Published, Published]],
    ends: list[Interval],
    public: Public,
    steps: dict[str, int],
) -> Iterator[str]:
    """Yield whether a release loses more, or changes more in all, than its theorem states."""
    release = pairs[0][0].release
    if not hasattr(release, "spent"):
        return
    spent, most = release.spent(public), steps.get(release.name, 1)
    low, high = map(math.fsum, zip(*ends, strict=True))
    if not max(high, -low) <= most * spent.epsilon * (1 + SLACK):
        lost = f"{max(high, -low):.9g}, and {most * spent.epsilon:.9g} is stated"
        yield f"loss: that of {release.name} is {lost}"
    size = size_of_shift(pairs, spent.losses)
    if not size <= most * (1 + SLACK):
        yield f"change: all of {release.name} together changes by {size:.6g} of what is stated"


def _times(entry: Published) -> float:
    """Return the greatest number of values that a release publishes."""
    release = entry.release
    if isinstance(release, PrivateChoice):
        return release.times
    if entry.is_minimiser:
        return int(release.models)
    if isinstance(getattr(release, "change", None), Releases) and "parts" in entry.facts:
        return int(release.change.count * entry.facts["parts"])
    return getattr(release, "columns", 1)


def _change(pairs: list[tuple[Published, Published]], relation: str) -> float:
    """Return the greatest change of a release over what it allows."""
    own = pairs[0][0]
    if isinstance(getattr(own.release, "change", None), Releases):
        moved = [one.change(other) for one, other in pairs]
        return size_of_repeated(own.release, moved, own.facts.get("parts"))
    return max(size_of_change(one, other, relation) for one, other in pairs)
