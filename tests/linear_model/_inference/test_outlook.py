"""Plans of what a budget buys, and the warning of unbounded intervals before a charge."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from inner_outlook import population

from skdp import Domain, DPLinearRegression, DPLogisticRegression, Ledger

COLUMNS = {"age": (20, 60), "race": ["a", "b", "c"]}
NUMBERS = Domain(COLUMNS, target=(0, 60))
PAIRS = (DPLinearRegression, NUMBERS), (DPLogisticRegression, Domain(COLUMNS, target=["no", "yes"]))


@pytest.mark.parametrize(("model", "domain"), PAIRS)
def test_a_plan_costs_nothing_and_repeats_itself(model, domain):
    own = model(epsilon=4.0, domain=domain, ledger=Ledger(epsilon=0.1))  # a ledger with less
    plan, again, other = (own.plan(40_000, repeats=2, random_state=k) for k in (0, 0, 1))
    assert own.ledger.entries == ()
    assert plan.names == ("intercept", "age", "race_b", "race_c")
    assert (plan.ratios > 1).all()
    assert not plan.unbounded.any()
    assert plan.error["private"] < plan.error["trivial"]
    assert re.search(rf"race_c +{plan.widths[3]:.4g}", str(plan))
    assert (plan.widths == again.widths).all()
    assert (plan.widths != other.widths).all()


@pytest.mark.parametrize(("delta", "inference"), [(0.0, 0.8), (1e-6, 0.5)])
def test_the_guarantees_are_those_of_the_calls(delta, inference):
    """A fit and an inference with these budgets have them, and the releases of both are listed."""
    model = DPLinearRegression(epsilon=2.0, delta=delta, domain=NUMBERS)
    plan = model.plan(5000, repeats=1, inference=inference)
    X, y = NUMBERS.sample(5000, random_state=0, with_target=True)
    model = DPLinearRegression(epsilon=2 * (1 - inference), delta=delta / 2, domain=NUMBERS)
    table = model.fit(X, y).infer(X, y, epsilon=2 * inference, delta=delta / 2)
    for own, found in zip(plan.guarantees, (model.guarantee_, table.guarantee), strict=True):
        assert (own.epsilon, own.delta, own.holds) == (found.epsilon, found.delta, True)
    releases = *model.releases_, *table.releases
    assert [line.name for line in plan.releases] == [own.name for own in releases]


def test_without_an_inference_the_fit_has_everything():
    model = DPLogisticRegression(epsilon=2.0, domain=Domain(COLUMNS, target=["a", "b", "c"]))
    plan, poor = (model.plan(n, repeats=3, inference=0) for n in (5000, 50))
    assert not plan.names
    assert [own.epsilon for own in plan.guarantees] == [2.0]
    assert plan.error["private"] < poor.error["private"]


def test_rows_follow_the_guesses():
    columns = {"x": (0, 100), "z": (-1, 1), "level": ["a", "b", "c"], "many": list("abcdefghi")}
    domain = Domain(columns, target=["no", "yes"], missing={"z": "middle", "level": "indicator"})
    X, y = population(domain, 50_000, {"level": [8, 1, 1]}, 0.5, 1.0, np.random.default_rng(0))
    # Five standard deviations or more.
    assert X["x"].std() == pytest.approx(100 / 8, rel=0.03)
    assert X["x"].corr(X["z"]) == pytest.approx(0.5, abs=0.02)
    assert X[["z", "level"]].isna().mean().tolist() == pytest.approx([0.1, 0.1], abs=0.01)
    assert (X["level"].dropna() == "a").mean() == pytest.approx(0.8, abs=0.01)
    assert np.mean(y == "yes") == pytest.approx(0.25, abs=1e-3)
    assert X["many"].value_counts()[["b", "i"]].to_numpy() == pytest.approx([10866, 326], abs=2)


WRONG = {
    "shares must be those of columns of levels": {"shares": {"job": [1, 2]}},
    "the shares of 'race' must be 3 numbers >= 0": {"shares": {"race": [1, -1, 2]}},
    "residual must be": {"residual": -1.0},
    "inference must be": {"inference": 1.0},
    "correlation must be": {"correlation": 1.0},
    "effects must be names": {"effects": ["wage"]},
    "shares must be a dict of columns": {"shares": "race"},
    "random_state must be an integer >= 0, got 'x'": {"random_state": "x"},
}
# Parameters of a model for which there is no plan.
UNPLANNED = {
    "a plan for several rows of a person is not available, got 3": {"rows_per_person": 3},
    r"epsilon must be a number in \[5e-10, 1e\+12\], got 1e-12": {"epsilon": 1e-12},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_guesses_are_errors(message):
    with pytest.raises(ValueError, match=message):
        DPLinearRegression(domain=NUMBERS).plan(5000, **WRONG[message])
    with pytest.raises(ValueError, match="domain must declare the columns and the target"):
        DPLinearRegression().plan(5000)
    for target in (None, (0, 1), ["n", "y"]):
        model = DPLogisticRegression(domain=Domain({"a": (0, 1)}, target=target), classes=[0, 1])
        with pytest.raises(ValueError, match="classes must be the labels of the domain for a plan"):
            model.plan(5000)


@pytest.mark.parametrize("message", UNPLANNED)
def test_models_without_a_plan_are_refused(message):
    with pytest.raises(ValueError, match=message):
        DPLinearRegression(domain=NUMBERS, **UNPLANNED[message]).plan(5000)


def drawn(n, p, rng):
    """Numbers of correlation 0.3 and a target as a plan assumes them, drawn in another way."""
    square = 0.3 + 0.7 * np.eye(p)
    X = rng.multivariate_normal(np.zeros(p), square, n).clip(-4, 4) / 4
    signs = rng.choice([-1.0, 1.0], p)
    signal = X @ signs / np.sqrt(signs @ square @ signs)
    return X, (0.8 * signal + rng.normal(0, 0.25, n)).clip(-1, 1)


def inferred(n, p, epsilon, data=None, delta=0.0, neighbors="replace_one"):
    X, y = data or drawn(n, p, np.random.default_rng(0))
    domain = Domain.unit_box(p, target=(-1.0, 1.0))
    model = DPLinearRegression(epsilon=0.2, domain=domain, neighbors=neighbors).fit(X, y)
    with warnings.catch_warnings(record=True, action="always") as seen:
        table = model.infer(X, y, epsilon=epsilon, delta=delta, random_state=0)
    return [str(own.message) for own in seen], table.is_hidden.mean()


def test_a_warning_of_public_facts_comes_before_the_charge():
    """Other records have the same one, and a private number of records has none."""
    data, ledger = (np.ones((500, 8)), np.ones(500)), Ledger(epsilon=2.0)
    model = DPLinearRegression(domain=Domain.unit_box(8, target=(-1.0, 1.0))).fit(*data)
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning) as caught:
        model.infer(*data, epsilon=0.8, ledger=ledger)
    assert ledger.entries == ()
    assert inferred(500, 8, 0.8)[0] == inferred(500, 8, 0.8, data)[0] == [str(caught.value)]
    assert inferred(500, 8, 0.8, data, neighbors="add_remove")[0] == []


@pytest.mark.parametrize(("n", "p", "epsilon"), [(300, 3, 1.0), (1000, 6, 0.5)])
def test_each_remedy_of_the_message_suffices(n, p, epsilon):
    """With it intervals are bounded, and without it most are not."""
    (text,), hidden = inferred(n, p, epsilon)
    assert hidden > 0.5
    found = re.search(r"enough: ([\d,]+) records or epsilon=([\d.]*\d)", text)
    assert inferred(int(found[1].replace(",", "")), p, epsilon) == ([], 0.0)
    assert inferred(n, p, float(found[2])) == ([], 0.0)
    assert ("delta=1e-6" in text) == (inferred(n, p, epsilon, delta=1e-6) == ([], 0.0))
