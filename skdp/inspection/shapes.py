"""The effect of each column of a model: curves, lines, bars and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.domain import Domain
from skdp.domain.columns import Levels, Number
from skdp.domain.splines import Column, Interaction, Spline
from skdp.inspection._drawing import Display, style
from skdp.inspection.models import (
    coefficients_of,
    combined,
    deviations_of,
    domain_of,
    ends_of,
    last_step,
    words_of,
)
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_count, check_interval, fail, optional_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

    from skdp.linear_model import Inference

Edges = tuple[float, float]
Values = FloatArray | list[object]  # numbers or levels


@dataclass(frozen=True, eq=False)
class Shape:
    """The effect of one column, for one label.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n,) or list
        Numbers in the units of the column, increasing; the last is nan for a missing cell with an
        indicator. Or levels. For an interaction a dict with these for each of two columns.
    effects : ndarray of shape (n,), or (n, m) for an interaction
        Their terms of the linear predictor, less the mean over the declared range or the levels.
    is_curve : bool
        Whether the values are numbers.
    deviations : ndarray of the same shape or None
        Standard deviations of the effects.
    label : object
        The label, if there are several to draw.
    interval : ndarray of shape (n, 2) or None
        The ends of confidence intervals of the effects, which may be infinite. They are drawn in
        the place of ``deviations``.
    """

    name: str
    values: Any
    effects: FloatArray
    is_curve: bool
    deviations: FloatArray | None = None
    label: object = None
    interval: FloatArray | None = None

    @property
    def is_surface(self) -> bool:
        """Whether the effect is one of two columns."""
        return isinstance(self.values, dict)


class ShapeDisplay(Display):
    """The effect of each column on the prediction, a panel for each.

    Numbers have a curve or, without a :class:`~skdp.domain.Spline`, a line over their declared
    bounds, which is flat beyond the clipping bounds of the model. A missing number with an
    indicator is a point to the right. Levels have bars. Two columns with an interaction have a heat
    map, after the other panels and with a colour scale of its own. An effect is the column's term
    of the linear predictor: in log-odds for a classifier, in the target's units for a regression,
    in the log of the mean for counts.
    Effects are centred: the mean over the declared range, or over all levels, is subtracted. It is
    not the mean over the records, which is private. Where records are is not drawn either.
    Drawing costs no privacy. Use :meth:`from_estimator` to create one.

    Parameters
    ----------
    shapes : sequence of Shape
        The effects to draw. Those of one name share a panel, in colours by their order.
    unit : str, default=""
        Label of the axes of effects.
    level : float in (0, 1), default=0.95
        Probability of the bands.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (rows, columns)
    figure_ : matplotlib Figure

    Notes
    -----
    With an ``inference`` of the model, bands are confidence intervals of the population's effects,
    pointwise, with the sampling error and the noise. Curves and bars are those of the model, whose
    coefficients may be shrunk. Intervals belong to estimates that are not shrunk, so that a curve
    may lie outside its band. An interval that is not bounded reaches the edges of the axes.

    Otherwise effects with standard deviations have bands, which are pointwise: each holds a normal
    variable with the probability ``level``. The standard deviations are those of the privacy noise.
    Bands do not include sampling errors, or the bias of coefficients that are shrunk.
    Explainable boosting machines are usually drawn with one standard deviation, ``level=0.68``,
    over bootstrap samples, which is another error.

    ``DPLinearRegression`` has the standard deviations ``coef_std_`` and the correlations
    ``coef_corr_``, to first order. If the correlations are unknown, as in a model that was read
    from a file, the band has the sum of the standard deviations of an effect's terms. It is then
    wider, and never narrower. Other models have no bands: the errors of their coefficients depend
    on the curvature of the loss, which is private.

    Examples
    --------
    >>> from skdp import Domain, DPHuberRegressor, Spline
    >>> from skdp.inspection import ShapeDisplay
    >>> domain = Domain({"hour": Spline(0, 24, knots=4), "sky": ["clear", "rain"]}, target=(0, 100))
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> display = ShapeDisplay.from_estimator(DPHuberRegressor(domain=domain).fit(X, y))
    >>> [shape.name for shape in display.shapes]
    ['hour', 'sky']
    """

    axes_: Array

    def __init__(self, shapes: Sequence[Shape], *, unit: str = "", level: float = 0.95) -> None:
        self.shapes = shapes
        self.unit = unit
        self.level = level

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        columns: Sequence[str] | None = None,
        label: object = None,
        level: float = 0.95,
        n_cols: int = 3,
        inference: Inference | None = None,
    ) -> ShapeDisplay:
        """Draw the effects of the columns of a fitted model.

        Parameters
        ----------
        estimator : fitted private estimator with a domain, or a Pipeline that ends in one
        columns : sequence of str or None, default=None
            Names of the columns to draw, "a x b" for an interaction. None draws all.
        label : object or None, default=None
            Label whose effects are drawn. None draws the second of two labels, and all of more
            than two, each in a colour; beyond seven labels only lines differ, by their dashes.
        level : float in (0, 1), default=0.95
            Probability of the bands.
        n_cols : int >= 1, default=3
            Number of panels beside each other.
        inference : Inference or None, default=None
            What ``infer`` of the model returned: its intervals are drawn.

        Raises
        ------
        ValueError
            If the model is not fitted, its domain does not declare each column, or a parameter is
            not as described.
        """
        shapes, unit = shapes_of(estimator, columns, label, level, inference)
        return cls(shapes, unit=unit, level=level).plot(n_cols=n_cols)

    def plot(self, n_cols: int = 3) -> ShapeDisplay:
        """Draw all panels in a new figure, ``n_cols`` in a row, with one scale of effects."""
        plt = optional_module("matplotlib.pyplot", "to draw", "plot")
        panels: dict[object, list[Shape]] = {}
        # Heat maps come last: the first panels of the rows have the numbers of the shared axis.
        for shape in sorted(self.shapes, key=lambda shape: shape.is_surface):
            key = (shape.name, shape.label) if shape.is_surface else shape.name
            panels.setdefault(key, []).append(shape)
        n_cols = min(check_count("n_cols", n_cols), max(1, len(panels)))
        n_rows = max(1, math.ceil(len(panels) / n_cols))
        longest = max(panels.values(), key=len, default=[])
        lines = math.ceil(len(longest) / (2 * n_cols)) if len(longest) > 1 else 0  # of the legend
        size = 3.2 * n_cols + 0.6, 2.4 * n_rows + 0.4 + 0.22 * lines
        self.figure_, self.axes_ = plt.subplots(
            n_rows, n_cols, figsize=size, sharey=True, squeeze=False, layout="constrained"
        )
        edges = _common_edges(self.shapes, self.level)
        for ax, panel in zip(self.axes_.ravel(), panels.values(), strict=False):
            _draw_panel(ax, panel, self.level, edges)
        if edges is not None:
            self.axes_[0, 0].set_ylim(edges)
        for ax in self.axes_.ravel()[len(panels) :]:
            ax.set_axis_off()
        self.figure_.supylabel(self.unit)
        if lines:
            from matplotlib.lines import Line2D

            names = [str(shape.label) for shape in longest]
            legend = [Line2D([], [], lw=2, label=name, **style(k)) for k, name in enumerate(names)]
            columns = min(len(legend), 2 * n_cols)
            self.figure_.legend(handles=legend, loc="outside upper center", ncols=columns)
        is_interval = any(shape.interval is not None for shape in self.shapes)
        if is_interval or any(shape.deviations is not None for shape in self.shapes):
            self.figure_.supxlabel(words_of(self.level, is_interval), fontsize="small")
        return self


def shapes_of(
    estimator: BaseEstimator,
    columns: Sequence[str] | None = None,
    label: object = None,
    level: float = 0.95,
    inference: Inference | None = None,
) -> tuple[list[Shape], str]:
    """Return the effects of columns, and the label of their axes."""
    level = check_interval("level", level, 0, 1, closed="neither")
    model = last_step(estimator)
    terms = _terms(estimator, model)
    names = [term.name for term in terms]
    chosen = names if columns is None else list(columns)
    if strangers := [name for name in chosen if name not in names]:
        raise fail("columns", f"be names of columns, {names}", strangers)
    classes = np.asarray(getattr(model, "classes_", [])).tolist()
    several = label is None and len(np.atleast_2d(model.coef_)) > 1
    labels = classes if several else [label]
    drawn = [terms[names.index(name)] for name in chosen]
    shapes = [term.shape(model, one, level, inference) for term in drawn for one in labels]
    unit = f"effect ({getattr(model, '_scale', 'target')})"
    if classes:
        one = classes[-1] if label is None else label
        unit = "effect (log-odds)" if several else f"effect (log-odds of {one})"
    return shapes, unit


@dataclass(frozen=True, eq=False)
class _Term:
    """The encoded values of a column, less their mean: its effects are ``rows @ coef[place]``."""

    name: str
    values: Values | dict[str, Values]
    rows: FloatArray
    place: slice
    is_curve: bool

    def shape(
        self, model: BaseEstimator, label: object, level: float, inference: Inference | None
    ) -> Shape:
        """Return the effects of the column in a model; deviations may be upper bounds on them."""
        coef, spread, interval = coefficients_of(model, label), None, None
        effects, is_surface = self.rows @ coef[self.place], isinstance(self.values, dict)
        if inference is not None and not is_surface:
            rows = np.zeros((len(self.rows), len(coef)))
            rows[:, self.place] = self.rows
            interval = combined(model, inference, label, rows, level)[1]
        deviations, correlations = deviations_of(model, label)
        if deviations is not None and interval is None:
            parts = self.rows * deviations[self.place]
            spread = np.abs(parts).sum(axis=1)
            if correlations is not None:
                variances = (parts @ correlations[self.place, self.place] * parts).sum(axis=1)
                spread = np.sqrt(variances.clip(min=0))
        if isinstance(self.values, dict):
            size = tuple(map(len, self.values.values()))
            effects = effects.reshape(size)
            spread = None if spread is None else spread.reshape(size)
        return Shape(self.name, self.values, effects, self.is_curve, spread, label, interval)


def _terms(estimator: BaseEstimator, model: BaseEstimator) -> list[_Term]:
    domain, is_encoded = domain_of(model), False
    for _, step in getattr(estimator, "steps", [])[:-1]:
        raw = getattr(step, "domain", None)
        if isinstance(raw, Domain) and raw.encoded == domain:  # the domain in the user's units
            domain, is_encoded = raw, True
            break
    if not isinstance(domain, Domain) or (domain.is_ball and not is_encoded):
        raise fail("estimator", "have a domain that declares each column", type(domain))
    kinds = Number, Levels, Spline, Interaction
    if not is_encoded and not all(
        isinstance(column, kinds) for column, *_ in domain._layout.placed
    ):
        rule, remedy = "have a domain of columns that are not encoded", "Pass the whole Pipeline."
        raise fail("estimator", rule, None, remedy)
    names = domain._labels
    if domain.names is None and not is_encoded:
        names = tuple(map(str, getattr(model, "feature_names_in_", names)))
    units = domain.decode_coef(np.ones(domain.n_encoded))[0]
    clipping = getattr(model, "_clipping", None)
    bounds = iter([] if clipping is None else clipping.in_units(domain).tolist())
    terms = []
    for column, read, place in domain._layout.placed:
        name, is_curve = " x ".join(names[read]), isinstance(column, Number | Spline)
        values: Values | dict[str, Values]
        if isinstance(column, Interaction):
            pair, rows = _rows_of_pair(column)
            values = dict(zip(names[read], pair, strict=True))
        else:
            limits = next(bounds, None) if isinstance(column, Number) else None
            values, rows = _rows_of(column, limits)
        rows = rows * units[place] if is_encoded else rows
        terms.append(_Term(name, values, rows, place, is_curve))
    return terms


def _rows_of(column: Column, bounds: Sequence[float] | None) -> tuple[Values, FloatArray]:
    """Return the values of a column, and their encoded values less the mean."""
    if isinstance(column, Levels):
        levels = [*column.levels, *["missing"] * (column.missing is not None)]
        rows = np.vstack([np.zeros(column.n_out), np.eye(column.n_out)])
        return levels, rows - rows.mean(axis=0)
    if isinstance(column, Spline):
        values, missing = column.nodes, column.table[len(column.nodes) :]
        rows = column.table[: len(values)]
        if column.degree == 0:  # a step at each knot
            values, rows = np.repeat(column.breaks, 2)[1:-1], np.repeat(rows, 2, axis=0)
    else:
        assert isinstance(column, Number)
        lower, upper = bounds or (column.lower, column.upper)
        inner = [bound for bound in (lower, upper) if column.lower < bound < column.upper]
        values = np.array([column.lower, *inner, column.upper])
        rows = np.zeros((len(values), column.n_out))
        missing = np.ones((column.n_out - 1, column.n_out))
        rows[:, 0], missing[:, 0] = values.clip(lower, upper), np.clip(column.centre, lower, upper)
    mean = _weights(values) @ rows
    return np.append(values, [np.nan] * len(missing)), np.vstack([rows, missing]) - mean


def _rows_of_pair(kind: Interaction) -> tuple[tuple[Values, Values], FloatArray]:
    """Return the values of two columns, and the encoded values of all pairs, less their mean.

    Missing cells of numbers are left out.
    """
    size = kind.n_out
    table = np.eye(size + 1, size, k=-1) if kind.table is None else kind.table
    values, places = list(kind.values), [np.arange(len(own)) for own in kind.values]
    for k, column in enumerate((kind.first, kind.second)):
        if isinstance(column, Spline) and column.degree == 0:  # both ends of each step
            values[k], places[k] = np.repeat(column.breaks, 2)[1:-1], np.repeat(places[k], 2)
    rows = table.reshape(*kind.counts, size)[np.ix_(*places)].reshape(-1, size)
    first, second = values
    return (first, second), rows - np.outer(_weights(first), _weights(second)).ravel() @ rows


def _weights(values: Values) -> FloatArray:
    """Return the weights in the mean over levels, or of a piecewise linear function of numbers."""
    if isinstance(values, list):
        return np.full(len(values), 1 / len(values))
    # Halves, since the difference of bounds may overflow.
    half = values[-1] / 2 - values[0] / 2
    gaps = np.diff(values / 2 / half) / 2
    return np.asarray(np.append(gaps, 0.0) + np.append(0.0, gaps))


# Panels


def _band(shape: Shape, level: float) -> FloatArray | None:
    return ends_of(shape.effects, shape.interval, shape.deviations, level)


def _common_edges(shapes: Sequence[Shape], level: float) -> Edges | None:
    """Return the limits of the axis of effects if a band is not bounded, and None otherwise."""
    shown = [shape for shape in shapes if not shape.is_surface]
    bands = [band for shape in shown if (band := _band(shape, level)) is not None]
    values = np.concatenate([*(shape.effects for shape in shown), *map(np.ravel, bands), [0.0]])
    if np.isfinite(values).all():
        return None
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    room = 0.1 * (high - low) or 1.0
    return low - room, high + room


def _draw_panel(ax: Axes, panel: Sequence[Shape], level: float, edges: Edges | None) -> None:
    first = panel[0]
    if first.is_surface:
        _draw_surface(ax, first)
        return
    ax.axhline(0, color="0.6", lw=1, zorder=1)
    ax.set_title(first.name)
    for k, shape in enumerate(panel):
        band = _band(shape, level)
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


def _draw_errors(ax: Axes, places: FloatArray, band: FloatArray | None, color: str) -> None:
    """Draw vertical lines from the lower to the upper ends, which need not hold the effect."""
    if band is not None:
        low, high = band
        ax.errorbar(places, (low + high) / 2, (high - low) / 2, fmt="none", ecolor=color, zorder=4)


def _name_levels(ax: Axes, names: list[str]) -> None:
    """Write the names of levels below their bars, or their number if there are too many."""
    if len(names) > 30:
        ax.set_xticks([])
        ax.set_xlabel(f"{len(names)} levels")
        return
    short = [name if len(name) <= 18 else f"{name[:17]}…" for name in names]
    ax.set_xticks(range(len(names)), short)
    if sum(map(len, short)) > 24:
        ax.tick_params("x", rotation=90, labelsize="x-small")


def _draw_surface(ax: Axes, shape: Shape) -> None:
    """Draw a heat map in the place of a panel, whose axes may be shared with others."""
    ax.set_axis_off()
    inner, bar = ax.inset_axes((0, 0, 0.86, 1)), ax.inset_axes((0.9, 0, 0.05, 1))
    columns: dict[str, Values] = shape.values
    places = [np.arange(len(v)) if isinstance(v, list) else v for v in columns.values()]
    most = float(np.abs(shape.effects).max()) or 1.0
    cells = *places, shape.effects.T
    mesh = inner.pcolormesh(*cells, shading="nearest", cmap="RdBu_r", vmin=-most, vmax=most)
    mesh.set_rasterized(True)
    ax.figure.colorbar(mesh, cax=bar)
    inner.set_title(shape.name if shape.label is None else f"{shape.name} ({shape.label})")
    for axis, (name, values) in zip((inner.xaxis, inner.yaxis), columns.items(), strict=True):
        axis.set_label_text(name)
        if isinstance(values, list):
            axis.set_ticks(range(len(values)), [str(level) for level in values])
