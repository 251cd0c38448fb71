"""The parts of a private search: exact laws, and privacy computed to the last digit."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import inner_package
import numpy as np
import pytest
from inner_package import UNITS, as_score, bernoulli_exp, parts, sizes, uniform_below
from scipy.integrate import quad
from scipy.stats import chi2

from skdp.model_selection import RecordScore

DRAWS = 4_000
# A chi-square test at this level fails by chance once in ten million runs.
ALARM = 1e-7


def is_drawn_from(draws, law):
    """Chi-square test of draws against probabilities of outcomes; rare ones are put together."""
    n, counts = len(draws), Counter(draws)
    common = [outcome for outcome, p in law.items() if n * p >= 20]
    seen = [counts[outcome] for outcome in common]
    wanted = [n * law[outcome] for outcome in common]
    seen, wanted = [*seen, n - sum(seen)], [*wanted, n - sum(wanted)]
    if wanted[-1] < 20:
        seen, wanted = seen[:-1], wanted[:-1]
    if len(wanted) == 1:
        return seen[0] == n or wanted[0] < n - 20
    statistic = sum((a - b) ** 2 / b for a, b in zip(seen, wanted, strict=True))
    return chi2.sf(statistic, len(wanted) - 1) > ALARM


# Permute-and-flip


def law_of_choice(scores, rate):
    """Probabilities of permute-and-flip, over all orders and all flips."""
    m, greatest = len(scores), max(scores)
    taken = [math.exp(-rate * (greatest - q)) for q in scores]
    law = np.zeros(m)
    for order in itertools.permutations(range(m)):
        left = 1.0
        for place in order:
            law[place] += left * taken[place] / math.factorial(m)
            left *= 1 - taken[place]
    return law


def law_of_noise(scores, rate):
    """Probabilities that each has the greatest sum with exponential noise, by quadrature."""

    def density(x, c):
        others = [1 - math.exp(-rate * max(x + scores[c] - q, 0)) for q in scores]
        return rate * math.exp(-rate * x) * math.prod(others[:c] + others[c + 1 :])

    def part(c):
        kinks = sorted({max(q - scores[c], 0) for q in scores} | {60 / rate})
        pieces = itertools.pairwise([0, *kinks])
        return sum(quad(density, a, b, args=(c,), limit=200)[0] for a, b in pieces if b > a)

    return np.array([part(c) for c in range(len(scores))])


@pytest.mark.parametrize("scores", [[3], [0, 4], [5, 5, 5], [2, 0, 3], [1, 4, 2, 4]], ids=str)
def test_permute_and_flip_is_the_greatest_with_exponential_noise(scores):
    """Two ways to the same law: orders and flips, and an integral (Theorem 1)."""
    np.testing.assert_allclose(law_of_choice(scores, 0.6), law_of_noise(scores, 0.6), atol=1e-9)


@pytest.mark.parametrize("scores", [[0, 4], [2, 0, 3], [1, 4, 2, 4]], ids=str)
def test_draws_have_this_law(scores):
    """And draws at a rate that is a tenth too great are told apart."""
    rng = np.random.default_rng(0)
    draws = [inner_package.permute_and_flip(scores, Fraction(3, 5), rng) for _ in range(DRAWS)]
    assert is_drawn_from(draws, dict(enumerate(law_of_choice(scores, 0.6))))
    assert not is_drawn_from(draws, dict(enumerate(law_of_choice(scores, 0.8))))


def worst_loss(rate, directions):
    """Greatest privacy loss of a choice of three, over all scores to 6 and all moves by 1."""
    moves = itertools.product([0, 1], repeat=3)
    if directions == 2:
        moves = itertools.product([-1, 0, 1], repeat=3)
    moves = list(moves)
    worst = 0.0
    for scores in itertools.product(range(0, 7, 2), repeat=3):
        here = law_of_choice(scores, rate)
        for move in moves:
            there = law_of_choice(np.add(scores, move), rate)
            worst = max(worst, np.abs(np.log(here / there)).max())
    return worst


@pytest.mark.parametrize("directions", [1, 2])
def test_the_choice_is_private_and_no_greater_rate_is(directions):
    """One record moves all sums up by at most 1, or some up and some down; 5 % more is caught."""
    epsilon = 0.9
    assert worst_loss(epsilon / directions, directions) <= epsilon * (1 + 1e-12)
    assert worst_loss(1.05 * epsilon / directions, directions) > 1.04 * epsilon


# Exact draws


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_whole_numbers_are_uniform(n):
    rng = np.random.default_rng(1)
    draws = [uniform_below(n, rng) for _ in range(DRAWS)]
    assert is_drawn_from(draws, dict.fromkeys(range(n), 1 / n))


def test_whole_numbers_of_any_size():
    """Above 2^64, where generators of their own accord stop."""
    rng, n = np.random.default_rng(2), 3**60
    draws = [uniform_below(n, rng) for _ in range(200)]
    assert all(0 <= draw < n for draw in draws)
    assert max(draws) > n // 2 > min(draws)  # fails by chance with 2^-199
    assert len(set(draws)) == 200


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3)])
def test_coins_of_exponential_probability(x):
    rng, p = np.random.default_rng(3), math.exp(-x)
    draws = [bernoulli_exp(x, rng) for _ in range(DRAWS)]
    assert is_drawn_from(draws, {True: p, False: 1 - p})
    assert x == 0 or not is_drawn_from(draws, {True: p**2, False: 1 - p**2})


# Records


def test_one_record_more_moves_nobody_else():
    """Under add/remove the part of a record does not depend on how many there are."""
    fewer = parts(300, [0.3, 0.7], "add_remove", np.random.default_rng(8))
    more = parts(301, [0.3, 0.7], "add_remove", np.random.default_rng(8))
    for a, b in zip(fewer, more, strict=True):
        assert a.tolist() == [row for row in b.tolist() if row < 300]


def test_sizes_are_public_and_leave_no_part_empty():
    for n, shares in itertools.product(range(4, 40), ([0.2] * 4, [0.01, 0.01, 0.97, 0.01])):
        found = sizes(n, shares)
        assert sum(found) == n
        assert min(found) >= 1
    with pytest.raises(ValueError, match="at least 4 records"):
        sizes(3, [0.25] * 4)


# Scores


class Echo:
    """A model that predicts its first column."""

    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_scores_count_whole_units_in_range():
    """A record counts from -UNITS / 2 to UNITS / 2, also out of the range or without a number."""
    score = RecordScore(lambda model, X, y: y, lower=-1.0, upper=3.0)
    X = np.zeros((3, 1))
    assert score.total(None, X, np.array([-1.0, 3.0, 2.0])) == UNITS / 4
    assert score.total(None, X, np.array([-9.0, np.nan, -np.inf])) == -1.5 * UNITS
    assert score.total(None, X[:2], np.array([np.inf, 9.0])) == UNITS


def test_named_scores():
    X, y = np.array([[0.0], [10.0], [20.0]]), np.array([0.0, 20.0, 90.0])
    right = as_score(None, [0.0, 20.0], None)
    assert right.total(Echo(), X, y) == UNITS * (1 - 1.5)
    for name, error in ((None, 100 / 400), ("neg_mean_absolute_error", 10 / 20)):
        score = as_score(name, None, (0.0, 20.0))
        assert score.total(Echo(), X, y) == pytest.approx(UNITS * (1.5 - error), abs=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecordScore(3), "function must be callable"),  # type: ignore[arg-type]
        (lambda: RecordScore(len, 1.0, 1.0), "lower must be below upper"),
        (lambda: RecordScore(len, 0.0, math.inf), "upper must be a number"),
        (lambda: as_score("explained_variance", None, None), "scoring must be one of"),
        (lambda: as_score("accuracy", None, None), "scoring must be one of"),
        (
            lambda: RecordScore(lambda *a: [1.0, 1.0]).total(None, np.eye(2), [1, 2]),
            "one number per record",
        ),
    ],
)
def test_errors_name_the_rule(make, message):
    with pytest.raises(ValueError, match=message):
        make()
