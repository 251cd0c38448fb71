"""Display of scores against epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skdp.inspection._drawing import COLORS, Display
from skdp.model_selection.curve import EpsilonCurve, epsilon_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

_QUARTILES = (0.25, 0.5, 0.75)
# Labels of more ticks would overlap.
_MOST_TICKS = 9


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
        estimator: Any,
        X: Any,
        y: Any,
        epsilons: Any,
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

        Returns
        -------
        EpsilonCurveDisplay

        Examples
        --------
        >>> from skdp import Domain, DPLogisticRegression
        >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
        >>> X, y = domain.sample(500, random_state=0, with_target=True)
        >>> shown = EpsilonCurveDisplay.from_estimator(
        ...     DPLogisticRegression(domain=domain), X, y, [0.1, 1, 10], repeats=1, cv=2
        ... )
        >>> shown.ax_.get_xscale()
        'log'
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

        Returns
        -------
        EpsilonCurveDisplay
        """
        return cls(curve, label=label).plot(ax=ax, references=references)

    def plot(self, ax: Axes | None = None, *, references: bool = True) -> EpsilonCurveDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax, references
            As in :meth:`from_curve`.

        Returns
        -------
        EpsilonCurveDisplay
            This display.
        """
        ax = self._axes(ax, (6.4, 4.4))
        curve, color = self.curve, COLORS[len(ax.collections) % len(COLORS)]
        low, middle, high = curve.quantile(_QUARTILES)
        label = self.label or curve.estimator_name
        drawn = ax.plot(curve.epsilons, middle, "o-", color=color, lw=2, ms=5, label=label)
        self.line_ = drawn[0]
        self.band_ = ax.fill_between(curve.epsilons, low, high, color=color, alpha=0.2, lw=0)
        self.references_ = self._references(ax) if references else []
        ax.set(xscale="log", xlabel="epsilon (log scale)", ylabel=f"test {curve.score_name}")
        if len(curve.epsilons) <= _MOST_TICKS:
            ax.set_xticks(curve.epsilons, [f"{value:.3g}" for value in curve.epsilons])
            ax.minorticks_off()
        ax.legend(frameon=False, loc="best")
        return self

    def _references(self, ax: Axes) -> list[Any]:
        """Draw the medians of the two reference models."""
        trivial, free = self.curve.reference_medians
        pairs = (("without privacy", free, "--"), ("trivial", trivial, ":"))
        return [
            ax.axhline(median, color="0.35", lw=1.5, ls=dashes, label=name)
            for name, median, dashes in pairs
        ]
