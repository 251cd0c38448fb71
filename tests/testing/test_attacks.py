"""Attacks: exact sums of fractions, awkward pairs, errors that must count, things that change."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from inner_objective import OUTPUT_SHARE, JointProfile, greatest_shift

from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression
from skdp.linear_model.losses import LogisticLoss, PseudoHuber
from skdp.mechanisms.independent import Independent
from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise.independent import MOST_GROUPS, _grouped
from skdp.privacy import Guarantee
from skdp.privacy.composition import Bounds, Composition
from skdp.trusted import fold as _fold
from skdp.trusted.fold import Folded, Spread, tilt
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss

# What rounding of an epsilon at an atom, and of delta to a float, may do to a comparison.
HAIR = 1e-14


def outcomes(pairs):
    """All outcomes of independent answers, each a pair of exact probabilities under P and Q."""
    found = {(Fraction(1), Fraction(1)): 1}
    for p, q in pairs:
        step = {}
        for (a, b), count in found.items():
            for x, y in zip(p, q, strict=True):
                step[a * x, b * y] = step.get((a * x, b * y), 0) + count
        found = step
    return found


def exact_delta(found, epsilon):
    """The greater delta of both orders, in 40 digits."""
    with mpmath.workdps(40):
        gamma, ahead, behind = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0), mpmath.mpf(0)
        for (a, b), count in found.items():
            p, q = (mpmath.mpf(v.numerator) / v.denominator for v in (a, b))
            ahead += count * max(p - gamma * q, 0)
            behind += count * max(q - gamma * p, 0)
        return max(ahead, behind)


def random_pair(rng):
    """Two laws of two to four outcomes; some cannot occur under one of them."""
    size, most = rng.integers(2, 5), 10 ** int(rng.integers(1, 12))
    p, q = ([int(v) for v in rng.integers(1, most + 1, size)] for _ in range(2))
    kind = int(rng.integers(5))
    p[0] *= kind not in (1, 3)
    q[0] *= kind != 2
    q[-1] *= kind != 3
    return tuple([Fraction(v, sum(law)) for v in law] for law in (p, q))


def loss_of(pair):
    return FiniteLoss.between(*([float(v) for v in law] for law in pair))


def only_a_bound(loss):
    return ProfileLoss(loss.log_delta, loss.reversed().log_delta)


@pytest.mark.rest_is_slow(4)
@pytest.mark.parametrize("seed", range(10))
def test_mixtures_of_lopsided_answers(seed):
    """Against sums of fractions, both orders; some are known by their profiles alone."""
    rng = np.random.default_rng(seed)
    pairs = [random_pair(rng) for _ in range(rng.integers(1, 4))]
    counts = rng.integers(2, 4, len(pairs)).tolist()
    known = [bool(rng.random() < 0.7) for _ in pairs]
    parts = [
        (loss_of(pair) if full else only_a_bound(loss_of(pair)), count)
        for pair, count, full in zip(pairs, counts, known, strict=True)
    ]
    found = outcomes(
        [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
    )
    for epsilon in (0.0, *rng.exponential([1.0, 10.0])):
        exact = exact_delta(found, epsilon)
        low, high = Composition(parts).delta_at(epsilon)
        assert low * (1 - HAIR) <= exact <= high * (1 + HAIR)
    delta = float(10 ** -rng.uniform(0, 9))
    low, high = Composition(parts).epsilon_at(delta)
    if high < math.inf:
        assert exact_delta(found, high) <= delta * (1 + HAIR)
    if 0 < low < math.inf:
        assert exact_delta(found, low) >= delta * (1 - 1e-11)


REVEALED = FiniteLoss.between([1 - 1e-6, 1e-6], [1.0, 0.0])


@pytest.mark.parametrize("loss", [REVEALED, REVEALED.reversed()], ids=["first", "second"])
def test_revealing_with_a_small_probability_and_else_nothing(loss):
    """All finite losses are negative: delta is the chance of one or more, at any epsilon."""
    exact = -math.expm1(3 * math.log1p(-1e-6))
    for epsilon in (0.0, 1e-3, 1.0, 50.0):
        low, high = Composition([(loss, 3)]).delta_at(epsilon)
        assert low <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= high <= exact * (1 + 1e-3)
    assert Composition([(loss, 3)]).epsilon_at(1e-3) == Bounds(0.0, 0.0)
    assert Composition([(loss, 3)]).epsilon_at(1e-6).upper == math.inf
    beside = Composition([(loss, 2), (GaussianLoss(1.0), 1)]).epsilon_at(1e-3)
    alone = GaussianLoss(1.0)
    assert math.exp(alone.log_delta(beside.upper)) <= 1e-3
    assert math.exp(alone.log_delta(beside.lower)) >= 1e-3 - 3e-6


@pytest.mark.parametrize("other", [PairLoss(1.0), GaussianLoss(0.5)], ids=repr)
def test_what_reveals_everything_leaves_nothing(other):
    everything = FiniteLoss.between([0.0, 1.0], [1.0, 0.0])
    for loss in (everything, only_a_bound(everything)):
        for parts in ([(loss, 1)], [(loss, 3)], [(loss, 1), (other, 2)]):
            assert Composition(parts).delta_at(1.0).upper == 1.0
            assert Composition(parts).epsilon_at(0.5).upper == math.inf


@pytest.mark.parametrize("field", ["error", "outside", "log_margin", "nudge"])
def test_every_error_widens_both_bounds(field):
    """What rounding, the window and the grid may do is in the result, by as much as is said."""
    masses = _fold.upper(GaussianLoss(0.5), 0.05, -60, 80)
    found, epsilon = Folded.of([(masses, 4)], 2.0, 1024).sum(), 1.5
    wide = replace(found, **{field: getattr(found, field) + 1e-3})
    least = 1e-4 if field != "log_margin" else 1e-3 * (1 - 1e-9)
    assert wide.log_upper(epsilon) >= found.log_upper(epsilon) + least
    assert wide.log_lower(epsilon) <= found.log_lower(epsilon) - least


@pytest.mark.parametrize("count", [1, 5])
def test_the_margin_of_each_release_counts(count):
    """A grid whose profile may be off by a share is off by it as often as it is used."""
    masses = _fold.upper(GaussianLoss(0.5), 0.05, -60, 80)
    plain = Folded.of([(masses, count)], 2.0, 1024).sum()
    wider = replace(masses, margin=masses.margin + 0.01, nudge=0.1)
    worse = Folded.of([(wider, count)], 2.0, 1024).sum()
    assert worse.log_margin - plain.log_margin == pytest.approx(0.01 * count)
    assert worse.nudge == pytest.approx(0.1 * count)
    assert 0 < plain.error < 1e-10


def test_what_lies_beyond_a_window_is_bounded_on_either_side():
    """Against the tails of the law itself; one side alone would not do."""
    q = tilt(_fold.upper(GaussianLoss(0.5), 0.05, -60, 80), 2.0)
    spread, off = Spread.of([(q, 1)]), q.losses - q.mean
    for below, above in [(0.5, 4.0), (4.0, 0.5), (0.7, 0.7), (1.0, 1.5)]:
        beyond = q.chances[(off < -below) | (off > above)].sum()
        assert beyond <= spread.beyond(below, above) <= 40 * beyond


def test_a_polygon_that_ends_below_zero_keeps_its_profile():
    """Where no mass is left at 0 or beyond, what is alone is the profile, not its excess."""
    loss, epsilon = REVEALED, 0.5
    masses = _fold.upper(loss, 1e-7, -20, 20)
    assert masses.infinity_mass >= 1e-6
    assert masses.infinity_mass == pytest.approx(1e-6, rel=0.11)
    half = FiniteLoss.between([0.5, 0.5], [1.0, 0.0])
    for step in (0.01, 0.3, 2.0):
        masses = _fold.upper(half, step, -math.ceil(1 / step), 1)
        beyond = np.maximum(-np.expm1(np.minimum(epsilon - masses.losses, 0.0)), 0.0)
        assert masses.infinity_mass + masses.masses @ beyond >= 0.5 * (1 - 1e-12)


@pytest.mark.parametrize("size", [5, 9, 40, 1000])
def test_sizes_that_are_counted_together_are_moved_up(size):
    """For any concave sums, however many different sizes and however small some of them are."""
    rng = np.random.default_rng(size)
    for power in (0.5, 3.0, 30.0):
        sizes = -np.sort(-(rng.uniform(size=size) ** power))
        groups = _grouped(np.cumsum(sizes))
        above = np.repeat(*map(list, zip(*groups, strict=True)))
        above = np.append(above, np.zeros(size - len(above)))
        assert (np.cumsum(above) >= np.cumsum(sizes) * (1 - 1e-14 * size)).all()
        assert (np.diff(above) <= 0).all()
        assert len(groups) <= MOST_GROUPS
    tiny = np.append(1.0, np.full(1000, 1e-13))
    assert sum(size * count for size, count in _grouped(np.cumsum(tiny))) >= 1 + 0.99e-10


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_what_leaks_and_is_bounded_else_has_an_epsilon_at_its_leak(delta):
    """Two yes-no answers that may reveal everything: 2 epsilon at the delta that is left there."""
    both = Guarantee(5.0, 0.5, losses=((PairLoss(1.0, delta), 2),))
    leak = both.delta_at(3.0)
    assert leak == pytest.approx(-math.expm1(2 * math.log1p(-delta)), rel=1e-11)
    assert both.epsilon_at(leak) == pytest.approx(2.0, rel=1e-9)
    assert both.epsilon_at(leak) >= 2.0
    assert both.epsilon_at(leak * (1 - 1e-9)) == math.inf


@pytest.mark.parametrize(("loss", "sides"), [(LogisticLoss(), 1), (PseudoHuber(0.3), 2)], ids=repr)
def test_a_record_added_counts_with_both_signs_of_a_slope(loss, sides):
    """Theorem 3 of docs/proofs/gaussian_objective.md, for every split."""
    profile = JointProfile(loss, 0.4, 0.3, "replace_one")
    removed = JointProfile(loss, 0.4, 0.3, "add_remove")
    for epsilon in (0.5, 2.0):
        for a in np.linspace(0.0, epsilon, 5):
            added = min(1.0, sides * math.exp(GaussianLoss(0.4).log_delta(a)))
            exact = added + math.exp(a + removed._removed(np.array(epsilon - a)))
            found = math.exp(profile._replaced(np.array(epsilon), np.array(a)))
            assert found == pytest.approx(min(1.0, exact), rel=1e-9)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_several_models_together_keep_delta_and_hardly_more(neighbors):
    """Three models of one release, against composing the losses that the guarantee carries."""
    epsilon, delta, leverage = 1.0, 1e-5, 0.2
    shift = greatest_shift(LogisticLoss(), leverage, epsilon, delta, neighbors, 3)

    def spent(times):
        loss = ProfileLoss(JointProfile(LogisticLoss(), times * shift, leverage, neighbors))
        return Composition([(loss, 3)]).delta_at(epsilon).upper

    assert spent(1.0) <= delta < spent(1.01)
    records = 2 if neighbors == "replace_one" else 1
    assert 0.9 < records * math.sqrt(3) * shift * gaussian_scale(epsilon, delta) <= 1


def test_the_guarantee_of_several_models_carries_all_of_their_losses():
    """One for each model, with the solver's inexactness: what is composed is what was released."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 2)), np.arange(300) % 3
    model = DPLogisticRegression(
        epsilon=1.0, delta=1e-6, mechanism="gaussian", loss="sharp", classes=[0, 1, 2],
        domain=Domain.unit_box(2),
    ).fit(X, y)  # fmt: skip
    ((loss, count),) = model.guarantee_.losses
    assert count == 3
    assert loss.profile.hidden == pytest.approx(OUTPUT_SHARE / 3, rel=1e-4)
    # Without any of the three, or without what hides the solver, it would be far below.
    spent = Composition([(loss, 3)]).delta_at(1.0).upper
    assert 0.9e-6 < spent <= 1e-6 * (1 + 1e-3)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_what_hides_the_solver_is_paid_in_delta_too(neighbors):
    """e^(hidden / 2) times the delta of the exact minimiser, to nine digits of what was asked."""
    rng = np.random.default_rng(0)
    asked = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian", "neighbors": neighbors}
    model = DPLogisticRegression(**asked, classes=[0, 1], domain=Domain.unit_box(2))
    promise = model.fit(rng.uniform(-1, 1, (300, 2)), np.arange(300) % 2).guarantee_
    ((loss, count),) = promise.losses
    assert count == 1
    assert 1e-6 * (1 - 1e-6) < math.exp(loss.log_delta(1.0)) <= 1e-6
    assert promise.delta_at(1.0) <= 1e-6 < promise.delta_at(1 - 1e-5)


def gumbel(model):
    """The scale of the noise of greedy choices."""
    return model._plan(model._design, 300, 3).choice


@pytest.mark.parametrize("order", ["cyclic", "greedy"])
def test_the_guarantee_of_a_descent_carries_every_step_of_every_model(order):
    """Three models, four passes, three blocks, each as far apart as can be; or with choices."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 2)), np.arange(300) % 3
    model = DPCoordinateDescentClassifier(
        delta=1e-6, mechanism="laplace", classes=[0, 1, 2], n_passes=4, order=order, scaling_share=0
    ).fit(X, y)
    counts = [count for _, count in model.guarantee_.losses]
    assert counts == ([3 * 4 * 3] if order == "cyclic" else [3 * 4, 3 * 4])
    step, choices = model.guarantee_.losses[0][0], model.guarantee_.losses[1:]
    assert step.shift / step.law.scale == pytest.approx(2 / model.noise_.law.scale, rel=1e-9)
    # A record moves scores by 2 either way; 2^-40 of the width is for the sampler's error.
    assert [4 / (loss.width - 2.0**-40) for loss, _ in choices] == [gumbel(model)] * len(choices)
    assert 0.98e-6 < Composition(model.guarantee_.losses).delta_at(1.0).upper <= 1e-6 * (1 + 1e-9)


def test_each_model_asks_somebody_elses_noise_for_its_share_of_delta():
    """Three models, three corners each: a ninth."""
    asked = []

    class Recording:
        def calibrate(self, sensitivity, *, epsilon, delta=0.0):
            asked.append((epsilon, delta))
            return Independent("flipped_huber").calibrate(sensitivity, epsilon=epsilon, delta=delta)

    rng = np.random.default_rng(0)
    limits = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1, 2], "domain": Domain.unit_box(1)}
    DPLogisticRegression(mechanism=Recording(), **limits).fit(
        rng.uniform(-1, 1, (90, 1)), np.arange(90) % 3
    )
    assert all(e < 1 / 3 and 0.99e-6 < 9 * d <= 1e-6 for e, d in asked)
    assert asked
