"""Pictures of the effects of columns: curves, lines and bars of the model's own terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Spline
from skdp.inspection import ShapeDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

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


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


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
        assert shape.effects.mean() == pytest.approx(0, abs=1e-9)


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
    assert shown.axes_[0, 0].get_ylabel() == "effect (target)"


def test_some_columns_and_one_of_several_labels():
    domain = Domain({"a": Spline(0, 1), "b": (0, 1)}, target=["x", "y", "z"])
    X, y = domain.sample(600, random_state=0, with_target=True)
    model = DPLogisticRegression(epsilon=10.0, domain=domain, random_state=0).fit(X, y)
    shown = show(make_pipeline(model), columns=["b"], label="y")
    (shape,) = shown.shapes
    assert shape.effects[1] - shape.effects[0] == pytest.approx(model.coef_[1, -1])
    assert shown.axes_[0, 0].get_ylabel() == "effect (log-odds)"
    with pytest.raises(ValueError, match="label must be one of"):
        show(model)
    with pytest.raises(ValueError, match="columns must be names of columns"):
        show(model, columns=["c"], label="y")


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
    assert surface.effects.shape == (129, 3) == tuple(map(len, surface.values))
    assert other.effects.shape == (3, 3)
    base = {"age": 20.0, "pay": 5.0, "job": "clerk", "size": 0.3}
    for k, m in ((0, 0), (40, 1), (128, 2)):
        values = {"age": surface.values[0][k], "job": surface.values[1][m]}
        change = np.diff(model.predict(pd.DataFrame([base, base | values])))[0]
        own = surface.effects[k, m] - surface.effects[0, 0]
        at = other.effects[m, 1] - other.effects[0, 1]
        assert own + at == pytest.approx(change, abs=1e-9)
    heat, colors = shown.axes_.ravel()[1].child_axes
    assert heat.get_title() == "age x job"
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("age", "job")
    assert [label.get_text() for label in heat.get_yticklabels()] == ["clerk", "craft", "sales"]
    np.testing.assert_allclose(heat.collections[0].get_array(), surface.effects.T)
    assert colors.get_ylim()[1] == pytest.approx(np.abs(surface.effects).max())
    assert shown.axes_[0, 0].get_title() == "pay"
    assert len(show(model, columns=["age x job"]).shapes) == 1
