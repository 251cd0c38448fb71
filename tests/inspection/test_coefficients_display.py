"""Pictures of coefficients: the points are the model's, the bands those of its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPLinearRegression, DPLogisticRegression
from skdp.inspection import CoefficientDisplay

pytest.importorskip("matplotlib")

show = CoefficientDisplay.from_estimator


@pytest.fixture(scope="module")
def model(pay_domain, people):
    rng = np.random.default_rng(3)
    pay = 0.3 * people.age + rng.normal(size=len(people))
    return DPLinearRegression(epsilon=10.0, domain=pay_domain, random_state=0).fit(people, pay)


def words(shown: CoefficientDisplay) -> list[str]:
    labels: Any = shown.ax_.get_yticklabels()
    return [label.get_text() for label in labels]


def ends(shown: CoefficientDisplay) -> Any:
    """Left and right end of each band, (n, 2)."""
    return np.array(shown.bands_.get_segments())[:, :, 0]


def test_points_are_the_coefficients_by_name(model, pay_domain):
    """From the top down, in the order of the encoded columns."""
    shown = show(model)
    np.testing.assert_array_equal(shown.points_.get_xdata(), model.coef_)
    np.testing.assert_array_equal(shown.points_.get_ydata(), range(5))
    assert words(shown) == list(pay_domain.encoded_names())
    bottom, top = shown.ax_.get_ylim()
    assert bottom > top
    assert "one unit" in shown.ax_.get_xlabel()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bands_are_those_of_a_normal_law(model, level):
    """To first order the noise in a coefficient is normal: its quantiles, times coef_std_."""
    low, high = ends(show(model, level=level)).T
    half_width = norm.ppf(0.5 + level / 2) * model.coef_std_
    np.testing.assert_allclose(low, model.coef_ - half_width)
    np.testing.assert_allclose(high, model.coef_ + half_width)
    assert f"{100 * level:g} % of the time" in show(model, level=level).ax_.get_xlabel()


def test_declared_ranges_make_columns_comparable(model, pay_domain):
    """A number's coefficient is multiplied by its range, an indicator's by 1; bands too."""
    factor = np.ones(5)
    for j, name in enumerate(pay_domain.encoded_names()):
        factor[j] = {"age": 73, "hours": 80}.get(name, 1)
    shown = show(model, unit="range")
    np.testing.assert_allclose(shown.points_.get_xdata(), model.coef_ * factor)
    np.testing.assert_allclose(
        np.diff(ends(shown))[:, 0], np.diff(ends(show(model)))[:, 0] * factor
    )
    assert "declared range" in shown.ax_.get_xlabel()


def test_no_bands_where_the_noise_is_not_known(domain, people, answers):
    """Nor words about them; in a pipeline the last step is what is drawn."""
    step = DPLogisticRegression(domain=domain.encoded, random_state=0)
    fitted = make_pipeline(domain.encoder(), step).fit(people, answers)
    shown = show(fitted, names=list("abcde"))
    assert shown.bands_ is None
    assert words(shown) == list("abcde")
    assert "band" not in shown.ax_.get_xlabel()
    np.testing.assert_array_equal(shown.points_.get_xdata(), fitted[-1].coef_[0])


def test_one_label_of_several():
    """By its name; without one the error says which there are."""
    domain = Domain.box([0, 0], [1, 1], target=[10, 20, 30])
    X, y = domain.sample(300, random_state=0, with_target=True)
    fitted = DPLogisticRegression(domain=domain, random_state=0).fit(X, y)
    np.testing.assert_array_equal(show(fitted, label=20).points_.get_xdata(), fitted.coef_[1])
    with pytest.raises(ValueError, match=r"label must be one of \[10, 20, 30\]"):
        show(fitted)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"unit": "inch"}, "unit must be one of"),
        ({"level": 1.0}, "level must be a number in"),
        ({"most": 0}, "most must be an integer"),
        ({"names": ["a"]}, "names must have 5 entries"),
    ],
)
def test_wrong_parameters_are_named(model, options, rule):
    with pytest.raises(ValueError, match=rule):
        show(model, **options)


@pytest.fixture(scope="module")
def inferred(pay_domain, people):
    rng = np.random.default_rng(3)
    pay = 0.3 * people.age + rng.normal(size=len(people))
    fitted = DPLinearRegression(epsilon=50.0, domain=pay_domain, mechanism="matrix", random_state=0)
    fitted.fit(people, pay)
    return fitted, fitted.infer()


def test_an_inference_gives_its_estimates_and_intervals(inferred):
    """Which are not those of coef_, as that is shrunk."""
    model, table = inferred
    shown, slopes = show(model, inference=table, level=0.9), table.conf_int(level=0.9)[1:]
    np.testing.assert_allclose(shown.points_.get_xdata(), table.coef[1:])
    np.testing.assert_allclose(ends(shown), slopes)
    assert "band: 90 % confidence interval" in shown.ax_.get_xlabel()
    np.testing.assert_allclose(show(model).points_.get_xdata(), model.coef_)
    scaled = show(model, inference=table, unit="range", level=0.9)
    factor = scaled.points_.get_xdata() / table.coef[1:]
    np.testing.assert_allclose(ends(scaled), slopes * factor[:, None])
    assert len(ends(show(model, inference=table, most=2))) == 2


def test_an_inference_must_have_the_columns_of_the_model(inferred):
    other = Domain({"x": (0, 1)}, target=(0, 1))
    X, y = other.sample(50, random_state=0, with_target=True)
    table = DPLinearRegression(domain=other, mechanism="matrix").fit(X, y).infer()
    with pytest.raises(ValueError, match="inference must be of the columns of the model"):
        show(inferred[0], inference=table)


def test_the_first_of_two_labels_has_the_intervals_of_the_second_with_the_other_sign(inferred):
    """Also the order of the ends."""
    model, table = inferred

    class Two:
        coef_ = model.coef_[None]
        classes_ = np.array(["no", "yes"])
        _design = model._design

    second = ends(show(Two(), inference=table))
    first = ends(show(Two(), inference=table, label="no"))
    np.testing.assert_allclose(first, -second[:, ::-1])
    assert (first[:, 0] <= first[:, 1]).all()
