"""The loss of a private choice: against all two-point pairs, choices by scores, exact sums."""

import math
import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from skdp.privacy import (
    BudgetExceeded,
    Composition,
    GaussianLoss,
    Guarantee,
    Ledger,
    PairLoss,
    compose,
)
from skdp.privacy.conversions import gaussian_delta, mu_of_pure
from skdp.privacy.ledger_file import from_text, to_text
from skdp.trusted.losses import FiniteLoss, SelectionLoss

WIDTHS = [1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0]
# Shares of the width: at both ends, next to them, far beyond.
SHARES = [-40, -1.5, -1, -1 + 1e-9, -0.6, -1e-7, 0, 1e-7, 0.3, 0.9, 1 - 1e-9, 1 - 1e-15, 1, 1.2]


def two_point_delta(width, high, epsilon):
    """Least delta of the pair with losses ``high`` and ``high - width``, from its probabilities."""
    p = (mp.exp(width) - mp.exp(high)) / (mp.exp(width) - 1)
    pairs = [(p, high), (1 - p, high - width)]
    assert abs(sum(mass * mp.exp(-loss) for mass, loss in pairs) - 1) < mp.mpf(10) ** -35
    return sum(m * max(mp.mpf(0), 1 - mp.exp(epsilon - loss)) for m, loss in pairs)


def exact_tail(width, loss):
    """P(L > loss), L with density proportional to e^(l/2) on [-width, width]."""
    at = min(max(loss, -width), width)
    high = mp.exp(width / 2)
    return (high - mp.exp(at / 2)) / (high - 1 / high)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_profile_is_the_greatest_of_two_point_pairs(width):
    """Twelve digits of it at the best of them, and none of fifty others is above."""
    with mp.workdps(60):
        w = mp.mpf(width)
        for share in SHARES:
            epsilon = share * width
            best = min(max((w + epsilon) / 2, mp.mpf(0)), w)
            exact = two_point_delta(w, best, mp.mpf(epsilon))
            found = mp.exp(mp.mpf(float(SelectionLoss(width).log_delta(epsilon))))
            # Near the greatest loss an epsilon that is right to 15 digits decides.
            moved = [two_point_delta(w, best, epsilon + k * 1e-15 * w) for k in (-1, 1)]
            assert min(moved) * (1 - 1e-12) <= found <= max(moved) * (1 + 1e-12)
            tried = [two_point_delta(w, w * k / 50, mp.mpf(epsilon)) for k in range(51)]
            assert max(tried) <= exact * (1 + mp.mpf(10) ** -30)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_tails_keep_their_digits(width):
    with mp.workdps(60):
        w = mp.mpf(width)
        for share in [-1.5, -1, -0.999, -0.2, 0.0, 1e-9, 0.7, 0.999, 1.0, 3.0]:
            at = mp.mpf(share * width)
            above, below = exact_tail(w, at), 1 - exact_tail(w, at)
            back, front = exact_tail(w, -at), 1 - exact_tail(w, -at)
            tails = SelectionLoss(width).log_tails(share * width)
            for tail, exact in zip(tails, (above, front, below, back), strict=True):
                assert abs(mp.exp(mp.mpf(float(tail))) - exact) <= 2e-13 * exact + mp.mpf(10) ** -40


def by_scores(scores, moves, scale):
    """The loss between choices by scores with Gumbel noise, before and after the moves."""
    return FiniteLoss.between(softmax(scores / scale), softmax((scores + moves) / scale))


def excess(loss, width):
    """How much the profile is above that of the choice, at its highest."""
    epsilons = np.linspace(-1.1, 1.0, 211) * width
    ours = np.exp(SelectionLoss(width).log_delta(epsilons))
    return float(np.max(np.exp(loss.log_delta(epsilons)) - ours))


@pytest.mark.parametrize("candidates", [2, 3, 4, 5])
@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_choices_by_scores_are_dominated(candidates, scale):
    """Each score moves by at most 2 up or down: width 4 / scale; corners and others."""
    rng = np.random.default_rng(candidates)
    for trial in range(60):
        scores = rng.normal(scale=3 * scale, size=candidates)
        moves = rng.uniform(-2, 2, candidates) if trial % 3 else rng.choice([-2.0, 2.0], candidates)
        assert excess(by_scores(scores, moves, scale), 4 / scale) <= 1e-12


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_choices_whose_scores_move_one_way_have_half_the_width(scale):
    rng = np.random.default_rng(7)
    for _ in range(60):
        scores, moves = rng.normal(scale=3 * scale, size=4), rng.uniform(0, 2, 4)
        assert excess(by_scores(scores, moves, scale), 2 / scale) <= 1e-12


@pytest.mark.parametrize("width", [1e-3, 0.1, 1.0, 5.0])
def test_five_percent_too_narrow_is_caught(width):
    """By two candidates, one of which moves up and one down: the profile is attained."""
    scale = 4 / width
    for share in (-0.5, 0.0, 0.5, 0.9):
        # Losses t and t - w, t the best at this epsilon: the first has P-mass p.
        high = (1 + share) * width / 2
        p = math.expm1(width - high) / -math.expm1(-width) * math.exp(high - width)
        scores = np.array([scale * math.log(p / (1 - p)), 0.0])
        loss = by_scores(scores, np.array([-2.0, 2.0]), scale)
        found = float(loss.log_delta(share * width))
        assert found == pytest.approx(
            float(SelectionLoss(width).log_delta(share * width)), abs=1e-9
        )
        assert found > float(SelectionLoss(0.95 * width).log_delta(share * width)) + 1e-3
        assert excess(loss, 0.95 * width) > 0


def sum_of_uniforms(width, count, below):
    """Density of a sum of uniforms on [-width, width], at ``below`` from its greatest value."""
    terms = (
        (-1) ** k * mp.binomial(count, k) * (below - 2 * k * width) ** (count - 1)
        for k in range(count + 1)
        if below > 2 * k * width
    )
    return sum(terms, mp.mpf(0)) / (2 * width) ** count / mp.factorial(count - 1)


def composed_delta(width, count, epsilon):
    """An integral over the sum: each loss is a uniform one, tilted by e^(l/2)."""
    with mp.workdps(60):
        w, e = mp.mpf(width), mp.mpf(epsilon)
        end = count * w
        if e >= end:
            return mp.mpf(0)

        def part(s):
            return (mp.exp(s / 2) - mp.exp(e - s / 2)) * sum_of_uniforms(w, count, end - s)

        bends = [end - 2 * k * w for k in range(count + 1) if end - 2 * k * w > e]
        return mp.quad(part, [e, *bends[::-1]]) / (2 * mp.sinh(w / 2) / w) ** count


@pytest.mark.parametrize(
    ("width", "count", "epsilon"),
    [
        *[(0.5, 2, 0.1), (0.5, 2, 0.9), (5.0, 3, 0.0), (5.0, 3, 13.0), (1e-6, 3, 1e-6)],
        *[(0.1, 10, 0.2), (0.3, 16, 2.0), (50.0, 2, 60.0), (0.05, 24, 0.9)],
    ],
)
def test_compositions_are_around_the_exact_integral(width, count, epsilon):
    bounds = Composition([(SelectionLoss(width), count)]).delta_at(epsilon)
    exact = composed_delta(width, count, epsilon)
    assert bounds.lower <= exact <= bounds.upper
    assert bounds.upper <= bounds.lower * 1.01
    below = Composition([(SelectionLoss(0.95 * width), count)]).delta_at(epsilon)
    assert below.upper < exact


def test_a_second_choice_in_view_of_the_first_is_covered():
    """Two candidates twice; which way the second one leans depends on what was chosen first."""
    rng, width = np.random.default_rng(3), 1.0
    both = Composition([(SelectionLoss(width), 2)])
    bounds = [(epsilon, both.delta_at(epsilon).upper) for epsilon in (0.0, 0.2, 0.7, 1.3, 1.9)]
    for _ in range(40):
        (first_p, first_q), *seconds = (a_pair(rng, width) for _ in range(3))
        p = np.concatenate([first_p[k] * seconds[k][0] for k in (0, 1)])
        q = np.concatenate([first_q[k] * seconds[k][1] for k in (0, 1)])
        loss = FiniteLoss.between(p, q)
        for epsilon, bound in bounds:
            assert math.exp(loss.log_delta(epsilon)) <= bound * (1 + 1e-12)


def a_pair(rng, width):
    """Two laws on two points whose losses are ``width`` apart."""
    logits = np.array([rng.normal(scale=1.5), 0.0])
    moved = logits + np.array([width, 0.0]) * rng.choice([-1, 1])
    return np.exp(log_softmax(logits)), np.exp(log_softmax(moved))


@pytest.mark.parametrize("width", [1e-6, 0.02, 50.0])
def test_a_hundred_thousand_choices_are_composed(width):
    """Bounds that are close, below those of as many answers with epsilon = width."""
    parts = [(SelectionLoss(width), 100_000)]
    found = Composition(parts).epsilon_at(1e-6)
    worst = Composition([(PairLoss(width), 100_000)]).epsilon_at(1e-6)
    assert found.upper - found.lower <= 2e-4 * max(min(found.upper, 1.0), found.upper / 4)
    assert found.upper < worst.upper
    assert Composition(parts).epsilon_at(0.0).upper == pytest.approx(1e5 * width, rel=1e-9)


def test_a_guarantee_holds_it():
    """It is a value, composes with others, and can be kept as text."""
    losses = ((SelectionLoss(0.1), 30), (PairLoss(0.05), 3))
    guarantee = Guarantee(3.15, losses=losses)
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert guarantee.delta_at(1.0) == Composition(losses).delta_at(1.0).upper
    assert compose(guarantee, guarantee, delta=1e-6).epsilon < 5.0
    assert from_text(to_text(losses)) == losses
    assert "epsilon 3.15 at" not in str(guarantee)


@pytest.mark.parametrize("width", [0.0, -1.0, math.inf, math.nan, "1", True])
def test_a_width_is_a_positive_number(width):
    with pytest.raises(ValueError, match="width must"):
        SelectionLoss(width)


# In Gaussian DP


def mu_of(width):
    return Guarantee(1.0, 0.9, losses=((SelectionLoss(width), 1),)).mu


@pytest.mark.parametrize("width", [1e-6, 0.1, 1.0, 5.0, 30.0])
def test_the_gaussian_tradeoff_lies_below_and_touches(width):
    """The errors of a choice against those of two normal laws; 5 % less mu is not enough."""
    mu = mu_of(width)
    assert mu == pytest.approx(mu_of_pure(width / 2), rel=1e-9)
    with mp.workdps(60):

        def sum_of_quantiles(share):
            at = [mp.expm1(width * s) / mp.expm1(width) for s in (share, 1 - share)]
            return sum(-mp.sqrt(2) * mp.erfinv(2 * alpha - 1) for alpha in at)

        shares = [mp.mpf(10) ** -k for k in (20, 8, 4, 2)] + [mp.mpf(k) / 40 for k in range(1, 21)]
        for share in shares:
            assert sum_of_quantiles(share) <= mu
        assert sum_of_quantiles(mp.mpf(1) / 2) > 0.999999 * mu > 0.95 * mu


def worst_choices(width, count, epsilon, parts=16):
    """Least delta of choices of two candidates, each chosen in view of the earlier results.

    Losses are multiples of width / parts. The value of a loss is the greatest mean over the pair
    of losses t and t - width that comes next.
    """
    step, moves = width / parts, np.arange(1, parts)
    reach = parts * count
    loss = step * np.arange(-reach, reach + 1)
    value = -np.expm1(np.minimum(epsilon - loss, 0))
    p = np.expm1(width - step * moves) / -np.expm1(-width) * np.exp(step * moves - width)
    for left in range(count - 1, -1, -1):
        near = parts * left
        at = np.arange(reach - near, reach + near + 1)[:, None]
        mean = p * value[at + moves] + (1 - p) * value[at + moves - parts]
        value = np.copy(value)
        value[at[:, 0]] = mean.max(axis=1)
    return value[reach]


@pytest.mark.parametrize(
    ("width", "count", "epsilon"), [(1.0, 1, 0.0), (1.0, 6, 2.0), (0.3, 40, 2.0)]
)
def test_choices_in_view_of_earlier_results_keep_gaussian_dp(width, count, epsilon):
    """The worst adaptive sequence, computed backwards; it has more than a mu of w / 2."""
    found = worst_choices(width, count, epsilon)
    assert found <= gaussian_delta(math.sqrt(count) * mu_of(width), epsilon) * (1 + 1e-9)
    assert found > gaussian_delta(math.sqrt(count) * 0.95 * width / 2, epsilon)


def test_one_choice_attains_its_mu():
    """A twin with 5 % less is caught."""
    found = worst_choices(1.0, 1, 0.0)
    assert found == pytest.approx(gaussian_delta(mu_of(1.0), 0.0), rel=1e-9)
    assert found > gaussian_delta(0.95 * mu_of(1.0), 0.0) * 1.04


def test_a_ledger_counts_choices_as_gaussian():
    """Fifty choices beside Gaussian noise; as (epsilon, delta) alone ten fit."""
    losses = ((GaussianLoss(0.04), 1), (SelectionLoss(0.0133), 50))
    greedy = Guarantee(0.3, 1e-6, losses=losses)
    assert greedy.mu == pytest.approx(math.hypot(0.04, mu_of_pure(0.0133 / 2) * 50**0.5), 1e-9)
    ledger, bare = Ledger(3.0, 1e-4), Ledger(3.0, 1e-4)
    for _ in range(90):
        ledger.spend(greedy)
    for _ in range(10):
        bare.spend(Guarantee(0.3, 1e-6))
    with pytest.raises(BudgetExceeded):
        bare.spend(Guarantee(0.3, 1e-6))
