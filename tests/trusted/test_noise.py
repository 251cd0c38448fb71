"""What a noise states of its draws, and how it is published: docs/proofs/lattice_release.md."""

import math

import numpy as np
import pytest

from skdp.geometry import Hull, LpBall, MappedBall, ProductBall, ShearedBall
from skdp.privacy import FiniteLoss, GaussianLoss
from skdp.trusted.composition import delta_above
from skdp.trusted.noise import GaussianNoise, KNormNoise, publication_of
from skdp.trusted.randomness import Lattice

NOISE = GaussianNoise(3, [2.0, 30.0, 0.5])
LOSSES = ((GaussianLoss(0.01), 1), (GaussianLoss(0.003), 4))


@pytest.mark.parametrize(
    ("claim", "share"),
    [
        ((0.01, 0.0, ()), 2 / 0.01),
        ((0.01, 1e-6, ()), 2 / 0.01),
        ((50.0, 1e-6, ()), 1.5),
        ((0.0, 1e-3, ()), -1 / math.log1p(-1e-3)),
        ((1.0, 0.0, LOSSES), 3 / math.erf(0.005 / math.sqrt(2))),
    ],
)
def test_the_stretch_pays_for_the_lattice(claim, share):
    """Theorem 2: 1 - lambda >= tau max(2 / epsilon, 1.5), and with losses 3 tau over a distance."""
    lattice, stretch = publication_of(NOISE, *claim)
    assert stretch == pytest.approx(1 / (1 - lattice.cost * share), rel=2e-9)
    assert stretch >= 1 / (1 - lattice.cost * share)
    assert stretch > 1 + lattice.cost


def test_the_lattice_follows_the_deviations():
    lattice, _ = publication_of(NOISE, 1.0, 0.0, ())
    expected = Lattice.of([2.0, 30.0, 0.5], dither_bits=7)
    assert lattice.spacing.tolist() == expected.spacing.tolist()
    assert lattice.fine.tolist() == expected.fine.tolist()


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_the_gauge_of_knorm_noise_has_its_mean_and_variance(scale):
    """It is a Gamma variable of shape d."""
    noise, rng = KNormNoise(LpBall(4, p=1), scale), np.random.default_rng(0)
    gauges = LpBall(4, p=1).gauge(np.array([noise.rvs(rng) for _ in range(20_000)])) / scale
    assert gauges.mean() == pytest.approx(4, abs=6 * 2 / math.sqrt(20_000))
    assert gauges.var() == pytest.approx(4, rel=0.1)


def test_maps_magnify_the_granularity():
    """By the absolute terms of a row over the deviation of its image (Lemma 3)."""
    usual = 2.0**-42
    assert KNormNoise(LpBall(50, p=1.5), 1.0).granularity == usual
    assert KNormNoise(MappedBall(LpBall(2), [1e9, 1.0]), 1.0).granularity == usual
    cancels = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-3]])
    inner = math.sqrt(LpBall(2).variance()[0])
    outer = np.sqrt(np.diagonal(MappedBall(LpBall(2), cancels).covariance()))
    expected = (usual + 4 * 2.0**-50) * np.max(np.abs(cancels) @ [inner, inner] / outer)
    assert KNormNoise(MappedBall(LpBall(2), cancels), 1.0).granularity == pytest.approx(expected)
    sheared = ShearedBall(LpBall(2, weights=(1.0, 1e3)), [0.0, 5.0])
    own, image = (np.sqrt(ball.variance()) for ball in (sheared.ball, sheared))
    expected = (usual + 4 * 2.0**-50) * max(1.0, (own[1] + 5 * own[0]) / image[1])
    assert KNormNoise(sheared, 1.0).granularity == pytest.approx(expected)


def test_sums_of_many_terms_round_as_often():
    points = np.vstack([np.eye(64), np.full((1, 64), 0.5)])
    assert KNormNoise(Hull.from_points(points), 1.0).granularity == 64**2 * 2.0**-50
    factor = np.eye(200) + 0.01
    assert GaussianNoise(200, factor).granularity == 2.0**-48 * 200**1.5
    assert GaussianNoise(3, np.eye(3)).granularity == 2.0**-42


def test_a_product_has_the_granularity_of_its_worst_part():
    similar = MappedBall(LpBall(2), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-3]]))
    cancels = MappedBall(similar, np.array([[1.0, -1.0], [0.0, 1.0]]))
    part = KNormNoise(cancels, 1.0).granularity
    assert part > 100 * 2.0**-42
    for balls in ([cancels, LpBall(3)], [LpBall(3), cancels]):
        assert KNormNoise(ProductBall(balls), 1.0).granularity >= part


@pytest.mark.parametrize("times", [1, 3])
def test_delta_is_that_of_the_worse_order(times):
    """Of a pair whose orders differ by a factor of 100."""
    loss = FiniteLoss.between([0.5, 0.499, 0.001], [0.5, 0.4, 0.1])
    one, other = (math.exp(own.log_delta(2.0)) for own in (loss, loss.reversed()))
    assert max(one, other) > 50 * min(one, other)
    for order in (loss, loss.reversed()):
        found = delta_above(((order, times),), 2.0)
        assert found >= max(one, other) * (1 - 1e-9)
