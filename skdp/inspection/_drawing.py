"""What all displays share: colours, and the one place that asks for matplotlib."""

from __future__ import annotations

from typing import Any

from skdp._checks import fail

# Colours of Okabe & Ito, told apart by readers with any kind of colour vision; the dashes tell
# the lines apart in grey, and where they run on top of each other.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (1, 1)), (0, (9, 3)))


def style(i: int) -> dict[str, Any]:
    """Return the colour and the dashes of the i-th line: 49 pairs before one comes again."""
    turn, place = divmod(i, len(COLORS))
    return {"color": COLORS[place], "linestyle": DASHES[(place + turn) % len(DASHES)]}


def pyplot() -> Any:
    """Return matplotlib.pyplot; without it the error says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        remedy = "Install it with: pip install 'skdp[plot]'"
        raise ImportError(str(fail("matplotlib", "be installed to draw", None, remedy))) from error
    return plt
