"""Parts that all displays share: colours, line styles and the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skdp.trusted.checks import optional_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Colours of Okabe & Ito, which readers with any kind of colour vision can distinguish. The dashes
# distinguish lines in grey print, and lines that overlap.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (1, 1)), (0, (9, 3)))


def style(i: int) -> dict[str, Any]:
    """Return the colour and the dashes of the i-th line; the first 49 pairs differ."""
    turn, place = divmod(i, len(COLORS))
    return {"color": COLORS[place], "linestyle": DASHES[(place + turn) % len(DASHES)]}


class Display:
    """Base of the displays: where they draw."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _axes(
        self, ax: Axes | None, size: tuple[float, float], layout: str = "constrained"
    ) -> Axes:
        """Return the given axes, or those of a new figure of a size in inches, and store them."""
        if ax is None:
            plt = optional_module("matplotlib.pyplot", "to draw", "plot")
            ax = plt.subplots(figsize=size, layout=layout)[1]
        assert ax is not None
        self.ax_, self.figure_ = ax, ax.figure
        return ax
