"""JSON text of the package's objects, and back.

A frozen dataclass is written as a dict of its ``kind`` and its fields. A file can only name the
types of a closed table, so that reading it runs no code but theirs. `decode` compares every entry
with a type hint: unknown, missing and repeated entries, and values of other types, are errors.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from skdp.trusted.arrays import Array
from skdp.trusted.checks import fail

VERSION = 1
# Types that a file may name, with their modules. A loss has the name of a law, and another kind.
TYPES = {
    name: module
    for module, names in {
        "skdp.domain.columns": "Indicators Levels Number",
        "skdp.domain.domain": "Domain",
        "skdp.domain.splines": "Interaction Spline SplineBlock",
        "skdp.linear_model._inference.estimate": "NoisyEquations",
        "skdp.linear_model.export": "Attributes Encoded InUnits",
        "skdp.linear_model.proof": "Claim",
        "skdp.noise": "FlippedHuber Gaussian Laplace Logistic OffsetGaussian Subbotin"
        " TruncatedLaplace",
        "skdp.privacy.guarantee": "Guarantee",
        "skdp.trusted.losses": "FiniteLoss GaussianLoss PairLoss SelectionLoss",
        "skdp.privacy.shift": "ShiftLoss",
        "skdp.trusted.radial": "RadialLoss",
        "skdp.geometry": "EncodedRowsBall LpBall MappedBall ProductBall ScaledBall ShearedBall"
        " SimplexBall SumBall",
        "skdp.geometry.moments": "MomentBall MomentLayout NumbersBall RadialMomentBall SquaresBall",
        "skdp.linear_model._moments.theorem": "FirstChange",
        "skdp.linear_model._objective.theorem": "NoisyMinimiser Perturbation",
        "skdp.linear_model._standardize.theorem": "ColumnSums",
        "skdp.linear_model.losses": "LogisticLoss PseudoHuber SharpLogistic Softmax",
        "skdp.mechanisms": "GaussianNoise IndependentNoise KNormNoise MatrixGaussianNoise"
        " MatrixLaplaceNoise RepeatedNoise",
        "skdp.mechanisms.sensitivity": "Sensitivity",
        "skdp.trusted.change": "Change",
        "skdp.noise.independent": "Releases",
        "skdp.noise.matrix": "RowsWithin",
        "skdp.trusted.releases": "NoisySum PrivateChoice",
        "skdp.trusted.statement": "Public",
    }.items()
    for name in names.split()
}
_LOSS = "LogisticLoss"


def _one_of_kinds(names: Iterable[str]) -> object:
    """Return the union of types of the table."""
    return Union[tuple(names)]  # noqa: UP007


def _from(*modules: str) -> object:
    """Return the union of the types of some modules."""
    return _one_of_kinds(name for name, module in TYPES.items() if module in modules)


_BALL = _from("skdp.geometry", "skdp.geometry.moments")
_BALLS = tuple[_BALL, ...]  # type: ignore[valid-type]
# Hints of fields that are annotated with a protocol, or with Any.
_HINTS: dict[str, dict[str, object]] = {
    "NoisySum": {
        "change": _one_of_kinds(("Change", "Sensitivity", "Releases", "RowsWithin", "FirstChange")),
        "noise": _from("skdp.mechanisms"),
    },
    "Perturbation": {
        "loss": _from("skdp.linear_model.losses"),
        "noise": _from("skdp.mechanisms"),
    },
    "IndependentNoise": {"law": _from("skdp.noise")},
    "RepeatedNoise": {"law": _from("skdp.noise")},
    "LpBall": {"weights": tuple[float, ...] | None},
    "MappedBall": {"ball": _BALL, "matrix": NDArray[np.float64]},
    "ProductBall": {"balls": _BALLS},
    "SumBall": {"balls": _BALLS},
}
_HINTS |= {name: {"ball": _BALL} for name in ("Change", "KNormNoise", "ScaledBall", "Sensitivity")}
_HINTS["ShearedBall"] = {"ball": _BALL, "shift": NDArray[np.float64]}
# Greatest dimension of a ball in a file, and number of columns of moments; greater ones could fill
# the memory.
_MOST_DIM, _MOST_ROWS = 2**20, 2**13
# Types of the entries of arrays; "str" and "object" are for labels.
ARRAYS = (
    *("bool", "float16", "float32", "float64", "str", "object"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_ARRAY = {"kind": Literal["array"], "type": str, "shape": tuple[int, ...], "entries": list[object]}
# The result of comparing a value with the hint of another type.
_WRONG = object()
_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_WRITTEN = "hold strings, bools, numbers and objects of skdp's own types, to be exported"
_CONVERT = "Declare strings or numbers, or use pickle."
# A value of at most so many characters is written on one line.
_WIDTH = 98
_LATER = "If a later version of skdp wrote it, update skdp."


def package_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("skdp")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


def encode(name: str, value: Any) -> Any:
    """Return a value as dicts, lists, strings, numbers, bools and None.

    Values are these, infinities, tuples, arrays of `ARRAYS`, and objects of `TYPES`. Objects of a
    subclass are refused, because reading would not return them. ``name`` starts error messages.
    """
    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value)
    if value is None or is_plain(value):
        return value
    if kind is float and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if kind in (tuple, list):
        return [encode(name, entry) for entry in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: encode(f"{name}: {key}", entry) for key, entry in value.items()}
    if kind is np.ndarray:
        return _of_array(name, value)
    for named in (kind.__name__, f"{kind.__name__}Loss"):
        if TYPES.get(named) and type_named(named) is kind:
            if hasattr(kind, "to_dict"):
                return value.to_dict()
            own = {field: getattr(value, field) for field in hints_of(kind)}
            return {"kind": named, **encode(name, own)}
    raise fail(name, _WRITTEN, kind, _CONVERT)


def _of_array(name: str, array: Array) -> dict[str, object]:
    kind = "str" if array.dtype.kind == "U" else array.dtype.name
    entries = array.ravel().tolist()
    if kind.startswith("float"):
        entries = encode(name, entries)
    elif kind not in ARRAYS or not all(map(is_plain, entries)):
        raise fail(name, _WRITTEN, f"an array of {kind}", _CONVERT)
    return {"kind": "array", "type": kind, "shape": [*array.shape], "entries": entries}


def decode(name: str, hint: object, content: object) -> Any:
    """Return the value that `encode` wrote.

    ``hint`` is a type, a dict of hints (for a dict with exactly these entries), the name of a type
    of `TYPES`, or a protocol, for any type of `TYPES` that has its members. The hint ``object``
    stands for a string, a bool or a finite number, and ``Any`` for JSON that the caller decodes.
    """
    try:
        return _decode(name, hint, content)
    except RecursionError:
        raise fail(name, "not be nested so deeply") from None


def document(name: str, hint: dict[str, object], content: object, kinds: Collection[str]) -> Any:
    """Return the entries of a dict of a known kind and of this version."""
    if not isinstance(content, Mapping):
        raise fail(name, "be a dict", type(content))
    kind, version = content.get("kind"), content.get("version")
    if not isinstance(kind, str) or kind not in kinds:
        shown = kind if isinstance(kind, str) else type(kind)
        raise fail(name, f"have a kind of {sorted(kinds)}", shown)
    if type(version) is not int or version != VERSION:
        raise fail(name, f"have the version {VERSION}", version, _LATER)
    own = {key: value for key, value in content.items() if key not in ("kind", "version")}
    return decode(name, hint, own)


@lru_cache
def type_named(name: str) -> Any:
    """Return a type of the table."""
    module = import_module(TYPES[name])
    return getattr(module, "Logistic" if name == _LOSS else name)


@lru_cache
def hints_of(kind: type) -> dict[str, object]:
    """Return the type hint of each field of a dataclass that is written."""
    hidden = getattr(kind, "unwritten", {})
    known: dict[str, object] = {}
    while True:
        try:
            found = get_type_hints(kind, localns=known)
        except NameError as error:  # imported for type checkers only
            known[str(error.name)] = type_named(str(error.name))
        else:
            found |= _HINTS.get(kind.__name__, {})
            return {f.name: found[f.name] for f in fields(kind) if f.name not in hidden}


def _decode(name: str, hint: Any, content: Any) -> Any:
    if isinstance(hint, str | ForwardRef):
        hint = type_named(hint if isinstance(hint, str) else hint.__forward_arg__)
    if isinstance(hint, dict):
        check_keys(name, content, hint)
        return {key: _decode(f"{name}: {key}", own, content[key]) for key, own in hint.items()}
    if hint is Any:
        return content
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _one_of(name, parts, content)
    found = (
        _nested(name, hint, content) if isinstance(content, list | dict) else _scalar(hint, content)
    )
    if found is _WRONG:
        raise fail(name, f"be {_described(hint)}", content if is_plain(content) else type(content))
    return found


def _scalar(hint: object, content: Any) -> object:
    """Return a string, number, bool or None, or _WRONG."""
    if hint is float:
        if type(content) is str:
            return _INFINITE.get(content, _WRONG)
        return float(content) if _is_number(content) else _WRONG
    literal = get_args(hint) if get_origin(hint) is Literal else ()
    is_literal = any(type(content) is type(part) and content == part for part in literal)
    is_own = hint in (bool, str, int, object, Hashable) and is_plain(content)
    is_own &= hint in (object, Hashable) or type(content) is hint
    is_none = content is None and hint is NoneType
    return content if is_literal or is_own or is_none else _WRONG


def _nested(name: str, hint: object, content: object) -> object:
    """Return a list, tuple, dict, array or object, or _WRONG."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (list, tuple) and isinstance(content, list):
        many = origin is list or parts[1:] == (...,)
        if not many and len(parts) != len(content):
            return _WRONG
        own = [parts[0]] * len(content) if many else parts
        return origin(_decode(name, h, c) for h, c in zip(own, content, strict=True))
    if origin is dict and isinstance(content, dict):
        check_keys(name, content, (), content)
        return {key: _decode(f"{name}: {key}", parts[1], own) for key, own in content.items()}
    if origin is np.ndarray:
        return _array(name, get_args(parts[1])[0], content)
    if isinstance(content, dict) and origin is None and isinstance(hint, type):
        return _object(name, hint, content)
    return _WRONG


def _one_of(name: str, hints: tuple[object, ...], content: object) -> object:
    kind = content.get("kind") if isinstance(content, dict) else None
    for hint in hints:  # a dict that names its type has the error of this type
        if kind is not None and _name_of(hint) == kind:
            return _decode(name, hint, content)
    for hint in hints:
        try:
            return _decode(name, hint, content)
        except ValueError:
            continue
    named = " or ".join(map(_described, hints))
    raise fail(name, f"be {named}", content if is_plain(content) else type(content)) from None


def _object(name: str, hint: object, content: dict[str, object]) -> object:
    """Return an object of a type of the table, which is the hint or has its members."""
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in TYPES:
        shown = kind if isinstance(kind, str) else type(kind)
        raise fail(name, "have a kind that skdp knows", shown, _LATER)
    found = type_named(kind)
    members = [member for member in dir(hint) if not member.startswith("_")]
    is_like = getattr(hint, "_is_protocol", False) and all(hasattr(found, m) for m in members)
    if not (found is hint or is_like):
        raise fail(name, f"be {_described(hint)}", kind)
    if hasattr(found, "from_dict"):
        return found.from_dict(content)
    own = {key: value for key, value in content.items() if key != "kind"}
    values = _decode(name, hints_of(found), own)
    names = {field.name for field in fields(found)}
    values |= {k: v for k, v in getattr(found, "unwritten", {}).items() if k in names}
    try:
        made = found(**values)
    except (TypeError, ArithmeticError, LinAlgError):
        raise fail(name, f"be a valid {kind}") from None
    layout = getattr(made, "layout", None)
    if layout is not None and layout.n_rows > _MOST_ROWS:
        raise fail(name, f"have at most {_MOST_ROWS} columns", layout.n_rows)
    if layout is None and hasattr(made, "gauge") and made.dim > _MOST_DIM:
        raise fail(name, f"have a dimension of at most {_MOST_DIM}", made.dim)
    return made


def _array(name: str, scalar: Any, content: object) -> Array:
    """Return an array of a type, or of any type for the hint Any."""
    found = _decode(name, _ARRAY, content)
    shape, entries, kind = found["shape"], found["entries"], found["type"]
    if kind not in ARRAYS or not (scalar is Any or np.dtype(scalar).name == kind):
        rule = f"be of {ARRAYS}" if scalar is Any else f"be {np.dtype(scalar).name!r}"
        raise fail(f"{name}: type", rule, kind)
    if kind.startswith("float"):
        entries = _decode(name, list[float], entries)
    sizes = len(shape) <= 8 and all(0 <= size < 2**31 for size in shape)
    if not sizes or math.prod(shape) != len(entries):
        raise fail(f"{name}: shape", f"be that of {len(entries)} entries", shape)
    try:
        with np.errstate(all="ignore"):
            array = np.array(entries, None if kind == "str" and entries else kind)
    except (TypeError, ValueError, OverflowError):
        array = np.array([])
    # Entries of another type were converted, and are of another type or value now.
    given, kept = ([(type(x), x) for x in values] for values in (entries, array.tolist()))
    if given != kept or (kind == "str") != (array.dtype.kind == "U"):
        raise fail(f"{name}: entries", f"be of the type {kind}")
    return array.reshape(shape)


def _described(hint: object) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    words = {float: "a finite number", NoneType: "null", bool: "true or false", str: "a string"}
    words |= {int: "a whole number", object: "a string, a finite number or a bool"}
    words |= {Hashable: words[object]}
    origin = get_origin(hint)
    if origin in (list, tuple):
        return f"a list of {' and '.join(_described(h) for h in get_args(hint) if h is not ...)}"
    return "a dict" if origin is dict else words.get(hint, f"of the kind {_name_of(hint)}")


def _name_of(hint: object) -> str:
    if get_origin(hint) is np.ndarray:
        return "array"
    return str(getattr(hint, "__forward_arg__", getattr(hint, "__name__", "")))


def check_keys(
    name: str, content: object, needed: Collection[str], possible: Collection[str] = ()
) -> dict[str, Any]:
    """Return a dict if it has all needed keys and no unknown ones."""
    if not isinstance(content, dict) or not all(type(key) is str for key in content):
        raise fail(name, "be a dict with names as keys", type(content))
    if missing := [key for key in needed if key not in content]:
        raise fail(name, f"have the entries {sorted(needed)}", remedy=f"Missing are {missing}.")
    unknown = [key for key in content if key not in needed and key not in possible]
    if unknown:
        rule = f"have no entries but {sorted({*needed, *possible})}"
        raise fail(name, rule, unknown, _LATER)
    return content


def is_plain(value: object) -> bool:
    """Return whether a value is a string, a finite number or a bool, of exactly such a type."""
    return type(value) in (str, bool) or _is_number(value)


def _is_number(value: Any) -> bool:
    # Also False for NaN. The comparison of an int with a float is exact.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def to_text(content: object, indent: str = "") -> str:
    """Return JSON text. Short lists and dicts are on one line, unless there are dicts in them."""
    short = json.dumps(content, allow_nan=False)
    if not isinstance(content, list | dict) or not content:
        return short
    values = list(content.values()) if isinstance(content, dict) else content
    is_flat = not any(isinstance(value, dict) for value in values)
    if is_flat and len(indent) + len(short) <= _WIDTH:
        return short
    inner, (start, end) = indent + "  ", "{}" if isinstance(content, dict) else "[]"
    parts = [to_text(value, inner) for value in values]
    if isinstance(content, dict):
        parts = [f"{json.dumps(key)}: {part}" for key, part in zip(content, parts, strict=True)]
    lines = f",\n{inner}".join(parts)
    return f"{start}\n{inner}{lines}\n{indent}{end}"


def from_text(name: str, text: object) -> Any:
    """Return the content of strict JSON text; ``name`` starts the error message."""
    if not isinstance(text, str):
        raise fail(name, "be JSON text", type(text))
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise fail(name, "be JSON text", remedy=f"It cannot be read: {reason}.")


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an entry is repeated: {twice[:200]!r}")
    return found
