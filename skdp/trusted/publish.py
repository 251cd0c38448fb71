"""The one door through which values are published.

A value that leaves a computation is drawn from exact statistics of the records and from noise.
Each such draw is a call of `publish`, which names the release; a test finds samplers that meet
data elsewhere. A `Recorder` in the place of the random generator sees every call
(`skdp.testing.replay`). Noise that can be predicted protects nobody, so a guarantee is void with
a recorder, as it is with a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.random import Generator

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
