"""Edits of the dicts of files at the path of an entry, and what reading them gives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]


def paths(content: Any, path: Path = (), most: int | None = None) -> Iterator[Path]:
    """Yield the path of every entry, of a list at most ``most`` or, of floats, then one."""
    yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield from paths(value, (*path, key), most)
    elif isinstance(content, list):
        few = 1 if most and set(map(type, content)) == {float} else most
        for place, value in enumerate(content[:few]):
            yield from paths(value, (*path, place), most)


def changed(content: Any, path: Path, value: Callable[[Any], Any]) -> Any:
    """Return a copy with another value at a path, a function of the old one."""
    if not path:
        return value(copy.deepcopy(content))
    made = copy.copy(content)
    made[path[0]] = changed(content[path[0]], path[1:], value)
    return made


def outcome(read: Callable[[Any], Any], content: Any) -> tuple[Any, ValueError | None]:
    """Return what is read, or its error; another error than ValueError is raised."""
    try:
        return read(content), None
    except ValueError as error:
        return None, error
