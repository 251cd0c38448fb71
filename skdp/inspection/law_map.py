"""Display of the noise with the least variance over epsilon and delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.inspection._drawing import COLORS, Display
from skdp.mechanisms.law_map import LawMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.contour import QuadContourSet


_BLUE, _VERMILLION, _GREEN, _BLACK, _PURPLE, _SKY, _ORANGE = COLORS
# A law has the same colour in all maps.
LAW_COLORS = {
    "laplace": _BLUE,
    "l2": _GREEN,
    "linf": _ORANGE,
    "gaussian": _VERMILLION,
    "flipped_huber": _PURPLE,
    "truncated_laplace": "#808080",
    "offset_gaussian": _SKY,
    "logistic": "#F0E442",
    "subbotin": "#8C6D46",
}
LEVELS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
# Share of a colour that is mixed with white: black lines and text must be readable on it.
_TINT = 0.45
_FINE = 240


class LawMapDisplay(Display):
    """Map of the noise with the least variance over epsilon and delta, and of its gain.

    Each cell has the colour of the law with the least variance. Lines show where its variance is
    a given share of the lesser variance of Laplace and Gaussian noise.

    Parameters
    ----------
    law_map : LawMap

    Attributes
    ----------
    mesh_ : matplotlib QuadMesh
    contour_ : matplotlib contour set or None
        None if no line lies within the map.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp.inspection import LawMapDisplay
    >>> from skdp.mechanisms.law_map import law_map
    >>> found = law_map([0.1, 1.0], [1e-9, 0.1], laws=["laplace", "gaussian"])
    >>> LawMapDisplay.from_map(found).ax_.get_xlabel()
    'epsilon'
    """

    mesh_: QuadMesh
    contour_: QuadContourSet

    def __init__(self, law_map: LawMap) -> None:
        self.law_map = law_map

    @classmethod
    def from_map(
        cls, law_map: LawMap, *, ax: Axes | None = None, levels: Sequence[float] = LEVELS
    ) -> LawMapDisplay:
        """Draw a map.

        Parameters
        ----------
        law_map : LawMap
            Result of `skdp.mechanisms.law_map.law_map` with at least two epsilons and two
            deltas, all deltas > 0.
        ax : matplotlib Axes or None, default=None
            Axes to draw on. None creates a figure.
        levels : sequence of float in (0, 1]
            Ratios of variances at which lines are drawn.

        Returns
        -------
        LawMapDisplay

        Examples
        --------
        >>> from skdp.mechanisms.law_map import law_map
        >>> found = law_map([0.1, 1.0], [1e-9, 0.1], laws=["laplace", "gaussian"])
        >>> LawMapDisplay.from_map(found).shown_
        ('laplace', 'gaussian')
        """
        return cls(law_map).plot(ax=ax, levels=levels)

    @property
    def shown_(self) -> tuple[str, ...]:
        """Names of the laws that have the least variance in some cell."""
        return tuple(law for law in self.law_map.laws if (self.law_map.winners == law).any())

    def plot(self, ax: Axes | None = None, *, levels: Sequence[float] = LEVELS) -> LawMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax, levels
            As in :meth:`from_map`.

        Returns
        -------
        LawMapDisplay
            This display.
        """
        found = self.law_map
        if min(found.places.shape) < 2 or found.deltas[0] == 0:
            raise fail("law_map", "have two epsilons and two deltas or more, all > 0")
        ax = self._axes(ax, (6.8, 4.6))
        # Labels of lines are placed by the scales of the axes: these are set first.
        ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="delta")
        self.mesh_ = self._plot_winners(ax)
        ax.set(xlim=found.epsilons[[0, -1]], ylim=found.deltas[[0, -1]])
        self.contour_ = self._plot_ratios(ax, levels)
        return self

    def _plot_winners(self, ax: Axes) -> Any:
        """Fill the cells, and draw the legend."""
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        found, shown = self.law_map, self.shown_
        colors = [_tinted(color) for color in _colors(shown)]
        cells = np.array([[shown.index(law) for law in row] for row in found.winners])
        mesh = ax.pcolormesh(
            _edges(found.epsilons),
            _edges(found.deltas),
            cells.T,
            cmap=ListedColormap(colors),
            vmin=-0.5,
            vmax=len(shown) - 0.5,
            rasterized=True,
        )
        names = [law.replace("_", " ") for law in shown]
        patches = [
            Patch(color=color, label=name) for color, name in zip(colors, names, strict=True)
        ]
        where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
        ax.legend(handles=patches, frameon=False, title="least variance", **where)
        return mesh

    def _plot_ratios(self, ax: Axes, levels: Sequence[float]) -> Any:
        """Draw and label the lines of equal ratio."""
        found = self.law_map
        logs = np.log(found.epsilons), np.log(found.deltas)
        # Between the points of the grid ratios are nearly linear in the logs.
        between = RegularGridInterpolator(logs, found.ratios)
        x, y = (np.linspace(axis[0], axis[-1], _FINE) for axis in logs)
        ratios = between(tuple(np.meshgrid(x, y, indexing="ij")))
        inside = [level for level in sorted(levels) if ratios.min() < level < ratios.max()]
        if not inside:
            return None
        lines = ax.contour(
            np.exp(x), np.exp(y), ratios.T, levels=inside, colors="black", linewidths=0.9
        )
        ax.clabel(lines, fmt="%g", fontsize=8)
        return lines


def _colors(laws: Sequence[str]) -> list[str]:
    """Return a colour for each law: a fixed one, or one that no other law has."""
    free = [color for color in (*COLORS, "0.5", "0.8") if color not in map(LAW_COLORS.get, laws)]
    return [LAW_COLORS.get(law) or free.pop(0) for law in laws]


def _tinted(color: str) -> tuple[float, float, float]:
    """Return a colour mixed with white."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - _TINT * (1 - part) for part in to_rgb(color))
    return red, green, blue


def _edges(centres: FloatArray) -> FloatArray:
    """Return the edges of cells around points of a log axis."""
    logs = np.log(centres)
    middles = (logs[1:] + logs[:-1]) / 2
    first, last = 2 * logs[0] - middles[0], 2 * logs[-1] - middles[-1]
    return np.asarray(np.exp([first, *middles, last]))
