"""Independent noise: its worst differences, its calibration in several dimensions, its draws."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, kstest

from skdp.geometry import LpBall, MappedBall
from skdp.geometry.hull import Hull
from skdp.mechanisms import Sensitivity
from skdp.mechanisms.independent import NAMES, Independent, least_scale
from skdp.noise.independent import MOST_GROUPS, IndependentNoise, worst_shift
from skdp.noise.laws import FlippedHuber, Laplace, Logistic, Subbotin
from skdp.privacy import Guarantee
from skdp.privacy.composition import Composition
from skdp.privacy.shift import ShiftLoss, log_delta

ONE = Sensitivity(LpBall(1), radius=2.0)
BOX = Sensitivity(LpBall(2, p=math.inf))
CORNERS = np.array([[1.0, 0, 0], [0.5, 0.8, 0], [0.4, 0.5, 0.6], [0.9, 0.05, 0.05]])
HULL = Sensitivity(Hull.from_points(CORNERS), radius=2.0)


def delta_by_quadrature(law, shift, epsilon, nodes=1600):
    """The least delta of a two-dimensional shift: the integral of (g(x) - e^epsilon g(x+v))_+.

    A midpoint rule on a grid of nodes^2 over all but 1e-9 of the mass: good to 1e-5 or so.
    """
    end = float(law.isf(1e-9))
    x = (np.arange(nodes) + 0.5) / nodes * 2 * end - end
    here = [law.logpdf(x), law.logpdf(x)]
    there = [law.logpdf(x + v) for v in shift]
    log_ratio = epsilon + np.add.outer(there[0] - here[0], there[1] - here[1])
    density = np.exp(np.add.outer(*here)) * (2 * end / nodes) ** 2
    return float(np.sum(density * -np.expm1(np.minimum(log_ratio, 0.0))))


@pytest.mark.parametrize(
    "law", [Laplace(), Logistic(), Subbotin(4.0), FlippedHuber(1.0, 1.0)], ids=repr
)
def test_the_corner_of_a_box_is_hidden_and_less_noise_is_caught(law):
    """By an exact density computation in two dimensions; the twin has 5 % less noise."""
    noise = Independent(law).calibrate(BOX, epsilon=1.0, delta=0.01)
    corner = 1 / noise.scale
    assert delta_by_quadrature(law, corner, 1.0) <= 0.01 * (1 + 1e-3)
    assert delta_by_quadrature(law, corner / 0.95, 1.0) > 0.01 * (1 + 1e-2)
    for other in product([0.3, 1.0], [-0.6, 0.8]):
        assert delta_by_quadrature(law, corner * other, 1.0) < 0.01


def sums(shift):
    sizes = np.concatenate([np.full(count, size) for size, count in shift])
    return np.cumsum(sizes), len(sizes)


BALLS = [
    LpBall(6, p=1), LpBall(6, p=1.5, weights=(1, 2, 3, 1, 1, 0.5)), LpBall(6, p=2), LpBall(30, p=2),
    LpBall(6, p=math.inf, weights=(1, 2, 3, 1, 1, 0.5)),
    MappedBall(LpBall(3, p=2), [[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.5]]),
    Hull.from_points(CORNERS),
]  # fmt: skip


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_the_worst_shift_majorises_every_difference(ball):
    """Its sums of greatest sizes are never below those of points on the ball's surface."""
    rng = np.random.default_rng(1)
    points = ball.sample(2000, rng)
    points /= ball.gauge(points)[:, None]
    for proportions in (np.ones(ball.dim), np.sqrt(ball.bounding_box())):
        found = worst_shift(Sensitivity(ball, 1.5), proportions)
        highest, reached = sums(found.above)
        highest = np.append(highest, np.full(ball.dim - reached, highest[-1]))
        heights = np.cumsum(-np.sort(-1.5 * np.abs(points) / proportions, axis=1), axis=1)
        assert (heights <= highest * (1 + 1e-9)).all()
        assert np.linalg.norm(1.5 * points / proportions, axis=1).max() <= found.length
        assert len(found.above) <= MOST_GROUPS
        sizes = [size for size, _ in found.above]
        assert sizes == sorted(sizes, reverse=True)


def test_known_worst_shifts():
    """One coordinate of an l_1 ball, the corner of a box, steps of a root in l_2."""
    ones = np.ones(4)
    for ball, expected in (
        (LpBall(4, p=1, radius=3.0), [(3.0, 1)]),
        (LpBall(4, p=math.inf, radius=3.0), [(3.0, 4)]),
        (LpBall(4), [(1.0, 1), (2**0.5 - 1, 1), (3**0.5 - 2**0.5, 1), (2 - 3**0.5, 1)]),
    ):
        found = worst_shift(Sensitivity(ball), ones)
        assert np.ravel(found.above) == pytest.approx(np.ravel(expected), rel=1e-11)


def test_one_shift_stands_above_all_corners_of_a_hull():
    """Its sums of the greatest sizes are at least those of each corner, and noise hides them."""
    found = worst_shift(HULL, np.ones(3))
    sizes = np.repeat(*np.array(found.above).T.tolist()[:1], [n for _, n in found.above])
    for corner in 2 * np.array(CORNERS):
        sums = np.cumsum(-np.sort(-np.abs(corner)))
        assert (np.cumsum(sizes)[: len(sums)] >= sums[: len(sizes)] * (1 - 1e-12)).all()
    noise = Independent(Laplace()).calibrate(HULL, epsilon=1.0, delta=1e-3)
    worst = 0.0
    for corner in CORNERS:
        parts = tuple((ShiftLoss(Laplace(), 2 * v / noise.scale[0]), 1) for v in corner if v)
        worst = max(worst, Composition(parts).delta_at(1.0).upper)
    assert 0.5e-3 < worst <= 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_one_coordinate_is_exact(name):
    """For every name: private by the exact formula, and not with 1e-6 less noise."""
    noise = Independent(name).calibrate(ONE, epsilon=1.0, delta=1e-3)
    law, scale = noise.law, float(noise.scale[0])
    assert log_delta(law, 2 / scale, 1.0) <= math.log(1e-3)
    assert log_delta(law, 2 / scale * (1 + 1e-6), 1.0) > math.log(1e-3)
    said = noise.guarantee
    assert (said.epsilon, said.delta) == (1.0, 1e-3)
    # The end of a truncated law is told apart at every epsilon, so its delta hardly falls.
    assert said.delta_at(2.0) < 1e-3 * (1.0 if name == "truncated_laplace" else 0.9)
    assert noise.coordinate().var() == pytest.approx(noise.covariance()[0, 0])
    (loss, count), *rest = noise.guarantee.losses
    assert (count, rest) == (1, [])
    assert loss.log_delta(1.0) == pytest.approx(math.log(1e-3), abs=1e-9)


FLIPPED = [
    (0.1, 0.05, 19.699596), (0.1, 1e-3, 159.89631), (0.1, 1e-6, 199.76776), (1.0, 0.05, 1.2556938),
    (1.0, 0.01, 1.7038411), (1.0, 1e-6, 1.9997815),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "delta", "variance"), FLIPPED)
def test_flipped_huber_has_the_least_variance(epsilon, delta, variance):
    """To five digits of a table that was computed apart, and never above the limits."""
    noise = Independent("flipped_huber").calibrate(
        Sensitivity(LpBall(1)), epsilon=epsilon, delta=delta
    )
    found = float(noise.covariance()[0, 0])
    assert found <= variance * (1 + 1e-5)
    for name in ("laplace", "gaussian"):
        limit = Independent(name).calibrate(Sensitivity(LpBall(1)), epsilon=epsilon, delta=delta)
        assert found <= float(limit.covariance()[0, 0]) * (1 + 1e-6)


def caught(noise, shift, epsilon, delta, rng, draws):
    """Whether draws show at error 1e-6 that a shift is not hidden (Clopper & Pearson 1934).

    The test is whether the sum of the losses exceeds epsilon: the best one. Both rates get half
    of the error, so a private mechanism is caught at most once in a million runs.
    """
    unit = shift / noise.scale

    def rate(moved):
        x = noise.law.rvs((draws, noise.dim), rng) - (unit if moved else 0)
        loss = noise.law.logpdf(x) - noise.law.logpdf(x + unit)
        return int((loss.sum(axis=1) > epsilon).sum())

    low = beta.ppf(5e-7, (k := rate(False)), draws - k + 1)
    high = beta.isf(5e-7, (k := rate(True)) + 1, draws - k)
    return low - math.exp(epsilon) * high > delta


SLOW = pytest.param(FlippedHuber(1.0, 1.0), marks=pytest.mark.slow("another law in the same grid"))


@pytest.mark.parametrize("law", [Laplace(), SLOW], ids=repr)
def test_an_audit_passes_the_noise_and_catches_less(law):
    """Blind draws at epsilon = 0.2, delta = 0.1; the twin has 5 % less noise.

    A rate has a standard error of at most 0.00036 at 2 10^6 draws, and a bound stands 4.9 of them
    off; both bounds together take at most 4.9 (1 + e^0.2) 0.00036 = 0.0039. The twin's delta is
    higher by 0.0077, as computed below: 0.0038 more than that, which is 6 standard errors of the
    difference, so it is missed less than once in a million.
    """
    noise = Independent(law).calibrate(BOX, epsilon=0.2, delta=0.1)
    rng = np.random.default_rng(2)
    assert not caught(noise, np.ones(2), 0.2, 0.1, rng, 2 * 10**6)
    assert delta_by_quadrature(law, np.ones(2) / noise.scale / 0.95, 0.2) > 0.1 + 0.0075
    twin = IndependentNoise(law, 0.95 * noise.scale, noise.guarantee)
    assert caught(twin, np.ones(2), 0.2, 0.1, rng, 2 * 10**6)


def test_draws_have_the_law_and_the_scales():
    """Kolmogorov and Smirnov per coordinate at 1e-7; 5 % less noise is caught in either."""
    noise = IndependentNoise(Logistic(), np.array([1.0, 5.0]), Guarantee(1.0, 1e-6))
    rng = np.random.default_rng(3)
    x = np.array([noise.rvs(rng) for _ in range(20_000)])
    for j in range(2):
        law = noise.coordinate(j)
        assert kstest(x[:, j], law.cdf).pvalue > 1e-7
        assert kstest(np.tile(0.9 * x[:, j], 1), law.cdf).pvalue < 1e-7
    assert abs(np.corrcoef(x.T)[0, 1]) < 5.4 / math.sqrt(20_000)  # 1e-7 of a normal law
    assert noise.covariance() == pytest.approx(np.diag([1, 25]) * math.pi**2 / 3)
    exact = 2 * math.log(2) * 6  # E|X| = 2 log 2
    assert noise.expected_norm(LpBall(2, p=1)) == pytest.approx(exact, rel=0.1)


@dataclass(frozen=True)
class Triangular:
    """Somebody else's law with the required members alone: density 1 - |x|."""

    scale: float = 1.0

    def logpdf(self, x):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - np.abs(x) / self.scale, 0) / self.scale)

    def logsf(self, x):
        t = np.clip(np.asarray(x) / self.scale, -1, 1)
        with np.errstate(divide="ignore"):
            return np.log(np.where(t > 0, (1 - t) ** 2 / 2, 1 - (1 + t) ** 2 / 2))

    def isf(self, q):
        q = np.asarray(q, dtype=float)
        half = 1 - np.sqrt(2 * np.minimum(q, 1 - q))
        return self.scale * np.where(q < 0.5, half, -half)

    def rvs(self, size, rng):
        return self.scale * (rng.random(size) - rng.random(size))

    def var(self):
        return self.scale**2 / 6

    def scaled(self, s):
        return Triangular(s * self.scale)


def test_somebody_elses_law_works():
    """In one dimension, where its least delta is integrated apart, and in three."""
    one = Independent(Triangular()).calibrate(Sensitivity(LpBall(1)), epsilon=0.5, delta=0.02)
    v = 1 / one.scale[0]
    grid = np.linspace(-1, 1, 400_001)
    f, g = np.maximum(1 - np.abs(grid), 0), np.maximum(1 - np.abs(grid + v), 0)
    assert np.maximum(f - math.exp(0.5) * g, 0).sum() * 5e-6 == pytest.approx(0.02, rel=1e-4)
    box = Sensitivity(LpBall(3, p=math.inf))
    three = Independent(Triangular()).calibrate(box, epsilon=0.5, delta=0.02)
    assert three.scale.shape == (3,)
    assert three.scale[0] > 1.5 * one.scale[0]
    assert three.coordinate(1) == Triangular(three.scale[1])


class Cauchy(Triangular):
    """Even, but its density is not log-concave."""

    def logpdf(self, x):
        return -np.log1p(np.asarray(x, dtype=float) ** 2) - math.log(math.pi)

    def isf(self, q):
        return 1 / np.tan(math.pi * np.asarray(q))


class Lopsided(Triangular):
    def logpdf(self, x):
        return super().logpdf(np.asarray(x) + 0.01)


class Endless(Triangular):
    def isf(self, q):
        return np.full(np.shape(q), np.inf)


class OneTail(Triangular):
    """Its density is even, and its lower tail is that of another law."""

    def logsf(self, x):
        return np.where(np.asarray(x) < 0, np.log(0.9), super().logsf(x))


BAD = [
    (lambda: Independent("cauchy"), "law must be one of .*'flipped_huber'.*Or give a law"),
    (lambda: Independent(3), "law must have the members of a law"),
    (lambda: Independent(Cauchy()), "Cauchy.logpdf must"),
    (lambda: Independent(Lopsided()), "Lopsided.logpdf must be even"),
    (lambda: Independent(Endless()), "Endless.* must"),
    (lambda: Independent(OneTail()), "OneTail.logsf must be that of an even law"),
    (lambda: least_scale(Laplace(), 1e300, epsilon=1e-300, delta=1e-300), "noise is a finite"),
    (lambda: Independent("laplace", [1, 0]), "proportions must be a finite number > 0"),
    (lambda: Independent("laplace", [1]).calibrate(BOX, epsilon=1.0), "proportions must have 2"),
    (lambda: Independent("gaussian").calibrate(BOX, epsilon=1.0), "delta must be > 0"),
    (lambda: Independent("flipped_huber").calibrate(BOX, epsilon=1.0), "delta must be > 0"),
    (lambda: Independent("truncated_laplace").calibrate(ONE, epsilon=1.0), "delta must be > 0"),
    (lambda: Independent("laplace").calibrate(BOX, epsilon=0.0), "epsilon must be a finite"),
    (lambda: Independent("laplace").calibrate(BOX, epsilon=1.0, delta=1.0), "delta must be"),
    (lambda: IndependentNoise(Laplace(), [0.0], Guarantee(1.0)), "scale must contain"),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()
