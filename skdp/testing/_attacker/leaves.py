"""All content of a fitted model as numbers: values, last bits, layouts, texts and its pickle."""

from __future__ import annotations

import pickle
import types
import zlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.testing.release import NO_BIT, last_bits

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
    plain = _plain(values)
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


def _plain(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with finite numbers in place of NaN and infinity."""
    return np.nan_to_num(values, nan=NAN, posinf=INFINITE, neginf=-INFINITE)


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
