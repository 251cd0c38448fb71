"""The joint effects of two columns: their values, and panels with a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain.splines import Interaction, Spline

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def rows_of_pair(kind: Interaction) -> tuple[tuple[Any, Any], FloatArray]:
    """Return the values of two columns, and the encoded values of all pairs, less their mean.

    Missing cells of numbers are left out.
    """
    size = kind.n_out
    table = np.eye(size + 1, size, k=-1) if kind.table is None else kind.table
    (first, a), (second, b) = map(_axis, (kind.first, kind.second), kind.values)
    rows = table.reshape(*kind.counts, size)[np.ix_(a, b)].reshape(-1, size)
    return (first, second), rows - np.outer(_weights(first), _weights(second)).ravel() @ rows


def _axis(column: Any, values: Any) -> tuple[Any, NDArray[np.intp]]:
    """Return the values to draw, and the position of each."""
    places = np.arange(len(values))
    if isinstance(column, Spline) and column.degree == 0:  # both ends of each step
        return np.repeat(column.breaks, 2)[1:-1], np.repeat(places, 2)
    return values, places


def _weights(values: Any) -> FloatArray:
    return np.full(len(values), 1 / len(values)) if isinstance(values, list) else lengths(values)


def lengths(values: FloatArray) -> FloatArray:
    """Return the weights of numbers in the mean of a piecewise linear function over their range."""
    # Halves, since the difference of bounds may overflow.
    half = values[-1] / 2 - values[0] / 2
    gaps = np.diff(values / 2 / half) / 2
    return np.asarray(np.append(gaps, 0.0) + np.append(0.0, gaps))


def draw_surface(ax: Axes, title: str, values: dict[str, Any], effects: FloatArray) -> None:
    """Draw a heat map in the place of a panel, whose axes may be shared with others."""
    ax.set_axis_off()
    inner, bar = ax.inset_axes((0, 0, 0.86, 1)), ax.inset_axes((0.9, 0, 0.05, 1))
    places = [np.arange(len(v)) if isinstance(v, list) else v for v in values.values()]
    most = float(np.abs(effects).max()) or 1.0
    colors: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "rasterized": True}
    mesh = inner.pcolormesh(*places, effects.T, shading="nearest", **colors)
    ax.figure.colorbar(mesh, cax=bar)
    inner.set_title(title)
    for axis, (name, own) in zip((inner.xaxis, inner.yaxis), values.items(), strict=True):
        axis.set_label_text(name)
        if isinstance(own, list):
            axis.set_ticks(range(len(own)), [str(level) for level in own])
