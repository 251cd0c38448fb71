"""The automatic choices: deterministic, made from public things, and sensible where it shows."""

import dataclasses

import inner_objective
import numpy as np
import pytest
from inner_fits import Design, Task
from inner_objective import Q_GRID, GaussianFamily, KNormFamily, ModelTask, choose, cluster
from inner_objective import advice_module as _rules
from inner_objective import advice_module as families

from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.geometry import LpBall
from skdp.linear_model.logistic import CANDIDATES
from skdp.linear_model.losses import PseudoHuber

MIXED = {"a": (0, 1), "b": list(range(7)), "c": (0, 9), "d": [0, 1], "e": list(range(40))}
DOMAINS = {
    "numbers": Domain.unit_box(7),
    "one": Domain.unit_box(1),
    "mixed": Domain(MIXED),
    "levels": Domain({f"c{k}": list(range(2 + k)) for k in range(6)}),
    "ball": Domain.l2_ball(5, 3.0),
}
DESIGNS = {
    f"{name} {'with' if intercept else 'without'} intercept": Design(domain, intercept)
    for name, domain in DOMAINS.items()
    for intercept in (True, False)
}
KINDS = {
    "logistic": (DPLogisticRegression._reference, CANDIDATES, None),
    "huber": (DPHuberRegressor._reference, (PseudoHuber(0.2),), 0.97),
}
# Nothing else is taken for granted where more is known.
KINDS |= {
    f"{name}, plain": (dataclasses.replace(reference, most_signal=np.inf), *rest)
    for name, (reference, *rest) in KINDS.items()
}
SIZES = [(100, 0.1), (100, 1.0), (3_000, 1.0), (100_000, 0.1), (1_000_000, 4.0)]
EACH_DESIGN = pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
EACH_KIND = pytest.mark.parametrize("kind", ["logistic", "huber"])
RELATIONS = ["replace_one", "add_remove"]


def chosen(kind, design, n, epsilon, neighbors="replace_one", ball=None, q=None):
    reference, losses, usual = KINDS[kind]
    facts = {"n": n, "size": float(n), "epsilon": epsilon, "neighbors": neighbors}
    task = ModelTask(design=design, reference=reference, **facts)
    return task, choose(task, losses, [KNormFamily(ball, usual if q is None else q)])


@EACH_KIND
@EACH_DESIGN
def test_the_same_task_gives_the_same_choice(kind, design):
    """Also for an equal design that was built anew, and when nothing is cached."""
    _, first = chosen(kind, design, 1000, 0.7)
    _rules.logistic_moments.cache_clear()
    _rules.residual_moments.cache_clear()
    _, second = chosen(kind, Design(design.domain, design.intercept), 1000, 0.7)
    assert (first.loss, first.q) == (second.loss, second.q)
    np.testing.assert_array_equal(first.ridge, second.ridge)
    assert repr(first.shape) == repr(second.shape)


def test_a_rule_is_told_nothing_private():
    """A task holds the domain, numbers of records, what was asked for, and a convention."""
    fields = {field.name for field in dataclasses.fields(Task)}
    asked = {"n_public", "epsilon", "delta", "neighbors", "are_persons"}
    assert fields == {"design", "n", "n_models"} | asked
    more = {field.name for field in dataclasses.fields(ModelTask)}
    assert more == fields | {"reference", "size", "hidden", "scaled", "n_classes", "together"}
    assert {field.name for field in dataclasses.fields(Design)} == {"domain", "intercept"}


@EACH_KIND
@EACH_DESIGN
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_ridge_holds_the_leverage_of_common_rows(kind, design, neighbors):
    """Choices are in range, and rows as full as the convention has them need no weight below 1."""
    for n, epsilon in SIZES:
        task, choice = chosen(kind, design, n, epsilon, neighbors)
        assert choice.loss in KINDS[kind][1]
        assert choice.q in Q_GRID or choice.q == 0.97
        assert choice.ridge.shape == (design.dim,) == (choice.shape.dim,)
        assert ((choice.ridge > 0) & np.isfinite(choice.ridge)).all()
        # Coordinates of one group are treated alike.
        assert all(np.ptp(choice.ridge[list(group.index)]) == 0 for group in design.groups)
        square = task.population.square
        ridge = np.array([choice.ridge[group.index[0]] for group in design.groups])
        leverage = inner_objective.greatest_leverage(choice.loss, choice.q, epsilon, neighbors)
        assert np.sum(square / ridge) <= 1.05 * leverage


@EACH_DESIGN
def test_the_weights_of_clusters_sum_to_one(design):
    """And the noise of the groups is what the ball's own covariance says."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        importance = 10.0 ** rng.uniform(-3, 3, len(design.groups))
        ball, noise = cluster(design, importance)
        d = ball.dim
        assert d == design.dim
        assert sum(getattr(ball, "weights", [1.0])) == pytest.approx(1, abs=1e-12)
        diagonal = (d + 1) * (d + 2) * np.diag(ball.covariance())
        for group, variance in zip(design.groups, noise, strict=True):
            assert diagonal[list(group.index)].mean() == pytest.approx(variance, rel=1e-9)


def test_last_bits_of_the_importance_decide_nothing():
    """Otherwise a seed would give other draws on other machines: columns often are alike."""
    design = Design(Domain({f"c{k}": ["a", "b", "c"] for k in range(12)}).encoded, True)
    rng = np.random.default_rng(2)

    def draws(importance):
        return cluster(design, importance)[0].sample(3, np.random.default_rng(0))

    for first in (1e-3, 1.0, 1e3):
        alike = np.ones(len(design.groups))
        alike[0] = first
        nearly = alike * (1 + rng.integers(-4, 5, len(alike)) * 2.0**-52)
        np.testing.assert_allclose(draws(nearly), draws(alike), rtol=1e-9)


@EACH_KIND
def test_what_the_user_fixes_is_kept(kind):
    design = DESIGNS["mixed with intercept"]
    ball = LpBall(design.dim, p=1.5)
    _, choice = chosen(kind, design, 1000, 1.0, q=0.42, ball=ball)
    assert choice.q == 0.42
    assert choice.shape is ball


def test_a_private_number_of_records_is_guessed_from_public_things():
    """100 for each dimension and unit of 1 / epsilon, whatever the task said before."""
    design = DESIGNS["mixed with intercept"]
    algorithm = DPLogisticRegression()._algorithm()
    for epsilon, expected in ((0.1, 1000.0), (1.0, 100.0), (10.0, 100.0)):
        task = Task(design, None, 1.0, neighbors="add_remove")
        assert algorithm._model_task(task, epsilon).size == pytest.approx(expected * design.dim)
        known = Task(design, None, 1.0, neighbors="add_remove", n_public=7)
        assert algorithm._model_task(known, epsilon).size == 7


@pytest.mark.parametrize("make", [DPLogisticRegression, DPHuberRegressor])
def test_a_public_size_is_used_under_add_remove_and_only_there(make):
    """A larger n_public lets the rule take less ridge; under replace-one it changes nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 4)), rng.choice([0, 1], 50)
    extra = {"classes": [0, 1]} if make is DPLogisticRegression else {}
    coefs = {
        (neighbors, n): make(neighbors=neighbors, n_public=n, random_state=0, **extra).fit(X, y)
        for neighbors in RELATIONS
        for n in (None, 50, 10**6)
    }
    same = [coefs["replace_one", n].coef_ for n in (None, 50, 10**6)]
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[0], same[2])
    assert (coefs["add_remove", 50].coef_ != coefs["add_remove", 10**6].coef_).any()


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DESIGNS)
def test_the_rough_choice_of_gaussian_noise_has_nearly_the_least_risk(name, neighbors, monkeypatch):
    """Near ties may be decided otherwise than by exact shifts; the risk does not show it."""
    reference, losses, _ = KINDS["logistic"]
    for n, epsilon, delta in [(300, 0.2, 1e-6), (5_000, 1.0, 1e-5), (10**5, 4.0, 1e-9)]:
        facts = {"n": n, "size": float(n), "epsilon": epsilon, "delta": delta}
        task = ModelTask(DESIGNS[name], reference=reference, neighbors=neighbors, **facts)
        found = choose(task, losses[::2], [GaussianFamily()])
        with monkeypatch.context() as patched:
            patched.setattr(families, "rough_shifts", exact_shifts)
            exact = choose(task, losses[::2], [GaussianFamily()])
        assert found.risk <= exact.risk * 1.003
        if (found.loss, found.q) == (exact.loss, exact.q):
            np.testing.assert_allclose(found.ridge, exact.ridge, rtol=1e-12)


def exact_shifts(loss, leverages, *asked):
    return np.array(
        [inner_objective.greatest_shift(loss, leverage, *asked) for leverage in leverages]
    )
