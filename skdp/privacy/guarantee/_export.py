"""The form of a guarantee as a dict, and as a piece of a web page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from skdp._codec import VERSION, document, encode, hints_of
from skdp.privacy.guarantee import card_html

_EQUIVALENTS = {"equivalents": {"mu": float | None, "rho": float | None}}


class Exported:
    """Methods of a guarantee that return it as a dict or as HTML, and that read a dict."""

    def to_dict(self: Any) -> dict[str, Any]:
        """Return the guarantee as a dict of strings, numbers, lists and None.

        The privacy losses are left out: most of them are functions. `from_dict` returns a guarantee
        with the same epsilon and delta, whose conversions to other epsilons and deltas are true and
        may be greater.

        Returns
        -------
        dict
            All parameters but ``losses``. ``equivalents`` has ``mu`` and ``rho``, which follow from
            the losses, or None if the guarantee has none or does not hold.

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
        own = {name: getattr(self, name) for name in _hints(type(self))}
        known = {
            name: float(value) if self.holds and value < math.inf else None
            for name, value in (("mu", self.mu), ("rho", self.rho))
        }
        whole = own | {"equivalents": known}
        return {"kind": "Guarantee", "version": VERSION, **encode("the guarantee", whole)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the guarantee of a dict, without privacy losses.

        Parameters
        ----------
        content : dict
            A result of `to_dict`. Its ``equivalents`` are not used.

        Returns
        -------
        Guarantee

        Raises
        ------
        ValueError
            If an entry is unknown, missing, of another type or out of range.
        """
        hints = _hints(cls) | _EQUIVALENTS
        found = document("the guarantee", hints, content, ("Guarantee",))
        del found["equivalents"]
        return cls(**found)

    def to_html(self) -> str:
        """Return the card as HTML: one element with inline styles, for any page."""
        return card_html(self)

    _repr_html_ = to_html


def _hints(cls: Any) -> dict[str, Any]:
    return {name: hint for name, hint in hints_of(cls).items() if name != "losses"}
