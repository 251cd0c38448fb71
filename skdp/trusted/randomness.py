"""Random generators for noise, and the lattice on which results are released.

Noise protects a record only if it cannot be predicted. So by default every release draws from
ChaCha20 with a fresh 256-bit key from the operating system, and no two copies, threads or
processes have the same stream. Seeds are for tests.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from randomgen import ChaCha

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_count, check_interval, fail
from skdp.trusted.draws import discrete_laplace
from skdp.trusted.publish import publish

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
