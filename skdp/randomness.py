"""Where random bits come from, and the lattice on which results are released.

Noise protects a record only while nobody can predict it. By default every release therefore
draws from ChaCha20 under a 256-bit key fresh from the operating system, and no two copies,
threads or processes ever hold the same stream. Seeds are for tests.
"""

from __future__ import annotations

import math
import secrets
import sys
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, NDArray
from randomgen import ChaCha

from skdp._checks import check_count, check_positive, fail

RandomStateLike = int | np.integer | np.random.Generator | np.random.RandomState | None


class SystemGenerator(np.random.Generator):
    """A numpy Generator over ChaCha20, keyed by the operating system.

    A copy, an unpickled copy, a spawned child and the image of this generator in a forked
    process each get a new key: a stream that is used twice would let two releases be
    subtracted from one another, and the noise with it.
    """

    def __init__(self) -> None:
        super().__init__(_fresh_chacha())
        _live.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Return ``n_children`` generators, each under a key of its own."""
        return [type(self)() for _ in range(check_count("n_children", n_children, least=0))]

    def rekey(self) -> None:
        """Leave the present stream for one under a new key."""
        old = self.bit_generator
        # A new bit generator brings a new lock: a thread lost in a fork may hold the old one,
        super().__init__(_fresh_chacha())
        # and then whoever else holds the old bit generator waits for ever. Else it must leave
        # the old stream too.
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
        ``None`` gives a `SystemGenerator`: ChaCha20 under a fresh 256-bit key at every
        call. An int >= 0 seeds ``numpy.random.default_rng``; a Generator is returned as it
        is; a RandomState lends its bit generator, so that both draw from one stream. All
        but ``None`` are for tests: such noise can be predicted and protects nobody.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    ValueError
        If ``random_state`` is anything else.

    Examples
    --------
    >>> from skdp.randomness import as_generator
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
    """Return whether noise drawn under ``random_state`` is unpredictable: only for None.

    Examples
    --------
    >>> from skdp.randomness import is_cryptographic
    >>> is_cryptographic(None), is_cryptographic(0)
    (True, False)
    """
    return random_state is None


@dataclass(frozen=True)
class Lattice:
    """The multiples of a public power of two, to which releases are rounded.

    The low bits of a float tell how it was computed, and so can tell noise from data. A
    result rounded to a lattice before lattice noise is added is a multiple of the same
    public spacing whatever the data. Multiples below ``2**53 * spacing`` in size are exact
    floats, and they add and subtract exactly while the result stays below that size too.

    Parameters
    ----------
    spacing : float, a power of two from 2**-1022 to 2**970, units of the released value
        Distance between neighbouring points in each coordinate. Within this range no
        rounding overflows and no multiple is subnormal.

    Raises
    ------
    ValueError
        If ``spacing`` is not such a power of two.

    Examples
    --------
    >>> from skdp.randomness import Lattice
    >>> Lattice(0.25).round([0.3, -0.1, 7.0])
    array([0.25, 0.  , 7.  ])
    """

    spacing: float

    def __post_init__(self) -> None:
        spacing = check_positive("spacing", self.spacing)
        if math.frexp(spacing)[0] != 0.5 or not 2.0**-1022 <= spacing <= 2.0**970:
            raise fail(
                "spacing",
                "be a power of two from 2**-1022 to 2**970",
                spacing,
                "Lattice.finer_than(scale) gives a fitting one.",
            )
        object.__setattr__(self, "spacing", spacing)

    @classmethod
    def finer_than(cls, scale: float, bits: int = 40) -> Lattice:
        """Return the coarsest lattice at least ``2**bits`` times finer than ``scale``.

        Parameters
        ----------
        scale : float in (0, inf), units of the released value
            Scale of the noise: public, never read off the data.
        bits : int >= 0
            How far below the scale the spacing lies.

        Returns
        -------
        Lattice
            Its spacing is the greatest power of two <= ``2**-bits * scale``.

        Raises
        ------
        ValueError
            If an argument is out of range, or the spacing would be.

        Examples
        --------
        >>> from skdp.randomness import Lattice
        >>> Lattice.finer_than(3.0, bits=2)
        Lattice(spacing=0.5)
        """
        exponent = math.frexp(check_positive("scale", scale))[1] - 1
        return cls(math.ldexp(1.0, exponent - check_count("bits", bits, least=0)))

    def round(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return ``x`` with every entry moved to the nearest multiple, exactly.

        Parameters
        ----------
        x : array of any shape
            Entries at a tie go to the even multiple; inf and NaN stay what they are.

        Returns
        -------
        array of the same shape
            No entry moves by more than ``spacing / 2``, and none is a negative zero.
        """
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore"):
            steps = x / self.spacing
            nearest = np.rint(steps) * self.spacing
        # From 2**53 steps on a float is a multiple already, and the quotient may overflow.
        # Adding 0.0 turns -0.0 into 0.0: its sign bit would tell on which side x lay.
        rounded: NDArray[np.float64] = np.where(np.abs(steps) < 2.0**53, nearest, x) + 0.0
        return rounded

    def half_diagonal(self, dim: int) -> float:
        """Return the farthest, in the l2 norm, that rounding moves a point; never too small.

        Parameters
        ----------
        dim : int >= 1
            Number of coordinates.

        Returns
        -------
        float
            ``spacing * sqrt(dim) / 2``, rounded up.
        """
        # The root is off by half a step at most, powers of two by nothing: one step up is safe.
        nearest = self.spacing * math.sqrt(check_count("dim", dim)) / 2
        return math.nextafter(nearest, math.inf)


_live: WeakSet[SystemGenerator] = WeakSet()


def _fresh_chacha() -> Any:
    return ChaCha(key=secrets.randbits(256), rounds=20)


def _rekey_all() -> None:
    for generator in list(_live):
        generator.rekey()


if sys.platform != "win32":
    import os

    os.register_at_fork(after_in_child=_rekey_all)
