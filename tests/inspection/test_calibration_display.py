"""A calibration curve is drawn as it was released."""

import numpy as np

from skdp import Domain, DPLogisticRegression
from skdp.inspection import CalibrationDisplay
from skdp.model_selection import private_score
from skdp.model_selection.score import EDGES


def test_points_and_bars_are_those_of_the_score():
    """At the middles of the cells; cells whose number of records is hidden have no point."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1)).clip(-3, 3)
    y = (X[:, 0] + rng.logistic(size=1000) > 0).astype(int)
    domain = Domain({"x": (-3, 3)}, target=[0, 1])
    model = DPLogisticRegression(domain=domain, random_state=0).fit(X, y)
    metrics = ["accuracy", "calibration_curve"]
    score = private_score(model, X, y, metric=metrics, epsilon=0.2, random_state=0)
    rows, display = score["calibration_curve"], CalibrationDisplay(score).plot(label="model")
    line, caps, _ = display.points_
    seen = ~np.isnan(rows.value)
    assert 0 < seen.sum() < len(seen)
    edges = np.array([0.0, *EDGES, 1.0])
    np.testing.assert_allclose(line.get_xdata(), ((edges[1:] + edges[:-1]) / 2)[seen], atol=1e-3)
    np.testing.assert_array_equal(line.get_ydata(), rows.value[seen])
    for cap, ends in zip(caps, rows.interval[seen].T, strict=True):
        np.testing.assert_allclose(cap.get_ydata(), ends)
    # A second model has another colour, and no second diagonal.
    n_lines = len(display.ax_.lines)
    second = CalibrationDisplay(score).plot(ax=display.ax_)
    assert second.points_[0].get_color() != line.get_color()
    assert len(display.ax_.lines) == n_lines + 3
