"""Replay of fits: random cases, pairs that spend all of epsilon, deltas, and the one door."""

import ast
import itertools
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from inner_package import compiled_module

import skdp
from examples.benchmarks.upkeep import replay as cases
from skdp import Domain, Guarantee, estimate_domain
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate, release
from skdp.model_selection import PrivateSearchCV
from skdp.noise import Laplace
from skdp.testing import replay
from skdp.trusted import NoisySum

# Random fits


SLOW = [
    pytest.param(range(k, k + 150), marks=pytest.mark.slow("hundreds of fits"))
    for k in (1000, 1150)
]


@pytest.mark.parametrize("numbers", [range(28), *SLOW], ids=str)
def test_random_fits_and_neighbours_have_no_violations(numbers):
    found = []
    sums = cases.run(numbers, log=found.append)
    assert all(own.refused < max(own.cases, 3) for own in sums.values())
    assert sum(own.published for own in sums.values()) > len(numbers)
    assert found == []


# Pairs that spend all of epsilon


def of_sums(kind, target, n_public=None, **given):
    """Return an estimator and two tables: one has one record more, at a corner."""
    is_classifier = isinstance(target, list)
    X = np.array([[-0.6], [0.6], [0.0], [0.0]] * 3)
    y = np.zeros(12, int) if is_classifier else X[:, 0]
    domain = Domain.unit_box(1, target=target)
    model = kind(domain=domain, neighbors="add_remove", n_public=n_public, **given)
    return model, (np.append(X, [[1.0]], axis=0), np.append(y, 1)), (X, y), cases.without_noise


def of_minimiser(kind, target, label, predictor):
    """Return a record whose predictor is chosen, far out in the direction of its gradient.

    The other records have a slope of one sign and no curvature there. The linear term that they
    need points to the gradient of the record more, whose row has the greatest leverage.
    """
    domain = Domain.unit_box(2, target=target)
    facts = {"fit_intercept": False, "scaling_share": 0, "regularization": 0.0}
    model = kind(domain=domain, neighbors="add_remove", mechanism="linf", **facts)
    X, y = np.array([[1.0, 0.0]] * 9), np.zeros(9)
    point = np.array([3000.0 + predictor, -3000.0])
    pair = (np.append(X, [[1.0, 1.0]], axis=0), np.append(y, label)), (X, y)
    return model, *pair, lambda entry: point


WITNESSES = {
    "DPLogisticRegression": lambda kind: of_minimiser(kind, [0, 1], 1, -0.186),
    "DPHuberRegressor": lambda kind: of_minimiser(kind, (-1, 1), 0.0, -0.144),
    # The mean is half of the cap, where the link is steepest.
    "DPPoissonRegressor": lambda kind: of_minimiser(kind, (0, 1), 0.652, 0.693),
    "DPLinearRegression": lambda kind: of_sums(kind, (-1, 1)),
    "DPCoordinateDescentClassifier": lambda kind: of_sums(
        kind, [0, 1], scaling_share=0, start=([[0.0]], [-1000.0])
    ),
    "DPCoordinateDescentRegressor": lambda kind: of_sums(kind, (-1, 1)),
}


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_spends_nearly_all_of_epsilon(name):
    """The bounds of the proofs are reached: neither replay nor the noise has slack."""
    model, table, neighbour, choose = WITNESSES[name](getattr(skdp, name))
    found = replay(model, table, neighbour, choose=choose).check()
    assert 0.999 <= found.loss <= found.epsilon == 1.0


def of_classes(clip):
    """Return a record more that is certain to be of another class: Theorem 8 of the descent."""
    start = np.zeros((3, 1)), np.array([1000.0, 0.0, -1000.0])
    model = skdp.DPCoordinateDescentClassifier(
        domain=Domain.unit_box(1, target=[0, 1, 2]), neighbors="add_remove", start=start, clip=clip
    )
    X, y = np.array([[-0.6], [0.6], [0.0]]), np.array([0, 1, 2])
    model.set_params(step_size=1e-9)
    return model, (np.append(X, [[1.0]], axis=0), np.append(y, 1)), (X, y), None


@pytest.mark.parametrize(
    "pair",
    [
        of_sums(skdp.DPCoordinateDescentRegressor, (-1, 1), n_passes=20),
        *map(of_classes, ("auto", None)),
    ],
    ids=["regression", "clipped", "not clipped"],
)
def test_gaussian_gradients_change_as_much_as_they_may(pair):
    model, *tables, choose = pair
    model.set_params(mechanism="gaussian", delta=1e-6, scaling_share=0)
    found = replay(model, *tables, choose=choose).check()
    assert found.delta == 1e-6
    assert found.changes["gradients"] == pytest.approx(1.0, rel=1e-4)


def test_a_replaced_person_may_change_each_of_two_steps_as_much_as_it_may():
    """With a cap above 1 a person is removed and another one is added, with half of epsilon each.

    The changes of the steps are at most 1, and that of the replacement, their difference, is 2.
    """
    domain = Domain.unit_box(1, target=(-1, 1))
    facts = {"domain": domain, "rows_per_person": 3, "mechanism": "linf", "fit_intercept": False}
    X, y, persons = np.ones((8, 1)), np.ones(8), np.arange(8) // 4
    there, before, after = np.arange(8) < 4, (X, y, persons), (X, -y, persons)
    after = X, np.where(there, y, -y), persons
    between = X[there], y[there], persons[there]
    before, between, after = (
        dict(zip(("X", "y", "groups"), own, strict=True)) for own in (before, between, after)
    )
    whole = replay(skdp.DPLinearRegression(**facts), before, after, choose=cases.without_noise)
    assert whole.check().changes["moments"] == pytest.approx(2.0)
    assert 0.99 <= whole.loss <= 1.0
    step = skdp.DPLinearRegression(**facts, epsilon=0.5, neighbors="add_remove", n_public=2)
    for pair in ((before, between), (between, after)):
        found = replay(step, *pair, choose=cases.without_noise).check()
        assert found.changes["moments"] == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_release_of_an_inference_is_seen(epsilon, delta):
    """For persons of two rows, of a regression and of labels, at a public model."""
    domain = Domain({"p": (0, 2), "q": ["a", "b"]}, (0.0, 2.0))
    X, y = domain.sample(80, random_state=0, with_target=True)
    persons, others = np.arange(80) // 2, np.arange(80) // 2
    other = X.assign(p=X["p"].where(persons != 7, 9.0))
    for name in (*cases.CLASSIFIERS, *cases.REGRESSORS):
        labels = name in cases.CLASSIFIERS
        own = Domain({"p": (0, 2), "q": ["a", "b"]}, ["no", "yes"]) if labels else domain
        target = np.where(y > 1, "yes", "no") if labels else y
        public = getattr(skdp, name)(domain=own).fit(X, target, groups=persons)
        pair = [{"X": x, "y": target, "groups": ids} for x, ids in ((X, persons), (other, others))]
        found = replay(partial(public.infer, epsilon=epsilon, delta=delta), *pair).check()
        first = {"scales", "sizes", "limits", "coordinates", "scores", "curvatures"}
        assert first | {"numerators", "denominators", "squares"} == {*found.losses}
        assert (found.epsilon, found.delta <= delta) == (epsilon, True)


# Deltas


def profile(model, table, neighbour, seeds):
    """Return delta at epsilon estimated from records, and the standard error."""
    found = [replay(model, table, neighbour, seed=seed).check() for seed in seeds]
    losses = np.array([sum(low for low, _ in own.losses.values()) for own in found])
    over = np.maximum(-np.expm1(found[0].epsilon - losses), 0.0)
    return over.mean(), over.std() / math.sqrt(len(over)), found[0].delta


def test_delta_is_that_of_the_losses():
    """The mean of (1 - e^(epsilon - L))_+ is at most delta, and reaches a third of it."""
    y = np.array([-1.0, 0.5, 1.0])
    facts = {"mechanism": "gaussian", "epsilon": 0.1, "delta": 0.1}
    model = skdp.DPLinearRegression(domain=Domain.unit_box(1, target=(-1, 1)), **facts)
    X = np.zeros((3, 1))
    found, error, delta = profile(model, (X, y), (X, np.array([1.0, 0.5, 1.0])), range(150))
    # The mean is exceeded by 5 standard errors once in three million runs.
    assert found - 5 * error <= delta
    assert found > delta / 3


# Tables without records


@pytest.mark.parametrize("source", cases.SOURCES)
@pytest.mark.parametrize("name", cases.ESTIMATORS)
def test_a_table_without_records_is_fitted_where_their_number_is_private(name, source, tmp_path):
    """An error would tell it from a table with one record."""
    target = ["no", "yes"] if name in cases.CLASSIFIERS else (0.0, 1.0)
    declared = cases.Declared({"p": (0, 1), "q": ["a", "b"]}, target, None)
    table = cases.records(np.random.default_rng(0), declared, 1, False).assign(person=0, weight=1.0)
    weights = {"class_weight": {"no": 0.5}} if name in cases.CLASSIFIERS else {}
    model = getattr(skdp, name)(
        domain=Domain(declared.columns, target), neighbors="add_remove", **weights
    )
    for named in ({}, {"groups": "person"}, {"sample_weight": "weight"}):
        pair = [
            cases.call(own, source, named, tmp_path / f"{len(own)}{[*named]}")
            for own in (table, table[:0])
        ]
        model.set_params(max_weight=1.0 if "sample_weight" in named else None)
        assert replay(model, *pair).check().n_published


@pytest.fixture(params=[False, True], ids=["arrays", "compiled"])
def _sums(request, monkeypatch):
    """Sums by numpy, or by compiled functions, which large tables load for the whole process."""
    found = pytest.importorskip("skdp._kernels") if request.param else None
    monkeypatch.setattr(compiled_module, "_KERNELS", [found])


@pytest.mark.usefixtures("_sums")
@pytest.mark.parametrize("name", cases.ESTIMATORS)
def test_a_table_of_numbers_without_records_is_fitted(name):
    """With an intercept and without one, in the units of the domain and in estimated ones."""
    is_classifier = name in cases.CLASSIFIERS
    domain = Domain({"p": (0, 1)}, ["no", "yes"] if is_classifier else (0.0, 1.0))
    X, y = pd.DataFrame({"p": [0.3]}), np.array(["yes"] if is_classifier else [0.7])
    for intercept, share in itertools.product((True, False), ("auto", 0)):
        facts = {} if name == "DPLinearRegression" else {"scaling_share": share}
        model = getattr(skdp, name)(
            domain=domain, neighbors="add_remove", fit_intercept=intercept, **facts
        )
        assert replay(model, (X, y), (X[:0], y[:0])).check().n_published


@pytest.mark.usefixtures("_sums")
@pytest.mark.parametrize("n", range(4))
def test_a_part_of_a_search_may_have_no_records(n):
    """Nor may an error tell that a part, one of which each record is drawn for, is empty."""
    domain = Domain({"p": (0, 1)}, (0.0, 1.0))
    X, y = domain.sample(n + 1, random_state=0, with_target=True)
    model = skdp.DPLinearRegression(domain=domain, neighbors="add_remove")
    search = PrivateSearchCV(model, {"fit_intercept": [True, False]})
    assert replay(search, (X, y), (X[:n], y[:n])).check().n_published
    bounds = partial(estimate_domain, columns={"p": "bounds"}, epsilon=1.0, neighbors="add_remove")
    assert replay(bounds, (X,), (X[:n],)).check().n_published


# Own estimators


class Means:
    """A user's own estimator: means of numbers in [0, 1], of a public number of records."""

    def __init__(self, clips=True, random_state=None):
        self.clips, self.random_state = clips, random_state

    def fit(self, X):
        n, columns = X.shape
        change = Sensitivity(LpBall(columns, p=math.inf), 1.0)
        noise = calibrate("linf", change, epsilon=1.0)
        sums = (X.clip(0, 1) if self.clips else X).sum(axis=0)
        self.means_ = release(NoisySum("sums", change, noise), sums, self.random_state) / n
        self.guarantee_ = noise.guarantee
        return self


def test_an_own_estimator_is_replayed():
    X = np.full((8, 2), 0.5)
    other = X.copy()
    X[0], other[0] = 0.0, 1.0
    found = replay(Means(), (X,), (other,), choose=cases.without_noise).check()
    assert found.loss == pytest.approx(1.0)
    other[0] = 3.0
    replay(Means(), (X,), (other,)).check()
    found = replay(Means(clips=False), (X,), (other,))
    assert found.violations[0] == "change: sums changes by 3 of what its release allows"
    with pytest.raises(AssertionError, match="sums changes by 3"):
        found.check()


@dataclass
class Twice:
    """It spends its epsilon twice, on noise that is not named."""

    random_state: object = None

    def fit(self, y):
        law = Laplace(2.0)
        self.sums_ = [law.release([float(y.sum())], self.random_state) for _ in range(2)]
        self.guarantee_ = Guarantee(0.5)
        return self


def test_what_is_spent_twice_is_found():
    y = np.zeros(5)
    other = np.append(y[1:], 1.0)
    found = replay(Twice(), {"y": y}, {"y": other}, choose=cases.without_noise)
    assert found.violations == ("loss: the realised loss is 1, and epsilon is 0.5",)


# What is shown


SECRETS = ("Zebra", "Okapi", "Gnu")


@pytest.mark.parametrize("name", cases.ESTIMATORS)
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_errors_of_invalid_tables_do_not_show_what_is_wrong(name, neighbors):
    """Words in place of numbers, missing cells, other labels, and other numbers of rows."""
    kind = getattr(skdp, name)
    target = ["a", "b"] if name in cases.CLASSIFIERS else (0.0, 1.0)
    model = kind(domain=Domain({"p": (0, 1), "q": (0, 1)}, target), neighbors=neighbors)
    y = np.array(["a", "b"] * 4) if name in cases.CLASSIFIERS else np.linspace(0, 1, 8)
    X = pd.DataFrame({"p": np.linspace(0, 1, 8), "q": 0.5})

    def with_cell(row, cell):
        return X.astype(object).mask(X.index.to_series() == row, cell), y

    words = [with_cell(row, word) for row, word in zip((1, 5), SECRETS, strict=False)]
    missing = [with_cell(row, None) for row in (0, 7)]
    labels = [(X, np.append(y[1:].astype(object), word)) for word in SECRETS[:2]]
    lengths = [(X * own, y[1:]) for own in (1.0, 0.25)]
    for table, neighbour in (words, missing, labels, lengths):
        found = replay(model, table, neighbour)
        assert found.n_published == 0
        assert found.violations == ()
        assert found.error
        assert not any(word in found.error for word in SECRETS)


@pytest.mark.parametrize(("neighbors", "is_public"), [("replace_one", True), ("add_remove", False)])
def test_the_number_of_records_is_public_where_the_relation_says_so(neighbors, is_public):
    class Counts(skdp.DPLinearRegression):
        def fit(self, X, y):
            self.n_samples_ = len(X)
            return super().fit(X, y)

    domain = Domain.unit_box(1, target=(-1, 1))
    X, y = np.zeros((5, 1)), np.zeros(5)
    pair = (X, y), (X, np.eye(5)[0]) if is_public else (X[1:], y[1:])
    found = replay(Counts(domain=domain, neighbors=neighbors), *pair)
    wanted = () if is_public else ("flow: model.n_samples_ is not the same",)
    assert found.violations == wanted


def test_a_result_reads_as_a_table():
    model, *tables, choose = of_sums(skdp.DPLinearRegression, (-1, 1))
    told = str(replay(model, *tables, choose=choose))
    assert told.splitlines()[0].startswith("3 published values, loss 0.99")
    assert "  scaling: loss 0.35, change 1 of its bound" in told
    assert told.endswith("violations:\n  none")


# The one door

SAMPLERS = {
    *("rvs", "gumbels", "normals", "exponentials", "uniforms", "wishart", "gamma", "gammas"),
    *("discrete_laplace", "publish_near", "grains", "standard_normal", "laplace", "normal"),
    *("permute_and_flip", "exponential_mechanism", "bernoulli_exp", "linear_term"),
}
# Samplers that do not see data, and the mechanisms of a choice, which are drawn at the door.
APART = {
    "linear_model/_descent/solve.py": {"_passes"},  # noise of some passes, drawn before the sums
    "linear_model/_objective/theorem.py": {"linear_term"},
    "linear_model/_inference/estimate.py": {"normal_draws", "restricted"},  # of a law, with a seed
    "linear_model/_inference/release.py": {"_quotients"},
    "linear_model/_inference/outlook.py": {"population"},  # an artificial table
    "model_selection/_theorem.py": {"permute_and_flip", "exponential_mechanism"},
}
ROOMS = ("linear_model", "bounds", "model_selection", "rows")


def draws(path):
    """Yield the functions of a file in which a sampler is called, the innermost ones."""

    def walk(node, function):
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Call):
                called = child.func
                name = getattr(called, "attr", getattr(called, "id", ""))
                if name in SAMPLERS:
                    yield function
            yield from walk(child, inner)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


def test_samplers_meet_data_at_the_door_only():
    """Draws are made in functions named draw, which are given to ``publish``, or without data."""
    root, found = Path(skdp.__file__).parent, {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            own = {*draws(path)} - {"draw"}
            if own:
                found[path.relative_to(root).as_posix()] = own
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            bodies = [own.body for own in nodes if isinstance(own, ast.FunctionDef)]
            inner = [getattr(own, "name", "") for body in bodies for own in body]
            called = [getattr(own.func, "id", "") for own in nodes if isinstance(own, ast.Call)]
            assert inner.count("draw") <= called.count("publish"), f"{path}: a draw is lost"
    assert {name: own - APART.get(name, set()) for name, own in found.items()} == {
        name: set() for name in APART
    }
