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
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.linalg import LinAlgError

from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import fail

VERSION = 1
# Types that a file may name, by their modules.
TYPES = {
    name: module
    for module, names in {
        "skdp.domain.columns": "Indicators Levels Number",
        "skdp.domain.domain": "Domain",
        "skdp.domain.splines": "Interaction Spline SplineBlock",
        "skdp.geometry.combined": "MappedBall ProductBall ShearedBall SumBall",
        "skdp.geometry.encoded_rows": "EncodedRowsBall SimplexBall",
        "skdp.geometry.moment_layout": "MomentLayout",
        "skdp.geometry.moments": "MomentBall NumbersBall RadialMomentBall SquaresBall",
        "skdp.linear_model._inference.estimate": "NoisyEquations NoisyEstimate",
        "skdp.linear_model._moments.theorem": "FirstChange",
        "skdp.linear_model._objective.theorem": "NoisyMinimiser",
        "skdp.linear_model._shared.gram": "ColumnSums",
        "skdp.linear_model.export": "Attributes Encoded InUnits",
        "skdp.linear_model.losses": "CappedPoisson LogisticLoss PseudoHuber SharpLogistic"
        " SmoothedQuantile Softmax",
        "skdp.linear_model.proof": "Claim",
        "skdp.mechanisms.sensitivity": "Sensitivity",
        "skdp.noise.independent": "IndependentNoise Releases RepeatedNoise",
        "skdp.noise.laws": "FlippedHuber Gaussian Laplace Logistic OffsetGaussian Subbotin"
        " TruncatedLaplace",
        "skdp.noise.matrix": "MatrixGaussianNoise MatrixLaplaceNoise RowsWithin",
        "skdp.privacy.guarantee": "Guarantee",
        "skdp.privacy.shift": "ShiftLoss",
        "skdp.trusted.ball": "Change LpBall",
        "skdp.trusted.losses": "FiniteLoss GaussianLoss PairLoss SelectionLoss",
        "skdp.trusted.noise": "GaussianNoise KNormNoise",
        "skdp.trusted.radial": "RadialLoss",
        "skdp.trusted.certify": "NoisySum PrivateChoice",
        "skdp.trusted.statement": "Public",
    }.items()
    for name in names.split()
}
# What the annotations of some fields do not say.
_HINTS: dict[str, dict[str, Any]] = {
    "NoisySum": {
        "change": Union["Change", "Sensitivity", "Releases", "RowsWithin", "FirstChange"],  # noqa: F821
        "noise": Union[tuple(name for name in TYPES if name.endswith("Noise"))],  # noqa: UP007
    },
    "MappedBall": {"matrix": FloatArray},
}
# Greatest dimension of a ball in a file, and number of columns of moments; greater ones could fill
# the memory.
_MOST_DIM, _MOST_ROWS = 2**20, 2**13
# Types of the entries of arrays; "str" and "object" are for labels.
ARRAYS = (
    *("bool", "float16", "float32", "float64", "str", "object"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_ARRAY = {"kind": Literal["array"], "type": str, "shape": tuple[int, ...], "entries": list[object]}
_PLAIN = "a string, a finite number or a bool"
_WORDS = {float: "a finite number", NoneType: "null", bool: "true or false", str: "a string"}
_WORDS |= {int: "an integer", object: _PLAIN, Hashable: _PLAIN}
_WRITTEN = "contain strings, bools, numbers and objects of skdp's own types, to be exported"
_CONVERT = "Declare strings or numbers, or use pickle."
# A value of at most so many characters is written on one line.
_WIDTH = 98
_LATER = "If a later version of skdp wrote it, update skdp."


def package_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("skdp")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


def encode(name: str, value: object) -> Any:
    """Return a value as dicts, lists, strings, numbers, bools and None.

    Values are these, infinities, tuples, arrays of `ARRAYS`, and objects of `TYPES`. Objects of a
    subclass are refused, because reading would not return them. ``name`` starts error messages.
    """
    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value)
    if value is None or is_plain(value):
        return value
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, tuple | list) and kind in (tuple, list):
        return [encode(name, entry) for entry in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: encode(f"{name}: {key}", entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray) and kind is np.ndarray:
        return _of_array(name, value)
    if kind.__name__ in TYPES and type_named(kind.__name__) is kind:
        if hasattr(value, "to_dict"):
            return value.to_dict()
        own = {field: getattr(value, field) for field in hints_of(kind)}
        return {"kind": kind.__name__, **encode(name, own)}
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

    ``hint`` is a type, a dict of hints (for a dict with exactly these entries), or a protocol, for
    any type of `TYPES` that has its members. The hint ``object`` stands for a string, a bool or a
    finite number, and ``Any`` for JSON that the caller decodes.
    """
    try:
        return _decode(name, hint, content)
    except RecursionError:
        raise fail(name, "not be nested so deeply") from None


def document(
    name: str, hint: dict[str, Any], content: object, kinds: Collection[str]
) -> dict[str, Any]:
    """Return the entries of a dict of a known kind and of this version."""
    if not isinstance(content, Mapping):
        raise fail(name, "be a dict", type(content))
    kind, version = content.get("kind"), content.get("version")
    if not isinstance(kind, str) or kind not in kinds:
        raise fail(name, f"have a kind of {sorted(kinds)}", _shown(kind))
    if type(version) is not int or version != VERSION:
        raise fail(name, f"have the version {VERSION}", version, _LATER)
    own = {key: value for key, value in content.items() if key not in ("kind", "version")}
    found: dict[str, Any] = decode(name, hint, own)
    return found


@lru_cache
def type_named(name: str) -> Any:
    return getattr(import_module(TYPES[name]), name)


@lru_cache
def hints_of(kind: type) -> dict[str, Any]:
    """Return the type hint of each field of a dataclass that is written."""
    hidden = getattr(kind, "unwritten", {})
    known: dict[str, Any] = {}
    while True:
        try:
            found = get_type_hints(kind, localns=known)
        except NameError as error:  # imported for type checkers only
            known[str(error.name)] = type_named(str(error.name))
        else:
            found |= _HINTS.get(kind.__name__, {})
            return {f.name: found[f.name] for f in fields(kind) if f.name not in hidden}


def _decode(name: str, hint: object, content: object) -> Any:
    if isinstance(hint, dict):
        entries = check_keys(name, content, hint)
        return {key: _decode(f"{name}: {key}", own, entries[key]) for key, own in hint.items()}
    if hint is Any:
        return content
    hint = type_named(hint.__forward_arg__) if isinstance(hint, ForwardRef) else hint
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _one_of(name, parts, content)
    if isinstance(content, dict) and (origin in (np.ndarray, dict) or isinstance(hint, type)):
        return _of_dict(name, hint, content)
    if isinstance(content, list) and origin in (list, tuple, Sequence):
        hints = [parts[0]] * len(content) if origin is not tuple or ... in parts else parts
        if len(hints) == len(content):
            found = [_decode(name, own, entry) for own, entry in zip(hints, content, strict=True)]
            return found if origin is list else tuple(found)
    elif hint is float and (_is_number(content) or content in ("inf", "-inf")):
        return float(content)
    elif _is_own(hint, parts, content):
        return content
    raise fail(name, f"be {_described(hint)}", _shown(content))


def _of_dict(name: str, hint: Any, content: dict[str, object]) -> Any:
    if get_origin(hint) is np.ndarray:
        return _array(name, get_args(get_args(hint)[1])[0], content)
    if get_origin(hint) is dict:
        check_keys(name, content, (), content)
        own = get_args(hint)[1]
        return {key: _decode(f"{name}: {key}", own, entry) for key, entry in content.items()}
    return _object(name, hint, content)


def _is_own(hint: object, parts: tuple[object, ...], content: object) -> bool:
    if get_origin(hint) is Literal:
        return any(type(content) is type(part) and content == part for part in parts)
    if content is None:
        return hint is NoneType
    kinds = (object, Hashable, type(content) if type(content) is not float else object)
    return is_plain(content) and hint in kinds


def _one_of(name: str, hints: tuple[object, ...], content: object) -> Any:
    kind = content.get("kind") if isinstance(content, dict) else None
    for hint in hints:  # a dict that names its type has the error of this type
        if kind is not None and (_name_of(hint) == kind or _has_members(kind, hint)):
            return _decode(name, hint, content)
    for hint in hints:
        with suppress(ValueError):
            return _decode(name, hint, content)
    raise fail(name, f"be {' or '.join(map(_described, hints))}", _shown(content))


def _has_members(kind: object, hint: object) -> bool:
    """Return whether a type of the table has the members of a protocol."""
    if not (isinstance(kind, str) and kind in TYPES and getattr(hint, "_is_protocol", False)):
        return False
    found = type_named(kind)
    members = {member for member in dir(hint) if not member.startswith("_")}
    return members <= {*dir(found), *getattr(found, "__dataclass_fields__", ())}


def _object(name: str, hint: type, content: dict[str, object]) -> Any:
    """Return an object of a type of the table, which is the hint or has its members."""
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in TYPES:
        raise fail(name, "have a kind that skdp knows", _shown(kind), _LATER)
    found = type_named(kind)
    if not (found is hint or _has_members(kind, hint)):
        raise fail(name, f"be {_described(hint)}", kind)
    if hasattr(found, "from_dict"):
        return found.from_dict(content)
    values = _decode(name, hints_of(found), {k: own for k, own in content.items() if k != "kind"})
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


def _array(name: str, scalar: Any, content: dict[str, object]) -> Array:
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


def _shown(content: object) -> object:
    """Return what an error shows: of a list or dict the type only."""
    return content if is_plain(content) else type(content)


def _described(hint: object) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in (list, tuple, Sequence):
        return f"a list of {' and '.join(_described(part) for part in parts if part is not ...)}"
    return "a dict" if origin is dict else _WORDS.get(hint, f"of the kind {_name_of(hint)}")


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


def _is_number(value: object) -> TypeGuard[int | float]:
    # Also False for NaN. The comparison of an int with a float is exact.
    most = sys.float_info.max
    return isinstance(value, int | float) and type(value) in (int, float) and abs(value) <= most


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


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an entry is repeated: {twice[:200]!r}")
    return found
