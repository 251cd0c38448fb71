"""The effect of each column of a model: curves, lines and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_count, fail, optional_module
from skdp.domain import Domain
from skdp.domain.columns import Column, Levels, Number
from skdp.domain.interactions import Interaction
from skdp.domain.splines import Spline
from skdp.inspection._drawing import COLORS, Display
from skdp.inspection._surfaces import Surface, draw_surface, surface_of
from skdp.inspection.coefficients import coefficients_of, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Levels beyond so many have no names on the axis.
MOST_NAMES = 12


@dataclass(frozen=True, eq=False)
class Shape:
    """The effect of one column.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n,) or list
        Numbers in the units of the column, increasing; or levels.
    effects : ndarray of shape (n,)
        Their terms of the linear predictor, less the mean over ``values``.
    is_curve : bool
        Whether the values are numbers.
    """

    name: str
    values: Any
    effects: FloatArray
    is_curve: bool


class ShapeDisplay(Display):
    """The effect of each column on the prediction, a panel for each.

    Numbers have a curve or, without a :class:`~skdp.domain.Spline`, a line over their declared
    bounds. Levels have bars. An effect is the column's term of the linear predictor: in log-odds
    for a classifier, in the target's units for a regression. Its mean over the declared range, or
    over all levels, is subtracted, so that no data are used. The effect of a missing number with an
    indicator is not drawn. Two columns with an interaction have a heat map, with a colour scale of
    its own. Drawing costs no privacy. Use :meth:`from_estimator` to create one.

    Parameters
    ----------
    shapes : sequence of Shape or Surface
        The columns to draw, each with its ``name``, ``values`` and ``effects``.
    unit : str, default=""
        Label of the axes of effects.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (rows, columns)
    figure_ : matplotlib Figure
    """

    def __init__(self, shapes: Sequence[Shape | Surface], *, unit: str = "") -> None:
        self.shapes = shapes
        self.unit = unit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        columns: Sequence[str] | None = None,
        label: Any = None,
        n_cols: int = 3,
    ) -> ShapeDisplay:
        """Draw the effects of the columns of a fitted model.

        Parameters
        ----------
        estimator : fitted private estimator with a domain, or a Pipeline that ends in one
        columns : sequence of str or None, default=None
            Names of the columns to draw, "a x b" for an interaction. None draws all.
        label : object or None, default=None
            Label whose effects are drawn, for a classifier with more than two labels.
        n_cols : int >= 1, default=3
            Number of panels beside each other.

        Returns
        -------
        ShapeDisplay

        Examples
        --------
        >>> from skdp import Domain, DPLogisticRegression, Spline
        >>> domain = Domain({"age": Spline(17, 90, knots=4), "sex": ["f", "m"]}, target=[0, 1])
        >>> X, y = domain.sample(500, random_state=0, with_target=True)
        >>> shown = ShapeDisplay.from_estimator(DPLogisticRegression(domain=domain).fit(X, y))
        >>> [shape.name for shape in shown.shapes]
        ['age', 'sex']
        """
        model = last_step(estimator)
        domain = getattr(model, "domain", None)
        if not isinstance(domain, Domain) or domain.is_ball:
            raise fail("estimator", "have a domain that declares each column", type(model))
        shapes = shapes_of(domain, coefficients_of(model, label))
        known = [shape.name for shape in shapes]
        chosen = known if columns is None else list(columns)
        if strangers := [name for name in chosen if name not in known]:
            raise fail("columns", f"be names of columns, {known}", strangers)
        kept = [shapes[known.index(name)] for name in chosen]
        unit = "log-odds" if hasattr(model, "classes_") else "target"
        return cls(kept, unit=f"effect ({unit})").plot(n_cols=n_cols)

    def plot(self, n_cols: int = 3) -> ShapeDisplay:
        """Draw all panels in a new figure, with one scale of effects; heat maps come last.

        Parameters
        ----------
        n_cols : int >= 1, default=3

        Returns
        -------
        ShapeDisplay
            This display.
        """
        plt = optional_module("matplotlib.pyplot", "to draw", "plot")
        n_cols = min(check_count("n_cols", n_cols), max(1, len(self.shapes)))
        n_rows = max(1, math.ceil(len(self.shapes) / n_cols))
        size = 3.2 * n_cols + 0.6, 2.4 * n_rows + 0.4
        self.figure_, self.axes_ = plt.subplots(
            n_rows, n_cols, figsize=size, sharey=True, squeeze=False, layout="constrained"
        )
        # Heat maps come last: the first panels of the rows have the numbers of the shared axis.
        shapes = sorted(self.shapes, key=lambda shape: isinstance(shape, Surface))
        for ax, shape in zip(self.axes_.ravel(), shapes, strict=False):
            _draw(ax, shape)
        for ax in self.axes_.ravel()[len(self.shapes) :]:
            ax.set_axis_off()
        for ax in self.axes_[:, 0]:
            ax.set_ylabel(self.unit)
        return self


def shapes_of(domain: Domain, coef: FloatArray) -> list[Shape | Surface]:
    """Return the effects of the columns of a domain, for coefficients in the user's units."""
    placed = domain._layout.placed
    return [
        surface_of(domain._labels[read], column, coef[write])
        if isinstance(column, Interaction)
        else _shape(domain._labels[read.start], column, coef[write])
        for column, read, write in placed
        if isinstance(column, Number | Levels | Spline | Interaction)
    ]


def _shape(name: str, column: Column, coef: FloatArray) -> Shape:
    if isinstance(column, Levels):
        levels = [*column.levels, *["missing"] * (column.missing is not None)]
        return Shape(name, levels, _centred(np.append(0.0, coef)), False)
    if isinstance(column, Spline):
        nodes, terms = column.nodes, column.table[: len(column.nodes)] @ coef
        if column.degree == 0:  # a step at each knot
            nodes, terms = np.repeat(column.breaks, 2)[1:-1], np.repeat(terms, 2)
        return Shape(name, nodes, _centred(terms), True)
    assert isinstance(column, Number)
    ends = np.array([column.lower, column.upper])
    return Shape(name, ends, _centred(coef[0] * ends), True)


def _centred(effects: FloatArray) -> FloatArray:
    return np.asarray(effects - effects.mean())


def _draw(ax: Axes, shape: Shape | Surface) -> None:
    """Draw one panel."""
    if isinstance(shape, Surface):
        draw_surface(ax, shape)
        return
    ax.axhline(0, color="0.6", lw=1, zorder=1)
    ax.set_title(shape.name)
    if shape.is_curve:
        ax.plot(shape.values, shape.effects, color=COLORS[0], lw=2)
        return
    places = np.arange(len(shape.effects))
    ax.bar(places, shape.effects, color=COLORS[0], width=0.7, zorder=2)
    if len(places) <= MOST_NAMES:
        names = [str(level) for level in shape.values]
        ax.set_xticks(places, names, rotation=30 if max(map(len, names)) > 3 else 0, ha="center")
