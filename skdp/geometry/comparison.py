"""Orders on K-norm mechanisms by containment and volume, and properties of the noise.

A K-norm mechanism of sensitivity Delta and budget epsilon has density proportional to
exp(-(epsilon / Delta) |v|_K). That is exp(-|v|_B) for the ball B = (Delta / epsilon) K, so a law
is given here by B, ``ScaledBall(K, Delta / epsilon)``. With d the dimension, |V|_B is Gamma(d)
and independent of the direction of V (Awan & Slavkovic 2020, section 3).
Proofs: docs/proofs/orders.md.

`compare` returns a table of the mechanisms of several balls.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammaln

from skdp.geometry.combined import ScaledBall
from skdp.geometry.containment import GaugeBounds, contains, greatest_gauge_over
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import NormBall, as_points, ask, uniform_covariance
from skdp.trusted.checks import check_choice, check_positive, fail, optional_module

if TYPE_CHECKING:
    import pandas as pd

# Draws for the covariance of a ball without a closed form. The mean square of a coordinate then
# has an error of about 1 %.
DRAWS = 2**14


class BallSensitivity(Protocol):
    """A sensitivity that can be measured in any ball, as ``skdp.mechanisms.Sensitivity``."""

    def radius_in(self, ball: NormBall) -> float:
        """Return a bound on the gauge of any difference."""


@dataclass(frozen=True)
class ComparedBall:
    """One K-norm mechanism among those of a :class:`Comparison`.

    Attributes
    ----------
    name : str
    radius : float
        The sensitivity Delta in the ball's own norm, units of its gauge.
    sharp : bool
        Whether ``radius`` is the least possible; False if only bounds on it were found. Results
        of ``radius_in`` count as sharp.
    log_volume : float
        Log volume of Delta K; nan if it is unknown.
    entropy : float
        Entropy of the noise, in nats; nan if it is unknown.
    mean_squared_error : float
        E |V|_2^2 of the noise, the trace of its covariance.
    inside : tuple of str
        The balls whose Delta K contains this one. In the containment order this mechanism is
        preferred to theirs.
    undecided : tuple of str
        The balls for which containment was not decided.
    exact : bool
        Whether the ball is sampled exactly.
    estimated : bool
        Whether ``mean_squared_error`` is an estimate, from draws.
    """

    name: str
    radius: float
    sharp: bool
    log_volume: float
    entropy: float
    mean_squared_error: float
    inside: tuple[str, ...]
    undecided: tuple[str, ...]
    exact: bool
    estimated: bool

    @property
    def volume(self) -> float:
        """The volume of Delta K; inf or 0 if it overflows or underflows."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_volume))


@dataclass(frozen=True)
class Comparison(Mapping[str, ComparedBall]):
    """Table of K-norm mechanisms, the result of :func:`compare`.

    A mapping from names to :class:`ComparedBall`, in the order given. It prints as a table.

    Attributes
    ----------
    rows : tuple of ComparedBall
        In the order given.
    epsilon : float

    Examples
    --------
    >>> from skdp.geometry import LpBall, compare
    >>> comparison = compare({"l1": LpBall(2, p=1), "l2": LpBall(2)}, sensitivity=LpBall(2))
    >>> comparison["l2"].radius
    1.0
    >>> comparison.volume_order
    ('l2', 'l1')
    """

    rows: tuple[ComparedBall, ...]
    epsilon: float

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return (row.name for row in self.rows)

    def __getitem__(self, name: str) -> ComparedBall:
        return {row.name: row for row in self.rows}[name]

    @property
    def volume_order(self) -> tuple[str, ...]:
        """Names in the order of volume and entropy, the preferred first, unknown ones last."""
        by_volume = sorted(self.rows, key=lambda r: (math.isnan(r.log_volume), r.log_volume))
        return tuple(row.name for row in by_volume)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, indexed by name."""
        pandas = optional_module("pandas", "for this", "pandas")
        records = [{**asdict(row), "volume": row.volume} for row in self.rows]
        frame: pd.DataFrame = pandas.DataFrame.from_records(records, index="name")
        return frame

    def __str__(self) -> str:
        cells = [HEAD, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map("{:{}{}}".format, row, _SIDES, widths)).rstrip() for row in cells]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        body = [_html_row(_cells(row), "td") for row in self.rows]
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"<table>{_html_row(HEAD, 'th')}{''.join(body)}</table>{notes}"

    def _notes(self) -> list[str]:
        notes = [f"epsilon = {self.epsilon:g}; volumes are those of the balls times radius."]
        if not all(row.sharp for row in self.rows):
            notes.append("<=: enough, but less may be enough.")
        if any(row.undecided for row in self.rows):
            notes.append("?: not decided whether that ball holds this one.")
        if any(row.estimated for row in self.rows):
            notes.append("~: estimated from draws.")
        return notes


HEAD = ("ball", "radius", "volume", "entropy", "mean squared error", "inside", "sampler")
_SIDES = "<>>>><<"


def compare(
    balls: Mapping[str, NormBall] | Sequence[NormBall],
    sensitivity: BallSensitivity | NormBall | None = None,
    *,
    epsilon: float = 1.0,
) -> Comparison:
    """Compare the K-norm mechanisms of several balls for one release.

    Parameters
    ----------
    balls : dict of str to NormBall, or sequence of NormBall
        All of one dimension. In a sequence, a ball is named by its class and its place.
    sensitivity : object with ``radius_in(ball)``, NormBall or None
        A :class:`skdp.mechanisms.Sensitivity`, or a body that contains all differences, whose
        greatest gauge is then bounded from above. None: the balls already have their sizes.
    epsilon : float > 0, default=1.0

    Returns
    -------
    Comparison
        Prints as a table; ``to_frame()`` gives a DataFrame.

    Notes
    -----
    Less volume is less entropy, and a ball inside another is preferred by every measure of
    section 3 of Awan & Slavkovic (2020). A given loss may still be greater: compare
    ``mean_squared_error``, after scaling the coordinates by their importance.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> import math
    >>> balls = {"l1": LpBall(2, p=1), "l2": LpBall(2), "linf": LpBall(2, p=math.inf)}
    >>> print(compare(balls, sensitivity=LpBall(2, p=math.inf)))
    ball  radius  volume  entropy  mean squared error  inside  sampler
    l1         2       8    4.773                  16          exact
    l2     1.414   6.283    4.531                  12  l1      exact
    linf       1       4    4.079                   8  l1, l2  exact
    epsilon = 1; volumes are those of the balls times radius.
    """
    epsilon, named = check_positive("epsilon", epsilon), _named(balls)
    radii = {name: _radius(ball, sensitivity) for name, ball in named.items()}
    scaled = {name: ScaledBall(ball, radii[name].upper) for name, ball in named.items()}
    rows = []
    for name, ball in scaled.items():
        noise = ScaledBall(ball.ball, ball.factor / epsilon)
        covariance, estimated = covariance_or_estimate(noise)
        held = {other: contains(scaled[other], ball) for other in scaled if other != name}
        row = ComparedBall(
            name=name,
            radius=ball.factor,
            sharp=radii[name].exact,
            log_volume=_if_known(ball.log_volume),
            entropy=_if_known(partial(entropy, noise)),
            mean_squared_error=float(np.trace(covariance)),
            inside=tuple(other for other, holds in held.items() if holds),
            undecided=tuple(other for other, holds in held.items() if holds is None),
            exact=ball.exact,
            estimated=estimated,
        )
        rows.append(row)
    return Comparison(tuple(rows), epsilon)


def scaled_balls(
    balls: Mapping[str, NormBall] | Sequence[NormBall],
    sensitivity: BallSensitivity | NormBall | None = None,
) -> dict[str, ScaledBall]:
    """Return each ball times its sensitivity, by name; parameters as in :func:`compare`."""
    named = _named(balls)
    return {n: ScaledBall(ball, _radius(ball, sensitivity).upper) for n, ball in named.items()}


def _named(balls: Mapping[str, NormBall] | Sequence[NormBall]) -> dict[str, NormBall]:
    if not isinstance(balls, Mapping):
        balls = {f"{type(ball).__name__} {i}": ball for i, ball in enumerate(balls)}
    if not balls:
        raise fail("balls", "contain at least one ball", 0)
    wrong = [type(ball) for ball in balls.values() if not isinstance(ball, NormBall)]
    if wrong:
        remedy = "Pass norm balls such as LpBall(dim, p)."
        raise fail("balls", "have dim, exact, gauge and sample", wrong[0], remedy)
    if len({ball.dim for ball in balls.values()}) > 1:
        raise fail("balls", "have one dimension", sorted({ball.dim for ball in balls.values()}))
    return {str(name): ball for name, ball in balls.items()}


def _radius(ball: NormBall, sensitivity: BallSensitivity | NormBall | None) -> GaugeBounds:
    if sensitivity is None:
        return GaugeBounds(1.0, 1.0)
    if isinstance(sensitivity, NormBall):
        radius = greatest_gauge_over(ball, sensitivity)
    elif hasattr(sensitivity, "radius_in"):
        radius = GaugeBounds(*[sensitivity.radius_in(ball)] * 2)
    else:
        raise fail("sensitivity", "be a norm ball or have radius_in(ball)", type(sensitivity))
    check_positive("radius", radius.upper, "Give the body a support(w) or bounding_box().")
    return radius


def _if_known(number: Callable[[], float]) -> float:
    try:
        return number()
    except AttributeError:
        return math.nan


def _cells(row: ComparedBall) -> tuple[str, ...]:
    error = f"{'~' if row.estimated else ''}{row.mean_squared_error:.4g}"
    inside = [*row.inside, *(f"{name}?" for name in row.undecided)]
    sampler = "exact" if row.exact else "not exact"
    radius, volume = f"{'' if row.sharp else '<= '}{row.radius:.4g}", _text(row.volume)
    if abs(row.log_volume) >= 600:  # in hundreds of dimensions a volume overflows or underflows
        power, digits = divmod(row.log_volume / math.log(10), 1)
        volume = f"{10**digits:.3f}e{power:+.0f}"
    return (row.name, radius, volume, _text(row.entropy), error, ", ".join(inside), sampler)


def _text(number: float) -> str:
    return "unknown" if math.isnan(number) else f"{number:.4g}"


def _html_row(cells: Sequence[str], tag: str) -> str:
    inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"


# One law


def entropy(ball: NormBall) -> float:
    """Return the entropy, in nats, of the law with density proportional to exp(-|v|_B).

    Parameters
    ----------
    ball : NormBall with log_volume()
        B, the ball of the mechanism times sensitivity over epsilon.

    Returns
    -------
    float
        log(e^d d! vol B) (Proposition 3.14). It orders laws by the volumes of their balls.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> round(entropy(LpBall(1)), 6)  # a Laplace law of scale 1: 1 + log 2
    1.693147
    """
    return float(ball.dim + gammaln(ball.dim + 1) + ask(ball, "log_volume"))


def depth(ball: NormBall, v: ArrayLike) -> FloatArray:
    """Return the depth of points in the law exp(-|v|_B), (..., dim) to (...).

    This is the depth of Theorem 3.11: one minus the mass of the least region of highest density
    that contains v, P(|V|_B > |v|_B). It is 1 at 0.

    Parameters
    ----------
    ball : NormBall
        B, the ball of the mechanism times sensitivity over epsilon.
    v : array-like of shape (..., dim)

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> depth(LpBall(1), [[0.0], [1.0]]).round(6).tolist()
    [1.0, 0.367879]
    """
    return np.asarray(gammaincc(ball.dim, ball.gauge(as_points(v, ball.dim))))


def conditional_variance(
    ball: NormBall, direction: ArrayLike, *, given: str = "direction"
) -> FloatArray:
    """Return the variance of the law exp(-|v|_B) along a direction.

    Parameters
    ----------
    ball : NormBall
        B, the ball of the mechanism times sensitivity over epsilon.
    direction : array-like of shape (..., dim)
        Any multiple of the unit vector e.
    given : {"direction", "line"}, default="direction"
        The event on which the law is conditioned. "direction": the limit of narrow double cones
        around e, as in Lemma 3.16. "line": the limit of narrow cylinders around the line of e.

    Returns
    -------
    ndarray of shape (...)
        Variance of <V, e>: d (d + 1) / |e|_B^2 or 2 / |e|_B^2. In both cases it is less in every
        direction if and only if the ball is inside the other (Theorem 3.17).

    Notes
    -----
    Given the direction, |<V, e>| is Gamma(d) with rate |e|_B. Its variance d / |e|_B^2 is the
    number in the proof of Theorem 3.17; that of <V, e>, which has mean 0, is d + 1 times it.
    The event has probability 0, so ``given`` states which limit is meant.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> ball = LpBall(2, p=1)
    >>> conditional_variance(ball, [[1, 0], [3, 3]]).round(9).tolist()
    [6.0, 3.0]
    >>> float(conditional_variance(ball, [1, 0], given="line"))  # a Laplace law
    2.0
    """
    check_choice("given", given, ("direction", "line"))
    e = as_points(direction, ball.dim, "direction")
    length = np.linalg.norm(e, axis=-1)
    if not (np.isfinite(length) & (length > 0)).all():
        raise fail("direction", "be finite and not 0")
    second_moment = ball.dim * (ball.dim + 1) if given == "direction" else 2
    return np.asarray(second_moment * (length / ball.gauge(e)) ** 2)


def knorm_covariance(ball: NormBall) -> FloatArray:
    """Return the covariance of the law exp(-|v|_B), (dim, dim).

    It is (d + 1)(d + 2) times that of the uniform law on B, which is estimated from a fixed
    number of draws if the ball has no ``covariance()``.

    Parameters
    ----------
    ball : NormBall

    Returns
    -------
    ndarray of shape (dim, dim)

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> knorm_covariance(LpBall(2, p=1, weights=(1.0, 0.5))).round(9).tolist()
    [[2.0, 0.0], [0.0, 8.0]]
    """
    return covariance_or_estimate(ball)[0]


def covariance_or_estimate(ball: NormBall) -> tuple[FloatArray, bool]:
    """Return the covariance of the law exp(-|v|_B), and whether it is an estimate."""
    d = ball.dim
    uniform, estimated = uniform_covariance(ball, draws=DRAWS)
    return np.asarray((d + 1) * (d + 2) * uniform), estimated
