"""K-norm noise at (epsilon, delta): never too little in any norm, and the least in three."""

import math
import pickle

import numpy as np
import pytest

from skdp.geometry import EncodedRowsBall, LpBall, MappedBall
from skdp.mechanisms import KNorm, Sensitivity, calibrate
from skdp.mechanisms.knorm import shift_in_any_norm, shift_in_round_norm
from skdp.trusted.radial import RadialLoss

EPSILONS, DELTAS = [0.01, 1.0, 20.0], [1e-2, 1e-6, 1e-12]


def broken_line(rng, slope, bends=6):
    """A random convex function with slopes in [-slope, slope], and points to integrate between."""
    at = np.sort(rng.uniform(-2, 2, bends))
    slopes = np.sort(rng.uniform(-slope, slope, bends - 1))
    slopes = np.concatenate([[-slope], slopes, [slope]])
    values = np.concatenate([[0.0], np.cumsum(slopes[1:-1] * np.diff(at))])

    def line(t):
        t = np.asarray(t)[..., None]
        return (values - 0 * t + np.where(t > at, slopes[1:], slopes[:-1]) * (t - at)).max(axis=-1)

    return line, at


def delta_of_line(line, kinks, epsilon, reach):
    """The integral of (g(t) - e^epsilon g(t + 1))_+ for g proportional to exp(-line)."""
    t = np.union1d(np.linspace(-reach, reach, 12_001), np.concatenate([kinks, kinks - 1]))
    middle, width = (t[1:] + t[:-1]) / 2, np.diff(t)
    g = np.exp(-(line(middle) - line(t).min()))
    moved = np.exp(-(line(middle + 1) - line(t).min()))
    gain = np.maximum(g - math.exp(epsilon) * moved, 0.0)
    return (gain * width).sum() / (g * width).sum()


@pytest.mark.parametrize("slope", [0.7, 2.0, 6.0])
def test_no_density_of_that_slope_is_told_apart_better_than_laplaces(slope):
    """Theorem 1 on a line, on random convex functions; |t| meets it, a steeper one no more."""
    rng, reach = np.random.default_rng(0), 4 + 15 / slope
    for _ in range(12):
        line, kinks = broken_line(rng, slope)
        for share in (0.0, 0.3, 0.8):
            bound = -math.expm1((share - 1) * slope / 2)
            assert delta_of_line(line, kinks, share * slope, reach) <= bound + 1e-4
    for factor, held in ((1.0, True), (1.05, False)):

        def tent(t, steep=factor * slope):
            return steep * np.abs(t)

        found = delta_of_line(tent, np.zeros(1), 0.3 * slope, reach)
        bound = -math.expm1((0.3 - 1) * slope / 2)
        assert (found <= bound + 1e-4) == held
        assert held <= (abs(found - bound) < 1e-4)


def deltas_of_plane(ball, shift, epsilon, scales, half=14.0, cells=900):
    """The least deltas of K-norm noise in two dimensions for one difference, by a grid."""
    axis = (np.arange(cells) + 0.5) / cells * 2 * half - half
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    own, other = ball.gauge(grid), ball.gauge(grid + shift)
    for scale in scales:
        g, moved = np.exp(-own / scale), np.exp(-other / scale)
        yield np.maximum(g - math.exp(epsilon) * moved, 0.0).sum() / g.sum()


PLANE = [
    (LpBall(2, p=1), (1.0, 0.0), True), (LpBall(2, p=math.inf), (1.0, 1.0), True),
    (LpBall(2, p=1), (0.5, 0.5), False), (LpBall(2, p=math.inf), (1.0, 0.2), False),
    (LpBall(2, p=3), (1.0, 0.0), False), (LpBall(2, p=1.5), (0.63, 0.63), False),
    (LpBall(2, p=2), (1.0, 0.0), False), (LpBall(2, p=2), (0.6, 0.8), False),
]  # fmt: skip


@pytest.mark.parametrize(("ball", "shift", "sharp"), PLANE)
def test_in_the_plane_no_difference_exceeds_delta(ball, shift, sharp):
    """Numerically, at delta = .05: met for e_1 in l_1, for (1, 1) in l_inf, and by l_2 always."""
    assert ball.gauge(shift) == pytest.approx(1.0, rel=0.01)
    shift = np.array(shift) / ball.gauge(shift)
    noise = KNorm(ball).calibrate(Sensitivity(ball), epsilon=0.8, delta=0.05)
    found, less = deltas_of_plane(ball, shift, 0.8, (noise.scale, 0.95 * noise.scale))
    assert found <= 0.05 * 1.003
    assert (found > 0.05 * 0.997) == (sharp or ball.p == 2)
    if sharp or ball.p == 2:
        assert less > 0.05 * 1.003


BALLS = [
    LpBall(4, p=1), LpBall(4, p=math.inf), LpBall(4, p=3), LpBall(4, weights=(1.0, 2.0, 0.5, 3.0)),
    LpBall(1, p=3), EncodedRowsBall(2, (2,)), MappedBall(LpBall(3), [2.0, 1.0, 3.0]),
    MappedBall(LpBall(5), [2.0] * 5),
]  # fmt: skip


@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_scale_and_what_is_said_of_it(ball, epsilon, delta):
    """Never above the pure one's; the profile passes through (epsilon, delta) or below it."""
    sensitivity = Sensitivity(ball, 1.7, "add_remove")
    pure = KNorm().calibrate(sensitivity, epsilon=epsilon)
    noise = calibrate("hull", sensitivity, epsilon=epsilon, delta=delta)
    said = noise.guarantee
    # A delta that hardly reduces the noise is not spent.
    assert (said.epsilon, said.neighbors) == (epsilon, "add_remove")
    assert said.delta == delta or (
        said.delta == 0 and noise.scale == pytest.approx(pure.scale, rel=1e-11)
    )
    laplace = 1.7 / (epsilon - 2 * math.log1p(-delta))
    assert noise.scale <= laplace * (1 + 1e-11)
    assert pure.scale == pytest.approx(1.7 / epsilon, rel=1e-11)
    assert (
        said.delta_at(0.0) <= min(1.0, -math.expm1(-(epsilon - 2 * math.log1p(-delta)) / 2)) + 1e-9
    )
    ((loss, count),) = noise.guarantee.losses
    assert count == 1
    assert loss.log_delta(epsilon) <= math.log(delta) + 1e-9
    assert loss.shift >= 1.7 / noise.scale
    assert loss.shift == pytest.approx(1.7 / noise.scale, rel=1e-15)
    ((always, _),) = pure.guarantee.losses
    assert always.log_delta(epsilon) == -math.inf
    assert math.exp(always.log_delta(0.0)) <= -math.expm1(-epsilon / 2) * (1 + 1e-9)
    assert pickle.loads(pickle.dumps(noise)).guarantee == said


def test_which_loss_is_whose():
    """One Laplace variable's in general and in one dimension; the Euclidean one where it is so."""
    made = [KNorm(b).calibrate(Sensitivity(b), epsilon=1.0).guarantee.losses[0][0] for b in BALLS]
    kinds = [loss.dim > 1 for loss in made]
    assert kinds == [False, False, False, True, False, False, True, True]
    noise = calibrate("l2", Sensitivity(LpBall(3, p=1), 2.0), epsilon=1.0)
    radius = Sensitivity(LpBall(3, p=1), 2.0).radius_in(LpBall(3))
    assert noise.guarantee.losses == ((RadialLoss(3, math.nextafter(radius / noise.scale, 9)), 1),)
    noise = calibrate("l1", Sensitivity(LpBall(3, p=1), 2.0), epsilon=1.0)
    shift = math.nextafter(2.0 / noise.scale, 9)
    assert noise.guarantee.losses == ((RadialLoss(1, shift), 1),)
    huge = KNorm("l2").calibrate(Sensitivity(LpBall(3)), epsilon=1e9, delta=1e-6)
    assert huge.guarantee.losses[0][0].dim == 1
    assert huge.scale == pytest.approx(1e-9)


@pytest.mark.parametrize("dim", [2, 5, 30, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_round_scale_is_private_and_the_least(dim, epsilon):
    """At every delta; a scale 1e-9 smaller is not, unless no float lies between."""
    for delta in [*DELTAS, 0.5, 1e-30]:
        shift = shift_in_round_norm(dim, epsilon, delta)
        assert shift >= shift_in_any_norm(epsilon, delta)
        if shift > epsilon * (1 + 1e-9):
            assert RadialLoss(dim, shift).log_delta(epsilon) <= math.log(delta)
            assert RadialLoss(dim, shift * (1 + 1e-9)).log_delta(epsilon) > math.log(delta)
