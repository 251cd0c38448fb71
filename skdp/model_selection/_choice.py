"""A private choice and its noise, in whole numbers: nothing is rounded, no law is approximate.

Scores are whole numbers, rates are fractions, and every draw is made of fair bits, so that the
laws of ``docs/proofs/private_selection.md`` are those of what the computer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def permute_and_flip(scores: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Return the position of a great score, the greatest most likely (McKenna & Sheldon 2020).

    Candidates come in a random order, and each is taken with probability
    ``exp(-rate (greatest - score))``; the first one taken is the choice. It has the law of the
    greatest of scores plus exponential noise of this rate (private_selection.md, Theorem 1).

    Parameters
    ----------
    scores : sequence of int
        At least one.
    rate : Fraction > 0, per unit of the scores
        epsilon / D if one record moves all scores up, or all down, by at most D, and
        epsilon / (2 D) if it moves some up and others down.
    rng : Generator
    """
    greatest = max(scores)
    for place in rng.permutation(len(scores)):
        if exp_coin(rate * (greatest - scores[place]), rng):
            return int(place)
    raise AssertionError("the greatest score is always taken")


def discrete_laplace(rate: Fraction, rng: np.random.Generator) -> int:
    """Return a whole number of probability proportional to ``exp(-rate |x|)``.

    Canonne, Kamath & Steinke (2020), Algorithm 2.
    """
    per, steps = rate.numerator, rate.denominator
    while True:
        below = uniform_below(steps, rng)
        if not exp_coin(Fraction(below, steps), rng):
            continue
        turns = 0
        while exp_coin(Fraction(1), rng):
            turns += 1
        size, negative = (below + steps * turns) // per, uniform_below(2, rng)
        if size or not negative:
            return -size if negative else size


def exp_coin(exponent: Fraction, rng: np.random.Generator) -> bool:
    """Return True with probability ``exp(-exponent)``, exactly, for an exponent >= 0.

    Canonne, Kamath & Steinke (2020), Algorithm 1.
    """
    whole, rest = divmod(exponent.numerator, exponent.denominator)
    # One coin for each whole unit; the first failure ends it, after 1.6 coins on average.
    return all(_short_coin(1, 1, rng) for _ in range(whole)) and _short_coin(
        rest, exponent.denominator, rng
    )


def _short_coin(x: int, per: int, rng: np.random.Generator) -> bool:
    """Return True with probability exp(-x / per), for a quotient in [0, 1].

    With A_k true with probability x / (per k), the first k for which it is false is odd with this
    probability. Whole numbers, since fractions would be reduced in every step.
    """
    k = 1
    while uniform_below(per * k, rng) < x:
        k += 1
    return k % 2 == 1


def coin(probability: Fraction, rng: np.random.Generator) -> bool:
    """Return True with exactly this probability, in [0, 1]."""
    return uniform_below(probability.denominator, rng) < probability.numerator


def uniform_below(n: int, rng: np.random.Generator) -> int:
    """Return a whole number from 0 to ``n - 1``, each as likely as the others; n of any size."""
    bits = (n - 1).bit_length()
    spare = -bits % 8
    while True:
        found = int.from_bytes(rng.bytes((bits + spare) // 8), "big") >> spare
        if found < n:
            return found
