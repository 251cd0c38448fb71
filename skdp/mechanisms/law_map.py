"""Which noise has the least variance, over epsilon and delta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.geometry import LpBall
from skdp.mechanisms.calibrate import CANDIDATES, CHOICES, first_of_least, named, quick_candidates
from skdp.mechanisms.knorm import NAMES
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import (
    check_choice,
    check_count,
    check_entries,
    check_interval,
    check_numbers,
    check_positive,
    fail,
)
from skdp.trusted.noise import variances

_NORMS = ("l1", "l2", "linf")
_EPSILONS = tuple(np.geomspace(0.05, 10, 8))
_DELTAS = tuple(10.0 ** np.arange(-8, 0))


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class LawMap:
    """The least variance of several laws over a grid of epsilon and delta; see `law_map`.

    Attributes
    ----------
    laws : tuple of str
        Names of mechanisms, the preferred ones first.
    epsilons : array of shape (n_epsilons,)
    deltas : array of shape (n_deltas,)
    variances : array of shape (n_laws, n_epsilons, n_deltas)
        Mean of the variances of the coordinates; inf if the law cannot be calibrated.
    baseline : array of shape (n_epsilons, n_deltas)
        The lesser of the variances of Laplace and Gaussian noise. In several dimensions, unless
        the norm is "l1", this is the Laplace noise "l1", which is not composed.
    dim : int
    norm : {"l1", "l2", "linf"}
        The differences have length at most 1 in this norm.

    Examples
    --------
    >>> from skdp.mechanisms.law_map import law_map
    >>> found = law_map([0.3, 3.0], [1e-9, 0.01], laws=["laplace", "gaussian"])
    >>> found.variances.shape
    (2, 2, 2)
    """

    laws: tuple[str, ...]
    epsilons: FloatArray
    deltas: FloatArray
    variances: FloatArray
    baseline: FloatArray
    dim: int = 1
    norm: str = "linf"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def places(self) -> NDArray[np.intp]:
        """Which of ``laws`` wins, (n_epsilons, n_deltas): the first within 0.1 % of the least."""
        return np.asarray(first_of_least(self.variances))

    @property
    def winners(self) -> NDArray[np.str_]:
        """The name of the law that wins, (n_epsilons, n_deltas)."""
        return np.asarray(self.laws)[self.places]

    @property
    def ratios(self) -> FloatArray:
        """Variance of the winner over that of the better of Laplace and Gaussian noise."""
        best = np.take_along_axis(self.variances, self.places[None], axis=0)[0]
        return np.asarray(best / self.baseline)

    def without(self, *laws: str) -> LawMap:
        """Return the map of the other laws."""
        kept = [i for i, law in enumerate(self.laws) if law not in laws]
        if not kept or not set(laws) <= set(self.laws):
            raise fail("laws", f"be some, but not all, of {list(self.laws)}", list(laws))
        named_ = tuple(self.laws[i] for i in kept)
        rest = (self.epsilons, self.deltas, self.variances[kept], self.baseline)
        return LawMap(named_, *rest, self.dim, self.norm)


def law_map(
    epsilons: ArrayLike | None = None,
    deltas: ArrayLike | None = None,
    *,
    dim: int = 1,
    norm: str = "linf",
    laws: Sequence[str] | None = None,
) -> LawMap:
    """Return the least variance of each law over a grid of epsilon and delta.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,), entries > 0, or None
        None takes eight from 0.05 to 10.
    deltas : array-like of shape (n_deltas,), entries in [0, 1), or None
        None takes the powers of ten from 1e-8 to 0.1.
    dim : int in [1, 1e6], default=1
        Number of coordinates.
    norm : {"l1", "l2", "linf"}, default="linf"
        The differences have length at most 1 in this norm; with "linf" each number may change
        by 1.
    laws : sequence of str or None
        Names for `calibrate`, the preferred first. None takes those that `Auto` compares.
        In more than one dimension, unless the norm is "l1", independent laws such as
        "flipped_huber" are composed over the coordinates. This takes from a second to minutes
        at each point of the grid.

    Returns
    -------
    LawMap

    Examples
    --------
    >>> found = law_map([0.3, 3.0], [1e-9, 0.01], laws=["laplace", "gaussian", "flipped_huber"])
    >>> found.winners.tolist()
    [['laplace', 'flipped_huber'], ['laplace', 'flipped_huber']]
    >>> found.ratios.round(3)
    array([[1.   , 0.719],
           [1.   , 0.985]])
    """
    epsilons = _grid("epsilons", _EPSILONS if epsilons is None else epsilons)
    deltas = _grid("deltas", _DELTAS if deltas is None else deltas)
    dim = check_count("dim", dim, most=10**6)
    ball = LpBall(dim, p=NAMES[check_choice("norm", norm, _NORMS)] or 1.0)
    laplace = "laplace" if ball.dim == 1 or ball.p == 1 else "l1"
    if laws is None:
        quick = quick_candidates(ball, 1.0, 0.5, (*CANDIDATES, "truncated_laplace"))
        laws = [laplace if name == "l1" else name for name in quick]
    elif isinstance(laws, str) or not check_entries("laws", laws):
        raise fail("laws", "be a sequence of at least one name", laws, "Write laws=['l2'], say.")
    chosen = tuple(dict.fromkeys(check_choice("laws", law, CHOICES) for law in laws))
    baselines = laplace, "gaussian"
    sensitivity = Sensitivity(ball)
    found = {
        law: np.array([[_variance(law, sensitivity, e, d) for d in deltas] for e in epsilons])
        for law in dict.fromkeys([*chosen, *baselines])
    }
    baseline = np.minimum(*(found[law] for law in baselines))
    stacked = np.array([found[law] for law in chosen])
    return LawMap(chosen, epsilons, deltas, stacked, baseline, ball.dim, norm)


def _grid(name: str, values: ArrayLike) -> FloatArray:
    """Return the values, increasing and each once."""
    array = np.unique(check_numbers(name, values))
    if np.ndim(values) != 1 or not array.size:
        raise fail(name, "have shape (n,), n >= 1", np.shape(values))
    for value in array:
        if name == "deltas":
            check_interval(name, value, 0.0, 1.0, closed="left")
        else:
            check_positive(name, value)
    return array


def _variance(law: str, sensitivity: Sensitivity, epsilon: float, delta: float) -> float:
    """Return the mean variance of a coordinate, inf if the law cannot be calibrated."""
    try:
        noise = named(law).calibrate(sensitivity, epsilon=float(epsilon), delta=float(delta))
    except ValueError:
        return math.inf
    return float(np.mean(variances(noise)))
