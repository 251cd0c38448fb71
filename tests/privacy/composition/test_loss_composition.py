"""Composition against closed forms at fifty digits, brute force, and another library."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from exact_profile import gaussian_delta

from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise import FlippedHuber, Gaussian, Laplace, Logistic, TruncatedLaplace
from skdp.privacy import composition as _lower
from skdp.privacy.composition import Bounds, Composition, epsilon_bounds, log_delta_bounds
from skdp.privacy.shift import ShiftLoss
from skdp.trusted import fold as _fold
from skdp.trusted.arrays import add, float_above
from skdp.trusted.composition import plan
from skdp.trusted.fold import Folded, Spread, _Spectrum, _transform, tilt
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss

PROMISES = [
    (0.01, 1e-2),
    (0.01, 1e-30),
    (0.3, 1e-6),
    (1.0, 1e-6),
    (4.0, 1e-12),
    (10.0, 1e-30),
    (50.0, 1e-2),
    (50.0, 1e-30),
]
# What the bounds may be apart: a few times what the plan aims at.
GAP = 2e-4


def gap_at(epsilon):
    return GAP * max(min(epsilon, 1.0), epsilon / 4)


def answers_delta(odds, count, epsilon):
    """T answers, each true with odds e^a: a binomial sum, from the losses next to epsilon on."""
    a, e = mpmath.mpf(odds), mpmath.mpf(epsilon)
    if e >= count * a:
        return mpmath.mpf(0)
    lies = math.ceil((count - epsilon / odds) / 2) - 1
    true = 1 / (1 + mpmath.exp(-a))
    chance = mpmath.binomial(count, lies) * true**count * mpmath.exp(-a * lies)
    total = mpmath.mpf(0)
    for k in range(lies, -1, -1):
        term = chance * -mpmath.expm1(e - (count - 2 * k) * a)
        total += term
        if k < lies - 2 and term < total * mpmath.mpf(10) ** -40:
            break
        chance *= mpmath.mpf(k) / (count - k + 1) * mpmath.exp(a)
    return total


def laplace_delta(loss, epsilon):
    """One Laplace release whose loss is at most ``loss``, any real epsilon."""
    if epsilon >= loss:
        return mpmath.mpf(0)
    return -mpmath.expm1((epsilon - loss) / 2 if epsilon > -loss else epsilon)


def two_laplace_delta(loss, epsilon):
    """The loss is +-a with mass, and between them has density e^((l - a) / 2) / 4."""
    a, e = mpmath.mpf(loss), mpmath.mpf(epsilon)
    ends = laplace_delta(a, e - a) / 2 + mpmath.exp(-a) / 2 * laplace_delta(a, e + a)
    breaks = sorted({-a, a, *(x for x in (e - a, e + a) if -a < x < a)})
    return ends + mpmath.quad(
        lambda x: mpmath.exp((x - a) / 2) / 4 * laplace_delta(a, e - x), breaks
    )


def check_brackets(parts, oracle, epsilon, delta, spread=0.0):
    """Both kinds of bounds hold at fifty digits, and are close."""
    with mpmath.workdps(50):
        at = epsilon_bounds(parts, delta)
        assert oracle(at.lower) >= delta >= oracle(at.upper)
        assert at.upper - at.lower <= gap_at(max(at.upper, spread))
        low, high = (mpmath.exp(mpmath.mpf(x)) for x in log_delta_bounds(parts, epsilon))
        assert low <= oracle(epsilon) <= high


@pytest.mark.parametrize(
    ("epsilon", "delta", "count"),
    [*((*pair, count) for count in (2, 1000) for pair in PROMISES), (1.0, 1e-6, 100_000)]
    + [(50.0, 1e-30, 100_000)],
)
def test_gaussian_releases(epsilon, delta, count):
    """Computed release by release, not as the one Gaussian that they are."""
    mu = 1 / gaussian_scale(epsilon, delta)
    parts = ((GaussianLoss(mu / math.sqrt(count)), count),)
    exact = GaussianLoss(mu / math.sqrt(count)).mu * mpmath.sqrt(count)
    check_brackets(parts, lambda e: gaussian_delta(exact, e), epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("count", [1, 2, 1000, 100_000])
def test_randomised_response(epsilon, delta, count):
    odds = 1 / gaussian_scale(epsilon, delta) / math.sqrt(count)
    parts = ((PairLoss(odds), count),)
    check_brackets(parts, lambda e: answers_delta(odds, count, e), epsilon, delta)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3, 1.5])
@pytest.mark.parametrize("loss", [0.02, 1.0, 7.0])
def test_two_laplace_releases(loss, epsilon):
    parts, epsilon = ((ShiftLoss(Laplace(1 / loss), 1.0), 2),), epsilon * loss
    with mpmath.workdps(50):
        exact = two_laplace_delta(loss, epsilon)
        check_brackets(parts, lambda e: two_laplace_delta(loss, e), epsilon, exact, loss)
        one = Composition([(ShiftLoss(Laplace(1 / loss), 1.0), 1)])
        assert one.delta_at(epsilon / 2).lower <= laplace_delta(loss, epsilon / 2)
        assert one.delta_at(epsilon / 2).upper >= laplace_delta(loss, epsilon / 2)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_a_mixture(epsilon):
    """Gaussian releases and yes-no answers, of two kinds: a double sum of closed forms."""
    mu, odds = 0.3, 0.45
    parts = ((GaussianLoss(mu), 10), (PairLoss(odds), 4), (PairLoss(2 * odds, 1e-9), 1))
    with mpmath.workdps(50):
        exact = mpmath.mpf(0)
        lie, biglie = 1 / (1 + mpmath.exp(odds)), 1 / (1 + mpmath.exp(2 * odds))
        for k, big in itertools.product(range(5), (0, 1)):
            chance = mpmath.binomial(4, k) * lie**k * (1 - lie) ** (4 - k)
            chance *= biglie if big else 1 - biglie
            loss = odds * (4 - 2 * k + 2 - 4 * big)
            exact += chance * gaussian_delta(mu * mpmath.sqrt(10), epsilon - loss)
        exact = mpmath.mpf(1e-9) + (1 - mpmath.mpf(1e-9)) * exact
        low, high = (mpmath.exp(mpmath.mpf(x)) for x in log_delta_bounds(parts, epsilon))
        assert low <= exact <= high
        assert high / low - 1 < 2e-3


FINITE = [
    FiniteLoss.between([0.5, 0.3, 0.2], [0.1, 0.4, 0.5]),
    FiniteLoss.between([0.7, 0.2, 0.05, 0.05, 0.0], [0.1, 0.6, 0.25, 0.0, 0.05]),
]


def brute_delta(p, q, epsilon):
    return math.fsum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("loss", FINITE, ids=["full", "with points of one side"])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_an_asymmetric_pair_counts_in_both_directions(loss, epsilon):
    """All 5^4 outcomes of four releases; the greater of the two directions is between."""
    p = np.exp([*loss.log_p, loss.log_p_infinity_mass, -np.inf])
    q = np.exp([*np.subtract(loss.log_p, loss.losses), -np.inf, loss.log_q_infinity_mass])
    many_p, many_q = (
        np.array([math.prod(c) for c in itertools.product(v, repeat=4)]) for v in (p, q)
    )
    exact = max(brute_delta(many_p, many_q, epsilon), brute_delta(many_q, many_p, epsilon))
    low, high = np.exp(log_delta_bounds(((loss, 4),), epsilon))
    assert low <= exact * (1 + 1e-14)
    assert high >= exact * (1 - 1e-14)
    assert high - low < 1e-3 * exact
    assert Composition([(loss, 4)]).delta_at(epsilon) == pytest.approx((low, high), rel=1e-12)


LOSSES = [
    GaussianLoss(0.05),
    GaussianLoss(2.0),
    ShiftLoss(Laplace(3.0), 1.0),
    ShiftLoss(Gaussian(2.0), 1.0),
    ShiftLoss(Logistic(0.7), 1.0),
    ShiftLoss(FlippedHuber(1.0, 0.7), 1.0),
    ShiftLoss(TruncatedLaplace(6.0, 1.0), 0.5),
    PairLoss(0.3, 1e-4),
    *FINITE,
    FINITE[1].reversed(),
]


def profile_of(masses, epsilon):
    """E (1 - e^(epsilon - L))_+ of masses on a grid."""
    beyond = np.maximum(-np.expm1(np.minimum(epsilon - masses.losses, 0.0)), 0.0)
    return masses.infinity_mass + math.fsum(masses.masses * beyond)


def grids_of(loss, cells):
    below, above, ends = _fold.extent(loss, -60.0, -40.0)
    step = above / cells
    ends = -math.ceil(below / step + 1e-6), math.ceil(above / step + 1e-6)
    return _fold.upper(loss, step, *ends), _lower.lower(loss, step, *ends)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_grid_is_above_and_below_at_every_epsilon(loss):
    """Between the grid's points too; and a grid moved by a thousandth of a step is caught."""
    rng = np.random.default_rng(5)
    for cells in (16, 300):
        high, low = grids_of(loss, cells)
        reach = high.losses[[0, -1]]
        epsilons = np.concatenate([rng.uniform(*reach, 300), high.losses, low.losses])
        slack = 1 + 1e-12 + high.margin
        exact = np.exp(loss.log_delta(epsilons))
        above = np.array([profile_of(high, e - high.nudge) for e in epsilons])
        below = np.array([profile_of(low, e + low.nudge) for e in epsilons])
        assert (above * slack >= exact).all()
        assert (below <= exact * slack + 1e-15).all()
        moved = np.array([profile_of(low, e - high.step / 1000) for e in epsilons])
        assert (moved > exact * slack + 1e-15).any()


def test_a_window_that_is_too_short_is_counted_as_an_error():
    """What is wrapped around is bounded: bounds are wide then, and true."""
    loss, count, epsilon = GaussianLoss(0.3), 20, 4.0
    exact = float(GaussianLoss(0.3 * math.sqrt(20)).log_delta(epsilon))
    outline = plan(((loss, count),), epsilon=epsilon)
    widths = []
    for size in (outline.size, outline.size // 4, outline.size // 16):
        high, low = (
            Folded.of(
                [(bound(loss, outline.step, *outline.ends[0]), count)], outline.theta, size
            ).sum()
            for bound in (_fold.upper, _lower.lower)
        )
        assert low.log_lower(epsilon) <= exact <= high.log_upper(epsilon)
        widths.append(high.log_upper(epsilon) - low.log_lower(epsilon))
    assert widths[0] < 1e-3 < widths[2]


def test_the_transforms_error_is_within_its_bound():
    """Against sums of products, which have no error to speak of; the bound is not idle either."""
    loss = ShiftLoss(Laplace(2.0), 1.0)
    masses = _fold.upper(loss, 0.01, -51, 51)
    found = Folded.of([(masses, 5)], 3.0, 1024).sum()
    chances = tilt(masses, 3.0).chances
    exact = chances
    for _ in range(4):
        exact = np.convolve(exact, chances)
    # The sums run over the multiples -255..255 of the step; the window holds them all.
    away = np.zeros(1024)
    away[-255 - found.first : 256 - found.first] = exact
    assert np.linalg.norm(found.law - away) <= found.error < 1e-10


def test_the_squares_of_unlike_gaussian_losses_stay_in_the_floats():
    parts = ((GaussianLoss(1e-170), 3), (GaussianLoss(1.0), 1))
    for order in (parts, parts[::-1]):
        alone = Composition(parts[1:]).delta_at(0.5)
        assert Composition(order).delta_at(0.5) == pytest.approx(alone, rel=1e-12)


def test_gaussian_parts_are_one():
    """The closed form is taken where there is one."""
    both = Composition([(GaussianLoss(0.3), 16), (GaussianLoss(0.4), 4)])
    exact = math.exp(GaussianLoss(math.sqrt(16 * 0.09 + 4 * 0.16)).log_delta(2.0))
    assert both.delta_at(2.0) == pytest.approx((exact, exact), rel=1e-11)


def test_an_upper_bound_is_composed_as_one():
    """From the profile alone the upper bound is the same; the lower one knows nothing."""
    loss = GaussianLoss(0.5)
    known, bound = (
        epsilon_bounds(((part, 8),), 1e-6) for part in (loss, ProfileLoss(loss.log_delta))
    )
    assert bound.upper == pytest.approx(known.upper, rel=1e-4)
    assert bound.upper >= known.lower
    assert bound.lower == 0
    mixed = Composition([(ProfileLoss(loss.log_delta), 8), (PairLoss(0.5), 3)])
    alone = epsilon_bounds(((PairLoss(0.5), 3),), 1e-6)
    assert mixed.epsilon_at(1e-6).lower == pytest.approx(alone.lower, rel=1e-10)


def test_a_bound_that_is_not_convex_is_made_so():
    """Only below it: any function above the truth is a bound, also one with steps."""
    loss = GaussianLoss(0.5)

    def steps(epsilon):
        return loss.log_delta(np.floor(4 * epsilon) / 4)

    at = epsilon_bounds(((ProfileLoss(steps), 8),), 1e-6)
    assert at.upper > epsilon_bounds(((loss, 8),), 1e-6).upper


@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-3, 0.1, 0.5, 0.9, 1.0])
def test_the_ends(delta):
    """At delta = 0 losses that are bounded add up; below the mass that is apart nothing helps."""
    pure = Composition([(PairLoss(0.5), 3), (ShiftLoss(Laplace(2.0), 1.0), 2)])
    assert pure.epsilon_at(delta).lower <= pure.epsilon_at(delta).upper <= 2.5 * (1 + 1e-11)
    assert pure.epsilon_at(0.0) == pytest.approx((2.5, 2.5), rel=1e-11)
    apart = Composition([(PairLoss(0.5, 0.05), 3)])
    assert (apart.epsilon_at(delta).upper == math.inf) == (delta <= 1 - 0.95**3)
    assert (apart.epsilon_at(delta).lower == math.inf) == (delta <= 1 - 0.95**3)
    assert Composition([(GaussianLoss(1.0), 3)]).epsilon_at(0.0).upper == math.inf


def test_no_loss_at_all():
    for nothing in (Composition([]), Composition([(PairLoss(0.0), 7)])):
        assert nothing.delta_at(0.0) == Bounds(0.0, 0.0)
        assert nothing.epsilon_at(0.0) == Bounds(0.0, 0.0)


def test_equal_parts_are_counted_together():
    one = Composition([(GaussianLoss(0.3), 1), (PairLoss(0.1), 2), (GaussianLoss(0.3), 4)])
    assert one == Composition([(GaussianLoss(0.3), 5), (PairLoss(0.1), 2)])
    assert hash(one) == hash(Composition(one.parts))
    with pytest.raises(AttributeError):
        one.parts = ()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Composition([GaussianLoss(1.0)]), "parts"),
        (lambda: Composition([(1.0, 2)]), "parts"),
        (lambda: Composition([(GaussianLoss(1.0), 0)]), "count"),
        (lambda: Composition([(GaussianLoss(1.0), 1.5)]), "count"),
        (lambda: Composition([(GaussianLoss(1.0), 2)]).delta_at(-1.0), "epsilon"),
        (lambda: Composition([(GaussianLoss(1.0), 2)]).delta_at(math.inf), "epsilon"),
        (lambda: Composition([(GaussianLoss(1.0), 2)]).epsilon_at(1.5), "delta"),
        (lambda: Composition([(GaussianLoss(1.0), 2)]).epsilon_at(math.nan), "delta"),
    ],
)
def test_what_makes_no_sense_is_refused(make, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        make()


@pytest.mark.parametrize("side", [_fold.upper, _lower.lower])
def test_a_grid_is_moved_by_as_much_as_deep_tails_may_be_off(side):
    """A log of delta that is off by its last digits is that of another epsilon, farther off."""
    step, last, loss = 0.05, 600, GaussianLoss(1.0)
    deepest = float(loss.log_delta(step * last))
    assert -700 < deepest < -400
    least = _fold.SHAKE * (1 - deepest) * step * last
    assert side(loss, step, -last, last).nudge >= least
    near = side(loss, step, -40, 40)
    assert near.nudge >= _fold.SHAKE * (1 - float(loss.log_delta(2.0))) * 2.0


def exact_law(pairs):
    """The sum of the answers of pairs whose epsilons are read as decimals, one by one."""
    law = {Fraction(0): mpmath.mpf(1)}
    for pair, count in pairs:
        loss = Fraction(repr(pair.epsilon))
        true = 1 / (1 + mpmath.exp(-as_mpf(loss)))
        for _ in range(count):
            added = {}
            for value, chance in law.items():
                for way, share in ((loss, true), (-loss, 1 - true)):
                    added[value + way] = added.get(value + way, 0) + chance * share
            law = added
    return law


def exact_delta(law, spared, epsilon):
    at = Fraction(epsilon)
    above = mpmath.fsum(-mpmath.expm1(as_mpf(at - x)) * p for x, p in law.items() if x > at)
    return 1 - spared * (1 - above)


def as_mpf(x):
    return mpmath.mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("seed", range(12))
def test_unlike_pairs_compose_to_their_sum_and_never_below_the_truth(seed):
    """The bound falls up to the sum of the epsilons, and is basic composition's from there on."""
    rng = np.random.default_rng(seed)
    deltas = 10 ** rng.uniform(-12, -2, 4) * (seed % 2)
    epsilons = np.round(10 ** rng.uniform(-2, 0.8, 4), int(rng.integers(2, 12))) + 0.01
    counts = rng.integers(1, 3, 4).tolist()
    pairs = [(PairLoss(*each), n) for *each, n in zip(epsilons, deltas, counts, strict=True)]
    end = float_above(add(pair.epsilon for pair, n in pairs for _ in range(n)))
    shares = [*np.linspace(0.0, 0.9, 5), *(1 - np.logspace(-2, -15, 14))]
    bounds = [Composition(pairs).delta_at(end * share) for share in shares]
    with mpmath.workdps(50):
        spared = math.prod((1 - mpmath.mpf(pair.delta)) ** n for pair, n in pairs)
        law = exact_law(pairs)
        truth = [exact_delta(law, spared, end * share) for share in shares]
        assert all(low <= true <= high for (low, high), true in zip(bounds, truth, strict=True))
    above = [high for _, high in bounds]
    falls = [later <= high * (1 + 1e-3) for high, later in itertools.pairwise(above)]
    assert all(falls), above
    for epsilon in (end, math.nextafter(end, math.inf), 2 * end):
        high = Composition(pairs).delta_above(epsilon)
        assert 1 - spared <= high <= (1 - spared) * (1 + 1e-9), epsilon
        assert high <= above[-1]
    assert Composition(pairs).epsilon_above(float(1 - spared) * (1 + 1e-9)) <= end


# The sum of losses by Fourier transforms: its window and its error bound

STEP = 0.01


def masses(loss):
    return _fold.upper(loss, STEP, -300, 300)


PARTS = {
    "one": [(masses(ShiftLoss(Laplace(), 1.0)), 1)],
    "many": [(masses(ShiftLoss(Laplace(), 0.3)), 21)],
    "mixed": [(masses(ShiftLoss(Laplace(), 0.5)), 7), (masses(GaussianLoss(0.37)), 4)],
}


@pytest.mark.parametrize("theta", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("name", PARTS)
def test_the_mass_beyond_the_window_is_counted(name, theta):
    """The bound is that of the window's own ends, seen from the mean of the sum."""
    parts = PARTS[name]
    total = Folded.of(parts, theta, 2048).sum()
    tilted = [(tilt(m, theta), n) for m, n in parts]
    mean = sum(n * q.mean for q, n in tilted)
    below = mean - STEP * total.first
    above = STEP * (total.first + len(total.law) - 1) - mean
    assert total.outside >= Spread.of(tilted).beyond(below, above) * (1 - 1e-9)
    # Nor is more given away than a step on either side.
    assert total.outside <= Spread.of(tilted).beyond(below - 2 * STEP, above - 2 * STEP)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_errors_of_a_transform_are_carried_through_its_powers(n):
    """If each value is off by d, its n-th power is off by (|v| + d)^n - |v|^n, and no less."""
    q = tilt(PARTS["one"][0][0], 0.5)
    size = 4096
    values, off = _transform(q, 0, size)
    _, error = _Spectrum.of_nothing(size).times(q, 0, n).law()
    sizes = np.abs(values)
    least = math.sqrt(2 / size) * float(np.linalg.norm((sizes + off) ** n - sizes**n))
    assert error >= least * (1 - 1e-6)
    assert error < 1e-11
