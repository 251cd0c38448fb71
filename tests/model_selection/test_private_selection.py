"""The parts of a private search: exact laws, and privacy computed to the last digit."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import comb
from scipy.stats import chi2

from skdp.model_selection import RecordScore
from skdp.model_selection._exact_draws import (
    bernoulli,
    bernoulli_exp,
    discrete_laplace,
    permute_and_flip,
    uniform_below,
)
from skdp.model_selection._scoring import UNITS, as_score
from skdp.model_selection._stopping import StoppingLaw
from skdp.model_selection._strategies import RandomStopping, exactly, split
from skdp.model_selection._task import parts, sizes
from skdp.privacy.decimals import add, as_decimal
from skdp.privacy.ledger import Budget

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
    draws = [permute_and_flip(scores, Fraction(3, 5), rng) for _ in range(DRAWS)]
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
    assert is_drawn_from(
        [bernoulli(x / 3, rng) for _ in range(DRAWS)], {True: float(x / 3), False: 1 - float(x / 3)}
    )
    assert x == 0 or not is_drawn_from(draws, {True: p**2, False: 1 - p**2})


@pytest.mark.parametrize("rate", [Fraction(1, 7), Fraction(3, 2), Fraction(0.1)], ids=str)
def test_noise_of_scores_is_discrete_laplace(rate):
    """Also where the rate is a float, with a denominator of 2^55."""
    rng, r = np.random.default_rng(4), float(rate)

    def law(r):
        return {k: math.tanh(r / 2) * math.exp(-r * abs(k)) for k in range(-200, 201)}

    draws = [discrete_laplace(rate, rng) for _ in range(DRAWS)]
    assert is_drawn_from(draws, law(r))
    assert not is_drawn_from(draws, law(1.3 * r))


# Numbers of runs

LAWS = [StoppingLaw(0.3), StoppingLaw(0.05), StoppingLaw(0.2, 3), StoppingLaw(0.6, 2)]


def pmf(law):
    """Weights of the numbers of runs from 1 on; what is left out has a weight below e^-30."""
    k = np.arange(1, int(60 / law.gamma))
    log = np.log(comb(k + law.shape - 1, law.shape - 1)) + k * math.log1p(-law.gamma)
    return np.exp(log) / np.exp(log).sum()


def generating(law, x):
    """The generating function of the number of runs, by Theorem 4.

    At 1 - x it is the probability that no run tries any of a share x of the candidates.
    """
    terms = (1 - (1 - law.gamma) * x) ** -law.shape - 1
    return terms / (law.gamma**-law.shape - 1)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_numbers_of_runs_have_their_law(law):
    """Mean, law, and the chance that a share of the candidates is never tried."""
    rng, weights = np.random.default_rng(5), pmf(law)
    k = np.arange(1, len(weights) + 1)
    assert law.mean == pytest.approx(k @ weights, rel=1e-9)
    assert generating(law, 0.75) == pytest.approx(0.75**k @ weights, rel=1e-9)
    assert StoppingLaw.of_mean(law.mean, law.shape).gamma == pytest.approx(law.gamma, rel=1e-6)
    draws = [law.rvs(rng) for _ in range(DRAWS)]
    assert is_drawn_from(draws, dict(enumerate(weights.tolist(), 1)))
    other = pmf(StoppingLaw(1.3 * law.gamma, law.shape))
    assert not is_drawn_from(draws, dict(enumerate(other.tolist(), 1)))


def best_of(law, weights):
    """Law of the best of the runs of a finite mechanism, the last outcome being the best."""
    below = np.concatenate([[0.0], np.cumsum(weights)]).clip(0, 1)
    return np.diff(np.polyval([*pmf(law)[::-1], 0.0], below))


def answers(epsilon, ties):
    """A yes-no answer of odds e^epsilon with ties broken by one of many equal numbers."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    there = np.repeat([p / ties, (1 - p) / ties], ties)
    return there, np.repeat([(1 - p) / ties, p / ties], ties)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_best_of_the_runs_costs_what_is_said(law, epsilon):
    """Exact output laws: within the bound, near it for the worst run, beyond 5 % less."""
    bound = law.epsilon_of(epsilon)
    here, there = (best_of(law, weights) for weights in answers(epsilon, 2000))
    loss = np.abs(np.log(here / there)).max()
    assert 0.99 * bound < loss <= bound * (1 + 1e-9)
    assert epsilon < bound < (2 + law.shape) * epsilon


def test_no_private_run_costs_more():
    """Runs of five outcomes whose losses lie anywhere in the interval, with both its ends."""
    rng, epsilon, worst = np.random.default_rng(6), 0.7, 0.0
    law = StoppingLaw(0.2)
    for _ in range(500):
        weights = rng.dirichlet(np.ones(5))
        losses = rng.permutation([-epsilon, epsilon, *rng.uniform(-epsilon, epsilon, 3)])
        # Both made to add up to 1: then the losses shift, and not all of them are allowed.
        p, q = weights * np.exp(losses / 2), weights * np.exp(-losses / 2)
        p, q = p / p.sum(), q / q.sum()
        if np.abs(np.log(p / q)).max() <= 1.15 * epsilon:
            # The loss of the best is that of a run of the epsilon that this one has.
            bound = law.epsilon_of(np.abs(np.log(p / q)).max())
            worst = max(worst, np.abs(np.log(best_of(law, p) / best_of(law, q))).max() / bound)
    assert 0.6 < worst <= 1


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_with_delta_the_best_costs_delta_for_every_run(law):
    """A run that tells the data set with probability delta; half of the delta is too little."""
    epsilon, delta = 0.5, 1e-4
    here, there = answers(epsilon, 500)
    # What only one data set can give is the best outcome of all.
    here = np.concatenate([(1 - delta) * here, [0.0, delta]])
    there = np.concatenate([(1 - delta) * there, [delta, 0.0]])
    p, q = best_of(law, here), best_of(law, there)
    found = np.maximum(p - math.exp(law.epsilon_of(epsilon)) * q, 0).sum()
    assert 0.5 * delta * law.mean < found <= delta * law.mean


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_budgets_of_a_run(law):
    """The greatest that fits, and nothing of it lost where numbers are huge or tiny."""
    for epsilon in (1e-6, 0.3, 2.0, 1e4):
        base = law.base_of(epsilon)
        assert law.epsilon_of(base) <= epsilon < law.epsilon_of(base * (1 + 1e-9))
    strategy = RandomStopping(law)
    assert strategy.fit_budget(Budget(1.0, 1e-6)).delta * law.mean <= 1e-6
    assert StoppingLaw(1 - 1e-9).epsilon_of(1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("base", [1e-13, 1e-8, 1e-4, 1.0, 800.0])
def test_the_cost_of_small_runs_is_not_below_the_truth(base):
    """In 60 digits, also where both logarithms of a difference have no digits left."""
    for mean, shape in itertools.product((1.001, 2.0, 100.0, 1e6), (1, 3)):
        law = StoppingLaw.of_mean(mean, shape)
        with mpmath.workdps(60):
            g, e = mpmath.mpf(law.gamma), mpmath.exp(mpmath.mpf(base))
            truth = base + (1 + shape) * mpmath.log((e + g) / (1 + g * e))
            found = mpmath.mpf(law.epsilon_of(base))
            assert truth <= found <= truth * (1 + mpmath.mpf("1e-11"))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 0.7])
def test_parts_of_a_budget_add_up_to_no_more(epsilon):
    """As decimals, as a ledger counts them."""
    whole = Budget(epsilon, 1e-7)
    for share in (0.75, 0.1, 1 / 3):
        trial, last = split(whole, share)
        assert add([trial.epsilon, last.epsilon]) <= as_decimal(epsilon)
        assert last.epsilon == pytest.approx(share * epsilon)
        assert add([trial.delta, last.delta]) <= as_decimal(1e-7)
    assert exactly(0.1) == Fraction(1, 10)


# Records


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_every_record_is_in_one_part(neighbors):
    found = parts(1000, [0.2, 0.2, 0.6], neighbors, np.random.default_rng(7))
    assert sorted(np.concatenate(found).tolist()) == list(range(1000))
    if neighbors == "replace_one":
        assert [len(part) for part in found] == [200, 200, 600]


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
    assert score.mean(UNITS, 4) == 2.0


def test_named_scores():
    X, y = np.array([[0.0], [10.0], [20.0]]), np.array([0.0, 20.0, 90.0])
    right = as_score(None, [0.0, 20.0], None)
    assert right.mean(right.total(Echo(), X, y), 3) == pytest.approx(1 / 3)
    squared = as_score(None, None, (0.0, 20.0))
    assert squared.mean(squared.total(Echo(), X, y), 3) == pytest.approx(-100 / 3, rel=1e-5)
    absolute = as_score("neg_mean_absolute_error", None, (0.0, 20.0))
    assert absolute.mean(absolute.total(Echo(), X, y), 3) == pytest.approx(-10 / 3, rel=1e-5)


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
        (lambda: StoppingLaw(1.0), "gamma must be"),
        (lambda: StoppingLaw(0.5, 0), "shape must be"),
        (lambda: StoppingLaw.of_mean(1.0), "mean must be"),
    ],
)
def test_errors_name_the_rule(make, message):
    with pytest.raises(ValueError, match=message):
        make()
