"""Somebody else's loss and mechanism in the estimators, with the privacy witness of the loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from exact_minimiser import greatest_ratio, law_of_numbers, noise_scale
from inner_objective import greatest_leverage

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Guarantee, Ledger

# A mechanism, which knows nothing of norm balls


@dataclass(frozen=True)
class LaplaceNoise:
    scales: np.ndarray
    guarantee: Guarantee

    def rvs(self, rng):
        return rng.laplace(scale=self.scales)

    def covariance(self):
        return np.diag(2 * self.scales**2)

    def expected_norm(self, ball):
        raise NotImplementedError


@dataclass(frozen=True)
class LaplaceInTheBox:
    """One Laplace variable per coordinate, scaled to the box around all differences."""

    def calibrate(self, sensitivity, *, epsilon, delta=0.0):
        widths = sensitivity.radius * sensitivity.ball.bounding_box()
        return LaplaceNoise(len(widths) * widths / epsilon, Guarantee(epsilon))


def data(n=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (X[:, 0] > X[:, 1]).astype(int)


def test_a_classifier_and_a_regressor_take_the_mechanism():
    """They learn, charge the ledger, and carry the mechanism's own noise."""
    X, y = data()
    ledger = Ledger(2.0)
    model = DPLogisticRegression(
        domain=Domain.unit_box(2, target=[0, 1]), mechanism=LaplaceInTheBox(), ledger=ledger
    ).fit(X, y)
    assert model.score(X, y) > 0.8
    assert isinstance(model.noise_, LaplaceNoise)
    # The box of (1, x1, x2) has half-widths 1, and a replaced record moves V by twice that.
    np.testing.assert_allclose(model.noise_.scales, 3 * 2 / (0.8 * 0.999), rtol=1e-6)
    target = X @ [0.3, -0.3]
    huber = DPHuberRegressor(mechanism=LaplaceInTheBox(), ledger=ledger).fit(X, target)
    assert huber.score(X, target) > 0.5
    assert ledger.remaining.epsilon == 0


def test_the_seeded_noise_says_that_its_guarantee_is_void():
    X, y = data(50)
    model = DPLogisticRegression(classes=[0, 1], mechanism=LaplaceInTheBox(), random_state=0)
    assert not model.fit(X, y).noise_.guarantee.holds


# A loss: one small class


@dataclass(frozen=True)
class LogCosh:
    """c^2 log cosh(r / c): slope c tanh(r / c), curvature 1 - (slope / c)^2."""

    threshold: float = 1.0
    target: ClassVar[str] = "number"

    @property
    def slope_bound(self):
        return self.threshold

    def value(self, z, y):
        r = np.abs(z - y) / self.threshold
        return self.threshold**2 * (r + np.log1p(np.exp(-2 * r)) - np.log(2))

    def slope(self, z, y):
        return self.threshold * np.tanh((z - y) / self.threshold)

    def curvature(self, z, y):
        return 1 - np.tanh((z - y) / self.threshold) ** 2

    def curvature_bound(self, low, high):
        return 1 - (np.asarray(low, dtype=float) / self.threshold) ** 2


class Loose(LogCosh):
    """The same, but a class that is no frozen dataclass of its own."""


def test_the_regressor_takes_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3))
    y = X @ [0.4, -0.2, 0.1] + 0.05 * rng.normal(size=4000)
    domain = Domain.unit_box(3, target=(-1.0, 1.0))
    model = DPHuberRegressor(loss=LogCosh(0.2), domain=domain).fit(X, y)
    assert model.score(X, y) > 0.8
    assert "LogCosh(threshold=0.2)" in model.guarantee_.mechanism
    assert not hasattr(model, "threshold_")


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_its_loss_of_privacy_stays_below_epsilon(epsilon, neighbors):
    """The same witness as for the package's own losses, and not without effect."""
    loss, q = LogCosh(0.3), 0.9
    leverage = greatest_leverage(loss, q, epsilon, neighbors)
    scale = noise_scale(loss, q, epsilon, neighbors)
    law_of = law_of_numbers(loss, scale=scale, ridge=[1 / leverage])
    outputs = np.concatenate([-np.geomspace(1e-3, 50, 40), np.geomspace(1e-3, 50, 40)])
    records = [(x, y) for x in (-1.0, -0.4, 0.7, 1.0) for y in (-1.0, 0.2, 1.0)]
    worst = greatest_ratio(law_of, [(0.9, 1.0), (-0.3, 0.0)], records, outputs, neighbors)
    assert 0.3 * epsilon < worst <= epsilon


def test_a_curvature_bound_of_nan_is_refused():
    """Taken for a small one it would leave the objective without a ridge."""

    class Broken(Loose):
        def curvature_bound(self, low, high):
            return np.full_like(np.asarray(low, dtype=float), np.nan)

    with pytest.raises(ValueError, match="never NaN"):
        greatest_leverage(Broken(0.3), 0.9, 1.0, "replace_one")
