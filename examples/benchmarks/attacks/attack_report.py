"""What an attack found, and what the guarantee allows it to find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from skdp import Guarantee

FloatArray = NDArray[np.float64]
Data = tuple[FloatArray, NDArray[Any]]
# Chance with which a guarantee that holds is said to be broken, for each attack.
ALARM = 1e-6
MOST_ZEROS = 64


@dataclass(frozen=True)
class Verdict:
    """One line of the report."""

    attack: str
    found: str
    allowed: str
    holds: bool

    def __str__(self) -> str:
        said = "holds" if self.holds else "BROKEN"
        return f"{self.attack:<46} {self.found:>34} {self.allowed:>44}  {said}"


def guesses(attack: str, right: int, of: int, promise: Guarantee) -> Verdict:
    """Judge right guesses of independent releases, each table as likely as the other.

    The total variation between neighbours, delta(0), is all that a guess can gain.
    """
    share = (1 + promise.delta_at(0.0)) / 2
    most = int(binom.isf(ALARM, of, share))
    allowed = f"{share * of:.1f} expected, {most} by chance 1e-6"
    return Verdict(attack, f"{right} right of {of}", allowed, right <= most)


def hits(attack: str, events: int, of: int, chance: float, what: str) -> Verdict:
    """Judge how often an event came that has at most a chance."""
    most = int(binom.isf(ALARM, of, min(1.0, chance)))
    allowed = f"{chance * of:.3g} expected, {most} by chance 1e-6"
    return Verdict(attack, f"{events} {what} of {of}", allowed, events <= most)


def at_most(attack: str, found: float, allowed: float, unit: str) -> Verdict:
    """Judge a number that has no chance in it."""
    holds = found <= allowed * (1 + 1e-9)
    return Verdict(attack, f"{unit} {found:.4g}", f"{unit} <= {allowed:.4g}", holds)


def refused(attack: str, error: str | None, otherwise: str) -> Verdict:
    """Judge something that has to be refused: ``error`` says how it was."""
    return Verdict(attack, error or otherwise, "to be refused", error is not None)


def zeros(units: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many trailing zero bits each integer has; 0 has `MOST_ZEROS`."""
    found = [min(MOST_ZEROS, (v & -v).bit_length() - 1) if v else MOST_ZEROS for v in units]
    return np.array(found, dtype=np.int64)
