"""Curves that are declared monotone: a projection of released coefficients."""

import pickle

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import skdp
from skdp import Domain, DPLogisticRegression, Spline
from skdp.testing import replay

NAMES = [
    "DPLogisticRegression",
    "DPHuberRegressor",
    "DPLinearRegression",
    "DPCoordinateDescentClassifier",
    "DPCoordinateDescentRegressor",
]
GRID = np.linspace(-0.5, 10.5, 400)


def domain_of(monotone, is_classifier, **facts):
    spline = Spline(0, 10, **{"knots": 5, "degree": 2, "monotone": monotone} | facts)
    return Domain({"x": spline, "z": (0, 1)}, target=[0, 1] if is_classifier else (-1, 1))


def model_of(name, monotone, **facts):
    kind = getattr(skdp, name)
    spline = {key: facts.pop(key) for key in ("knots", "degree", "missing") if key in facts}
    return kind(domain=domain_of(monotone, hasattr(kind, "predict_proba"), **spline), **facts)


def data_of(model, n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n), rng.random(n)])
    signal = np.sqrt(X[:, 0] / 10) - 0.5
    if hasattr(model, "predict_proba"):
        return X, (rng.random(n) < 0.5 + signal / 2).astype(int)
    return X, signal + rng.normal(0, 0.2, n)


def curve_of(model, x=GRID):
    return model._predictor(np.column_stack([x, np.zeros(len(x))]))[:, 0]


def slack(model):
    """Values of B-splines are rounded to multiples of 2^-20."""
    return 3 * 2.0**-20 * np.ptp(np.append(0.0, model._encoded_coef)) + 1e-12


@pytest.mark.parametrize("monotone", ["increasing", "decreasing"])
@pytest.mark.parametrize("facts", [{}, {"fit_intercept": False}, {"degree": 3, "knots": (1, 2, 9)}])
@pytest.mark.parametrize("name", NAMES)
def test_the_curve_is_monotone_whatever_the_noise_is(name, facts, monotone):
    sign, bent = 1 if monotone == "increasing" else -1, 0
    # Moments with more noise are not released, and the model is then a constant.
    facts = facts | {"epsilon": 2.0 if name == "DPLinearRegression" else 0.1}
    for seed in range(2):
        model = model_of(name, monotone, random_state=seed, **facts)
        free = model_of(name, None, random_state=seed, **facts)
        data = data_of(model, n=1500)
        steps = sign * np.diff(curve_of(model.fit(*data)))
        assert steps.min() >= -slack(model)
        bent += (sign * np.diff(curve_of(free.fit(*data)))).min() < -slack(free)
    assert bent  # the noise alone would not make it so


@pytest.mark.parametrize("name", NAMES)
def test_a_curve_that_is_monotone_is_not_changed(name):
    """At a large epsilon the released coefficients are in order: bit for bit the same."""
    facts = {"epsilon": 1e4, "knots": 2, "degree": 1, "random_state": 0}
    found = [model_of(name, own, **facts) for own in ("increasing", None)]
    for model in found:
        model.fit(*data_of(model, n=20_000))
    assert found[0].coef_.tobytes() == found[1].coef_.tobytes()
    assert np.all(found[0].intercept_ == found[1].intercept_)


@pytest.mark.parametrize("with_intercept", [True, False])
@pytest.mark.parametrize("monotone", ["increasing", "decreasing"])
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_the_projection_is_the_nearest_in_weighted_squares(degree, monotone, with_intercept):
    """Beside a solver of least squares with bounds, for increments that are at least 0."""
    spline = Spline(0, 10, knots=(1, 2, 7, 8), degree=degree, monotone=monotone)
    weights = np.append(1 - spline.table.sum(axis=1).mean(), spline.table.mean(axis=0))
    sign, size = 1 if monotone == "increasing" else -1, spline.n_out + 1
    for seed in range(20):
        coef = np.random.default_rng(seed).normal(size=spline.n_out)
        found, moved = spline.ordered(coef, 5.0 if with_intercept else None)
        base = np.tril(sign * np.ones((size, size)))
        low = np.zeros(size)
        high = np.full(size, np.inf)
        low[0] = -np.inf if with_intercept else -1e-12
        high[0] = np.inf if with_intercept else 1e-12
        root = np.sqrt(weights)
        best = lsq_linear(root[:, None] * base, root * np.append(0.0, coef), (low, high), tol=1e-12)
        expected = base @ best.x
        start = moved - 5.0 if with_intercept else moved
        assert np.append(start, found + start) == pytest.approx(expected, abs=1e-5)
        if with_intercept:  # the mean over the nodes is kept
            before, after = (spline.table @ own for own in (coef, found))
            assert (after + start).mean() == pytest.approx(before.mean())


def test_a_missing_cell_keeps_its_prediction():
    facts = {"missing": "indicator", "epsilon": 10.0, "random_state": 0}
    found = [model_of("DPHuberRegressor", own, **facts) for own in ("decreasing", None)]
    for model in found:
        X, y = data_of(model)
        X[:50, 0] = np.nan
        model.fit(X, y)
    missing, inside = (curve_of(found[0], x) - curve_of(found[1], x) for x in ([np.nan], GRID))
    assert missing == pytest.approx(0)
    assert np.abs(inside).max() > 0.01


def test_files_and_copies_keep_the_curve():
    model = model_of("DPLogisticRegression", "increasing", epsilon=0.1, random_state=0)
    model.fit(*data_of(model))
    for other in (skdp.from_json(model.to_json()), pickle.loads(pickle.dumps(model))):
        assert other._encoded_coef.tobytes() == model._encoded_coef.tobytes()
        assert curve_of(other).tobytes() == curve_of(model).tobytes()
    domain = model.domain
    assert Domain.from_json(domain.to_json()) == domain != domain_of(None, True)
    assert "Spline(0, 10, knots=5, degree=2, monotone='increasing')" in repr(domain)
    # As the domain of encoded rows behind an encoder.
    rows, labels = data_of(model)
    inner = DPLogisticRegression(epsilon=0.1, domain=domain.encoded, random_state=0)
    inner.fit(domain.encode(rows), labels)
    assert inner._encoded_coef == pytest.approx(model._encoded_coef)


def test_inference_from_released_moments_is_that_of_the_free_curve():
    facts = {"epsilon": 1.0, "mechanism": "matrix", "random_state": 0}
    found = [model_of("DPLinearRegression", own, **facts) for own in ("decreasing", None)]
    tables = [model.fit(*data_of(model)).infer() for model in found]
    assert tables[0].coef.tobytes() == tables[1].coef.tobytes()
    assert not np.array_equal(found[0].coef_, found[1].coef_)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: domain_of("rising", False), "monotone must be"),
        (lambda: domain_of(True, False), "monotone must be"),
        (lambda: domain_of("increasing", False).interact("x", "z"), "not be monotone"),
        (
            lambda: DPLogisticRegression(
                domain=Domain({"x": Spline(0, 1, monotone="increasing")}, target=[0, 1, 2])
            ).fit(np.ones((9, 1)), np.arange(9) % 3),
            "no monotone curves for more than two labels",
        ),
    ],
)
def test_what_cannot_be_monotone_is_an_error(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_regressions_from_moments_are_monotone_too():
    model = model_of("DPLinearRegression", "increasing", epsilon=2.0, random_state=0)
    names = [name for name in model.domain.encoded_names() if name.startswith("x")]
    found = model.fit(*data_of(model, n=2000)).from_moments(columns=["x"])
    assert np.diff(found._encoded_coef[0], prepend=0).min() >= 0
    assert len(names) == found._encoded_coef.shape[1]


@pytest.mark.parametrize("name", NAMES[:3])
def test_the_curve_is_a_function_of_what_was_published(name):
    model = model_of(name, "increasing", epsilon=1.0)
    X, y = data_of(model, n=60)
    other = X.copy()
    other[3] = 10.0
    assert replay(model, (X, y), (other, y)).check().loss <= 1.0
