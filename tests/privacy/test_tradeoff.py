"""Trade-off functions against 330 digits, in both tails, and what is built from them."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest

from skdp.noise.laws import Logistic
from skdp.privacy import tradeoff
from skdp.privacy.composition import Composition
from skdp.privacy.curves import _upper_log_delta

LEVELS = [1e-300, 1e-20, 1e-8, 1e-3, 0.05, 0.37, 0.5, 0.7, 0.99, 1 - 1e-9, 1 - 2**-52]


@pytest.fixture(autouse=True)
def digits():
    """1 - 1e-300 has to differ from 1."""
    with mpmath.workdps(330):
        yield


def gaussian_truth(mu):
    def miss(s):
        return mpmath.ncdf(-normal_isf(s) - mu)

    return miss


@cache
def normal_isf(s):
    """The z above which the standard normal law has mass s; the log keeps far tails easy."""
    if s > mpmath.mpf(1) / 2:
        return -normal_isf(1 - s)
    start = mpmath.sqrt(2 * mpmath.log(1 / (2 * s))) if s < 0.4 else mpmath.mpf(0)
    return mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(-z)) - mpmath.log(s), start)


def laplace_truth(epsilon):
    e = mpmath.mpf(epsilon)

    def miss(s):
        x = -mpmath.log(2 * s) if s <= mpmath.mpf(1) / 2 else mpmath.log(2 * (1 - s))
        moved = x + e
        return mpmath.exp(-moved) / 2 if moved > 0 else 1 - mpmath.exp(moved) / 2

    return miss


def logistic_truth(shift):
    def miss(s):
        return 1 / (1 + mpmath.exp(mpmath.log((1 - s) / s) + mpmath.mpf(shift)))

    return miss


def approximate_truth(epsilon, delta):
    e, d = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)

    def miss(s):
        return max(mpmath.mpf(0), 1 - d - e * (1 - s), (s - d) / e)

    return miss


CASES = {
    "gaussian(0.01)": (tradeoff.gaussian(0.01), gaussian_truth(mpmath.mpf(0.01))),
    "gaussian(1)": (tradeoff.gaussian(1.0), gaussian_truth(1)),
    "gaussian(6)": (tradeoff.gaussian(6.0), gaussian_truth(6)),
    "laplace(0.3)": (tradeoff.laplace(0.3), laplace_truth(0.3)),
    "laplace(9)": (tradeoff.laplace(9.0), laplace_truth(9)),
    "logistic(2)": (tradeoff.from_law(Logistic(), 2.0), logistic_truth(2)),
    "approximate(1e-9, 0)": (tradeoff.approximate(1e-9), approximate_truth(1e-9, 0)),
    "approximate(1, 1e-6)": (tradeoff.approximate(1.0, 1e-6), approximate_truth(1, 1e-6)),
    "approximate(40, 0.1)": (tradeoff.approximate(40.0, 0.1), approximate_truth(40, 0.1)),
    "total_variation(0.3)": (tradeoff.total_variation(0.3), approximate_truth(0, 0.3)),
}
NAMES = list(CASES)
SYMMETRIC = [f for f, _ in CASES.values()]


def close(found, truth, rel=1e-12):
    """Whether a log agrees with that of the truth; logs of tails may be off by that of their size.

    A log that is off by 1e-12 times its own size is a tail that is off as by one part in 10^12
    of the noise's scale.
    """
    if truth <= 0:
        return found < -690 or found == -math.inf
    exact = mpmath.log(truth)
    return abs(mpmath.mpf(float(found)) - exact) <= rel * max(abs(exact), mpmath.mpf("1e-2"))


@pytest.mark.parametrize("name", NAMES)
def test_both_tails_have_their_digits(name):
    """log f(1 - s) and log(1 - f(a)), the second from the same truth by inversion of f."""
    f, miss = CASES[name]
    for s in LEVELS:
        truth = miss(mpmath.mpf(s))
        assert close(f.log_miss(math.log(s) if s < 0.9 else math.log1p(s - 1)), truth), s
        power = 1 - miss(1 - mpmath.mpf(s))
        assert close(f.log_power(math.log(s) if s < 0.9 else math.log1p(s - 1)), power), s


@pytest.mark.parametrize("name", NAMES)
def test_the_value_is_that_of_the_truth(name):
    """f(alpha) to ten digits of whichever of f and 1 - f is small."""
    f, miss = CASES[name]
    for alpha in LEVELS:
        truth = miss(1 - mpmath.mpf(alpha))
        assert float(f(alpha)) == pytest.approx(float(truth), rel=1e-10, abs=2e-16)
    assert f(np.array([0.1, 0.2])).shape == (2,)


def test_a_wrong_shift_is_seen_by_the_oracle():
    """The twin: one part in 10^10 more in mu."""
    twin, miss = tradeoff.gaussian(1.0 + 1e-10), CASES["gaussian(1)"][1]
    assert not close(twin.log_miss(math.log(0.05)), miss(mpmath.mpf(0.05)))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_its_own_inverse_convex_and_below_the_line(name):
    f, _ = CASES[name]
    alpha = np.linspace(0, 1, 1001)
    beta = f(alpha)
    assert (np.diff(beta) <= 0).all()
    assert (np.diff(beta, 2) >= -1e-12).all()
    assert (beta <= 1 - alpha + 1e-15).all()
    inside = beta > 0
    assert f(beta[inside]) == pytest.approx(alpha[inside], abs=1e-12)
    assert f.symmetric
    assert f.inverse() == f
    assert float(f(f.fixed_point)) == pytest.approx(f.fixed_point, rel=1e-10)
    assert f.central_mass == pytest.approx(1 - 2 * f.fixed_point, abs=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_the_slope_is_the_derivative(name):
    f, miss = CASES[name]
    for s in (0.013, 0.21, 0.64, 0.93):
        if abs(s - (1 - f.fixed_point)) < 1e-3 or miss(mpmath.mpf(s)) == 0:
            continue
        exact = mpmath.diff(miss, mpmath.mpf(s), h=mpmath.mpf("1e-12"))
        assert float(f.log_slope(math.log(s))) == pytest.approx(float(mpmath.log(exact)), abs=1e-8)


@pytest.mark.parametrize("f", SYMMETRIC[:9], ids=NAMES[:9])
def test_the_conjugate_lies_above_the_truth_and_close(f):
    """The bracketed supremum against the closed form: never below by more than its rounding."""
    epsilon = np.array([0.0, 1e-3, 0.3, 1.0, 2.5])
    found, exact = np.exp(_upper_log_delta(f, epsilon)), np.exp(f.loss().log_delta(epsilon))
    assert (found >= exact - 1e-13).all()
    assert found == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_the_conjugate_is_the_supremum():
    """By brute force over levels, for a function that has no closed form."""
    f = tradeoff.gaussian(0.7).chain(tradeoff.laplace(0.4))
    alpha = np.linspace(0, 1, 200_001)
    for epsilon in (-1.0, 0.0, 0.5, 1.5):
        brute = (1 - f(alpha) - math.exp(epsilon) * alpha).max()
        found = math.exp(f.log_delta(epsilon))
        assert brute <= found <= brute + 1e-9


@pytest.mark.parametrize("f", [tradeoff.gaussian(1.3), tradeoff.laplace(0.8)], ids=["g", "l"])
def test_there_and_back_through_the_profile(f):
    """f from its own profile, never above it, and close."""
    back = tradeoff.from_profile(f.log_delta)
    alpha = np.array(LEVELS)
    assert (back(alpha) <= f(alpha) * (1 + 1e-12)).all()
    assert back(alpha) == pytest.approx(f(alpha), rel=1e-9)
    assert back.delta_at(0.6) == pytest.approx(f.delta_at(0.6), rel=1e-12)
    assert np.exp(back.log_delta(-0.6)) == pytest.approx(np.exp(f.log_delta(-0.6)), rel=1e-9)
    # The slope: the supremum is flat at its top, which leaves half the digits of where it is.
    levels = np.log([1e-8, 0.01, 0.1, 0.3, 0.97, 1 - 1e-6])
    assert back.log_slope(levels) == pytest.approx(f.log_slope(levels), abs=1e-4)
    assert (f.log_slope(levels[:4]) < -0.5).all()


def test_groups_of_gaussians_and_of_laws_have_closed_forms():
    assert tradeoff.gaussian(0.5).group(7) == tradeoff.gaussian(3.5)
    assert tradeoff.laplace(0.25).group(4) == tradeoff.laplace(1.0)
    assert tradeoff.total_variation(0.25).group(3) == tradeoff.total_variation(0.75)
    assert tradeoff.total_variation(0.25).group(9) == tradeoff.total_variation(1.0)
    some, more = tradeoff.total_variation(0.25), tradeoff.total_variation(0.5)
    assert some.chain(more) == tradeoff.total_variation(0.75)
    assert some.chain(more, more) == tradeoff.total_variation(1.0)  # and never beyond
    assert tradeoff.gaussian(0.5).chain(tradeoff.gaussian(0.25)) == tradeoff.gaussian(0.75)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 0.0), (0.7, 1e-3), (3.0, 0.2), (1e-6, 1e-4)])
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_the_group_of_an_approximate_one_is_that_many_steps(epsilon, delta, k):
    """The closed form against the map applied k times at sixty digits."""
    group, miss = tradeoff.approximate(epsilon, delta).group(k), approximate_truth(epsilon, delta)
    for s in (1e-12, 0.01, 0.3, 0.5, 0.8, 0.97, 1 - 1e-6):
        truth = mpmath.mpf(s)
        for _ in range(k):
            truth = miss(truth)
        assert float(group(1 - s)) == pytest.approx(float(truth), rel=1e-9, abs=1e-13)


def test_composition_is_a_walk_in_two_steps():
    """f(1 - g): against sixty digits; its inverse is that of the walk back."""
    f, g = tradeoff.gaussian(0.7), tradeoff.laplace(0.4)
    both = f.chain(g)
    outer, inner = gaussian_truth(mpmath.mpf(0.7)), laplace_truth(0.4)
    for alpha in (1e-10, 0.01, 0.3, 0.6, 0.98):
        truth = outer(inner(1 - mpmath.mpf(alpha)))
        assert float(both(alpha)) == pytest.approx(float(truth), rel=1e-11)
        assert float(both.inverse()(both(alpha))) == pytest.approx(alpha, rel=1e-9)
    assert not both.symmetric
    assert both.maximum(both.inverse()).symmetric
    assert f.chain(g, f).symmetric
    assert both <= f
    assert both <= g


def test_products_with_closed_forms():
    assert tradeoff.gaussian(0.3).tensor(tradeoff.gaussian(0.4)) == tradeoff.gaussian(0.5)
    pure, free = tradeoff.approximate(1.0), tradeoff.total_variation(0.1)
    assert pure.tensor(free, free).epsilon == 1.0
    assert pure.tensor(free, free).delta == pytest.approx(0.19, rel=1e-12)
    leaky = free.tensor(tradeoff.gaussian(1.0), free)
    assert leaky.delta_at(0.5) == pytest.approx(0.19 + 0.81 * tradeoff.gaussian(1.0).delta_at(0.5))
    everything = tradeoff.total_variation(1.0)
    assert pure.tensor(everything).delta_at(0.5) == 1.0
    assert tradeoff.gaussian(1.0).tensor(everything).delta_at(0.5) == 1.0
    f = tradeoff.laplace(0.5)
    assert f.tensor(f, tradeoff.gaussian(0.1)).parts == tuple(
        (part.loss(), 1) for part in (f, f, tradeoff.gaussian(0.1))
    )


def test_maximum_and_envelope():
    """Both promises, and either; the envelope is the greatest convex function below both."""
    f, g = tradeoff.gaussian(0.5), tradeoff.approximate(0.2, 1e-3)
    alpha = np.linspace(0, 1, 401)
    top, low = f.maximum(g), f.envelope(g)
    assert top(alpha) == pytest.approx(np.maximum(f(alpha), g(alpha)), abs=1e-15)
    assert (low(alpha) <= np.minimum(f(alpha), g(alpha)) + 1e-12).all()
    assert low.delta_at(0.1) == max(f.delta_at(0.1), g.delta_at(0.1))
    assert top.delta_at(0.1) <= min(f.delta_at(0.1), g.delta_at(0.1)) * (1 + 1e-12)
    assert low <= f <= top
    assert not top <= f
    points = np.stack([np.tile(alpha, 2), np.concatenate([f(alpha), g(alpha)])])
    for middle in (0.05, 0.2, 0.4):
        left, right = points[:, points[0] <= middle], points[:, points[0] > middle]
        share = (right[0] - middle) / (right[0] - left[0][:, None])
        hull = (share * left[1][:, None] + (1 - share) * right[1]).min()
        assert float(low(middle)) == pytest.approx(hull, abs=1e-4)


def test_the_order():
    assert tradeoff.gaussian(1.0) <= tradeoff.gaussian(0.9)
    assert not tradeoff.gaussian(1.0) >= tradeoff.gaussian(0.9)
    assert tradeoff.laplace(1.0) >= tradeoff.approximate(1.0)
    assert not tradeoff.laplace(1.0) <= tradeoff.approximate(1.0)
    assert not tradeoff.gaussian(1.0) <= tradeoff.laplace(1.0)
    assert not tradeoff.gaussian(1.0) >= tradeoff.laplace(1.0)
    assert tradeoff.gaussian(1.0).dominates(tradeoff.gaussian(1.0))


BAD = [
    (lambda: tradeoff.gaussian(0.0), "mu must be a finite number > 0"),
    (lambda: tradeoff.laplace(-1.0), "epsilon must be a finite number > 0"),
    (lambda: tradeoff.approximate(math.nan), r"epsilon must be a number in \[0, inf\)"),
    (lambda: tradeoff.approximate(1.0, 1.5), r"delta must be a number in \[0, 1\]"),
    (lambda: tradeoff.from_law(3.0), "law must have a method logpdf"),
    (lambda: tradeoff.from_law(Logistic(), 0.0), "shift must be a finite number > 0"),
    (lambda: tradeoff.from_profile([]), "profile must have at least one point"),
    (lambda: tradeoff.gaussian(1.0)(1.5), r"alpha must lie in \[0, 1\]"),
    (lambda: tradeoff.gaussian(1.0)(math.nan), r"alpha must lie in \[0, 1\]"),
    (lambda: tradeoff.gaussian(1.0).group(0), "k must be an integer >= 1"),
    (lambda: tradeoff.gaussian(1.0).chain(1.0), "others must be trade-off functions"),
    (
        lambda: tradeoff.gaussian(1.0).envelope(
            tradeoff.gaussian(1.0).chain(tradeoff.laplace(1.0))
        ),
        "tradeoff must be symmetric for an envelope",
    ),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_the_slope_is_zero_where_nothing_is_missed():
    """With delta = .1 the least type II error at 1 - s is 0 for s < .1, and so is its slope."""
    f = tradeoff.from_profile(lambda epsilon: np.full(np.shape(epsilon), math.log(0.1)))
    assert f.log_slope(math.log(0.05)) == -math.inf
    assert f.log_slope(math.log(0.5)) > -math.inf


def test_points_of_a_product_are_above_its_profile():
    """The logarithm of each delta is rounded up."""
    both = tradeoff.laplace(0.5).tensor(tradeoff.gaussian(0.5))
    whole = Composition(both.parts)
    pairs = list(zip(both.points.epsilons, both.points.log_deltas, strict=True))[1:40]
    assert all(found > math.log(whole.delta_at(epsilon).upper) for epsilon, found in pairs)
