"""A strong attacker: features of fits to two tables, and the best guess between the tables.

A quarter of the fits to each table are used to learn which features, thresholds and values
distinguish the tables. The attacker then guesses the table of each other fit. For independent
releases and equally likely tables a guess is right with a mean probability of at most
(1 + delta(0)) / 2, where delta(0) is the total variation that the guarantee allows. The number of
right guesses exceeds each k above its mean at most as often as a binomial variable (Hoeffding
1956, Theorem 4). Events that are rare under both tables are compared with e^epsilon and delta by
Clopper-Pearson limits. Few guesses are tried, and the false-alarm rate is divided by their number.

Features are all content of a fitted model as numbers: values, last bits, layouts, texts and its
pickle.
"""

from __future__ import annotations

import dataclasses
import pickle
import re
import types
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from skdp.testing.audit import ratio_bound
from skdp.testing.mechanism import NO_BIT, last_bits

# Greatest depth of nesting, and number of items of a list, that are read.
DEEPEST, MOST_ITEMS = 8, 64
# Number of entries of an array that are separate features, besides statistics of all entries.
MOST_ENTRIES = 128
# Number of blocks in which differences of entries are averaged, and bound on a difference.
BLOCKS, _MOST_GAP = 64, 64.0
# Values that replace NaN and infinity.
NAN, INFINITE = -1e300, 1e300
_SKIPPED = (types.ModuleType, types.FunctionType, types.MethodType, np.random.Generator, type)


def features(model: Any) -> dict[str, float]:
    """Return the features of a fitted model by name: attributes, texts and its pickle.

    Parameters are left out, because a fit does not write them.
    """
    found: dict[str, float] = {}
    given = set(model.get_params(deep=False))
    for name, value in sorted(vars(model).items()):
        if name.startswith("_"):
            found.update(_of_pickle(name, pickle.dumps(value)))
        elif name not in given:
            found.update(_of_leaves(_walk(name, value, set(), DEEPEST, private=False)))
    found.update(_of_leaves(texts(model)))
    return found | {"bytes of the pickle": float(len(pickle.dumps(model)))}


def _of_leaves(leaves: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, float]]:
    return chain.from_iterable(_of_leaf(name, leaf) for name, leaf in leaves)


@lru_cache(maxsize=64)  # most private attributes are the same in each fit
def _of_pickle(name: str, content: bytes) -> tuple[tuple[str, float], ...]:
    value = pickle.loads(content)
    return tuple(_of_leaves(_walk(name, value, set(), DEEPEST, private=True)))


def structure(model: Any) -> dict[str, str]:
    """Return types, shapes and layouts of everything in a model, released values included."""
    found = dict(texts(model))
    for name, leaf in _walk("", model, set(), DEEPEST, private=True):
        is_layout = isinstance(leaf, str) and name.endswith(":layout")
        found[name] = leaf if is_layout else type(leaf).__name__
    return found


def texts(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts of a model and of its guarantee."""
    yield "repr", repr(model)
    yield from _texts_of(pickle.dumps(getattr(model, "guarantee_", None)))


@lru_cache(maxsize=64)  # composing losses for a card takes longer than a fit
def _texts_of(content: bytes) -> tuple[tuple[str, str], ...]:
    guarantee = pickle.loads(content)
    html = getattr(guarantee, "_repr_html_", None)
    card, page = str(guarantee), "" if html is None else str(html())
    return ("card of the guarantee", card), ("html of the guarantee", page)


def _walk(
    path: str, value: Any, above: set[int], depth: int, private: bool
) -> Iterator[tuple[str, Any]]:
    if depth == 0 or id(value) in above or isinstance(value, _SKIPPED):
        return
    if isinstance(value, str | bytes | bool | int | float | complex | np.generic | None):
        yield path, value
        return
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubcMmSU":
        yield from ((path, value), (f"{path}:layout", _layout(value)))
        return
    above = above | {id(value)}
    for name, item in _inside(value, private):
        yield from _walk(f"{path}{name}", item, above, depth - 1, private)


def _inside(value: Any, private: bool) -> Iterator[tuple[str, Any]]:
    """Yield the content of an object, by names that do not depend on the order of insertion."""
    if isinstance(value, np.ndarray):  # of objects
        yield ":layout", _layout(value)
        value = value.ravel().tolist()
    if isinstance(value, dict):
        yield ":size", len(value)
        yield from ((f"[{key!r}]", value[key]) for key in sorted(value, key=repr))
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
        yield ":size", len(items)
        yield from ((f"[{k}]", item) for k, item in enumerate(items[:MOST_ITEMS]))
    elif hasattr(value, "__dict__"):
        held = sorted(vars(value).items())
        yield from ((f".{name}", v) for name, v in held if private or not name.startswith("_"))


def _layout(value: NDArray[Any]) -> str:
    """Return the memory layout of an array."""
    flags = value.flags
    told = (flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned, flags.owndata)
    return f"{type(value).__name__} {value.dtype} {value.shape} {value.strides} {told}"


def _of_leaf(name: str, leaf: Any) -> Iterator[tuple[str, float]]:
    """Yield features of one leaf."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub":
        yield from _of_array(name, np.asarray(leaf, dtype=float).ravel())
    elif isinstance(leaf, bool | int | float | np.number | np.bool_) and not np.iscomplexobj(leaf):
        yield f"{name}:type", float(zlib.crc32(type(leaf).__name__.encode()))
        yield from _of_array(name, np.array([float(leaf)]))
    else:
        text = leaf.tobytes() if isinstance(leaf, np.ndarray) else repr(leaf).encode()
        yield f"{name}:text", float(zlib.crc32(text))
        yield f"{name}:length", float(len(text))


def _of_array(name: str, values: NDArray[np.float64]) -> Iterator[tuple[str, float]]:
    if not values.size:
        return
    bits = last_bits(values)
    # Finite numbers in place of NaN and infinity.
    plain = np.nan_to_num(values, nan=NAN, posinf=INFINITE, neginf=-INFINITE)
    for k in _chosen(values.size):
        yield f"{name}[{k}]", float(plain[k])
        yield f"{name}[{k}]:last bit", float(bits[k])
    yield f"{name}:bits of nan", float(zlib.crc32(values[np.isnan(values)].tobytes()))
    yield f"{name}:negative zeros", float(((values == 0) & np.signbit(values)).sum())
    if values.size > 1:
        yield from ((f"{name}:{k}", v) for k, v in _sums("last bit", bits).items())
        yield from ((f"{name}:{k}", v) for k, v in _sums("value", plain).items())


@lru_cache(maxsize=64)
def _chosen(size: int) -> tuple[int, ...]:
    """Return the places of at most MOST_ENTRIES entries of an array."""
    return tuple(np.unique(np.linspace(0, size - 1, MOST_ENTRIES).astype(int)).tolist())


def _sums(what: str, values: NDArray[np.float64]) -> dict[str, float]:
    with np.errstate(over="ignore"):
        found = {"mean": values.mean(), "least": values.min(), "greatest": values.max()}
    return {f"{name} {what}": float(value) for name, value in found.items()}


def of_differences(outputs: ArrayLike, candidates: list[Any]) -> dict[str, float]:
    """Return the last bits of the exact differences between outputs and each candidate.

    The candidates are the values of the tables without noise. The difference from the true one is
    the noise, and a grid of the noise is visible in its last bits.
    """
    seen = _exactly(outputs)
    rests: list[NDArray[np.float64]] = []
    found: dict[str, float] = {}
    for k, candidate in enumerate(candidates):
        pairs = zip(seen, _exactly(candidate), strict=True)
        bits = np.array([_last_bit(a - b) for a, b in pairs])
        rests.append(bits)
        found |= {
            f"outputs less table {k}[{j}]:last bit": float(bits[j]) for j in _chosen(len(bits))
        }
        found |= {f"outputs less table {k}:{n}": v for n, v in _sums("last bit", bits).items()}
    gap = np.clip(rests[0] - rests[1], -_MOST_GAP, _MOST_GAP)
    found |= {f"outputs less tables:{n}": v for n, v in _sums("gap", gap).items()}
    # Entries of one kind are adjacent: squares of columns, for instance, have their own grid.
    parts = enumerate(np.array_split(gap, BLOCKS))
    return found | {f"outputs less tables[{k}]:gap": float(p.mean()) for k, p in parts if p.size}


def _exactly(values: ArrayLike) -> list[int | Fraction]:
    """Return integers as they are and other numbers as fractions, which are slower."""
    flat = np.ravel(np.asarray(values, dtype=object)).tolist()
    return [v if isinstance(v, int) else Fraction(v) for v in flat]


def _last_bit(value: int | Fraction) -> float:
    """Return k such that 2^k is the last nonzero bit of a dyadic fraction."""
    if not value:
        return NO_BIT
    top = value.numerator
    return float((top & -top).bit_length() - value.denominator.bit_length())


def public_picture(model: Any, released: Collection[str]) -> dict[str, Any]:
    """Return the content of the public fitted attributes of a model, without the released ones."""
    names = [k for k in vars(model) if k.endswith("_") and not k.startswith("_")]
    return {name: picture(getattr(model, name)) for name in sorted(names) if name not in released}


def picture(value: Any) -> Any:
    """Return the content of an object: arrays with shape and type, objects with their fields."""
    if isinstance(value, np.ndarray):
        return ("array", value.shape, str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return tuple((repr(k), picture(value[k])) for k in sorted(value, key=repr))
    if isinstance(value, list | tuple):
        return tuple(picture(item) for item in value)
    parameters = getattr(value, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and not isinstance(value, type):
        # Only fields: all else are caches, which may be filled or empty. An estimator is not
        # frozen, and holds what it was fitted to.
        inside = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return (type(value).__name__, picture(inside))
    if callable(value) or not hasattr(value, "__dict__"):
        try:
            return value if value == value else repr(value)
        except Exception:  # it has no truth value to compare by
            return repr(value)
    return (type(value).__name__, picture(vars(value)))


Array = NDArray[np.float64]
Features = dict[str, float]
# One fit in LEARNT is used for learning.
LEARNT = 4
# False-alarm rate of one attack.
ALARM = 1e-6
# Number of single features, of rare events and of sums that are tried.
SINGLE, RARE, SUMS = 6, 2, 8
_THRESHOLDS, _VALUES = 24, 6
# A sum has at least FEW features, and none of a greater absolute value than _UNUSUAL.
FEW, _UNUSUAL = 6, 1e100
# Value of a feature that a fit does not have.
_ABSENT = -2e300


@dataclass(frozen=True)
class Finding:
    """A feature that distinguishes tables better than the guarantee allows."""

    feature: str
    right: int
    of: int
    allowed: int

    def __str__(self) -> str:
        return (
            f"{self.feature} shows which of two neighbours was fitted in {self.right} of"
            f" {self.of} fits, and {self.allowed} are possible by chance"
        )


def attack(
    first: Sequence[Features], second: Sequence[Features], claim: Any, alarm: float = ALARM
) -> Finding | None:
    """Return a feature that violates the claimed guarantee, or None.

    The features are those of independent fits to two neighbouring tables. ``alarm`` is the
    probability of a finding if the guarantee holds.
    """
    names = sorted({name for fit in (*first, *second) for name in fit})
    tables = [
        np.array([[fit.get(n, _ABSENT) for n in names] for fit in t]) for t in (first, second)
    ]
    both = np.vstack(tables)
    moves = (both != both[0]).any(axis=0)
    names = [name for name, moved in zip(names, moves, strict=True) if moved]
    tables = [table[:, moves] for table in tables]
    if not names:
        return None
    learnt, seen = (
        [t[::LEARNT] for t in tables],
        [np.delete(t, np.s_[::LEARNT], axis=0) for t in tables],
    )
    tried = list(_guesses(names, learnt))
    alarm /= len(tried)
    share = (1 + claim.delta_at(0.0)) / 2
    for feature, weights, event in tried:
        x, y = (event.holds(table @ weights) for table in seen)
        right, of = int(x.sum() + (~y).sum()), len(x) + len(y)
        allowed = max(int(binom.isf(alarm / 2, of, share)), int(np.ceil(of * share)))
        # The event, or its complement, is more likely under one table than allowed.
        bound = max(ratio_bound(*p, claim.delta, alarm / 4) for p in ((x, y), (~y, ~x)))
        if right > allowed or bound > claim.epsilon:
            return Finding(feature, right, of, min(allowed, right))
    return None


@dataclass(frozen=True)
class Event:
    """Event that a number is above a threshold, or equal to it, or the complement."""

    at: float
    equal: bool
    turned: bool

    def holds(self, values: Array) -> NDArray[np.bool_]:
        """Return for each value whether the event occurs."""
        inside = values == self.at if self.equal else values > self.at
        return np.asarray(inside != self.turned)


def _guesses(names: list[str], learnt: list[Array]) -> Iterator[tuple[str, Array, Event]]:
    """Yield names, weights of the features, and the event that indicates the first table."""
    x, y = learnt
    scored = [_best_events(x[:, k], y[:, k]) for k in range(len(names))]
    for kind, most in ((0, SINGLE), (1, RARE)):
        best = sorted(range(len(names)), key=lambda k: -scored[k][kind][0])[:most]
        for k in best:
            weights = np.zeros(len(names))
            weights[k] = 1.0
            yield names[k], weights, scored[k][kind][1]
    yield from _sums_of_many(names, x, y)


def _best_events(x: Array, y: Array) -> tuple[tuple[float, Event], tuple[float, Event]]:
    """Return the events with the greatest difference and the greatest ratio of frequencies."""
    levels, counts = np.unique(np.concatenate([x, y]), return_counts=True)
    steps = np.linspace(0, max(len(levels) - 2, 0), _THRESHOLDS)
    at, common = levels[np.unique(steps.astype(int))], levels[np.argsort(-counts)[:_VALUES]]
    places = np.concatenate([at, common])
    p, q = (
        np.concatenate([(v[:, None] > at).mean(axis=0), (v[:, None] == common).mean(axis=0)])
        for v in (x, y)
    )
    gap, spare = p - q, 0.5 / len(x)
    # The event may be missing under either table.
    ratio = np.maximum((p + spare) / (q + spare), (1 - q + spare) / (1 - p + spare))
    inverse = np.maximum((q + spare) / (p + spare), (1 - p + spare) / (1 - q + spare))
    found = []
    for score, turned in ((np.abs(gap), gap < 0), (np.maximum(ratio, inverse), inverse > ratio)):
        k = int(np.argmax(score))
        event = Event(float(places[k]), k >= len(at), bool(turned[k]))
        found.append((float(score[k]), event))
    return found[0], found[1]


def _sums_of_many(names: list[str], x: Array, y: Array) -> Iterator[tuple[str, Array, Event]]:
    """Yield weighted sums over features of one kind, which combine weak evidence."""
    groups: dict[str, list[int]] = {}
    usual = (np.abs(np.vstack([x, y])) < _UNUSUAL).all(axis=0)
    for k in np.flatnonzero(usual).tolist():
        groups.setdefault(re.sub(r"\[\d+\]|table \d", "[]", names[k]), []).append(k)
    wide = [name for name, members in groups.items() if len(members) >= FEW]
    for name in sorted(wide, key=lambda name: (not name.startswith("outputs"), name))[:SUMS]:
        own = groups[name]
        spread = np.sqrt((x[:, own].var(axis=0) + y[:, own].var(axis=0)) / 2)
        # Features with a small spread must not dominate.
        apart = (x[:, own].mean(axis=0) - y[:, own].mean(axis=0)) / (spread + spread.mean() / 4)
        weights = np.zeros(len(names))
        weights[own] = apart / (spread + spread.mean() / 4)
        middle = ((x @ weights).mean() + (y @ weights).mean()) / 2
        yield f"{name}, weighted,", weights, Event(float(middle), False, False)
