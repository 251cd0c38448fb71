"""Panels with the effect of a column: a curve, a line, bars or a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.inspection._drawing import style
from skdp.inspection._surfaces import draw_surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skdp.inspection.shapes import Shape

# Up to so many levels have names on the axis. Names of more than WIDEST characters in total are
# vertical, and longer ones than LONGEST_NAME are cut.
MOST_NAMES, WIDEST, LONGEST_NAME = 30, 24, 18
# Room beyond the finite ends of bands if some are infinite, as a part of their range.
ROOM = 0.1
Edges = tuple[float, float]


def is_surface(shape: Shape) -> bool:
    """Return whether an effect is one of two columns."""
    return isinstance(shape.values, dict)


def common_edges(effects: Sequence[FloatArray], bands: Iterable[FloatArray | None]) -> Edges | None:
    """Return the limits of the axis of effects if a band is not bounded, and None otherwise."""
    known = [np.ravel(band) for band in bands if band is not None]
    values = np.concatenate([*effects, *known, np.zeros(1)])
    if np.isfinite(values).all():
        return None
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    room = ROOM * (high - low) or 1.0
    return low - room, high + room


def draw_panel(
    ax: Axes, panel: Sequence[Shape], bands: Sequence[FloatArray | None], edges: Edges | None
) -> None:
    """Draw one panel. Bands, (2, n) each, are cut at the edges."""
    first = panel[0]
    if is_surface(first):
        title = first.name if first.label is None else f"{first.name} ({first.label})"
        draw_surface(ax, title, first.values, first.effects)
        return
    ax.axhline(0, color="0.6", lw=1, zorder=1)
    ax.set_title(first.name)
    for k, (shape, band) in enumerate(zip(panel, bands, strict=True)):
        cut = band if band is None or edges is None else np.clip(band, *edges)
        if shape.is_curve:
            _draw_curve(ax, shape, cut, k, len(panel))
        else:
            width = 0.8 / len(panel)
            shift = (k - (len(panel) - 1) / 2) * width
            places = np.asarray(np.arange(len(shape.effects)) + shift, dtype=np.float64)
            _draw_errors(ax, places, cut, "0.3")
            ax.bar(places, shape.effects, color=style(k)["color"], width=0.9 * width, zorder=2)
    if not first.is_curve:
        _name_levels(ax, [str(level) for level in first.values])


def _draw_curve(ax: Axes, shape: Shape, band: FloatArray | None, k: int, n: int) -> None:
    """Draw the k-th curve of n, and the point of missing cells."""
    values, effects, looks = shape.values, shape.effects, style(k)
    ax.locator_params("x", nbins=4)
    ax.plot(values, effects, lw=2, zorder=3, **looks)
    if band is not None:
        ax.fill_between(values, *band, color=looks["color"], alpha=0.2, lw=0, zorder=2)
    if np.isnan(values[-1]):
        step = (values[-2] - values[0]) / 30
        at, words = values[-2] + (2 + k) * step, "missing" if k == 0 else None
        _draw_errors(ax, np.array([at]), None if band is None else band[:, -1:], looks["color"])
        ax.plot(at, effects[-1], "D", ms=5, color=looks["color"], label=words)
        if k == n - 1:
            ax.legend(fontsize="small", handlelength=1)


def _draw_errors(ax: Axes, places: FloatArray, band: FloatArray | None, color: Any) -> None:
    """Draw vertical lines from the lower to the upper ends, which need not hold the effect."""
    if band is not None:
        low, high = band
        ax.errorbar(places, (low + high) / 2, (high - low) / 2, fmt="none", ecolor=color, zorder=4)


def _name_levels(ax: Axes, names: list[str]) -> None:
    """Write the names of levels below their bars, or their number if there are too many."""
    if len(names) > MOST_NAMES:
        ax.set_xticks([])
        ax.set_xlabel(f"{len(names)} levels")
        return
    short = [
        name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names
    ]
    ax.set_xticks(range(len(names)), short)
    if sum(map(len, short)) > WIDEST:
        ax.tick_params("x", rotation=90, labelsize="x-small")
