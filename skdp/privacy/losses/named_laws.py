"""The laws that a ledger's file may name.

`skdp.privacy` does not import `skdp.noise`. Instead `skdp.noise` registers its laws here when it
is imported, which ``import skdp`` does.
"""

from __future__ import annotations

from skdp.privacy.losses.shift import ShiftedLaw

_LAWS: dict[str, type[ShiftedLaw]] = {}


def register(*laws: type[ShiftedLaw]) -> None:
    """Make laws known under the names of their classes; a name must not change later."""
    _LAWS.update((law.__name__, law) for law in laws)


def law_named(name: str) -> type[ShiftedLaw]:
    """Return the law with this name; raise KeyError if there is none."""
    return _LAWS[name]
