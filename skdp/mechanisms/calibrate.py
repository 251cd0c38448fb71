"""Calibration of any mechanism, and the choice of the noise with the least squared error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from skdp.geometry import LpBall, NormBall
from skdp.mechanisms.independent import Independent
from skdp.mechanisms.knorm import (
    NAMES,
    EllipticGaussian,
    EllipticKNorm,
    IsotropicGaussian,
    KNorm,
    check_budget,
    check_weights_for,
    knorm_is_less,
)
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.privacy.guarantee import Guarantee, as_guarantee
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, fail, is_ours, relied_on
from skdp.trusted.noise import variances
from skdp.trusted.randomness import RandomStateLike
from skdp.trusted.statement import Statement

_Maker: TypeAlias = "Callable[..., Mechanism[Noise]]"
GAUSSIANS: dict[str, _Maker] = {"gaussian": IsotropicGaussian, "elliptic": EllipticGaussian}
# Independent noise of one law in each coordinate, with a shape of least variance.
LAWS = ("laplace", "logistic", "subbotin", "flipped_huber", "truncated_laplace", "offset_gaussian")
CHOICES = (*NAMES, "elliptic_l2", *GAUSSIANS, *LAWS)
_NAMES = ("auto", *CHOICES)
# Subbotin's laws are compared only if they are named. Over several coordinates they take seconds
# to minutes, and in one coordinate they were the best at no (epsilon, delta) that was tried.
# Truncated Laplace noise reveals records with probability delta, so it must be named too. In one
# coordinate and for an l_1 ball Laplace noise is that of "l1".
_ONLY_NAMED = {"subbotin", "truncated_laplace", "laplace"}
CANDIDATES = (*NAMES, "elliptic_l2", *GAUSSIANS, *(law for law in LAWS if law not in _ONLY_NAMED))
# Relative gains below this are ignored: the first candidate so near the best is taken.
TIE = 1e-3


class Trial(NamedTuple):
    """A calibrated candidate."""

    name: str
    noise: Noise
    error: float


class Noise(Protocol):
    """The result of :func:`calibrate`.

    The noises of this package are `OwnNoise`; `skdp.mechanisms.release` publishes a value with any
    object that has these members.
    """

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of one release with this noise."""

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,)."""

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim)."""

    def expected_norm(self, ball: NormBall) -> float:
        """Return the mean gauge of a draw in a ball's norm."""


class OwnNoise(Noise, Protocol):
    """A noise of this package."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""

    def rvs(self, rng: RandomStateLike = None, size: int | None = None) -> FloatArray:
        """Return one draw, (dim,), or (size, dim)."""

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of a draw, (dim,)."""

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Return the value with noise, the only way to publish it, (dim,)."""


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class Auto:
    """The mechanism with the least expected squared error, named "auto".

    Every candidate is calibrated to the same (epsilon, delta), and the noise whose covariance has
    the least trace is chosen. The choice depends on public values only: the sensitivity, epsilon,
    delta and the weights. ``noise.guarantee.mechanism`` states the choice and its reason.

    Parameters
    ----------
    weights : array-like of shape (dim,), entries > 0, or (dim, dim), positive definite, or None
        W: the error of a draw v is E v' W v. None stands for ones.
    candidates : sequence of str, norm balls and mechanisms, mapping of names to them, or None
        Candidates in order of preference. None compares those of `CANDIDATES` that are quick:

        * K-norm noise in l_1, l_2, l_inf, and on the sensitivity's own ball if its sampler is
          exact; in one dimension all of these are one Laplace variable;
        * noise on a fitted ellipsoid: the lesser of "elliptic_l2" and, with delta > 0,
          "elliptic", whose covariances are multiples of each other;
        * with delta > 0 Gaussian noise, "gaussian";
        * with delta > 0, in one dimension or for differences in an l_1 ball, weighted or not,
          independent noise: "logistic", "flipped_huber", "offset_gaussian". For other balls
          these are composed over the coordinates, which takes from a second to minutes; they
          are then compared only if they are named.

    Notes
    -----
    Candidates that cannot be calibrated, or whose guarantee is weaker than requested, are skipped.
    The first candidate within a thousandth of the least error is chosen. With delta = 1e-6 in one
    dimension this is Laplace noise, which hardly benefits from delta. Truncated Laplace noise often
    has the least variance in one dimension, but it spends all of delta on outputs that reveal the
    record. It is compared only if ``candidates`` names it, and the guarantee then states this.
    docs/mathematics/which_noise_when.md shows which noise is chosen when.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = Auto().calibrate(Sensitivity(LpBall(20)), epsilon=1.0, delta=1e-6)
    >>> print(noise.guarantee.mechanism)
    K-norm noise on LpBall(dim=20, p=2.0, radius=1.0, weights=None), chosen of 4 mechanisms for
    its least total variance, 250.8; next gaussian, 357
    """

    weights: ArrayLike | None = None
    candidates: Sequence[object] | Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        # Elliptic noise checks the same weights, and copies them.
        object.__setattr__(self, "weights", EllipticGaussian(self.weights).weights)
        if self.candidates is not None:
            object.__setattr__(self, "candidates", _checked(self.candidates))

    def calibrate(self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0) -> Noise:
        """Return the noise of the best candidate that is (epsilon, delta)-private."""
        epsilon, delta = check_budget(epsilon, delta)
        check_weights_for(self.weights, sensitivity.ball.dim)
        trials, reasons = [], {}
        for name, mechanism in self._named(sensitivity.ball, epsilon, delta):
            try:
                noise = mechanism.calibrate(sensitivity, epsilon=epsilon, delta=delta)
                about = sensitivity.neighbors, sensitivity.ball.dim
                check_noise(mechanism, noise, *about, epsilon, delta)
                trials.append(Trial(name, noise, self._error(noise)))
            except (ValueError, AttributeError) as error:  # unsupported members are absent
                reasons[name] = str(error)
        if not trials:
            remedy = " ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise fail("candidates", "include one that can be calibrated", remedy=remedy)
        best = trials[int(first_of_least([trial.error for trial in trials]))]
        text = best.noise.guarantee.mechanism
        return _with(best.noise, mechanism=f"{text}, {self._reason(best, trials)}")

    def _named(
        self, ball: NormBall, epsilon: float, delta: float
    ) -> Iterator[tuple[str, Mechanism[Noise]]]:
        given = self.candidates
        if given is None:
            given = quick_candidates(ball, epsilon, delta)
        if not isinstance(given, Mapping):
            pairs = [(c if isinstance(c, str) else type(c).__name__, c) for c in given]
        for name, candidate in given.items() if isinstance(given, Mapping) else pairs:
            if candidate == "elliptic":
                yield name, EllipticGaussian(self.weights)
            elif candidate == "elliptic_l2":
                yield name, EllipticKNorm(self.weights)
            else:
                yield name, mechanism_of(candidate)

    def _error(self, noise: Noise) -> float:  # E v' W v for a draw v
        weights = np.asarray(1.0 if self.weights is None else self.weights)
        if weights.ndim == 2:
            error = float(np.sum(weights * noise.covariance()))
        else:
            error = float(np.sum(weights * variances(noise)))
        if not math.isfinite(error):
            raise fail("the variance", "be finite")
        return error

    def _reason(self, best: Trial, trials: list[Trial]) -> str:
        what = "total variance" if self.weights is None else "weighted squared error"
        least = min(trial.error for trial in trials)
        exact = best.error == least
        kept = f"its least {what}" if exact else f"a {what} within 0.1 % of the least"
        said = f"chosen of {len(trials)} mechanisms for {kept}, {best.error:.4g}"
        worse = [trial for trial in trials if trial.error > least * (1 + TIE)]
        if worse:
            following = min(worse, key=attrgetter("error"))
            said += f"; next {following.name}, {following.error:.4g}"
        if best.name == "truncated_laplace":  # its support is bounded
            said += "; with probability up to delta it gives the record away"
        return said


def quick_candidates(ball: NormBall, epsilon: float, delta: float) -> tuple[str, ...]:
    """Return the names of candidates that are quick for a ball, without duplicates of a noise."""
    left_out = {"elliptic" if knorm_is_less(ball.dim, epsilon, delta) else "elliptic_l2"}
    if isinstance(ball, LpBall) and ball.weights is None and ball.p in NAMES.values():
        left_out |= {"hull", "elliptic", "elliptic_l2"}  # equal to others in the list
    if ball.dim == 1:
        left_out |= {"l2", "linf", "hull", "elliptic", "elliptic_l2"}
    elif not (isinstance(ball, LpBall) and ball.p == 1):
        left_out |= set(LAWS)
    return tuple(name for name in CANDIDATES if name not in left_out)


def first_of_least(errors: ArrayLike) -> NDArray[np.intp]:
    """Return the index on the first axis of the first error within `TIE` of the least.

    Unknown errors are inf.
    """
    errors = np.asarray(errors, dtype=float)
    return np.asarray(np.argmax(errors <= errors.min(axis=0) * (1 + TIE), axis=0))


def _checked(candidates: object) -> tuple[object, ...] | dict[str, object]:
    """Return the candidates as a tuple, or a copy of a mapping; each must be a mechanism."""
    if isinstance(candidates, str) or not isinstance(candidates, Mapping | Sequence):
        rule = "be a sequence of mechanisms, or a mapping from names to mechanisms"
        raise fail("candidates", rule, candidates, 'Write candidates=["l2", "gaussian"], say.')
    kept = dict(candidates) if isinstance(candidates, Mapping) else tuple(candidates)
    if not kept:
        raise fail("candidates", "contain at least one mechanism")
    for candidate in kept.values() if isinstance(kept, dict) else kept:
        if isinstance(candidate, str):
            check_choice("candidates", candidate, CHOICES)
            continue
        able = isinstance(candidate, NormBall) or hasattr(candidate, "calibrate")
        if isinstance(candidate, type) or not able:
            rule = f"be among {sorted(CHOICES)}, norm balls, or have calibrate()"
            raise fail("candidates", rule, candidate)
    return kept


def _with(noise: Noise, **changes: Any) -> Noise:
    """Return noise with a changed guarantee, if the noise is a dataclass with that field."""
    made: Any = noise
    if is_dataclass(made) and any(f.name == "guarantee" and f.init for f in fields(made)):
        stated = replace(as_guarantee(noise.guarantee), **changes)
        made = replace(made, guarantee=stated)  # type: ignore[type-var]
    return cast("Noise", made)


N = TypeVar("N", covariant=True)


class Mechanism(Protocol[N]):
    """An object that calibrates noise."""

    def calibrate(self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0) -> N:
        """Return noise that makes a release (epsilon, delta)-private."""


@overload
def calibrate(
    mechanism: str | NormBall, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> OwnNoise: ...


@overload
def calibrate(
    mechanism: Mechanism[N], sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> N: ...


def calibrate(
    mechanism: object, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> Any:
    """Return the noise of a mechanism that makes a release (epsilon, delta)-private.

    Parameters
    ----------
    mechanism : str, NormBall, or object with ``calibrate``
        "l1", "l2", "linf", "hull" and balls stand for `KNorm`, and "elliptic_l2" for
        `EllipticKNorm`. "laplace", "logistic", and, with the shape of least variance,
        "flipped_huber", "offset_gaussian", "subbotin" and "truncated_laplace" stand for
        `Independent` noise of this law in each coordinate. "gaussian" stands for
        `IsotropicGaussian`, with one variance, and "elliptic" for `EllipticGaussian`. All of these
        laws but "laplace" and "logistic" need delta > 0. "auto" stands for `Auto`, which chooses
        the least expected squared error. For other objects,
        ``mechanism.calibrate(sensitivity, epsilon=epsilon, delta=delta)`` is called.
    sensitivity : Sensitivity
        The set of all changes of the statistic that one record can cause.
    epsilon : float > 0
    delta : float in [0, 1)

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = calibrate("l1", Sensitivity(LpBall(2, p=1), radius=3.0), epsilon=1.5)
    >>> round(noise.scale, 6)
    2.0
    """
    chosen, given = mechanism_of(mechanism), cast("object", sensitivity)
    if not isinstance(given, Sensitivity):
        remedy = "For d sums that change by at most r in the l1 norm: Sensitivity(LpBall(d, 1), r)."
        raise fail("sensitivity", "be a Sensitivity", sensitivity, remedy)
    made: Noise = chosen.calibrate(sensitivity, epsilon=epsilon, delta=delta)
    check_noise(chosen, made, sensitivity.neighbors, sensitivity.ball.dim, epsilon, delta)
    known = made.guarantee.assumptions
    named_ = [text for text in relied_on(chosen) if text not in known]
    is_whole = isinstance(made.guarantee, Guarantee) and not named_
    return made if is_whole else _with(made, assumptions=(*known, *named_))


def mechanism_of(mechanism: object) -> Mechanism[Noise]:
    """Return the object with ``calibrate`` that a name or a ball stands for."""
    remedy = "Or give a norm ball, or an object with calibrate(sensitivity, *, epsilon, delta)."
    remedy += " A law is given as Independent(law)."
    if isinstance(mechanism, str):
        check_choice("mechanism", mechanism, _NAMES, remedy)
        makers: dict[str, _Maker] = {"auto": Auto, "elliptic_l2": EllipticKNorm, **GAUSSIANS}
        if mechanism in makers:
            mechanism = makers[mechanism]()
        else:
            mechanism = Independent(mechanism) if mechanism in LAWS else KNorm(mechanism)
    elif isinstance(mechanism, NormBall):
        mechanism = KNorm(mechanism)
    if isinstance(mechanism, type) or not callable(getattr(mechanism, "calibrate", None)):
        raise fail("mechanism", f"be one of {sorted(_NAMES)}", mechanism, remedy)
    return cast("Mechanism[Noise]", mechanism)


def check_noise(
    mechanism: object, noise: Any, neighbors: str, dim: int, epsilon: float, delta: float
) -> None:
    """Raise unless noise has its members, and a guarantee within epsilon and delta."""
    members = ("guarantee", "rvs", "covariance")
    lacking = [name for name in members if not hasattr(noise, name)]
    if lacking or isinstance(noise, type):
        rule = f"make noise with {', '.join(members)}"
        raise fail("mechanism", rule, type(noise), f"It has no {', '.join(lacking)}.")
    claimed = noise.guarantee
    if not isinstance(claimed, Statement):
        rule = f"make noise whose guarantee is a Guarantee or a Statement, {type(noise).__name__}"
        raise fail("mechanism", rule, type(claimed))
    if claimed.epsilon > epsilon or claimed.delta > delta:
        rule = f"make noise with epsilon <= {epsilon:g} and delta <= {delta:g}"
        raise fail("mechanism", rule, (claimed.epsilon, claimed.delta))
    if claimed.neighbors != neighbors:
        rule = f"claim privacy under the sensitivity's neighbors={neighbors!r}"
        raise fail("mechanism", rule, claimed.neighbors)
    if not claimed.holds:
        raise fail("mechanism", "claim a guarantee that holds", claimed.void_because)
    if not is_ours(mechanism):
        draws = [np.asarray(noise.rvs(np.random.default_rng(seed))) for seed in (0, 0, 1)]
        shapes = {(draw.shape, draw.dtype.kind) for draw in draws}
        if shapes != {((dim,), "f")} or not np.isfinite(draws).all():
            rule = f"make noise whose rvs(rng) returns {dim} finite floats"
            raise fail("mechanism", rule, (type(noise).__name__, draws[0].dtype, draws[0].shape))
        if not np.array_equal(draws[0], draws[1]) or (draws[0] == draws[2]).all():
            rule = "make noise whose rvs(rng) draws from rng, and from it alone"
            raise fail("mechanism", rule, type(noise).__name__)
