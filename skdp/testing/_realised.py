"""The privacy loss that a recorded value has, and the change of its statistic, both exact.

With the density f of the noise and the exact statistics s and s' of two tables, a sum with noise
that was published as o has the loss log f(o - s) - log f(o - s'). The density of a perturbed
minimiser at a point is that of the linear term which makes it the minimiser, times the determinant
of the second derivative there. Choices have exact probabilities.

A loss is an interval: where only a bound is known, it is the one around 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import log_softmax

from skdp.geometry.moments import MomentLayout
from skdp.linear_model.losses import Softmax, greatest_curvature, size_of_slopes
from skdp.noise.independent import IndependentNoise, RepeatedNoise
from skdp.noise.laws import Gaussian
from skdp.noise.matrix import MatrixGaussianNoise, MatrixLaplaceNoise, RowsWithin
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import Change
from skdp.trusted.certify import NoisySum, PrivateChoice
from skdp.trusted.losses import GaussianLoss, Losses
from skdp.trusted.noise import GaussianNoise, KNormNoise
from skdp.trusted.randomness import Recorder
from skdp.trusted.statement import Public, records_changed

Interval = tuple[float, float]
# An eigenvalue of this share of the greatest one counts as 0.
_NEGLIGIBLE = 1e-9
_UNKNOWN = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Published:
    """A published value with its release, its exact statistic, and the facts of the draw."""

    release: Any
    exact: Any
    value: Any
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return getattr(self.release, "name", type(self.release).__name__)

    @property
    def noise(self) -> Any:
        return getattr(self.release, "noise", self.release)

    @property
    def is_minimiser(self) -> bool:
        return hasattr(self.release, "leverage")

    @property
    def is_counted(self) -> bool:
        return hasattr(self.release, "threshold")

    @property
    def is_sum(self) -> bool:
        return "unit" in self.facts and not isinstance(self.release, PrivateChoice)

    @property
    def among(self) -> Sequence[int]:
        candidates: Sequence[int] = self.facts.get("among", range(len(self.exact)))
        return candidates

    @property
    def rate(self) -> Any:
        """What a step of a score is in units of log-probabilities."""
        return Fraction(2) ** self.facts.get("unit", 0) / Fraction(self.facts["scale"])

    def rest(self, exact: Sequence[int]) -> FloatArray:
        """Return the published value less an exact statistic, in units of the noise."""
        values = [Fraction(own) for own in np.ravel(self.value).tolist()]
        return self._in_units([o - s for o, s in zip(values, self._numbers(exact), strict=True)])

    def change(self, other: Published) -> FloatArray:
        """Return the exact statistic of another table less the own one, in units of the noise."""
        pairs = zip(self._numbers(other.exact), self._numbers(self.exact), strict=True)
        return self._in_units([a - b for a, b in pairs])

    def _numbers(self, exact: Sequence[int]) -> list[Fraction]:
        units = np.broadcast_to(self.facts["unit"], len(exact)).tolist()
        return [own * Fraction(2) ** unit for own, unit in zip(exact, units, strict=True)]

    def _in_units(self, differences: list[Fraction]) -> FloatArray:
        return np.asarray(np.array([float(own) for own in differences]) / self.facts["scale"])


# Losses


def loss_of(own: Published, other: Published) -> Interval:
    """Return the log-ratio of the densities, or probabilities, of the own table and another one."""
    if own.is_minimiser:
        return _of_minimiser(own, other)
    if own.is_counted:
        return _exactly(_of_levels(own, other))
    if isinstance(own.release, PrivateChoice):
        mine, others = (_log_probabilities(entry)[own.value] for entry in (own, other))
        return _exactly(mine - others)
    if not own.is_sum:
        return _UNKNOWN
    pair = own.rest(own.exact), own.rest(other.exact)
    if np.array_equal(*pair):
        return _exactly(0.0)
    if isinstance(own.noise, MatrixLaplaceNoise):
        spent = own.release.spent(Public(1.0, neighbors=own.release.change.neighbors))
        # What the release spends has the cost of the lattice, for which the noise is stretched.
        return _of_matrix(own.noise, *pair, spent.epsilon / float(own.facts["scale"]))
    return _of_noise(own.noise, *pair)


def _exactly(value: float) -> Interval:
    return float(value), float(value)


def _around(size: float) -> Interval:
    return -float(size), float(size)


def _of_noise(noise: Any, mine: FloatArray, others: FloatArray) -> Interval:
    """Return log f(mine) - log f(others) for the density of a noise."""
    match noise:
        case KNormNoise():
            gauges = noise.ball.gauge(np.array([others, mine]))
            return _exactly((gauges[0] - gauges[1]) / noise.scale)
        case IndependentNoise():
            pair = (noise.law.logpdf(rest / noise.scale) for rest in (mine, others))
        case RepeatedNoise():
            pair = (noise.law.logpdf(rest) for rest in (mine, others))
        case GaussianNoise():
            factor, rests = np.asarray(noise.factor), (mine, others)
            if factor.ndim == 2:
                pair = (-(np.linalg.solve(factor, rest) ** 2) / 2 for rest in rests)
            else:
                pair = (-((rest / factor) ** 2) / 2 for rest in rests)
        case MatrixGaussianNoise():
            inverse = np.linalg.inv(noise.covariance())
            pair = (-rest @ inverse @ rest / 2 for rest in (mine, others))
        case _ if hasattr(noise, "logpdf"):
            pair = (noise.logpdf(rest) for rest in (mine, others))
        case _:
            stated = getattr(getattr(noise, "guarantee", None), "epsilon", math.inf)
            return _around(stated)
    first, second = (np.sum(own) for own in pair)
    return _exactly(first - second)


def _of_matrix(
    noise: MatrixLaplaceNoise, mine: FloatArray, others: FloatArray, most: float
) -> Interval:
    """Return the loss of matrix Laplace noise.

    The density of a semidefinite W is in proportion to exp(-tr S |W|). In general the logarithm
    changes by at most the trace norm of the difference, also if some entries are not released.
    Where they are not known either, the loss is at most ``most``, that of the release.
    """
    layout, root = noise.layout, np.sqrt(noise.precision)
    if len(layout.indicators) or (layout.target and not layout.target_square):
        return _around(most)
    pair = [_matrix_of(layout, rest) * np.outer(root, root) for rest in (mine, others)]
    eigenvalues = [np.linalg.eigvalsh(own) for own in pair]
    slack = _NEGLIGIBLE * max(float(np.abs(own).max()) for own in eigenvalues)
    signs = [(own >= -slack).all() or (own <= slack).all() for own in eigenvalues]
    if layout.adds and layout.dim == layout.n_rows * (layout.n_rows + 1) // 2 and all(signs):
        first, second = (float(np.abs(own).sum()) for own in eigenvalues)
        return _exactly(second - first)
    return _around(_trace_norm(pair[1] - pair[0]))


def _matrix_of(layout: MomentLayout, entries: FloatArray) -> FloatArray:
    # Entries that are not released are 0.
    return np.asarray(np.nan_to_num(layout.gram(entries, None if layout.adds else 0.0)))


def _size_of_matrix(layout: MomentLayout, entries: FloatArray) -> float:
    """Return a lower bound on the trace norm of a difference of moments.

    The squares of indicators, which are no entries, are not known.
    """
    whole, at = _matrix_of(layout, entries), layout.indicators
    whole[at, at] = 0.0
    others = np.setdiff1d(np.arange(len(whole)), at)
    return max(_trace_norm(whole[np.ix_(others, others)]), float(np.linalg.norm(whole)))


def _trace_norm(matrix: FloatArray) -> float:
    return float(np.abs(np.linalg.eigvalsh(matrix)).sum())


def _log_probabilities(entry: Published) -> dict[int, float]:
    among, greatest = entry.among, max(entry.exact[j] for j in entry.among)
    below = np.array([float((entry.exact[j] - greatest) * entry.rate) for j in among])
    if entry.name != "permute-and-flip":
        return dict(zip(among, log_softmax(below).tolist(), strict=True))
    # The greatest of scores plus exponential noise: an integral of a polynomial over [0, 1].
    nodes, weights = np.polynomial.legendre.leggauss(len(below) // 2 + 1)
    factors = 1 - np.exp(below)[:, None] * (nodes + 1) / 2
    found = [
        low + math.log(weights @ np.delete(factors, k, axis=0).prod(axis=0) / 2)
        for k, low in enumerate(below.tolist())
    ]
    return dict(zip(among, found, strict=True))


def _of_levels(own: Published, other: Published) -> float:
    """Return the loss of noisy counts above a threshold; inf for a level of one table only."""
    scale = own.release.noise.scale * own.facts["scale"]
    published, found = {name: -count for count, name in own.value}, 0.0

    def log_below(count: int | None) -> float:  # that it is not above the threshold
        size = math.inf if count is None else (own.release.threshold - count) / scale
        return math.log1p(-math.exp(-size) / 2) if size > 0 else size - math.log(2)

    for name in own.exact.keys() | other.exact.keys() | published.keys():
        counts = [entry.exact.get(name) for entry in (own, other)]
        if name not in published:
            first, second = map(log_below, counts)
        elif None in counts:
            first, second = (-math.inf if s is None else 0.0 for s in counts)
        else:
            first, second = (-abs(published[name] - s) / scale for s in counts)
        found += first - second
    return found


def _of_minimiser(own: Published, other: Published) -> Interval:
    """Return the loss at the published point, with that of the output noise on both sides."""
    release, noise = own.release, own.release.noise
    if not any(differences("objective", own.exact, other.exact)):
        return _exactly(0.0)  # the record is in another part of a search
    mine, others = (linear_term_at(entry, own.value) for entry in (own, other))
    if release.n_classes > 1 and isinstance(noise, KNormNoise):
        # The mean over the classes is taken off: the marginal density changes by no more.
        pair = [linear_term_at(entry, own.value, whole=True) for entry in (own, other)]
        low, high = _around(float(noise.ball.gauge(pair[1] - pair[0])) / noise.scale)
    else:
        low, high = _of_noise(noise, mine, others)
    bent = _log_determinant(own, own.value) - _log_determinant(other, own.value)
    hidden = release.publication.epsilon
    return low + bent - hidden, high + bent + hidden


class _Whole(Softmax):
    """A softmax with the whole gradient: its mean over the classes is not taken off."""

    def slopes(self, z: FloatArray, y: Any) -> FloatArray:
        return super().slopes(z, y) - (1 - self.normalizer) / self.n_classes


def linear_term_at(entry: Published, point: FloatArray, whole: bool = False) -> FloatArray:
    """Return the linear term with which a point is the minimiser.

    A common shift of all classes moves no density of a joint model. With ``whole`` it is the one
    of the gradient without a shift, for which the theorem states a bound.
    """
    objective = entry.exact
    if whole and isinstance(objective.loss, Softmax):
        loss = _Whole(objective.loss.n_classes, objective.loss.normalizer)
        objective = replace(objective, loss=loss)
    return -np.asarray(objective.gradient(np.ravel(point)))


def _log_determinant(entry: Published, point: FloatArray) -> float:
    found = entry.exact.hessian(np.ravel(point))
    rest = np.setdiff1d(np.arange(len(found.diagonal)), found.core)
    parts = [float(np.linalg.slogdet(own)[1]) for own in found.matrix]
    return math.fsum([*parts, *np.log(found.diagonal[rest]).tolist()])


# Changes


def size_of_change(own: Published, other: Published, relation: str) -> float:
    """Return the change of a statistic over the greatest one that its release allows."""
    release = own.release
    if own.is_minimiser:
        return _change_of_minimiser(own, other, relation)
    if isinstance(release, PrivateChoice):
        moved = [other.exact[j] - own.exact[j] for j in own.among]
        return float((max(moved) - min(moved)) * own.rate) / release.width
    if own.is_counted:
        names = own.exact.keys() | other.exact.keys()
        changed = sum(abs(own.exact.get(n, 0) - other.exact.get(n, 0)) for n in names)
        return float(changed) / records_changed(release.neighbors)
    change = getattr(release, "change", None)
    moved = own.change(other) * own.facts["scale"]
    match change:
        case None:
            return 0.0
        case Change():
            return float(change.ball.gauge(moved)) / change.radius
        case RowsWithin():
            most = records_changed(change.neighbors) * change.square
            return float(_size_of_matrix(change.layout, moved) / most)
        case _ if hasattr(change, "parts"):  # balls around parts of the changes
            sizes = [float(ball.gauge(moved[list(at)])) for ball, at in change.parts()]
            return max(sizes) / records_changed(change.neighbors)
    return math.inf


def size_of_repeated(release: NoisySum, moved: Sequence[FloatArray], parts: int | None) -> float:
    """Return the changes of repeated releases over those that are fixed in advance.

    ``moved`` has the changes of all calls in units of the noise. With ``parts`` so many calls are
    together one of the releases, which all have one size.
    """
    shifts, gaussian = release.change.shifts, type(release.noise.law) is Gaussian
    if parts is None:
        return _over_sizes(np.concatenate(moved), shifts, gaussian)
    one = ((shifts[0][0], 1),)
    groups = [np.concatenate(moved[at : at + parts]) for at in range(0, len(moved), parts)]
    return max(_over_sizes(group, one, gaussian) for group in groups)


def _over_sizes(moved: FloatArray, shifts: Iterable[tuple[float, int]], gaussian: bool) -> float:
    """Return the least factor on sizes that weakly majorise changes, or have their length."""
    sizes = np.repeat([size for size, _ in shifts], [count for _, count in shifts])
    if gaussian:
        return math.sqrt(float(moved @ moved) / float(sizes @ sizes))
    length = max(len(moved), len(sizes))
    found = np.sort(np.abs(np.pad(moved, (0, length - len(moved)))))[::-1].cumsum()
    allowed = np.sort(np.pad(sizes, (0, length - len(sizes))))[::-1].cumsum()
    return float((found / allowed).max())


def size_of_shift(pairs: Sequence[tuple[Published, Published]], losses: Losses) -> float:
    """Return the changes of all values of a release over those whose losses its theorem states."""
    noise, moved = pairs[0][0].noise, [own.change(other) for own, other in pairs if own.is_sum]
    lengths = [count * loss.mu**2 for loss, count in losses if isinstance(loss, GaussianLoss)]
    shifts = [(loss.shift, count) for loss, count in losses if isinstance(loss, ShiftLoss)]
    if moved and len(lengths) == len(losses) > 0:  # the log-density of a length is -length^2 / 2
        square = math.fsum(2 * _of_noise(noise, 0 * own, own)[0] for own in moved)
        return math.sqrt(square / math.fsum(lengths))
    if moved and len(shifts) == len(losses) > 0 and hasattr(noise, "law"):
        units = getattr(noise, "scale", 1.0)
        found = np.concatenate([own / units for own in moved])
        return _over_sizes(found, sorted(shifts, reverse=True), False)
    return 0.0


def _change_of_minimiser(own: Published, other: Published, relation: str) -> float:
    """Return the change of the gradient at the published point over the greatest one.

    The same for the second derivative, in units of the penalty's, if it is one matrix.
    """
    release, point, size = own.release, np.ravel(own.value), 0.0
    first, second = (entry.exact.hessian(point) for entry in (own, other))
    most = greatest_curvature(release.loss) * release.leverage
    if first.core.shape == (1, len(point)) and 0 < most < math.inf:
        at = first.core[0]
        penalty = np.array([own.exact.penalty(unit) for unit in np.eye(len(point))])[np.ix_(at, at)]
        changed = eigh(first.matrix[0] - second.matrix[0], penalty, eigvals_only=True)
        size = float(np.abs(changed).max() / most)
    noise = release.noise
    if isinstance(noise, KNormNoise):
        pair = [linear_term_at(entry, own.value, whole=True) for entry in (own, other)]
        most = records_changed(relation) * size_of_slopes(release.loss)
        moved = float(noise.ball.gauge(pair[1] - pair[0]))
        size = max(size, moved / (most * release.reach(noise)))
    return size


# What two objects have in common

_PLAIN = (str, bytes, bool, int, float, complex, type(None), np.generic, type, CodeType)
# What a replay itself gives to an estimator.
_GIVEN = ("random_state", "ledger")


def differences(
    place: str, a: object, b: object, seen: dict[tuple[int, int], object] | None = None
) -> Iterator[str]:
    """Yield the places, such as ``model.coef_``, where two objects are not the same.

    Arrays have the same bits, type and layout. Parts of an object are its attributes, also private
    ones, but for ``random_state`` and ``ledger``.
    """
    seen = {} if seen is None else seen
    if a is b or (id(a), id(b)) in seen or (isinstance(a, Recorder) and isinstance(b, Recorder)):
        return
    seen[id(a), id(b)] = a, b  # so that nothing else has their addresses
    mine, others = _inside(a), _inside(b)
    if type(a) is not type(b) or mine is None or others is None:
        # The repr shows NaN and -0.0, too.
        if type(a) is not type(b) or _bits(a) != _bits(b):
            yield place
        return
    for name in dict.fromkeys([*mine, *others]):
        if name in mine and name in others:
            yield from differences(f"{place}{name}", mine[name], others[name], seen)
        elif not isinstance(getattr(type(a), name[1:], None), cached_property):
            yield f"{place}{name}"
    if [*mine] != [*others] and sorted(mine) == sorted(others):
        yield f"the order in {place}"


def _bits(value: object) -> tuple[object, ...]:
    if not isinstance(value, np.ndarray):
        return (text_of(value),)
    flags = value.flags
    layout = value.dtype, value.shape, value.strides, flags.writeable, flags.owndata
    return value.tobytes(), *layout


def text_of(value: object) -> str:
    # Without an address.
    return "" if type(value).__repr__ is object.__repr__ else repr(value)


def _inside(value: object) -> dict[str, object] | None:
    """Return the parts of an object by their names, in their order; None if it has none."""
    match value:
        case np.ndarray():
            return None if value.dtype.kind != "O" else {".list": value.tolist()}
        case dict():
            return {f"[{key!r}]": own for key, own in value.items()}
        case list() | tuple():
            return {f"[{k}]": own for k, own in enumerate(value)}
        case set() | frozenset():
            return dict.fromkeys(sorted(map(repr, value)))
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return {".code": value.__code__, ".closure": cells, ".defaults": value.__defaults__}
        case MethodType():
            return {".self": value.__self__, ".function": value.__func__}
        case partial():
            return {".function": value.func, ".given": (value.args, value.keywords)}
        case _ if isinstance(value, _PLAIN):
            return None
    # When a property is cached depends on earlier computations, and not on the data.
    kind, state = type(value), object.__getstate__(value)  # with slots it is a pair
    parts = state if isinstance(state, tuple) else (state,)
    found = {name: own for part in parts if part for name, own in part.items()}
    cached = {name: isinstance(getattr(kind, name, None), cached_property) for name in found}
    names = sorted(found, key=lambda name: name * cached[name])
    return {f".{name}": found[name] for name in names if name not in _GIVEN} or None
