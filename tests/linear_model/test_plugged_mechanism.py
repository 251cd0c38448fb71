"""Somebody else's mechanism, which knows nothing of norm balls, in the estimators."""

from dataclasses import dataclass

import numpy as np
import pytest

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Guarantee, Ledger


@dataclass(frozen=True)
class LaplaceNoise:
    """Independent Laplace noise, ready to draw."""

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

    spread: float = 1.0
    claimed_delta: float = 0.0

    def calibrate(self, sensitivity, *, epsilon, delta=0.0):
        widths = sensitivity.radius * sensitivity.ball.bounding_box()
        scales = self.spread * len(widths) * widths / epsilon
        promised = Guarantee(epsilon / self.spread, self.claimed_delta)
        return LaplaceNoise(scales, promised)


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


@pytest.mark.parametrize(
    "mechanism", [LaplaceInTheBox(0.9), LaplaceInTheBox(1 - 5e-10), LaplaceInTheBox(1.0, 1e-6)]
)
def test_a_mechanism_that_promises_too_little_is_refused(mechanism):
    """More epsilon than asked for, or a delta: refused before the ledger is charged."""
    X, y = data(50)
    ledger = Ledger(1.0)
    model = DPLogisticRegression(classes=[0, 1], mechanism=mechanism, ledger=ledger)
    with pytest.raises(ValueError, match=r"make noise with epsilon <= .* and delta <= "):
        model.fit(X, y)
    assert ledger.entries == ()


def test_the_seeded_noise_says_that_its_guarantee_is_void():
    """The law in noise_ promises no more than the model does."""
    X, y = data(50)
    model = DPLogisticRegression(classes=[0, 1], mechanism=LaplaceInTheBox(), random_state=0)
    assert not model.fit(X, y).noise_.guarantee.holds
