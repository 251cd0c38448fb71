"""Orders on K-norm mechanisms by containment and volume, and properties of the noise.

A K-norm mechanism of sensitivity Delta and budget epsilon has density proportional to
exp(-(epsilon / Delta) |v|_K). That is exp(-|v|_B) for the ball B = (Delta / epsilon) K. Its
entropy is log(e^d d! vol B), d the dimension, and its covariance is (d + 1)(d + 2) times that of
the uniform law on B (Awan & Slavkovic 2020, section 3). Proofs: docs/proofs/orders.md.

`compare` returns a table of the mechanisms of several balls.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from skdp._estimators import html_table, text_lines
from skdp.geometry.combined import MappedBall
from skdp.geometry.containment import TOUCH, GaugeBounds, greatest_gauge_over
from skdp.trusted.ball import NormBall, ask, uniform_covariance
from skdp.trusted.checks import check_positive, fail, optional_module

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
        lines = text_lines([HEAD, *map(_cells, self.rows)], left=(0, 5, 6))
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"{html_table(HEAD, *map(_cells, self.rows))}{notes}"

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
    rows = []
    for name, ball in named.items():
        d, radius = ball.dim, radii[name].upper
        covariance, estimated = uniform_covariance(ball, draws=DRAWS)
        log_volume = math.nan
        with suppress(AttributeError):
            log_volume = ask(ball, "log_volume") + d * math.log(radius)
        sizes = {
            other: [bound * radius / radii[other].upper for bound in greatest_gauge_over(one, ball)]
            for other, one in named.items()
            if other != name
        }
        row = ComparedBall(
            name=name,
            radius=radius,
            sharp=radii[name].exact,
            log_volume=log_volume,
            entropy=d + math.lgamma(d + 1) + log_volume - d * math.log(epsilon),
            mean_squared_error=float(
                (d + 1) * (d + 2) * np.trace(covariance) * (radius / epsilon) ** 2
            ),
            inside=tuple(o for o, (_, upper) in sizes.items() if upper <= 1 + TOUCH),
            undecided=tuple(o for o, (low, up) in sizes.items() if low <= 1 + TOUCH < up),
            exact=ball.exact,
            estimated=estimated,
        )
        rows.append(row)
    return Comparison(tuple(rows), epsilon)


def scaled_balls(
    balls: Mapping[str, NormBall] | Sequence[NormBall],
    sensitivity: BallSensitivity | NormBall | None = None,
) -> dict[str, MappedBall]:
    """Return each ball times its sensitivity, by name; parameters as in :func:`compare`."""
    named = _named(balls)
    return {
        name: MappedBall(ball, np.full(ball.dim, _radius(ball, sensitivity).upper))
        for name, ball in named.items()
    }


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
