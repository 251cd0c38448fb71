"""Display of norm balls in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, fail
from skdp.geometry import NormBall
from skdp.geometry.comparison import BallSensitivity, scaled_balls
from skdp.inspection._drawing import Display, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


_SPACE = "#B9C4D0"


class NormBallDisplay(Display):
    """Outlines of norm balls in the plane, over the differences that one record can cause.

    Use :meth:`from_balls` to create one; it computes the parameters.

    Parameters
    ----------
    outlines : dict of str to ndarray of shape (n, 2)
        Closed line of each ball.
    space : ndarray of shape (n, 2) or None, default=None
        Sensitivity space: points, or the outline of a body.
    space_is_outline : bool, default=False
        Whether ``space`` is an outline and not points.
    axis_labels : pair of str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        Outlines, in the order of the balls.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.inspection import NormBallDisplay
    >>> display = NormBallDisplay.from_balls([LpBall(2), LpBall(2, p=1)], sensitivity=LpBall(2))
    >>> len(display.lines_)
    2
    """

    lines_: list[Line2D]

    def __init__(
        self,
        outlines: Mapping[str, FloatArray],
        *,
        space: FloatArray | None = None,
        space_is_outline: bool = False,
        axis_labels: tuple[str, str] = ("$u_1$", "$u_2$"),
    ) -> None:
        self.outlines = outlines
        self.space = space
        self.space_is_outline = space_is_outline
        self.axis_labels = axis_labels

    @classmethod
    def from_balls(
        cls,
        balls: Mapping[str, NormBall] | Sequence[NormBall],
        *,
        sensitivity: BallSensitivity | NormBall | None = None,
        sensitivity_space: ArrayLike | NormBall | None = None,
        section: ArrayLike | None = None,
        n_points: int = 720,
        ax: Axes | None = None,
        aspect: Literal["equal", "auto"] = "equal",
    ) -> NormBallDisplay:
        """Draw balls of the same dimension, each scaled to the sensitivity.

        Parameters
        ----------
        balls : dict of str to NormBall, or sequence of NormBall
            Two-dimensional, or cut by the plane of ``section``.
        sensitivity : object with ``radius_in(ball)``, NormBall or None
            As in :func:`skdp.geometry.compare`: each ball is scaled by its radius.
        sensitivity_space : array-like of shape (n, 2), NormBall or None
            Differences that one record can cause, drawn below the outlines: points of the plane,
            or a body of the same dimension as the balls.
        section : pair of int, array-like of shape (2, dim), or None
            Plane to draw: two coordinates, or two directions that span it. Required for more
            than two dimensions. The intersection of the ball with the plane is drawn, not its
            projection.
        n_points : int >= 8, default=720
            Number of points of an outline; corners of a two-dimensional ball are added.
        ax : matplotlib Axes or None, default=None
            Axes to draw on. None creates a figure.
        aspect : {"equal", "auto"}, default="equal"
            Whether both axes have the same scale.

        Returns
        -------
        NormBallDisplay

        Examples
        --------
        >>> from skdp.geometry import LpBall
        >>> shown = NormBallDisplay.from_balls({"l1": LpBall(2, p=1), "l2": LpBall(2)})
        >>> [line.get_label() for line in shown.lines_]
        ['l1', 'l2']
        """
        scaled = scaled_balls(balls, sensitivity)
        plane, labels = _plane(section, next(iter(scaled.values())).dim)
        n_points = check_count("n_points", n_points, 8)
        display = cls(
            {name: _outline(ball, plane, n_points) for name, ball in scaled.items()},
            space=_space(sensitivity_space, plane, n_points),
            space_is_outline=isinstance(sensitivity_space, NormBall),
            axis_labels=labels,
        )
        return display.plot(ax=ax, aspect=aspect)

    def plot(
        self, ax: Axes | None = None, *, aspect: Literal["equal", "auto"] = "equal"
    ) -> NormBallDisplay:
        """Draw the outlines.

        Parameters
        ----------
        ax, aspect
            As in :meth:`from_balls`.

        Returns
        -------
        NormBallDisplay
            This display.
        """
        check_choice("aspect", aspect, ("equal", "auto"))
        ax = self._axes(ax, (6.8, 4.8), "compressed")
        self._plot_space(ax)
        self.lines_ = [
            ax.plot(*outline.T, label=name, lw=2, zorder=3, **style(i))[0]
            for i, (name, outline) in enumerate(self.outlines.items())
        ]
        ax.axhline(0, color="0.85", lw=0.8, zorder=0)
        ax.axvline(0, color="0.85", lw=0.8, zorder=0)
        # "datalim" would change the limits of the axes; "box" changes their shape instead.
        ax.set_aspect(aspect, adjustable="box")
        ax.set(xlabel=self.axis_labels[0], ylabel=self.axis_labels[1])
        ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, markerscale=4)
        return self

    def _plot_space(self, ax: Axes) -> None:
        if self.space is None:
            return
        label = "sensitivity space"
        if self.space_is_outline:
            ax.fill(*self.space.T, color=_SPACE, lw=0, label=label, zorder=1)
        else:
            x, y = self.space.T
            ax.scatter(x, y, color=_SPACE, s=4, lw=0, label=label, zorder=1)


def _plane(section: ArrayLike | None, dim: int) -> tuple[FloatArray, tuple[str, str]]:
    """Return two directions, (2, dim), and the names of the axes."""
    if section is None:
        if dim != 2:
            raise fail("section", f"be given to draw balls of dimension {dim}")
        section = (0, 1)
    rows = np.asarray(section, dtype=float)
    if rows.shape == (2, dim) and np.linalg.matrix_rank(rows) == 2:
        return rows, ("along the first direction", "along the second direction")
    if rows.shape != (2,) or not set(rows) <= set(range(dim)) or rows[0] == rows[1]:
        rule = f"be two of the coordinates 0, ..., {dim - 1} or two directions, (2, {dim})"
        raise fail("section", rule, np.asarray(section).tolist())
    first, second = rows.astype(int)
    return np.eye(dim)[[first, second]], (f"$u_{{{first + 1}}}$", f"$u_{{{second + 1}}}$")


def _outline(ball: NormBall, plane: FloatArray, n_points: int) -> FloatArray:
    """Return the boundary of the ball's intersection with the plane as a closed line, (n, 2)."""
    # Angles are evenly spaced after the ball is scaled to length 1 along both axes, so that a
    # long thin body is drawn as precisely as a round one.
    lengths = 1 / ball.gauge(plane)
    turns = np.arange(n_points) * (2 * np.pi / n_points)
    turns = np.sort(np.concatenate([turns, _corner_turns(ball, plane * lengths[:, None])]))
    ring = lengths * np.column_stack([np.cos(turns), np.sin(turns)])
    outline = ring / ball.gauge(ring @ plane)[:, None]
    return np.asarray(np.concatenate([outline, outline[:1]]))


def _corner_turns(ball: NormBall, axes: FloatArray) -> FloatArray:
    """Return the angles of the corners of a two-dimensional ball; ``axes`` has axes as rows."""
    if ball.dim != 2:
        return np.zeros(0)
    try:
        corners = ball.extreme_points()  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return np.zeros(0)
    x, y = np.linalg.solve(axes.T, np.asarray(corners).T)
    return np.asarray(np.arctan2(y, x) % (2 * np.pi))


def _space(
    space: ArrayLike | NormBall | None, plane: FloatArray, n_points: int
) -> FloatArray | None:
    if space is None:
        return None
    dim = plane.shape[1]
    if isinstance(space, NormBall):
        if space.dim != dim:
            raise fail("sensitivity_space", f"have dimension {dim}", space.dim)
        return _outline(space, plane, n_points)
    points = np.asarray(space, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        rule = "be a norm ball or points of the plane, (n, 2)"
        raise fail("sensitivity_space", rule, points.shape)
    return points
