"""Readable JSON text of dicts, and checks of what was read.

A dict that is written has a ``kind`` and a ``version``. Reading raises an error for another kind,
a later version and unknown keys, and never runs code that the text names.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import fail

VERSION = 1
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


def to_text(content: Any, indent: str = "") -> str:
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


def from_text(name: str, text: Any) -> Any:
    """Return the content of strict JSON text; ``name`` starts the error message."""
    if not isinstance(text, str):
        raise fail(name, "be JSON text", type(text))
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise fail(name, "be JSON text", remedy=f"It cannot be read: {reason}.")


def entries(name: str, content: Any, kinds: Collection[str]) -> dict[str, Any]:
    """Return the entries of a dict of a known kind and of this version."""
    if not isinstance(content, dict):
        raise fail(name, "be a dict", type(content))
    kind, version = content.get("kind"), content.get("version")
    if not isinstance(kind, str) or kind not in kinds:
        shown = kind if isinstance(kind, str) else type(kind)
        raise fail(name, f"have a kind of {sorted(kinds)}", shown)
    if type(version) is not int or version != VERSION:
        raise fail(name, f"have the version {VERSION}", version, _LATER)
    return {key: value for key, value in content.items() if key not in ("kind", "version")}


def check_keys(
    name: str, content: Any, needed: Collection[str], possible: Collection[str] = ()
) -> dict[str, Any]:
    """Return a dict if it has all needed keys and no unknown ones."""
    if not isinstance(content, dict):
        raise fail(name, "be a dict", type(content))
    if missing := [key for key in needed if key not in content]:
        raise fail(name, f"have the entries {sorted(needed)}", remedy=f"Missing are {missing}.")
    unknown = [key for key in content if key not in needed and key not in possible]
    if unknown:
        rule = f"have no entries but {sorted({*needed, *possible})}"
        raise fail(name, rule, unknown, _LATER)
    return content


def check_list(name: str, value: Any, kinds: type | tuple[type, ...]) -> list[Any]:
    """Return a list whose entries are of some types."""
    if not isinstance(value, list) or not all(isinstance(entry, kinds) for entry in value):
        named = kinds if isinstance(kinds, tuple) else (kinds,)
        raise fail(name, f"be a list of {' or '.join(kind.__name__ for kind in named)}")
    return value


def as_floats(name: str, value: Any, shape: Sequence[int]) -> FloatArray:
    """Return nested lists of finite numbers as an array of a shape."""
    if not _has_shape(value, shape):
        what = f"be lists of finite numbers of shape {tuple(shape)}"
        raise fail(name, what if shape else "be a finite number")
    return np.array(value, dtype=np.float64).reshape(tuple(shape))


def is_plain(value: Any) -> bool:
    """Return whether a value is a string, a finite number or a bool, of exactly such a type."""
    return type(value) in (str, bool) or _is_number(value)


def _is_number(value: Any) -> bool:
    # Also False for NaN. The comparison of an int with a float is exact.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _has_shape(value: Any, shape: Sequence[int]) -> bool:
    if not shape:
        return _is_number(value)
    is_list = isinstance(value, list) and len(value) == shape[0]
    return is_list and all(_has_shape(entry, shape[1:]) for entry in value)


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise ValueError(f"an entry is repeated: {twice[0][:200]!r}")
    return found
