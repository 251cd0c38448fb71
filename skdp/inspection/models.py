"""Displays of fitted models: coefficients with their errors, and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skdp.inspection._drawing import COLORS, Display
from skdp.model_selection.curve import EpsilonCurve, epsilon_curve
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, check_count, check_interval, fail

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.lines import Line2D
    from sklearn.base import BaseEstimator

    from skdp.domain import Domain
    from skdp.linear_model import Inference

# What a coefficient is drawn for.
UNITS = {"column": "one unit", "range": "the declared range"}


@dataclass(eq=False, repr=False)
class CoefficientDisplay(Display):
    """Coefficients as points, each with a band: a confidence interval, or the privacy noise alone.

    With an ``inference`` of the model, points and bands are its estimates, which are not shrunk,
    and their confidence intervals. They include sampling error and noise. An interval that is not
    bounded reaches the edge of the axes and ends in a triangle.

    Otherwise points are ``coef_``, and bands are drawn if the model has ``coef_std_``. Such a band
    holds the coefficient of the same fit without noise, to first order, with probability ``level``
    for each coefficient separately. It does not include sampling error, or the bias of coefficients
    that are shrunk. Drawing costs no privacy, because only released values are used. Use
    :meth:`from_estimator` to create one.

    Parameters
    ----------
    coef : ndarray of shape (n,)
    names : sequence of str
        Name of each coefficient.
    deviations : ndarray of shape (n,) or None, default=None
        Standard deviations of the noise in the coefficients.
    level : float in (0, 1), default=0.95
        Level of the intervals, or probability that a band holds the value without noise.
    unit : str, default=""
        Label of the axis.
    intervals : ndarray of shape (n, 2) or None, default=None
        Confidence intervals, which are drawn in the place of ``deviations``. Ends may be infinite.

    Attributes
    ----------
    points_ : matplotlib Line2D
    bands_ : matplotlib LineCollection or None
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp import Domain, DPLinearRegression
    >>> from skdp.inspection import CoefficientDisplay
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=(0, 100))
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> display = CoefficientDisplay.from_estimator(DPLinearRegression(domain=domain).fit(X, y))
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['age', 'sex_m']
    """

    coef: FloatArray
    names: Sequence[str]
    _: KW_ONLY
    deviations: FloatArray | None = None
    level: float = 0.95
    unit: str = ""
    intervals: FloatArray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        names: Sequence[str] | None = None,
        label: object = None,
        unit: str = "column",
        level: float = 0.95,
        most: int | None = None,
        inference: Inference | None = None,
        ax: Axes | None = None,
    ) -> CoefficientDisplay:
        """Draw the coefficients of a fitted model.

        Parameters
        ----------
        estimator : fitted private estimator, or a Pipeline that ends in one
        names : sequence of str or None
            Name of each coefficient. None takes the names of the domain or of the columns.
        label : object or None
            Label whose coefficients are drawn; needed for a classifier with more than two labels.
            With two labels None draws those of the second.
        unit : {"column", "range"}, default="column"
            "column" draws the effect of one unit of a column, as in ``coef_``. "range" draws the
            effect of the whole declared range, so that columns can be compared.
        level : float in (0, 1), default=0.95
            Level of the intervals, or probability that a band holds the value without noise.
        most : int >= 1 or None, default=None
            Number of coefficients to draw, the greatest by absolute value. None draws all.
        inference : Inference or None, default=None
            What ``infer`` of the model returned: its estimates and intervals are drawn.
        ax : matplotlib Axes or None, default=None
            Axes to draw on. None creates a figure whose height suits the number of coefficients.
        """
        check_choice("unit", unit, tuple(UNITS))
        level = check_interval("level", level, 0, 1, closed="neither")
        model = last_step(estimator)
        coef, intervals = coefficients_of(model, label), None
        deviations = deviations_of(model, label)[0]
        if inference is not None:
            coef, intervals = combined(model, inference, label, np.eye(len(coef)), level)
        if names is None:
            domain = domain_of(model)
            columns = getattr(model, "feature_names_in_", [f"x{j}" for j in range(len(coef))])
            names = columns if domain is None else domain.encoded_names()
        if len(names) != len(coef):
            rule = f"have {len(coef)} entries, one for each coefficient"
            raise fail("names", rule, len(names))
        factor = np.ones(len(coef)) if unit == "column" else _ranges(model, len(coef))
        n_kept = len(coef) if most is None else check_count("most", most, 1)
        kept = np.sort(np.argsort(-np.abs(coef * factor), kind="stable")[:n_kept])
        return cls(
            (coef * factor)[kept],
            [str(names[i]) for i in kept],
            deviations=None if deviations is None else (deviations * factor)[kept],
            level=level,
            unit=f"{scale_of(model)}, for {UNITS[unit]}",
            intervals=None if intervals is None else (intervals * factor[:, None])[kept],
        ).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> CoefficientDisplay:
        """Draw the coefficients, the first on top; ``ax`` is that of :meth:`from_estimator`."""
        places = np.arange(len(self.coef))
        ax = self._axes(ax, (6.4, 1.2 + 0.3 * len(places)))
        ax.axvline(0, color="0.6", lw=1, zorder=1)
        self.points_: Line2D = ax.plot(self.coef, places, "o", color=COLORS[0], ms=6, zorder=3)[0]
        self.bands_: LineCollection | None = None
        ax.set_yticks(places, self.names)
        label, ends = self.unit, ends_of(self.coef, self.intervals, self.deviations, self.level)
        if ends is not None:
            finite = np.where(np.isinf(ends), self.coef, ends)
            drawn = ax.hlines(places, *finite, color=COLORS[0], alpha=0.35, lw=7, zorder=2)
            if np.isinf(ends).any():  # up to the edges of the axes, which finite ends give
                edges = ax.get_xlim()
                ax.set_xlim(edges)
                cut = zip(*np.clip(ends, *edges), places, strict=True)
                drawn.set_segments([[(a, y), (b, y)] for a, b, y in cut])
                for end, edge, marker in zip(ends, edges, "<>", strict=True):
                    at = places[np.isinf(end)]
                    x = np.full(len(at), edge)
                    ax.plot(x, at, marker, color=COLORS[0], clip_on=False, zorder=3)
            self.bands_, band = drawn, words_of(self.level, self.intervals is not None)
            label = f"{label}\n({band})" if label else band
        ax.set(xlabel=label, ylim=(len(places) - 0.4, -0.6))
        return self


def ends_of(
    values: FloatArray, intervals: FloatArray | None, deviations: FloatArray | None, level: float
) -> FloatArray | None:
    """Return the lower and upper ends of bands, (2, n), or None if there are none."""
    if intervals is not None:
        return np.asarray(intervals.T)
    if deviations is None:
        return None
    half = -float(ndtri((1 - level) / 2)) * deviations
    return np.stack([values - half, values + half])


def words_of(level: float, is_interval: bool) -> str:
    if is_interval:
        return f"band: {100 * level:.4g} % confidence interval"
    return f"band: error due to privacy noise, {100 * level:.4g} % of the time"


def combined(
    model: BaseEstimator, inference: Inference, label: object, rows: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return combinations of the slopes of a model's inference, and their intervals.

    Returns arrays of shape (m,) and (m, 2) for ``rows`` of shape (m, n_slopes).
    """
    if inference.domain != model._design.domain:
        raise fail("inference", "be of the columns of the model", remedy="Call model.infer.")
    sign = _row_of(model, label)[1]
    before = np.zeros((len(rows), len(inference.names) - rows.shape[1]))  # the intercept
    return inference.combine(np.hstack([before, sign * rows]), level=level)


def last_step(estimator: BaseEstimator) -> BaseEstimator:
    steps = getattr(estimator, "steps", None)
    model: BaseEstimator = steps[-1][1] if steps else estimator
    if getattr(model, "coef_", None) is None:
        raise fail("estimator", "have coef_", type(model), "Fit it first.")
    return model


def domain_of(model: BaseEstimator) -> Domain | None:
    """Return the domain of a model's coefficients, or None; ``domain_`` if curves were chosen."""
    if getattr(model, "domain", None) is None:
        return None
    domain = getattr(model, "domain_", None)
    return getattr(model, "domain", None) if domain is None else domain


def scale_of(model: Any) -> str:
    """Return what coefficients are, with their scale if it is not that of the target."""
    scale = getattr(model, "_scale", "target")
    return "coefficient" if scale == "target" else f"coefficient ({scale})"


def coefficients_of(model: BaseEstimator, label: object) -> FloatArray:
    """Return the coefficients of one label, or the only ones.

    With two labels those of the first are those of the second, with the other sign.
    """
    row, sign = _row_of(model, label)
    return np.asarray(sign * np.atleast_2d(model.coef_)[row], dtype=float)


def deviations_of(
    model: BaseEstimator, label: object
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return the standard deviations of these coefficients and their correlations, if known."""
    row, size = _row_of(model, label)[0], np.shape(model.coef_)[-1]
    deviations = getattr(model, "coef_std_", None)
    correlations = getattr(model, "coef_corr_", None)
    if deviations is not None:
        deviations = np.asarray(np.atleast_2d(deviations)[row], dtype=float)
    if correlations is not None:
        correlations = np.asarray(np.reshape(correlations, (-1, size, size))[row])
    return deviations, correlations


def _row_of(model: BaseEstimator, label: object) -> tuple[int, int]:
    n_rows = len(np.atleast_2d(model.coef_))
    labels = np.asarray(getattr(model, "classes_", [])).tolist()
    if n_rows == 1 and (label is None or not labels):
        return 0, 1
    if label not in labels:
        raise fail("label", f"be one of {labels}", label)
    place = labels.index(label)
    return (0, 1 if place else -1) if n_rows == 1 else (place, 1)


def _ranges(model: BaseEstimator, count: int) -> FloatArray:
    """Return the length of the range of each encoded column: 1 for an indicator."""
    domain = domain_of(model)
    if domain is None:
        return np.full(count, 2.0)  # without a domain columns are clipped to [-1, 1]
    if domain.radius is not None:
        return np.full(count, 2.0 * domain.radius)
    ranges = np.ones(count)
    # A slope of 1 over the encoded column is 1 / half the range in the user's own units.
    slopes, _ = domain.decode_coef(np.ones(count))
    ranges[domain.number_index] = 2 / slopes[domain.number_index]
    return ranges


class EpsilonCurveDisplay(Display):
    """Median and quartiles of scores against epsilon, with two reference models.

    Use :meth:`from_estimator` or :meth:`from_curve` to create one. No guarantee covers a curve of
    private data: see :func:`~skdp.model_selection.epsilon_curve`.

    Parameters
    ----------
    curve : EpsilonCurve
    label : str or None, default=None
        Label in the legend. None takes the name of the estimator.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Medians.
    band_ : matplotlib PolyCollection
        Band from the lower to the upper quartile.
    references_ : list of matplotlib Line2D
        Lines of the model without privacy and of the trivial model.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> from skdp.inspection import EpsilonCurveDisplay
    >>> from skdp.model_selection import epsilon_curve
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> model = DPLogisticRegression(domain=domain)
    >>> curve = epsilon_curve(model, X, y, [0.1, 1.0], repeats=1, cv=2)
    >>> EpsilonCurveDisplay.from_curve(curve).ax_.get_xlabel()
    'epsilon (log scale)'
    """

    line_: Line2D
    band_: PolyCollection
    references_: list[Line2D]

    def __init__(self, curve: EpsilonCurve, *, label: str | None = None) -> None:
        self.curve = curve
        self.label = label

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: object,
        y: object,
        epsilons: Sequence[float],
        *,
        ax: Axes | None = None,
        label: str | None = None,
        references: bool = True,
        **options: Any,
    ) -> EpsilonCurveDisplay:
        """Compute a curve and draw it.

        Parameters
        ----------
        estimator, X, y, epsilons
            As in :func:`~skdp.model_selection.epsilon_curve`.
        ax, label, references
            As in :meth:`from_curve`.
        **options
            Further parameters of `epsilon_curve`: ``repeats``, ``cv``, ``scoring``, ...
        """
        curve = epsilon_curve(estimator, X, y, epsilons, **options)
        return cls.from_curve(curve, ax=ax, label=label, references=references)

    @classmethod
    def from_curve(
        cls,
        curve: EpsilonCurve,
        *,
        ax: Axes | None = None,
        label: str | None = None,
        references: bool = True,
    ) -> EpsilonCurveDisplay:
        """Draw a curve.

        Parameters
        ----------
        curve : EpsilonCurve
        ax : matplotlib Axes or None
            Axes to draw on. None creates a figure. Further curves on the same axes take other
            colours.
        label : str or None, default=None
            Label in the legend. None takes the name of the estimator.
        references : bool, default=True
            Whether to draw the lines of the two reference models.
        """
        return cls(curve, label=label).plot(ax=ax, references=references)

    def plot(self, ax: Axes | None = None, *, references: bool = True) -> EpsilonCurveDisplay:
        """Draw the curve; the parameters are those of :meth:`from_curve`."""
        ax = self._axes(ax, (6.4, 4.4))
        curve, color = self.curve, COLORS[len(ax.collections) % len(COLORS)]
        low, middle, high = curve.quantile((0.25, 0.5, 0.75))
        label = self.label or curve.estimator_name
        drawn = ax.plot(curve.epsilons, middle, "o-", color=color, lw=2, ms=5, label=label)
        self.line_ = drawn[0]
        self.band_ = ax.fill_between(curve.epsilons, low, high, color=color, alpha=0.2, lw=0)
        trivial, free = curve.reference_medians
        pairs = [("without privacy", free, "--"), ("trivial", trivial, ":")] if references else []
        self.references_ = [
            ax.axhline(median, color="0.35", lw=1.5, ls=dashes, label=name)
            for name, median, dashes in pairs
        ]
        ax.set(xscale="log", xlabel="epsilon (log scale)", ylabel=f"test {curve.score_name}")
        if len(curve.epsilons) <= 9:  # labels of more would overlap
            ax.set_xticks(curve.epsilons, [f"{value:.3g}" for value in curve.epsilons])
            ax.minorticks_off()
        ax.legend(frameon=False, loc="best")
        return self
