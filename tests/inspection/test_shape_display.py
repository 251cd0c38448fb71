"""Pictures of the effects of columns: curves, lines and bars of the model's own terms."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression, Spline
from skdp.inspection import CoefficientDisplay, ShapeDisplay
from skdp.linear_model import from_json

plt = pytest.importorskip("matplotlib.pyplot")

show = ShapeDisplay.from_estimator
DOMAIN = Domain(
    {
        "age": Spline(20, 80, knots=3, degree=3),
        "pay": (0, 10),
        "job": ["clerk", "craft", "sales"],
        "size": Spline(0, 1, knots=(0.2, 0.5), degree=0),
    },
    target=(0, 100),
)


@pytest.fixture(scope="module")
def model():
    X, y = DOMAIN.sample(2000, random_state=0, with_target=True)
    return DPHuberRegressor(epsilon=10.0, domain=DOMAIN, random_state=0).fit(X, y)


def test_effects_are_differences_of_predictions(model):
    """Between two rows that differ in one column the prediction changes by its effect."""
    base = {"age": 40.0, "pay": 5.0, "job": "clerk", "size": 0.3}
    for shape in show(model).shapes:
        values = [shape.values[0], shape.values[-1]]
        rows = pd.DataFrame([base | {shape.name: value} for value in values])
        change = np.diff(model.predict(rows))[0]
        assert shape.effects[-1] - shape.effects[0] == pytest.approx(change, abs=1e-9)


def test_the_mean_over_the_declared_range_is_subtracted(model):
    """The integral over the range is 0, also where steps or knots are not equally long."""
    age, pay, job, size = show(model).shapes
    for shape in (age, pay, size):
        assert np.trapezoid(shape.effects, shape.values) == pytest.approx(0, abs=1e-9)
    assert abs(size.effects.mean()) > 1e-3  # of steps of unequal length
    assert job.effects.mean() == pytest.approx(0, abs=1e-9)


def test_panels_have_curves_steps_lines_and_bars(model):
    shown = show(model, n_cols=2)
    assert shown.axes_.shape == (2, 2)
    assert [ax.get_title() for ax in shown.axes_.ravel()] == ["age", "pay", "job", "size"]
    age, pay, size = (shown.axes_.ravel()[k].lines[1] for k in (0, 1, 3))
    assert age.get_xdata()[[0, -1]].tolist() == [20, 80]
    assert len(age.get_xdata()) > 100
    assert pay.get_xdata().tolist() == [0, 10]
    assert size.get_xdata().tolist() == [0, 0.2, 0.2, 0.5, 0.5, 1]
    assert (np.diff(size.get_ydata())[::2] == 0).all()
    bars = shown.axes_[1, 0].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], shown.shapes[2].effects)
    words = [label.get_text() for label in shown.axes_[1, 0].get_xticklabels()]
    assert words == ["clerk", "craft", "sales"]
    assert shown.figure_.get_supylabel() == "effect (target)"


@pytest.fixture(scope="module")
def sorts():
    """A model of three labels, of numbers and levels with indicators of missing cells."""
    columns = {"a": Spline(0, 1), "b": (0, 1), "c": ["k", "l"]}
    domain = Domain(columns, target=["x", "y", "z"], missing="indicator")
    X, y = domain.sample(600, random_state=0, with_target=True)
    return DPLogisticRegression(epsilon=10.0, domain=domain, random_state=0).fit(X, y)


def test_some_columns_and_one_of_several_labels(sorts):
    shown = show(make_pipeline(sorts), columns=["b"], label="y")
    (shape,) = shown.shapes
    change = np.diff(shape.effects) / np.diff(shape.values)
    assert change[1] == pytest.approx(sorts.coef_[1, 10])  # between the clipping bounds
    assert shown.figure_.get_supylabel() == "effect (log-odds of y)"
    assert not shown.figure_.legends
    with pytest.raises(ValueError, match="label must be one of"):
        show(sorts, label="w")
    with pytest.raises(ValueError, match="columns must be names of columns"):
        show(sorts, columns=["d"], label="y")


def test_the_effect_of_a_missing_cell_is_that_of_predictions(sorts):
    """A point to the right of the curve, a bar of the levels."""
    base = pd.DataFrame({"a": [0.0, 0.0], "b": [0.0, 0.0], "c": ["k", "k"]}, dtype=object)
    for shape in show(sorts, label="y").shapes:
        rows = base.copy()
        rows.loc[1, shape.name] = None
        change = np.diff(sorts.decision_function(rows)[:, 1])[0]
        assert shape.effects[-1] - shape.effects[0] == pytest.approx(change, abs=1e-9)
    ax = show(sorts, columns=["a"], label="y").axes_[0, 0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["missing"]
    (point,) = ax.lines[2].get_xdata()
    assert point > 1


def test_the_first_of_two_labels_has_the_opposite_effects():
    domain = Domain({"a": (0, 1)}, target=["no", "yes"])
    X, y = domain.sample(300, random_state=0, with_target=True)
    model = DPLogisticRegression(domain=domain, random_state=0).fit(X, y)
    shown = [show(model, label=label) for label in (None, "yes", "no")]
    first, second, third = (own.shapes[0].effects for own in shown)
    assert (first == second).all()
    assert (first == -third).all()
    words = [own.figure_.get_supylabel() for own in shown]
    assert words == [f"effect (log-odds of {label})" for label in ("yes", "yes", "no")]


def test_lines_are_flat_beyond_the_clipping_bounds():
    """Predictions clip there, and the mean is that of the clipped line."""
    domain = Domain({"a": (0, 1000), "b": (0, 1)}, target=[0, 1])
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(100, 200, 20_000), rng.uniform(size=20_000)])
    y = (X[:, 0] + 50 * rng.normal(size=len(X)) > 150).astype(int)
    model = DPLogisticRegression(epsilon=4.0, domain=domain, random_state=0).fit(X, y)
    lower, upper = model.bounds_[0]
    assert upper < 900  # else the test proves nothing
    shape, _ = show(model).shapes
    rows = np.column_stack([[0, lower, 150, upper, 1000], np.full(5, 0.5)])
    wanted = np.diff(model.decision_function(rows))
    drawn = np.interp(rows[:, 0], shape.values, shape.effects)
    np.testing.assert_allclose(np.diff(drawn), wanted, atol=1e-9)
    assert np.trapezoid(shape.effects, shape.values) == pytest.approx(0, abs=1e-6)


@pytest.fixture(scope="module")
def linear():
    """A model whose noise is told, with few correlations that are 0."""
    X, y = DOMAIN.sample(10_000, random_state=0, with_target=True)
    y = 40 + 15 * np.sin(X["age"] / 10) + 0.1 * (y - 50)
    return DPLinearRegression(epsilon=40.0, domain=DOMAIN, random_state=0).fit(X, y), X, y


def test_bands_are_the_spread_of_many_fits(linear, monkeypatch):
    """Stated against the spread of 60 fits with other noise, at all points of all columns.

    A standard deviation of 60 has a relative error of 9 % (kurtosis 3); 0.7 to 1.6 are allowed.
    With the covariances left out the ratios are outside.
    """
    first, X, y = linear
    monkeypatch.setattr(ShapeDisplay, "plot", lambda self, *_, **__: self)
    fits = [clone(first).set_params(random_state=seed).fit(X, y) for seed in range(60)]
    drawn = [show(fit).shapes for fit in fits]
    for own in zip(*drawn, strict=True):
        spread = np.std([shape.effects for shape in own], axis=0)
        told = np.sqrt(np.mean([shape.deviations**2 for shape in own], axis=0))
        ratio = (told / spread)[spread > 1e-9]
        assert ((ratio > 0.7) & (ratio < 1.6)).all(), (own[0].name, ratio.min(), ratio.max())


def _shapes(model: Any) -> Any:
    shown = show(model)
    plt.close(shown.figure_)
    return shown.shapes


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bands_have_the_level(linear, level):
    """Half of each is the normal quantile times the deviation: of curves, lines and bars."""
    shown = show(linear[0], level=level)
    z = norm.ppf(0.5 + level / 2)
    for ax, shape in zip(shown.axes_.ravel(), shown.shapes, strict=False):
        if shape.is_curve:
            (band,) = (own for own in ax.collections)
            x, edge = band.get_paths()[0].vertices.T
            length = np.ptp(edge[x == shape.values[0]])
            assert length == pytest.approx(2 * z * shape.deviations[0]), shape.name
        else:
            (errors,) = ax.containers[0].lines[2]
            lengths = [np.ptp(line[:, 1]) for line in errors.get_segments()]
            np.testing.assert_allclose(lengths, 2 * z * shape.deviations)
    assert f"{100 * level:g} % of the time" in shown.figure_.get_supxlabel()


def test_bands_without_correlations_are_wider(linear):
    """A model from a file has none: the bound holds for all correlations, and is not exceeded."""
    known, bound = _shapes(linear[0]), _shapes(from_json(linear[0].to_json()))
    for own, other in zip(known, bound, strict=True):
        np.testing.assert_array_equal(own.effects, other.effects)
        assert (other.deviations >= own.deviations * (1 - 1e-12)).all()
    one, two = linear[0].coef_std_[-4:-2]  # the levels craft and sales, less their mean
    wanted = [(one + two) / 3, (2 * one + two) / 3, (one + 2 * two) / 3]
    np.testing.assert_allclose(bound[2].deviations, wanted)
    assert (bound[2].deviations > 1.01 * known[2].deviations).any()


def test_behind_an_encoder_the_columns_are_those_of_the_user(linear):
    """The model has encoded columns: slopes and bands are divided by half the range."""
    whole, X, y = linear
    step = clone(whole).set_params(domain=DOMAIN.encoded)
    piped = make_pipeline(DOMAIN.encoder(), step).fit(X, y)
    for own, other in zip(_shapes(whole), _shapes(piped), strict=True):
        assert own.name == other.name
        np.testing.assert_array_equal(own.values, other.values)
        np.testing.assert_allclose(own.effects, other.effects, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(own.deviations, other.deviations, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="Pass the whole Pipeline"):
        show(piped[-1])


def test_the_domain_that_a_model_chose_is_drawn(model):
    """``domain_`` is that of the coefficients, where ``domain`` is what the user declared."""
    chosen = copy(model)
    chosen.domain, chosen.domain_ = Domain({"age": (20, 80)}, target=(0, 100)), model.domain
    assert [s.name for s in show(chosen).shapes] == ["age", "pay", "job", "size"]
    assert len(CoefficientDisplay.from_estimator(chosen).names) == len(model.coef_)


def test_a_model_without_declared_columns_is_refused():
    with pytest.warns(UserWarning, match="No domain"):
        model = DPHuberRegressor(random_state=0).fit(np.zeros((20, 2)), np.zeros(20))
    with pytest.raises(ValueError, match="estimator must have a domain"):
        show(model)


def test_an_interaction_has_a_heat_map():
    """Its effects are differences of predictions, too."""
    domain = DOMAIN.interact("age", "job").interact("size", "job")
    X, y = domain.sample(2000, random_state=0, with_target=True)
    model = DPHuberRegressor(epsilon=10.0, domain=domain, random_state=0).fit(X, y)
    shown = show(model, n_cols=2)
    surface, _, other = shown.shapes
    assert [own.name for own in shown.shapes] == ["age x job", "pay", "job x size"]
    assert surface.effects.shape == (129, 3) == tuple(map(len, surface.values.values()))
    assert list(other.values) == ["job", "size"]
    assert other.values["size"].tolist() == [0, 0.2, 0.2, 0.5, 0.5, 1]
    base = {"age": 20.0, "pay": 5.0, "job": "clerk", "size": 0.3}
    for k, m in ((0, 0), (40, 1), (128, 2)):
        values = {
            name: own[at] for (name, own), at in zip(surface.values.items(), (k, m), strict=True)
        }
        change = np.diff(model.predict(pd.DataFrame([base, base | values])))[0]
        own = surface.effects[k, m] - surface.effects[0, 0]
        rest = other.effects[m, 2] - other.effects[0, 3]
        assert own + rest == pytest.approx(change, abs=1e-9)
    assert surface.effects[:-1].mean() / 2 + surface.effects[1:].mean() / 2 == pytest.approx(0)
    assert other.effects[:, ::2].mean(axis=0) @ [0.2, 0.3, 0.5] == pytest.approx(0, abs=1e-9)
    heat, colors = shown.axes_.ravel()[1].child_axes
    assert heat.get_title() == "age x job"
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("age", "job")
    assert [label.get_text() for label in heat.get_yticklabels()] == ["clerk", "craft", "sales"]
    np.testing.assert_allclose(heat.collections[0].get_array(), surface.effects.T)
    assert colors.get_ylim()[1] == pytest.approx(np.abs(surface.effects).max())
    assert shown.axes_[0, 0].get_title() == "pay"
    assert len(show(model, columns=["age x job"]).shapes) == 1


@pytest.fixture(scope="module")
def inferred():
    """A model of all kinds of columns, and its inference."""
    X, _ = DOMAIN.sample(5000, random_state=0, with_target=True)
    y = 20 + X["age"].astype(float) / 2 + 10 * (X["job"] == "sales")
    model = DPLinearRegression(epsilon=1e5, domain=DOMAIN, mechanism="matrix", random_state=0)
    model.fit(X, y)
    return model, model.infer()


def test_an_inference_gives_bands_that_are_intervals(inferred):
    """Of combinations of its coefficients; the curve is that of the model."""
    model, found = inferred
    shown = show(model, inference=found, level=0.9)
    age, pay, job, _ = shown.shapes
    assert not found.is_hidden.any()
    assert "90 % confidence interval" in shown.figure_.get_supxlabel()
    assert all(own.deviations is None for own in shown.shapes)
    # A line over the range, less its mean: half of the range times the interval of the slope.
    place = found.names.index("pay")
    np.testing.assert_allclose(pay.interval[1], 5 * found.conf_int(level=0.9)[place], rtol=1e-9)
    np.testing.assert_allclose(pay.effects[1], 5 * model.coef_[place - 1], rtol=1e-9)
    # Sales, less the mean of the three levels.
    weights = np.zeros(len(found.names))
    weights[[found.names.index("job_craft"), found.names.index("job_sales")]] = -1 / 3, 2 / 3
    np.testing.assert_allclose(
        job.interval[2], found.combine([weights], level=0.9)[1][0], rtol=1e-9
    )
    assert age.interval.shape == (len(age.values), 2)
    # They are what is drawn.
    (errors,) = shown.axes_[0, 2].containers[0].lines[2]
    drawn = [line[:, 1] for line in errors.get_segments()]
    np.testing.assert_allclose(drawn, job.interval)
    x, edge = shown.axes_[0, 1].collections[0].get_paths()[0].vertices.T
    assert edge[x == 10].max() == pytest.approx(pay.interval[1].max())
