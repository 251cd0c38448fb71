"""Displays of privacy: norm balls in the plane, privacy profiles and trade-off functions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdp.geometry import NormBall
from skdp.geometry.comparison import BallSensitivity, scaled_balls
from skdp.inspection._drawing import Display, style
from skdp.privacy.guarantee import Guarantee
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, check_count, check_positive, fail

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


Kind = Literal["profile", "tradeoff"]


@dataclass(eq=False, repr=False)
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
    >>> balls = {"l1": LpBall(2, p=1), "l2": LpBall(2)}
    >>> display = NormBallDisplay.from_balls(balls, sensitivity=LpBall(2))
    >>> [line.get_label() for line in display.lines_]
    ['l1', 'l2']
    """

    outlines: Mapping[str, FloatArray]
    _: KW_ONLY
    space: FloatArray | None = None
    space_is_outline: bool = False
    axis_labels: tuple[str, str] = ("$u_1$", "$u_2$")

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
        """
        scaled = scaled_balls(balls, sensitivity)
        plane, labels = _plane(section, next(iter(scaled.values())).dim)
        n_points = check_count("n_points", n_points, 8)
        outlines = {name: _outline(ball, plane, n_points) for name, ball in scaled.items()}
        space: FloatArray | None = None
        is_outline = isinstance(sensitivity_space, NormBall)
        if isinstance(sensitivity_space, NormBall):
            dim = plane.shape[1]
            if sensitivity_space.dim != dim:
                raise fail("sensitivity_space", f"have dimension {dim}", sensitivity_space.dim)
            space = _outline(sensitivity_space, plane, n_points)
        elif sensitivity_space is not None:
            space = np.asarray(sensitivity_space, dtype=float)
            if space.ndim != 2 or space.shape[1] != 2:
                rule = "be a norm ball or points of the plane, (n, 2)"
                raise fail("sensitivity_space", rule, space.shape)
        display = cls(outlines, space=space, space_is_outline=is_outline, axis_labels=labels)
        return display.plot(ax=ax, aspect=aspect)

    def plot(
        self, ax: Axes | None = None, *, aspect: Literal["equal", "auto"] = "equal"
    ) -> NormBallDisplay:
        """Draw the outlines; the parameters are those of :meth:`from_balls`."""
        check_choice("aspect", aspect, ("equal", "auto"))
        ax = self._axes(ax, (6.8, 4.8), "compressed")
        if self.space is not None:
            draw = ax.fill if self.space_is_outline else partial(ax.scatter, s=4)
            draw(*self.space.T, lw=0, color="#B9C4D0", label="sensitivity space", zorder=1)
        self.lines_: list[Line2D] = [
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
    if ball.dim == 2:
        with suppress(AttributeError, ValueError):  # without corners
            corners = np.asarray(ball.extreme_points())  # type: ignore[attr-defined]
            x, y = np.linalg.solve((plane * lengths[:, None]).T, corners.T)
            turns = np.concatenate([turns, np.arctan2(y, x) % (2 * np.pi)])
    turns = np.sort(turns)
    ring = lengths * np.column_stack([np.cos(turns), np.sin(turns)])
    outline = ring / ball.gauge(ring @ plane)[:, None]
    return np.asarray(np.concatenate([outline, outline[:1]]))


@dataclass(eq=False, repr=False)
class PrivacyProfileDisplay(Display):
    """Privacy profiles or trade-off functions of one or several guarantees.

    The profile gives delta for every epsilon, not only for the claimed one. The trade-off function
    gives the least type II error (misses) of any test between two neighbouring data sets, for
    each type I error (false alarms). Use :meth:`from_guarantee` or :meth:`from_estimator` to
    create one; they compute the parameters.

    Parameters
    ----------
    curves : sequence of pairs of ndarray of shape (n,)
        (epsilon, delta), or (type I error, type II error), of each guarantee.
    labels : sequence of str
        Label of each curve.
    claims : sequence of pair of float
        Claimed (epsilon, delta), marked in a profile.
    kind : {"profile", "tradeoff"}

    Attributes
    ----------
    line_ : matplotlib Line2D, or list of them
        Curves; a list if there are several.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp.inspection import PrivacyProfileDisplay
    >>> from skdp.privacy import GaussianLoss, Guarantee
    >>> gaussian = Guarantee(1.0, 1e-6, losses=((GaussianLoss(0.2367), 1),))
    >>> both = {"pure": Guarantee(1.0), "Gaussian": gaussian}
    >>> display = PrivacyProfileDisplay.from_guarantee(both, kind="tradeoff")
    >>> [line.get_label() for line in display.line_]
    ['pure', 'Gaussian']
    """

    curves: Sequence[tuple[FloatArray, FloatArray]]
    _: KW_ONLY
    labels: Sequence[str]
    claims: Sequence[tuple[float, float]] = ()
    kind: Kind = "profile"

    @classmethod
    def from_guarantee(
        cls,
        guarantee: object,
        labels: Sequence[str] | None = None,
        kind: Kind = "profile",
        ax: Axes | None = None,
        *,
        max_epsilon: float | None = None,
        n_points: int = 129,
    ) -> PrivacyProfileDisplay:
        """Draw guarantees.

        Parameters
        ----------
        guarantee : Guarantee, noise or fitted estimator, a sequence or a mapping of these
            For an estimator its ``guarantee_`` is drawn. For noise from
            `skdp.mechanisms.calibrate` its privacy losses are drawn if the guarantee has none.
            Without losses the curve follows from (epsilon, delta) alone. The keys of a mapping
            are labels.
        labels : sequence of str or None, default=None
            Label of each curve. None takes the names of the mechanisms.
        kind : {"profile", "tradeoff"}, default="profile"
            Delta over epsilon on a log axis, or type II error over type I error.
        ax : matplotlib Axes or None, default=None
            Axes to draw on. None creates a figure.
        max_epsilon : float in (0, inf) or None
            Greatest epsilon of a profile. None takes 1.75 times the greatest claimed epsilon.
        n_points : int >= 8, default=129
            Number of points of a curve.
        """
        check_choice("kind", kind, ("profile", "tradeoff"))
        n_points = check_count("n_points", n_points, 8)
        found, names = _guarantees(guarantee, labels)
        if kind == "profile":
            greatest = 1.75 * (max(one.epsilon for one in found) or 1.0)
            if max_epsilon is not None:
                greatest = check_positive("max_epsilon", max_epsilon)
            curves = [_profile(one, greatest, n_points) for one in found]
        else:
            # Type I errors, denser at both ends, and the least type II errors.
            alpha = (1 - np.cos(np.linspace(0, np.pi, n_points))) / 2
            curves = [(alpha, np.asarray(one.tradeoff(alpha))) for one in found]
        claims = list(dict.fromkeys((one.epsilon, one.delta) for one in found))
        return cls(curves, labels=names, claims=claims, kind=kind).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: object, *, label: str | None = None, **options: Any
    ) -> PrivacyProfileDisplay:
        """Draw the guarantee of a fitted estimator.

        Parameters
        ----------
        estimator : object with ``guarantee_``
        label : str or None, default=None
            Label of the curve. None takes the name of the class.
        **options
            ``kind``, ``ax``, ``max_epsilon`` and ``n_points`` of :meth:`from_guarantee`.
        """
        return cls.from_guarantee(
            _guarantee_of(estimator), [label or type(estimator).__name__], **options
        )

    def plot(self, ax: Axes | None = None) -> PrivacyProfileDisplay:
        """Draw the curves; ``ax`` is that of :meth:`from_guarantee`."""
        ax = self._axes(ax, (6.4, 4.6))
        # Limits are set before the lines: if all deltas are 0, a log axis has none.
        if self.kind == "profile":
            least = min((delta for _, delta in self.claims if delta > 0), default=1e-8)
            ax.set(xlabel="epsilon", ylabel="delta", yscale="log")
            most = max(x[-1] for x, _ in self.curves)
            ax.set(xlim=(0, most), ylim=(max(least * 1e-4, 1e-300), 1.0))
        else:
            ax.set(xlabel="type I error (false alarms)", ylabel="type II error (misses)")
            ax.set(xlim=(0, 1), ylim=(0, 1))
            ax.set_aspect("equal", adjustable="box")
        lines = [
            ax.plot(x, y, label=label, lw=2, zorder=3, **style(i))[0]
            for i, ((x, y), label) in enumerate(zip(self.curves, self.labels, strict=True))
        ]
        self.line_: Line2D | list[Line2D] = lines[0] if len(lines) == 1 else lines
        if self.kind == "profile":
            for k, (epsilon, delta) in enumerate(self.claims):
                label = "claimed" if k == 0 else None
                mark = "o" if delta > 0 else "v"
                (point,) = ax.plot(epsilon, delta, mark, color="black", ms=8, label=label)
                point.set(zorder=4, clip_on=False)
                if delta == 0:  # on the lower edge
                    point.set_transform(ax.get_xaxis_transform())
        else:
            ax.plot([0, 1], [1, 0], color="0.6", lw=1, zorder=1, label="blind guessing")
        ax.legend(frameon=False)
        return self


def _guarantees(given: object, labels: Sequence[str] | None) -> tuple[list[Guarantee], list[str]]:
    if isinstance(given, Mapping):
        given, labels = list(given.values()), list(given) if labels is None else labels
    several = list(given) if isinstance(given, Sequence) else [given]
    if not several:
        raise fail("guarantee", "be at least one guarantee")
    found = [_guarantee_of(one) for one in several]
    if isinstance(labels, str):
        labels = [labels]
    names = [_label(one) for one in found] if labels is None else [str(name) for name in labels]
    if len(names) != len(found):
        raise fail("labels", f"have {len(found)} entries, one for each guarantee", len(names))
    # A void guarantee is labelled as one.
    pairs = zip(names, found, strict=True)
    return found, [name if one.holds else f"{name} (void)" for name, one in pairs]


def _guarantee_of(thing: object) -> Guarantee:
    found = thing
    if not isinstance(thing, Guarantee):
        found = getattr(thing, "guarantee_", getattr(thing, "guarantee", None))
    if not isinstance(found, Guarantee):
        remedy = "Fit the estimator first." if hasattr(thing, "fit") else ""
        raise fail("guarantee", "be a Guarantee, or have one", type(thing), remedy)
    losses = getattr(thing, "losses", ())
    return replace(found, losses=losses) if losses and not found.losses else found


def _label(guarantee: Guarantee) -> str:
    name = guarantee.mechanism or f"({guarantee.epsilon:g}, {guarantee.delta:g})"
    return textwrap.shorten(name, 48, placeholder=" ...")


def _profile(guarantee: Guarantee, greatest: float, n: int) -> tuple[FloatArray, FloatArray]:
    """Return epsilons, kinks of the curve among them, and their deltas."""
    kinks = [guarantee.epsilon, guarantee.epsilon_at(0.0)]
    kinks = [value for value in kinks if 0 < value < greatest]
    # At the greatest value of a bounded loss, delta falls to 0 steeply on a log axis.
    before = [value * (1 - 10.0**-k) for value in kinks for k in range(2, 7)]
    epsilons = np.unique([*np.linspace(0, greatest, n), *kinks, *before])
    deltas = np.array([guarantee.delta_at(float(value)) for value in epsilons])
    return epsilons, deltas
