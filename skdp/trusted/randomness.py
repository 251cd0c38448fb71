"""Random bits, exact samplers, the lattice of released values, and the function that publishes.

Noise protects a record only if it cannot be predicted. So by default every release draws from
ChaCha20 with a fresh 256-bit key from the operating system, and no two copies, threads or
processes have the same stream. Seeds are for tests.

A sampler that works with floats draws from a discrete law. The distance between a draw of a sampler
below and a draw of the exact law has a bound for every draw, also in both tails. The proofs of the
releases need this bound (docs/proofs/lattice_release.md, Lemma 3) and no regular grid of floats.
`discrete_laplace` uses integers only and is exact.

Every published value is drawn from exact statistics of the records and from noise by a call of
`publish`, which names the release; a test finds samplers that meet data elsewhere. A `Recorder` in
the place of the random generator sees every call (`skdp.testing.replay`). A recorder can predict
the noise, so a guarantee is void with a recorder, as it is with a seed.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from randomgen import ChaCha

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_count, check_interval, fail

IntArray = NDArray[np.int64]
Size = int | tuple[int, ...] | None

# A draw of 128 scales, which has probability e^-128, still fits 64 bits.
MOST_SCALE = 2**55
_LOG_2 = math.log(2)
# For fewer draws the number of calls determines the time, not the number of draws.
_FEW = 4096
# Adding and subtracting this rounds to a multiple of 2^-18.
_SPLIT = 1.5 * 2.0 ** (52 - 18)


def uniforms(size: Size, rng: Generator) -> FloatArray:
    """Return draws from (0, 1), each within a factor 1 +- 2^-51 of a draw of the real law."""
    # The midpoint of a cell of the generator's grid is never 0.
    u = np.asarray(rng.random(size) + 2.0**-54)
    # Below 1/4 the grid is too coarse. The law given u < 1/4 is the uniform law divided by 4.
    flat, factor = u.reshape(-1), 1.0
    low = np.flatnonzero(flat < 0.25)
    while len(low):
        factor /= 4
        fresh = rng.random(len(low)) + 2.0**-54
        flat[low] = factor * fresh
        low = low[fresh < 0.25]
    return u


def exponentials(size: Size, rng: Generator) -> FloatArray:
    """Return standard exponential draws, each within a factor 1 +- 2^-50 of a draw of the law."""
    u = uniforms(size, rng)
    # A fair coin chooses the side of log 2. Both sides keep their relative precision.
    far = rng.random(size) < 0.5
    return np.asarray(-np.where(far, np.log(u) - _LOG_2, np.log1p(-u / 2)))


def gumbels(size: Size, rng: Generator) -> FloatArray:
    """Return standard Gumbel draws, each within 2^-49 (1 + |G|) of a draw G of the real law."""
    return np.asarray(-np.log(exponentials(size, rng)))


def normals(size: Size, rng: Generator) -> FloatArray:
    """Return standard normal draws, each within 2^-49 R of a draw of the real law.

    R is the radius of Box and Muller's method, which is at least the absolute value of the draw.
    """
    shape = () if size is None else (size,) if isinstance(size, int | np.integer) else size
    count = math.prod(shape)
    pairs = (count + 1) // 2
    radius = np.sqrt(2 * exponentials(pairs, rng))
    angle = 2 * math.pi * rng.random(pairs)
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return np.asarray(both[:count].reshape(shape))


def gamma(shape: int, rng: Generator) -> float:
    """Return one draw of a Gamma variable of integer shape: a sum of exponential draws."""
    return float(exponentials(shape, rng).sum())


def gammas(
    shape: float | FloatArray | IntArray, size: int | tuple[int, ...], rng: Generator
) -> FloatArray:
    """Return Gamma draws of shapes >= 1, by the method of Marsaglia & Tsang (2000).

    An accepted draw is computed by a few operations from a normal one, and a comparison of floats
    decides on acceptance. A few draws of one integer shape are sums of exponential draws.
    """
    wanted = (size,) if isinstance(size, int | np.integer) else tuple(size)
    if isinstance(shape, int) and shape * math.prod(wanted) <= _FEW:
        return np.asarray(exponentials((*wanted, shape), rng).sum(axis=-1))
    shapes = np.broadcast_to(np.asarray(shape, dtype=float), wanted).ravel()
    out, open_ = np.empty(len(shapes)), np.arange(len(shapes))
    while len(open_):
        d = shapes[open_] - 1 / 3
        x, u = normals(len(open_), rng), uniforms(len(open_), rng)
        v = np.maximum(1 + x / np.sqrt(9 * d), 0.0) ** 3
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = (v > 0) & (np.log(u) < x * x / 2 + d * (1 - v + np.log(v)))
        out[open_[kept]] = (d * v)[kept]
        open_ = open_[~kept]
    return out.reshape(wanted)


def signed(x: FloatArray, rng: Generator) -> FloatArray:
    """Return x >= 0 with fair signs."""
    return np.copysign(x, rng.random(np.shape(x)) - 0.5)


def discrete_laplace(scale: int, size: int, rng: Generator) -> IntArray:
    """Return integers k of probability proportional to exp(-|k| / scale), exactly.

    This is the method of Canonne, Kamath & Steinke (2020, Algorithms 1 and 2) for arrays. It
    compares uniform integers and uses no float. ``scale`` is an integer from 1 to 2^55.
    """
    # The difference of two geometric variables, k >= 0 with such probabilities, has this law.
    both = scale * _whole(scale, 2 * size, rng) + _rest(scale, 2 * size, rng)
    return both[:size] - both[size:]


def _whole(scale: int, size: int, rng: Generator) -> IntArray:
    """Return the numbers of events of probability 1 / e before one fails, (size,)."""
    events = np.empty(0, dtype=np.bool_)
    while np.count_nonzero(~events) < size:
        more = _happens(np.full(_enough(size), scale), scale, rng)
        events = np.concatenate([events, more])
    failures = np.flatnonzero(~events)[:size]
    return np.diff(failures, prepend=-1) - 1


def _rest(scale: int, size: int, rng: Generator) -> IntArray:
    """Return integers from 0 to scale - 1, of probability proportional to exp(-k / scale)."""
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < size:
        tried = rng.integers(0, scale, _enough(size))
        kept = np.concatenate([kept, tried[_happens(tried, scale, rng)]])
    return kept[:size]


def _enough(size: int) -> int:
    """Return a number of tries, each kept with probability 1 - 1 / e, of which ``size`` are kept.

    Rarely fewer are kept; then more tries follow.
    """
    return math.ceil(1.6 * size + 4 * math.sqrt(size) + 4)


def _happens(part: IntArray, scale: int, rng: Generator) -> NDArray[np.bool_]:
    """Return events of probability exp(-part / scale), for 0 <= part <= scale."""
    # The first k at which an event of probability part / (scale k) fails is odd so often.
    odd = np.ones(len(part), dtype=np.bool_)
    open_, k = np.arange(len(part)), 1
    if len(part) < _FEW:  # more draws, but fewer calls
        bounds = scale * np.arange(1, 5)
        happened = rng.integers(0, bounds, (len(part), 4)) < part[:, None]
        failed = np.where(happened.all(axis=1), 4, np.argmin(happened, axis=1))
        odd, open_, k = failed % 2 == 0, np.flatnonzero(failed == 4), 5
    while len(open_):
        open_ = open_[rng.integers(0, scale * k, len(open_)) < part[open_]]
        odd[open_] ^= True
        k += 1
    return odd


def wishart(rows: int, degrees: int, rng: Generator) -> FloatArray:
    """Return G G' for a matrix G of standard normal draws, (rows, rows).

    Each entry is within about sqrt(degrees) 2^-48 of sqrt(degrees) from one of the real law. A
    product of matrices of floats rounds once for each term. Here multiples of 2^-18 are multiplied
    first, and their products add up exactly. The rest is 2^-18 of the whole.
    """
    factor = normals((rows, degrees), rng)
    coarse = factor + _SPLIT
    coarse -= _SPLIT
    rest = factor - coarse
    cross = rest @ (factor + coarse).T  # its symmetric part is the contribution of the rest
    return np.asarray(coarse @ coarse.T + (cross + cross.T) / 2)


T = TypeVar("T")


class Recorder(Generator):
    """A random generator that is asked for every published value."""

    def published(
        self, release: Any, exact: Any, draw: Callable[[Generator], T], facts: dict[str, Any]
    ) -> T:
        """Return the published value; the arguments are those of `publish`."""
        raise NotImplementedError

    def restart(self) -> int:
        """Continue with a stream that does not depend on earlier draws, and return its number."""
        raise NotImplementedError


def publish(
    release: Any, exact: Any, draw: Callable[[Generator], T], rng: Generator, **facts: Any
) -> T:
    """Return a published value.

    Parameters
    ----------
    release : Release
        The release of the plan: its change, its noise and its theorem.
    exact : object
        The exact statistic of the records: for sums a list of integers in units of ``2.0**unit``,
        or of pairs (m, e), which stand for m 2^e, if the unit is None.
    draw : callable
        Returns the published value for a generator. It alone uses ``exact`` and noise together.
    rng : Generator
    **facts : object
        Public facts of the draw. Of sums: ``unit``; ``scale``, the factor on draws of the
        release's noise; ``lattice``, on which they are published. ``parts`` calls are together one
        of the repeated releases. Noise that was drawn before has the facts ``ahead``.
    """
    if isinstance(rng, Recorder):
        return rng.published(release, exact, draw, facts)
    return draw(rng)


def ahead(rng: Generator) -> int | None:
    """Return the number of the stream of a recorder, from which noise is drawn in advance."""
    return rng.restart() if isinstance(rng, Recorder) else None


def source_of(rng: Generator) -> Generator | int:
    """Return a seed, or the recorder itself, for a computation with a generator of its own."""
    if isinstance(rng, Recorder):
        rng.restart()
        return rng
    return int(rng.integers(2**31))


# Greatest distance of a draw of noise from a draw of the exact law, in standard deviations.
GRANULARITY = 2.0**-42
# The spacing of a lattice is about 2^-_SPACING_BITS standard deviations of the noise.
_SPACING_BITS = 30

_SCALARS = (np.bool_, np.integer, np.float16, np.float32, np.float64)
RandomStateLike = int | np.integer | np.random.Generator | np.random.RandomState | None


class SystemGenerator(np.random.Generator):
    """A numpy Generator of ChaCha20 with a key from the operating system.

    A copy, an unpickled copy, a spawned child and the copy in a forked process each get a new
    key. If two releases used the same stream, their difference would be free of noise.
    """

    def __init__(self) -> None:
        super().__init__(_fresh_chacha())
        _live.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Return ``n_children`` generators, each with its own key."""
        return [type(self)() for _ in range(check_count("n_children", n_children, least=0))]

    def rekey(self) -> None:
        """Replace the present stream by one with a new key."""
        old = self.bit_generator
        # A new bit generator has a new lock: a thread lost in a fork may hold the old one forever.
        super().__init__(_fresh_chacha())
        # If the old lock is free, other holders of the old bit generator get a new stream too.
        if old.lock.acquire(blocking=False):
            try:
                old.state = _fresh_chacha().state
            finally:
                old.lock.release()


def as_generator(random_state: RandomStateLike = None) -> np.random.Generator:
    """Return the generator from which noise is drawn.

    Parameters
    ----------
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
        ``None`` gives a `SystemGenerator`: ChaCha20 with a fresh 256-bit key at every call. An
        int >= 0 seeds ``numpy.random.default_rng``. A Generator is returned as it is. The
        bit generator of a RandomState is shared, so both draw from one stream. All values but
        ``None`` are for tests: such noise can be predicted and protects nobody.

    Examples
    --------
    >>> from skdp.trusted.randomness import as_generator
    >>> as_generator().random() == as_generator().random()
    False
    >>> as_generator(7).random() == as_generator(7).random()
    True
    """
    if random_state is None:
        return SystemGenerator()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return np.random.default_rng(check_count("random_state", random_state, least=0))
    raise fail(
        "random_state",
        "be None, an int, a numpy Generator or a numpy RandomState",
        type(random_state),
        "Leave it at None for noise that protects; give an int in tests.",
    )


def is_cryptographic(random_state: RandomStateLike) -> bool:
    """Return whether noise drawn with ``random_state`` is unpredictable: for None only."""
    return random_state is None


def granularity_of(sampler: object) -> float:
    """Return the greatest distance of a draw from one of the exact law, in standard deviations.

    An attribute ``granularity`` counts only if it is above 2^-42, because a subclass with other
    draws inherits it. It is raised by the greatest stretch of a draw, 1 / (1 - 2^-4); samplers
    without the attribute differ by at most 2^-43.
    """
    own = float(getattr(sampler, "granularity", GRANULARITY))
    return GRANULARITY if own <= GRANULARITY else own * 1.07


@dataclass(frozen=True, eq=False)  # a comparison of arrays has no single truth value
class Lattice:
    """The public grid on which noisy numbers are released.

    The low bits of a float depend on how it was computed, and so can reveal the data. Released
    numbers are therefore multiples of ``2.0**spacing``, about 2^-30 standard deviations of the
    noise. They are computed with exact integers. The sum of value and noise is rounded down to a
    finer grid. Exact discrete Laplace noise is added, which hides the error of the noise's
    sampler. The result is rounded down to a multiple of the spacing. Statement and proof:
    ``docs/proofs/lattice_release.md``, Theorem 1.

    Attributes
    ----------
    spacing : ndarray of int, shape (dim,)
        Base-2 logarithms of the distances between neighbouring points.
    fine : ndarray of int, shape (dim,)
        The same for the finer grid. A draw of the noise is within one such distance of a draw of
        the exact law.
    dither : int
        The scale of the discrete Laplace noise, in steps of the finer grid.
    """

    spacing: NDArray[np.int64]
    fine: NDArray[np.int64]
    dither: int

    @classmethod
    def of(
        cls, deviation: ArrayLike, granularity: float = GRANULARITY, dither_bits: int = 7
    ) -> Lattice:
        """Return the lattice for noise of these standard deviations, public numbers.

        The deviations are from 2^-900 to 2^900. ``granularity``, at most 2^-20, is the greatest
        distance of a draw of the noise from a draw of the exact law in each coordinate, in standard
        deviations. The discrete Laplace noise has a scale of 2^-dither_bits standard deviations,
        rounded to powers of two.
        """
        deviation = np.atleast_1d(np.asarray(deviation, dtype=float))
        if not ((deviation >= 2.0**-900) & (deviation <= 2.0**900)).all():
            remedy = "Use other units for the released value, or another epsilon."
            raise fail("noise", "have standard deviations from 2^-900 to 2^900", remedy=remedy)
        remedy = "Release fewer numbers, or choose a map of a lesser condition number."
        check_interval("granularity", granularity, 0.0, 2.0**-20, "right", remedy)
        # 57 bits suffice, and with more the dither would not fit 64 bits.
        precision = min(57, -int(_log2_above(np.array(granularity))))
        fine = _log2_above(deviation) - precision
        # The lattice is no finer than the dithered grid.
        spacing = np.maximum(fine + precision - _SPACING_BITS, fine)
        return cls(spacing, fine, 1 << max(0, precision - dither_bits))

    @property
    def cost(self) -> float:
        """Bound on the epsilon that the sampler's error adds, for all coordinates together."""
        return len(self.spacing) / self.dither

    def release(
        self, exact: Sequence[int], unit: ArrayLike, noise: FloatArray, rng: Generator
    ) -> FloatArray:
        """Return ``exact * 2.0**unit + noise`` on the lattice, (dim,); rng draws the dither."""
        return self.add(exact, unit, self.grains(unit, noise, rng))

    def grains(self, unit: ArrayLike, noise: FloatArray, rng: Generator) -> list[int]:
        """Return noise plus discrete Laplace noise, as integers for `add`."""
        if not np.isfinite(noise).all():
            raise fail("noise", "draw finite numbers", remedy="Check its rvs().")
        mantissas, exponents = _as_integers(noise)
        dithers = discrete_laplace(self.dither, len(mantissas), rng).tolist()
        rows = zip(mantissas, exponents, dithers, *self._levels(unit), strict=True)
        # Rounding down commutes with adding exact multiples, so the order does not matter.
        return [_shifted(m, e - low) + (d << fine - low) for m, e, d, low, fine, _ in rows]

    def add(self, exact: Sequence[int], unit: ArrayLike, grains: Sequence[int]) -> FloatArray:
        """Return exact integers plus the grains of one draw, on the lattice."""
        return self.adder(unit)(slice(None), exact, grains)

    def adder(self, unit: ArrayLike) -> Callable[[slice, Sequence[int], Sequence[int]], FloatArray]:
        """Return a function that adds exact integers in one unit to grains of some coordinates."""
        units = np.broadcast_to(unit, self.spacing.shape).tolist()
        low, _, top = self._levels(unit)
        levels = list(zip(units, low, top, strict=True))

        def add(place: slice, exact: Sequence[int], grains: Sequence[int]) -> FloatArray:
            rows = zip(exact, grains, levels[place], strict=True)
            return np.array(
                [
                    _as_float(((int(x) << u - low) + g) >> top - low, top)
                    for x, g, (u, low, top) in rows
                ]
            )

        return add

    def _levels(self, unit: ArrayLike) -> tuple[list[int], list[int], list[int]]:
        """Return base-2 logarithms of three grids: of the grains, the finer one, the lattice."""
        low = np.minimum(self.fine, np.asarray(unit, dtype=np.int64))
        return low.tolist(), self.fine.tolist(), self.spacing.tolist()

    def publish(
        self,
        value: ArrayLike,
        draw: Callable[[Generator], FloatArray],
        rng: RandomStateLike,
        release: Any = None,
        scale: float = 1.0,
    ) -> FloatArray:
        """Return a value of finite numbers plus a draw of the noise, on the lattice, (dim,).

        The ``release``, or its noise, and the factor ``scale`` on it are for a recorder.
        """
        exact, unit = _exactly(value, len(self.spacing))

        def add(generator: Generator) -> FloatArray:
            return self.release(exact, unit, draw(generator), generator)

        # The units of floats depend on them: they are no facts.
        facts = {"unit": None, "scale": scale, "lattice": self}
        numbers = list(zip(exact, unit, strict=True))
        return publish(release, numbers, add, as_generator(rng), **facts)

    def repeated(self, times: int) -> Lattice:
        """Return the lattice of ``times`` consecutive releases."""
        return Lattice(np.tile(self.spacing, times), np.tile(self.fine, times), self.dither)


def publish_near(value: FloatArray, exponent: int, scale: int, rng: Generator) -> FloatArray:
    """Return floats, rounded down to multiples of 2^exponent, plus discrete Laplace noise.

    The scale of the noise, an integer from 1 to 2^55, is in steps of 2^exponent.
    """
    mantissas, exponents = _as_integers(value)
    dithers = discrete_laplace(scale, len(value), rng).tolist()
    rows = zip(mantissas, exponents, dithers, strict=True)
    return np.array([_as_float(_shifted(m, e - exponent) + d, exponent) for m, e, d in rows])


def _exactly(value: ArrayLike, dim: int) -> tuple[list[int], list[int]]:
    """Return integers m and e with value = m 2^e, exactly; errors do not show the value.

    Integers are not rounded to floats, because two that differ by 1 could then differ by more.
    """
    if isinstance(value, list | tuple):
        numbers = np.empty(len(value), dtype=object)
        numbers[:] = value
    else:
        numbers = np.asarray(value)
    plain = numbers.dtype.kind in "biuO" or numbers.dtype in (np.float16, np.float32, np.float64)
    if plain and numbers.shape == (dim,) and not isinstance(value, np.ma.MaskedArray):
        entries = [x.item() if isinstance(x, _SCALARS) else x for x in numbers.tolist()]
        if all(isinstance(x, int) or (isinstance(x, float) and math.isfinite(x)) for x in entries):
            pairs = [(x, 0) if isinstance(x, int) else _pair(x) for x in entries]
            return [m for m, _ in pairs], [e for _, e in pairs]
    rule = f"be {dim} finite numbers, a list or a plain array of shape ({dim},)"
    remedy = "Pass integers or floats of 64 bits; one number is a list, release([number])."
    raise fail("value", rule, remedy=remedy)


def _pair(x: float) -> tuple[int, int]:
    """Return integers m and e with x = m 2^e."""
    share, exponent = math.frexp(x)
    return int(math.ldexp(share, 53)), exponent - 53


def _as_integers(x: FloatArray) -> tuple[list[int], list[int]]:
    """Return integers m and e with x = m 2^e, exactly."""
    share, exponent = np.frexp(x)
    return np.ldexp(share, 53).astype(np.int64).tolist(), (exponent - 53).tolist()


def _shifted(m: int, places: int) -> int:
    """Return m 2^places, rounded down."""
    return m << places if places >= 0 else m >> -places


def _as_float(m: int, exponent: int) -> float:
    """Return m 2^exponent, rounded down to a float; on overflow the greatest float."""
    spare = max(0, m.bit_length() - 53)
    try:
        return math.ldexp(float(m >> spare), exponent + spare)
    except OverflowError:
        return sys.float_info.max if m > 0 else -sys.float_info.max


def _log2_above(x: FloatArray) -> NDArray[np.int64]:
    """Return the least integers k with x <= 2^k."""
    share, exponent = np.frexp(x)
    return np.asarray(exponent - (share == 0.5), dtype=np.int64)


_live: WeakSet[SystemGenerator] = WeakSet()


def _fresh_chacha() -> Any:
    return ChaCha(key=secrets.randbits(256), rounds=20)


def _rekey_all() -> None:
    for generator in list(_live):
        generator.rekey()


if sys.platform != "win32":
    import os

    os.register_at_fork(after_in_child=_rekey_all)
