"""Attacks on guarantees: right guesses beside what each guarantee allows.

    python -m examples.benchmarks.attacks.attacks --fits 100 --seed 0
    python -m examples.benchmarks.attacks.attacks --fast

An attacker knows both of two neighbouring tables and reads public attributes. The number of
right guesses that chance exceeds with probability 1e-6 follows from the guarantee. The exit
code is 1 if any attack finds more.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator

from examples.benchmarks.attacks import (
    attack_moments,
    attack_noise,
    attack_parts,
    attack_sources,
)
from examples.benchmarks.attacks.attack_report import Verdict

FITS, FEW = 100, 60


def attacks(fits: int, seed: int, fast: bool) -> Iterator[Verdict]:
    """Run all attacks."""
    yield from attack_moments.attacks(fits, seed)
    yield from attack_noise.attacks(fits, seed)
    yield from attack_parts.attacks(seed, fast)
    yield from attack_sources.attacks()


def main() -> int:
    """Print a line per attack; return how many guarantees are broken, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, help=f"fits per attack; {FITS}, {FEW} with --fast")
    parser.add_argument("--seed", type=int, default=0, help="of tables and guesses, not of noise")
    parser.add_argument("--fast", action="store_true", help="fewer fits, less patience")
    asked = parser.parse_args()
    fits = asked.fits or (FEW if asked.fast else FITS)
    warnings.simplefilter("ignore")
    broken, total, start = 0, 0, time.perf_counter()
    for verdict in attacks(fits, asked.seed, asked.fast):
        print(verdict, flush=True)
        broken, total = broken + (not verdict.holds), total + 1
    print(f"{broken} of {total} broken, {time.perf_counter() - start:.0f} seconds")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
