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

UNCHARGED = "No budget was spent and no noise was drawn."
NAN, INF = float("nan"), float("inf")
X, Y = np.linspace(-1, 1, 60).reshape(20, 3), np.array([0, 1] * 10)
BOTH = pytest.mark.parametrize(
    "estimator", [DPCoordinateDescentClassifier, DPCoordinateDescentRegressor]
)

# Parameter, bad values, and what the error must say.
PARAMETERS = [
    (
        "penalty",
        ["L1", "", 0, False, ["l1"]],
        "penalty must be one of .*'elasticnet'.* None stands",
    ),
    (
        "alpha",
        [-1, NAN, INF, 1e31, "x", None],
        r'alpha must be a number in \[0, 1e\+30\].*"auto"',
    ),
    ("l1_ratio", [-0.1, 1.1, NAN, "auto", None], r"l1_ratio must be a number in \[0, 1\]"),
    ("n_passes", [0, -1, 1.5, NAN, INF, "x", None, True], 'n_passes must be a whole.*"auto"'),
    (
        "step_size",
        [0, -1, NAN, 1e31, "x", None],
        r'step_size must be .*\[1e-30, 1e\+30\].*"auto"',
    ),
    (
        "clip",
        [0, -1, NAN, 1e31, "none", True],
        r'clip must be .*\[1e-30, 1e\+30\].*None.*"auto"',
    ),
    ("order", ["greed", None, 1], "order must be one of .*'cyclic', 'greedy', 'random'"),
    ("average", ["no", None, 0, 1], "average must be True or False"),
    (
        "scaling_share",
        [-0.1, 1, NAN, 1e-31, "x", None, True],
        r'scaling_share must be .*\[1e-06, 1\).*0 uses the bounds.*"auto"',
    ),
    ("verbose", [-1, 0.5, "yes", None], "verbose must be a whole number >= 0"),
    ("callback", [1, "print", [print]], "callback must be None or a function of a Progress"),
    ("mechanism", ["gauss", "L1", "", "l2", "hull"], "must be one of .*'flipped_huber'.*'laplace'"),
    ("mechanism", [None, 3, object(), Laplace], "mechanism must have the members of a law"),
]
ZEROS = np.zeros(3)
STARTS = {
    "too few": (np.zeros(2), 0.0),
    "too many": (np.zeros(4), 0.0),
    "two models": (np.zeros((2, 3)), np.zeros(2)),
    "no pair": (ZEROS,),
    "three parts": (ZEROS, 0.0, 0.0),
    "a number": 0,
    "a word": "zeros",
    "words": (["a", "b", "c"], 0.0),
    "a dict": ({}, 0.0),
    "complex": (ZEROS, 1j),
    "no intercept": (ZEROS, None),
    "NaN": (np.array([0, NAN, 0]), 0.0),
    "inf": (ZEROS, INF),
    "farther than any model": (ZEROS, 2.0**21),
    "beyond floats": (np.full(3, 1e308), 1e308),
}


def refuses(estimator, parameters, text, X=X, y=Y):
    """``fit`` raises ValueError with the note, and leaves the ledger alone."""
    ledger = Ledger(10.0, 1e-3)
    given = {"ledger": ledger} | parameters
    if estimator is DPCoordinateDescentClassifier:
        given = {"classes": [0, 1]} | given
    model = estimator(**given)
    with pytest.raises(ValueError, match=f"(?s){text}") as caught:
        model.fit(X, y)
    assert caught.value.__notes__ == [UNCHARGED]
    assert ledger.entries == ()
    assert not hasattr(model, "coef_")


@BOTH
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        # By number: the text of some objects is their address, and differs between processes.
        pytest.param(name, value, text, id=f"{name}-{row}-{k}")
        for row, (name, values, text) in enumerate(PARAMETERS)
        for k, value in enumerate(values)
    ],
)
def test_bad_parameters_are_named_before_anything_is_spent(estimator, name, value, text):
    refuses(estimator, {name: value}, text)


@BOTH
@pytest.mark.parametrize("name", STARTS)
def test_bad_starts_are_refused_before_anything_is_spent(estimator, name):
    refuses(estimator, {"start": STARTS[name]}, "start must be None or a pair.*one row per model")


@BOTH
@pytest.mark.parametrize("share", ["auto", 0, 0.3])
def test_bad_cells_are_found_before_anything_is_spent(estimator, share):
    """Also by a fit without a scaling stage."""
    cells = X.copy()
    cells[-1, 1] = NAN
    refuses(estimator, {"scaling_share": share}, "column 1 must hold finite numbers", cells)


@BOTH
@pytest.mark.parametrize("law", ["gaussian", Gaussian(), "flipped_huber", "subbotin"], ids=str)
def test_laws_of_unbounded_loss_ask_for_a_delta(law, estimator):
    refuses(estimator, {"mechanism": law}, r"delta must be > 0.*Give 1e-6")


@BOTH
def test_an_exhausted_ledger_is_not_overdrawn(estimator):
    refuses(estimator, {"epsilon": 11.0}, r"asks for epsilon=11\.0.*left epsilon=10\.0")


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
