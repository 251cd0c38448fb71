"""Plans of what a budget buys, and the warning of unbounded intervals before a charge."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from inner_outlook import Guesses
from scipy.stats import norm

from skdp import (
    Domain,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Ledger,
)
from skdp.trusted import certify

COLUMNS = {"age": (20, 60), "race": ["a", "b", "c"]}
NUMBERS = Domain(COLUMNS, target=(0, 60))
LABELS = Domain(COLUMNS, target=["no", "yes"])


def plan_of(model=DPLinearRegression, domain=NUMBERS, n=5000, **facts):
    parameters = {name: facts.pop(name) for name in ("epsilon", "delta") if name in facts}
    return model(domain=domain, **parameters).plan(n, repeats=3, **facts)


MODELS = DPLinearRegression, DPHuberRegressor, DPLogisticRegression, DPCoordinateDescentRegressor


@pytest.mark.parametrize("model", MODELS)
def test_every_estimator_has_a_plan(model):
    domain = LABELS if model is DPLogisticRegression else NUMBERS
    plan = plan_of(model, domain, n=40_000, epsilon=4.0)
    assert plan.names == ("intercept", "age", "race_b", "race_c")
    assert (plan.ratios > 1).all()
    assert not plan.unbounded.any()
    errors = plan.errors
    assert errors["without privacy"] < 1.05 * errors["private"] < 1.05 * errors["trivial"]
    assert "race_c" in str(plan)
    assert "<td>race_c</td>" in plan._repr_html_()


def test_a_plan_costs_nothing_and_changes_nothing():
    ledger = Ledger(epsilon=0.1)  # less than the estimator's epsilon
    model = DPLinearRegression(epsilon=3.0, domain=NUMBERS, ledger=ledger)
    plan = model.plan(3000, repeats=2)
    assert not ledger.entries
    assert model.ledger is ledger
    assert not hasattr(model, "coef_")
    assert all(own.holds for own in plan.guarantees)


def test_the_same_seed_has_the_same_plan():
    first, again, other = (plan_of(random_state=seed) for seed in (1, 1, 2))
    assert (first.widths == again.widths).all()
    assert first.errors == again.errors
    assert (first.widths != other.widths).all()


@pytest.mark.parametrize(("delta", "inference"), [(0.0, 0.8), (1e-6, 0.5)])
def test_the_guarantees_are_those_of_the_calls(delta, inference):
    """A fit and an inference with these budgets have them, and the releases of both are listed."""
    plan = plan_of(epsilon=2.0, delta=delta, inference=inference)
    X, y = NUMBERS.sample(5000, random_state=0, with_target=True)
    model = DPLinearRegression(epsilon=2 * (1 - inference), delta=delta / 2, domain=NUMBERS)
    table = model.fit(X, y).infer(X, y, epsilon=2 * inference, delta=delta / 2)
    for own, found in zip(plan.guarantees, (model.guarantee_, table.guarantee), strict=True):
        assert (own.epsilon, own.delta) == (found.epsilon, found.delta)
    names = [own.name for own in (*model.releases_, *table.releases)]
    assert [line.name for line in plan.releases] == names
    assert certify(model.releases_, model.public_).epsilon == plan.guarantees[0].epsilon


@pytest.mark.parametrize("target", [(0, 60), ["a", "b", "c"]])
def test_without_an_inference_the_fit_has_everything(target):
    model = DPLinearRegression if isinstance(target, tuple) else DPLogisticRegression
    facts = {"domain": Domain(COLUMNS, target=target), "inference": 0}
    plan, poor = (plan_of(model, epsilon=epsilon, **facts) for epsilon in (2.0, 0.01))
    assert plan.names == ()
    assert [own.epsilon for own in plan.guarantees] == [2.0]
    assert plan.errors["without privacy"] <= 1.01 * plan.errors["private"] < poor.errors["private"]


def test_rows_follow_the_guesses():
    columns = {"x": (0, 100), "z": (-1, 1), "level": ["a", "b", "c"], "many": list("abcdefghi")}
    domain = Domain(columns, target=["no", "yes"], missing={"z": "middle"})
    guesses = {"level": [8, 1, 1]}, {"x": 10.0}, 0.5, None, 0.1
    population = Guesses.of(DPLogisticRegression(domain=domain), *guesses)
    X, y, *_ = population.draw(50_000, np.random.default_rng(0))
    # Five standard deviations or more.
    assert X["x"].std() == pytest.approx(10, rel=0.03)
    assert X["z"].std() == pytest.approx(0.25, rel=0.03)
    assert X["x"].corr(X["z"]) == pytest.approx(0.5, abs=0.02)
    assert X["z"].isna().mean() == pytest.approx(0.1, abs=0.01)
    assert np.mean(y == "yes") == pytest.approx(0.1, abs=1e-3)
    assert (X["level"] == "a").mean() == pytest.approx(0.8, abs=0.01)
    counts = X["many"].value_counts()
    assert list(counts.index) == list("abcdefghi")
    assert 50 < counts["a"] / counts["i"] < 200


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"shares": {"job": [1, 2]}}, r"shares must be those of columns of levels, got \['job'\]"),
        ({"deviations": {"race": 2.0}}, "deviations must be those of columns of numbers"),
        ({"shares": {"race": [1, 2]}}, "the shares of 'race' must be 3 numbers >= 0"),
        ({"deviations": {"age": -1.0}}, "the deviation of 'age' must be"),
        ({"inference": 1.0}, "inference must be"),
        ({"correlation": 1.0}, "correlation must be"),
        ({"effects": ["wage"]}, "effects must be names"),
        ({"domain": None}, "domain must declare the columns and the target"),
    ],
)
def test_wrong_guesses_are_errors(facts, message):
    with pytest.raises(ValueError, match=message):
        plan_of(**facts)


def population(n, p, rng):
    """Numbers of correlation 0.3 and a target as a plan assumes them, drawn in another way."""
    square = 0.3 + 0.7 * np.eye(p)
    X = rng.multivariate_normal(np.zeros(p), square, n).clip(-4, 4) / 4
    signs = rng.choice([-1.0, 1.0], p)
    signal = X @ signs / np.sqrt(signs @ square @ signs)
    y = 4 * np.sqrt(1 / 9 - 1 / 16) * signal + rng.normal(0, 0.25, n)
    return X, y.clip(-1, 1)


@pytest.mark.parametrize(
    ("n", "p", "epsilon"),
    [
        (8000, 3, 2.0),
        pytest.param(30_000, 8, 2.0, marks=pytest.mark.slow("40 fits")),
        pytest.param(10_000, 4, 1.0, marks=pytest.mark.slow("40 fits")),
    ],
)
def test_widths_are_those_of_a_population_as_assumed(n, p, epsilon):
    """Medians of 20 widths differ by 6 % or so by chance."""
    domain, rng = Domain.unit_box(p, target=(-1.0, 1.0)), np.random.default_rng(1)
    plan = DPLinearRegression(epsilon=epsilon, domain=domain).plan(n)
    found = []
    for seed in range(20):
        X, y = population(n, p, rng)
        model = DPLinearRegression(epsilon=0.2 * epsilon, domain=domain, random_state=seed)
        table = model.fit(X, y).infer(X, y, epsilon=0.8 * epsilon, random_state=seed)
        found.append(np.diff(table.conf_int(), axis=1)[:, 0])
    assert np.median(found, axis=0) == pytest.approx(plan.widths, rel=0.2)
    # Least squares in the units of the user: the residuals, and a variance inflation factor.
    usual = np.linalg.inv(0.3 + 0.7 * np.eye(p))[0, 0]
    width = 2 * norm.ppf(0.975) * 0.25 * 4 * np.sqrt(usual / n)
    assert (plan.widths / plan.ratios)[1:] == pytest.approx(np.full(p, width), rel=0.1)


def warning_of(n, p, epsilon, repeats=1, **facts):
    """Return the texts of warnings, and the shares of unbounded intervals."""
    domain, rng = Domain.unit_box(p, target=(-1.0, 1.0)), np.random.default_rng(0)
    shares = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(repeats):
            X, y = population(n, p, rng)
            model = DPLinearRegression(epsilon=epsilon / 4, domain=domain).fit(X, y)
            shares.append(model.infer(X, y, epsilon=epsilon, **facts).is_hidden.mean())
    return [str(own.message) for own in seen], float(np.mean(shares))


def test_a_warning_comes_before_the_charge():
    X, y = population(500, 8, np.random.default_rng(0))
    ledger, domain = Ledger(epsilon=2.0), Domain.unit_box(8, target=(-1.0, 1.0))
    model = DPLinearRegression(epsilon=0.2, domain=domain, ledger=ledger).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Expect unbounded intervals"):
            model.infer(X, y, epsilon=0.8)
    assert [entry.epsilon for entry in ledger.entries] == [0.2]


def test_the_warning_depends_on_public_facts_only():
    """Other records have the same one, and a private number of records has none."""
    texts = []
    for value in (0.0, 1.0):
        X, y = np.full((500, 8), value), np.full(500, value)
        domain = Domain.unit_box(8, target=(-1.0, 1.0))
        for neighbors in ("replace_one", "add_remove"):
            model = DPLinearRegression(domain=domain, neighbors=neighbors).fit(X, y)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                model.infer(X, y, epsilon=0.8)
            texts.append([str(own.message) for own in seen])
    assert len(texts[0]) == 1
    assert texts == [texts[0], [], texts[0], []]


@pytest.mark.parametrize(("n", "p", "epsilon"), [(3000, 2, 1.0), (20_000, 6, 1.0), (6000, 8, 4.0)])
def test_bounded_intervals_have_no_warning(n, p, epsilon):
    texts, hidden = warning_of(n, p, epsilon)
    assert (texts, hidden) == ([], 0.0)


@pytest.mark.slow("40 inferences")
@pytest.mark.parametrize(("n", "p", "epsilon"), [(300, 3, 1.0), (3000, 12, 1.0), (1000, 6, 0.5)])
def test_each_remedy_of_the_message_suffices(n, p, epsilon):
    """With it most intervals are bounded, and without it most are not."""
    (text, *_), hidden = warning_of(n, p, epsilon, repeats=6)
    assert hidden > 0.5
    records = int(re.search(r"([\d,]+) records", text)[1].replace(",", ""))
    enough = float(re.search(r"epsilon=([\d.]*\d)", text)[1])
    remedies = [(records, p, epsilon, {}), (n, p, enough, {})]
    if "delta=1e-06" in text:
        remedies.append((n, p, epsilon, {"delta": 1e-6}))
    if "effects=" in text:
        remedies.append((n, p, epsilon, {"effects": ["x0"]}))
    if columns := re.search(r"(\d+) encoded", text):
        remedies.append((n, int(columns[1]), epsilon, {}))
    for n_, p_, epsilon_, facts in remedies:
        texts, hidden = warning_of(n_, p_, epsilon_, repeats=6, **facts)
        assert not texts
        assert hidden < 0.5, (n_, p_, epsilon_, facts)
