"""Parameters, mechanisms and scikit-learn's tools with private coordinate descent."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.model_selection import GridSearchCV

from skdp import DPCoordinateDescentClassifier, DPCoordinateDescentRegressor, Ledger
from skdp.mechanisms import Independent
from skdp.noise import (
    FlippedHuber,
    Gaussian,
    Laplace,
    Logistic,
    OffsetGaussian,
    Subbotin,
    TruncatedLaplace,
)
from skdp.privacy import Composition

X, Y = np.linspace(-1, 1, 60).reshape(20, 3), np.array([0, 1] * 10)
BOTH = pytest.mark.parametrize(
    "estimator", [DPCoordinateDescentClassifier, DPCoordinateDescentRegressor]
)


@BOTH
def test_good_values_at_the_ends_are_taken(estimator):
    """The twin: what is in range is fitted."""
    for parameters in (
        {"alpha": 0, "penalty": "l1", "l1_ratio": 0},
        {"alpha": 1e6, "penalty": "elasticnet", "l1_ratio": 1, "n_passes": np.int64(1)},
        {"n_passes": 2.0, "step_size": np.float32(0.5), "average": np.True_, "verbose": False},
        {"penalty": "none", "clip": np.float64(0.1), "scaling_share": 0.999, "callback": print},
        {"start": ([[0, 0, 0]], [0]), "scaling_share": 0.0},
    ):
        given = {"classes": [0, 1]} if estimator is DPCoordinateDescentClassifier else {}
        model = estimator(**given, **parameters).fit(X, Y)
        assert np.isfinite(model.coef_).all()


# Mechanisms


@dataclass(frozen=True)
class Hyperbolic:
    """Somebody else's law with nothing but the six members: density sech(x / s) / (pi s)."""

    scale: float = 1.0

    def logpdf(self, x):
        size = np.abs(x) / self.scale
        return -size - np.log1p(np.exp(-2 * size)) + math.log(2 / (math.pi * self.scale))

    def logsf(self, x):
        x = np.asarray(x, dtype=float) / self.scale
        small = np.log(2 / math.pi) + np.log(np.arctan(np.exp(-np.maximum(x, -700.0))))
        return np.where(x > 30, math.log(2 / math.pi) - x, small)

    def isf(self, q):
        q = np.asarray(q, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            return -self.scale * np.log(np.tan(np.pi / 2 * q))

    def rvs(self, size, rng):
        return self.isf(rng.uniform(size=size))

    def var(self):
        return (math.pi * self.scale / 2) ** 2

    def scaled(self, s):
        return type(self)(self.scale * s)


NAMES = {
    "laplace": Laplace,
    "logistic": Logistic,
    "gaussian": Gaussian,
    "flipped_huber": FlippedHuber,
    "subbotin": Subbotin,
    "offset_gaussian": OffsetGaussian,
    "truncated_laplace": TruncatedLaplace,
}
LAWS = [FlippedHuber(2.0, 1.0), Subbotin(1.5), Laplace(3.0), Gaussian(), Hyperbolic()]


def fitted(delta=1e-6, **parameters):
    return DPCoordinateDescentClassifier(classes=[0, 1], n_passes=3, delta=delta, **parameters).fit(
        X, Y
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_law(name):
    """Its guarantee carries what was asked, and says which noise it was."""
    model = fitted(mechanism=name)
    assert type(model.noise_.law) is NAMES[name]
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-6)
    assert NAMES[name].__name__ in model.guarantee_.mechanism
    assert model.guarantee_.losses
    assert Composition(model.guarantee_.losses).delta_at(1.0).upper <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "parameters", [{}, {"order": "greedy"}, {"clip": 0.5}, {"scaling_share": 0}], ids=str
)
def test_the_guarantee_carries_losses_that_use_delta_up(parameters, neighbors):
    """Of all steps, choices and the scaling stage: together delta, and hardly less. Never more."""
    model = fitted(
        mechanism="gaussian", neighbors=neighbors, **({"scaling_share": 0.2} | parameters)
    )
    spent = Composition(model.guarantee_.losses).delta_at(1.0)
    assert 0.98e-6 < spent.upper <= 1e-6 * (1 + 1e-9)
    assert not model.guarantee_.void_because
    for claim in ("estimated", "gradients"):
        assert (claim in model.guarantee_.mechanism) == (
            claim == "gradients" or parameters != {"scaling_share": 0}
        )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_auto_is_the_better_of_laplace_and_gaussian(delta):
    """The variance of a step's noise where all are on equal terms: shares clipped one by one."""
    common = {"delta": delta, "clip": 0.5, "scaling_share": 0}
    auto = fitted(**common).noise_.var()
    names = ["laplace"] if delta == 0 else ["laplace", "gaussian"]
    assert auto == min(fitted(mechanism=name, **common).noise_.var() for name in names)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_law_keeps_its_shape_and_is_scaled(law):
    """Also one of six members that this package has never seen, and also as `Independent`."""
    found = [fitted(mechanism=m).noise_.law for m in (law, Independent(law), law.scaled(7.0))]
    assert all(type(f) is type(law) for f in found)
    # Laws have different names for their scale: the ratio of quantiles is the shape.
    for f in found:
        assert f.isf(1e-3) / f.isf(0.1) == pytest.approx(law.isf(1e-3) / law.isf(0.1), rel=1e-6)
        assert f.var() == pytest.approx(found[0].var(), rel=1e-6)


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize(("share", "neighbors"), [(0, "replace_one"), (0.2, "add_remove")])
def test_the_law_of_the_model_is_the_law_of_the_draws(share, neighbors):
    """Every draw of a fit came from noise_.law, and there were as many as were paid for.

    The 8000 draws or more of four fits are held against a false alarm of 1e-7 by Kolmogorov and
    Smirnov's test, for which sqrt(n) D must be 2.9. The twin has 0.7 times the noise: it is off by
    sup |F(x) - F(x / 0.7)| = .075, or 6.7, and what is left, 3.8, is 7 standard deviations of it.
    """
    drawn = []

    class Spy(Hyperbolic):
        def rvs(self, size, rng):
            found = super().rvs(size, rng)
            drawn.append((self, np.array(found)))
            return found

    rng = np.random.default_rng(0)
    model = DPCoordinateDescentClassifier(
        classes=[0, 1],
        n_passes=500,
        scaling_share=share,
        neighbors=neighbors,
        mechanism=Spy(),
        delta=1e-6,
    )
    for _ in range(4):
        model.set_params(random_state=rng).fit(X, Y)
    # A law of somebody else's is checked before the fit, by many draws at once.
    laws, draws = zip(*((own, x) for own, x in drawn if x.size < 50_000), strict=True)
    assert set(laws) == {model.noise_.law}
    staged = {0: 0, 0.2: 2 * 3 + (neighbors == "add_remove")}[share]
    assert sum(part.size for part in draws) == 4 * (2000 + staged)
    assert sum(count for _, count in model.noise_.shifts) >= 2000 + staged
    values = np.concatenate([part.ravel() for part in draws])
    law = model.noise_.law

    def cdf(x):
        return np.exp(law.logsf(-x))  # even

    assert kstest(values, cdf).pvalue > 1e-7
    assert kstest(0.7 * values, cdf).pvalue < 1e-7


def test_models_of_several_labels_have_noise_of_their_own():
    """Labels 1 and 2 never occur: their models differ by the noise alone, in every coefficient."""
    model = DPCoordinateDescentClassifier(classes=[0, 1, 2], n_passes=2, random_state=0)
    model.fit(np.zeros((30, 4)), np.zeros(30))
    assert model.coef_.shape == (3, 4)
    assert (model.coef_[1] != model.coef_[2]).all()
    assert model.intercept_[1] != model.intercept_[2]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_models_of_several_labels_share_the_budget(delta):
    """K models of L passes cost what one of K L passes does: with delta = 0, K times the noise.

    With rows of the same length, or none: clipped shares.
    """
    common = {"delta": delta, "mechanism": "gaussian" if delta else "laplace", "scaling_share": 0}
    common |= {"clip": 0.5}
    parameters = {"n_passes": 4, **common}
    three = DPCoordinateDescentClassifier(classes=[0, 1, 2], **parameters).fit(X, Y)
    longer = DPCoordinateDescentClassifier(classes=[0, 1], **common, n_passes=12).fit(X, Y)
    one = DPCoordinateDescentClassifier(classes=[0, 1], **parameters).fit(X, Y)
    assert three.noise_.var() == pytest.approx(longer.noise_.var(), rel=1e-6)
    assert three.noise_.var() / one.noise_.var() == pytest.approx(3.0 if delta else 9.0, rel=1e-3)
    assert three.guarantee_.epsilon == one.guarantee_.epsilon == 1.0
    np.testing.assert_allclose(three.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(three.predict_log_proba(X)), three.predict_proba(X))


# scikit-learn's tools


def test_a_grid_search_charges_every_fit_once(people, domain, answers):
    """Over epsilon and alpha: each of four settings twice, and the best once more."""
    ledger = Ledger(100.0)
    model = DPCoordinateDescentClassifier(domain=domain, ledger=ledger, penalty="l2", n_passes=2)
    grid = {"epsilon": [0.5, 2], "alpha": ["auto", 0.01]}
    search = GridSearchCV(model, grid, cv=2).fit(people, answers)
    spent = sorted(entry.epsilon for entry in ledger.entries)
    best = search.best_params_["epsilon"]
    assert spent == sorted([0.5] * 4 + [2.0] * 4 + [float(best)])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.alpha == search.best_params_["alpha"]
