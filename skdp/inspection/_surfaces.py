"""The joint effects of two columns: panels with a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.domain.interactions import Interaction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Surface:
    """The joint effect of two columns with an interaction.

    Attributes
    ----------
    name : str
        The names of both columns, with " x " between them.
    names : tuple of two str
    values : tuple of two ndarrays or lists
        For each column numbers in its units, increasing, or levels.
    effects : ndarray of shape (values of the first, values of the second)
        Terms of the linear predictor, less the mean over all pairs.
    """

    name: str
    names: tuple[str, str]
    values: tuple[Any, Any]
    effects: FloatArray


def surface_of(names: Sequence[str], kind: Interaction, coef: FloatArray) -> Surface:
    """Return the joint effect for coefficients of the encoded columns of an interaction."""
    terms = np.append(0.0, coef) if kind.table is None else kind.table @ coef
    first, second = values = kind.values
    # The last position of a spline may be that of missing cells, which are not drawn.
    effects = terms.reshape(kind.counts)[: len(first), : len(second)]
    return Surface(" x ".join(names), (names[0], names[1]), values, effects - effects.mean())


def draw_surface(ax: Axes, surface: Surface) -> None:
    """Draw a heat map in the place of a panel, whose axes may be shared with others."""
    ax.set_axis_off()
    inner, bar = ax.inset_axes((0, 0, 0.86, 1)), ax.inset_axes((0.9, 0, 0.05, 1))
    places = [np.arange(len(v)) if isinstance(v, list) else v for v in surface.values]
    most = float(np.abs(surface.effects).max()) or 1.0
    colors: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "rasterized": True}
    mesh = inner.pcolormesh(*places, surface.effects.T, shading="nearest", **colors)
    ax.figure.colorbar(mesh, cax=bar)
    inner.set(title=surface.name, xlabel=surface.names[0], ylabel=surface.names[1])
    for axis, own in zip((inner.xaxis, inner.yaxis), surface.values, strict=True):
        if isinstance(own, list):
            axis.set_ticks(range(len(own)), [str(level) for level in own])
