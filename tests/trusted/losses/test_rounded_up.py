"""Upper bounds are never below the truth, least of all at 0: against fifty digits.

Nothing here is a test of chance.
"""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest
from exact_profile import gaussian_delta

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate
from skdp.noise import Gaussian, Laplace, Logistic
from skdp.privacy import Guarantee, compose, conversions, tradeoff
from skdp.privacy.composition import Composition
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss

LEAST = 5e-324
PAIRS = [(0.2366, 50.0), (0.2366, 9.0), (0.01, 1.0), (1.0, 36.0), (1e-5, 3e-4), (5.0, 190.0)]
FAR = [(1.0, 1e6), (1e-200, 1.0), (1e-9, 1e200), (1e-320, 1e-300), (1.0, 1e308)]


def bounds(mu: float, epsilon: float) -> list[float]:
    """Every public way to ask for delta at an epsilon of Gaussian loss."""
    losses = ((GaussianLoss(mu), 1),)
    promise = Guarantee(epsilon, 1e-6, losses=losses)
    return [
        promise.delta_at(epsilon),
        compose(promise, Guarantee(0.0), delta=1e-6).delta_at(epsilon),
        Composition(losses).delta_at(epsilon).upper,
        tradeoff.gaussian(mu).delta_at(epsilon),
        conversions.gaussian_delta(mu, epsilon),
        conversions.mixed_delta(mu, 0.0, epsilon),
    ]


@pytest.mark.parametrize("pair", PAIRS)
def test_delta_of_gaussian_noise_is_above_the_truth_and_near(pair: tuple[float, float]) -> None:
    with mpmath.workdps(50 + int(pair[1])):
        truth = gaussian_delta(*pair)
        for bound in bounds(*pair):
            assert truth <= bound
            assert bound <= float(truth * (1 + 1e-8)) + 200 * LEAST


@pytest.mark.parametrize("pair", FAR)
def test_delta_is_no_zero_where_logarithms_leave_the_floats(pair: tuple[float, float]) -> None:
    assert min(bounds(*pair)) == LEAST


@pytest.mark.parametrize("pair", [(1e200, 1.0), (1e160, 1e300)])
def test_delta_is_one_where_nothing_is_hidden(pair: tuple[float, float]) -> None:
    promised, composed, *others = bounds(*pair)
    assert promised == 1e-6  # what the release says of itself
    assert composed >= 1e-6
    assert min(others) == 1.0
    assert conversions.rho_of_mu(1e200) == math.inf


def test_delta_of_gaussian_noise_that_was_calibrated() -> None:
    """Thousands of sigmas beyond its own epsilon."""
    ball = Sensitivity(LpBall(2))
    for name in ("gaussian", "elliptic"):
        noise = calibrate(name, ball, epsilon=1.0, delta=1e-6)
        assert noise.guarantee.delta_at(50.0) > 0
        assert compose(noise.guarantee, noise.guarantee).delta_at(400.0) > 0


def test_delta_is_zero_where_the_truth_is() -> None:
    answer = FiniteLoss((-1.0, 1.0), (-math.log1p(math.e), -math.log1p(math.exp(-1))))
    for loss in (PairLoss(1.0), answer):
        assert Composition([(loss, 1)]).delta_at(2.0).upper == 0.0
        assert Composition([(loss, 2)]).delta_at(3.0).upper == 0.0
    assert Guarantee(1.0).delta_at(1.0) == 0.0
    assert tradeoff.approximate(1.0).delta_at(1.0) == 0.0
    assert conversions.gaussian_delta(0.0, 1.0) == 0.0


def test_delta_of_others_is_no_zero_either() -> None:
    normal = ShiftLoss(Gaussian(1.0), 0.1)
    many = [((normal, 1),), ((normal, 3),), ((GaussianLoss(0.1), 2), (PairLoss(0.1), 3))]
    for parts in many:
        for epsilon in (20.0, 1e3, 1e10, 1e300):
            assert Composition(parts).delta_at(epsilon).upper >= LEAST
            assert Guarantee(1e301, 0.5, losses=parts).delta_at(epsilon) >= LEAST


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-162, 1e-100, 1e-17, 1e-3, 1.0, 30.0])
def test_other_amounts_are_above_the_truth(size: float) -> None:
    with mpmath.workdps(400):
        s = mpmath.mpf(size)
        assert conversions.rho_of_mu(size) >= s**2 / 2
        assert conversions.rho_of_pure(size) >= s * mpmath.tanh(s / 2)
        loss = Guarantee(1.0, 1e-6, losses=((GaussianLoss(size), 1),))
        assert loss.mu >= s
        assert loss.rho >= s**2 / 2
        both = Guarantee(1.0, 1e-6, losses=((GaussianLoss(size), 2),))
        assert both.mu >= s * mpmath.sqrt(2)
        assert both.delta_at(0.5) >= LEAST
        # Phi(mu / 2) - 1/2 = tanh(epsilon / 2) / 2.
        tail = mpmath.ncdf(mpmath.mpf(conversions.mu_of_pure(size)) / 2) - mpmath.mpf(1) / 2
        assert tail >= mpmath.tanh(s / 2) / 2
        told = re.search(r"e\^epsilon = ([0-9.e+]+)", str(Guarantee(size)))
        assert told is not None
        assert mpmath.mpf(told[1].rstrip(".")) >= mpmath.exp(s)
    # No Gaussian noise is pure, however little it is.
    assert loss.epsilon_at(0.0) == math.inf


@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0])
def test_epsilon_is_above_the_truth(mu: float) -> None:
    promise = Guarantee(1e3, 1e-6, losses=((GaussianLoss(mu), 1),))
    for delta in (LEAST, 1e-320, 1e-300, 1e-50, 1e-6, 0.3):
        found = [promise.epsilon_at(delta), conversions.gaussian_epsilon(mu, delta)]
        with mpmath.workdps(400):
            assert all(
                gaussian_delta(mu, epsilon) <= mpmath.mpf(delta) for epsilon in found if epsilon
            )


@pytest.mark.slow("integrals in many digits")
def test_type_two_errors_are_below_the_truth() -> None:
    alpha = np.concatenate([[0.0, LEAST, 1.0 - 2**-53, 1.0], np.geomspace(1e-300, 0.9, 60)])
    for epsilon, delta in [(0.0, 0.0), (1.0, 0.0), (0.3, 1e-6), (30.0, 0.1), (1e-17, 0.0)]:
        found = Guarantee(epsilon, delta).tradeoff(alpha)
        with mpmath.workdps(60):
            e, d = mpmath.exp(epsilon), mpmath.mpf(delta)
            for a, b in zip(map(mpmath.mpf, alpha.tolist()), found.tolist(), strict=True):
                truth = max(0, 1 - d - e * a, (1 - d - a) / e)
                assert truth * (1 - 1e-13) - 1e-15 <= b <= truth
    for mu in (0.01, 1.0, 8.0, 40.0):
        losses = ((GaussianLoss(mu), 1),)
        found = Guarantee(2000.0, 0.999, losses=losses).tradeoff(alpha)
        with mpmath.workdps(400):
            for a, b in zip(alpha.tolist(), found.tolist(), strict=True):
                assert b <= gaussian_truth(a, mu)


def gaussian_truth(alpha: float, mu: float) -> mpmath.mpf:
    """Return Phi(-Phi^-1(alpha) - mu) by Newton's method on the logarithm of the tail."""
    if alpha in (0.0, 1.0):
        return mpmath.mpf(1.0 - alpha)
    a = mpmath.mpf(alpha)
    goal = min(a, 1 - a)
    x = -mpmath.sqrt(-2 * mpmath.log(goal)) if goal < mpmath.mpf("0.01") else mpmath.mpf(-1)
    for _ in range(60):
        tail = mpmath.ncdf(x)
        step = (mpmath.log(tail) - mpmath.log(goal)) * tail / mpmath.npdf(x)
        x -= step
        if abs(step) < mpmath.mpf(10) ** -60:
            break
    place = x if a == goal else -x
    return mpmath.ncdf(-place - mu)


def laplace_delta(shift, epsilon):
    return -mpmath.expm1((mpmath.mpf(epsilon) - mpmath.mpf(shift)) / 2)


def logistic_delta(shift, epsilon):
    v, e = mpmath.mpf(shift), mpmath.mpf(epsilon)
    ratio = mpmath.exp((e - v) / 2)
    x = -mpmath.log((1 - ratio) / (ratio - mpmath.exp(-v)))
    return 1 / (1 + mpmath.exp(x)) - mpmath.exp(e) / (1 + mpmath.exp(x + v))


def near_the_end(rng):
    """Shifts of all sizes, at epsilons between a half and all but 1e-13 of the greatest loss."""
    shift = 10 ** rng.uniform(-6, 1.5)
    return shift, shift * (1 - 10 ** rng.uniform(-13, -0.3))


def around_the_mean(rng):
    mu = 10 ** rng.uniform(-3, 7)
    return mu, max(0.0, mu * mu / 2 + mu * rng.uniform(-8, 8))


@pytest.mark.parametrize(
    ("loss", "delta", "draw"),
    [
        (lambda v: ShiftLoss(Laplace(1.0), v), laplace_delta, near_the_end),
        (lambda v: ShiftLoss(Logistic(1.0), v), logistic_delta, near_the_end),
        (GaussianLoss, gaussian_delta, around_the_mean),
        (lambda mu: ShiftLoss(Gaussian(1.0), min(mu, 30.0)), None, around_the_mean),
    ],
    ids=["laplace", "logistic", "gaussian", "gaussian as a law"],
)
def test_bounds_of_one_loss_hold_in_sixty_digits(loss, delta, draw):
    rng = np.random.default_rng(0)
    cases = [draw(rng) for _ in range(300)]
    if draw is near_the_end:
        cases.append((0.007399126677156179, 0.007399108553901416))
    else:
        cases.append((98.84, 5078.7))
    with mpmath.workdps(60):
        for size, epsilon in cases:
            if delta is None:
                size = min(size, 30.0)
                epsilon = min(epsilon, size * size / 2 + 8 * size)
            exact = (delta or gaussian_delta)(size, epsilon)
            bounds = Composition([(loss(size), 1)]).delta_at(epsilon)
            assert bounds.lower <= exact <= bounds.upper
            # What the rounding of epsilon, and the logs of tails, may do.
            assert bounds.upper <= exact * (1 + 1e-9) + 1e-13 * epsilon


@pytest.mark.parametrize(
    ("make", "delta", "draw"),
    [
        (tradeoff.gaussian, gaussian_delta, around_the_mean),
        (tradeoff.laplace, laplace_delta, near_the_end),
    ],
)
def test_the_delta_of_a_tradeoff_function_is_never_below(make, delta, draw):
    rng = np.random.default_rng(1)
    with mpmath.workdps(60):
        for size, epsilon in [draw(rng) for _ in range(300)]:
            assert delta(size, epsilon) <= make(size).delta_at(epsilon)
