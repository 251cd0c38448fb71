"""What is public about a model is a function of public things: shown by changing the data."""

import dataclasses
import warnings

import numpy as np
import pytest
from inner_fits import Design

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, PrivacyLeakWarning
from skdp.model_selection import private_score

# The release itself, in the user's units and in those of the encoded columns.
RELEASED = {"coef_", "intercept_", "_encoded_coef", "_encoded_intercept"}
# These too if there was a scaling stage.
SCALED = {"bounds_", "_clipping"}
COLUMNS = {"age": (17, 90), "job": ["none", "clerk", "smith"], "hours": (0, 80)}


def rows(n, seed):
    """A table of n rows; the seed decides what people are like."""
    rng = np.random.default_rng(seed)
    share = (np.arange(3) == seed % 3) * 0.7 + 0.1
    low, high = 17 + 10 * (seed % 4), 90 - 5 * (seed % 3)
    cells = rng.uniform(low, high, n), rng.choice(COLUMNS["job"], n, p=share), rng.uniform(0, 99, n)
    return np.array(cells, dtype=object).T


def classifier(**parameters):
    return DPLogisticRegression(domain=Domain(COLUMNS, target=["a", "b", "c"]), **parameters)


def regressor(**parameters):
    return DPHuberRegressor(domain=Domain(COLUMNS, target=(0.0, 9.0)), **parameters)


def fitted(make, n, seed, **parameters):
    rng = np.random.default_rng(seed + 100)
    y = rng.choice(["a", "b"], n, p=[0.9, 0.1]) if make is classifier else rng.normal(seed, 3, n)
    return make(random_state=0, **parameters).fit(rows(n, seed), y)


def public(value, name=""):
    """Everything that an object holds, as nested tuples, but for what was released."""
    if isinstance(value, np.ndarray):
        return (value.shape, str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return tuple((k, public(v, k)) for k, v in sorted(value.items()) if k not in RELEASED)
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(public(item, name) for item in value)
    if callable(value):
        return value
    if dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        # Caches that were filled or not are not a difference.
        fields = getattr(value, "__dataclass_fields__", None)
        inside = {k: v for k, v in vars(value).items() if fields is None or k in fields}
        return (type(value).__name__, public(inside), repr(value))
    return value


def everything_public(model):
    """All attributes, also private ones, and what the model's methods compute without data."""
    hidden = SCALED if model.releases_[0].name == "scaling" else set()
    held = {name: value for name, value in vars(model).items() if name not in hidden}
    return public(held), repr(model), str(model.guarantee_), model.noise_.scale


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("mechanism", ["auto", "l2", "hull"])
def test_nothing_but_the_release_depends_on_the_data(make, neighbors, mechanism):
    """Other data of the same shape: all attributes are equal, and the coefficients differ."""
    parameters = {"neighbors": neighbors, "mechanism": mechanism}
    models = [fitted(make, 40, seed, **parameters) for seed in range(4)]
    for other in models[1:]:
        assert everything_public(other) == everything_public(models[0])
        assert (other.coef_ != models[0].coef_).any()


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("parameters", [{}, {"n_public": 50}, {"regularization": 0.5}])
def test_nothing_depends_on_the_number_of_records_where_it_is_private(make, parameters):
    """Under add/remove one record more, or twice as many, change the release and nothing else."""
    parameters = {**parameters, "neighbors": "add_remove"}
    models = [fitted(make, n, 0, **parameters) for n in (40, 41, 80)]
    plans = [m._plan(m._design, n, 2) for m, n in zip(models, (40, 41, 80), strict=True)]
    for model, plan in zip(models[1:], plans[1:], strict=True):
        assert everything_public(model) == everything_public(models[0])
        assert public(plan) == public(plans[0])
        # What the solver leaves open, and the lattice that hides it.
        found, expected = (own.minimisers[0] for own in (plan, plans[0]))
        assert found.tolerance == expected.tolerance
        assert found.publication == expected.publication


def test_the_comparison_sees_a_difference():
    """The twin: under replace-one the number of records is public, and is used."""
    few, many = (fitted(regressor, n, 0, neighbors="replace_one") for n in (40, 4000))
    assert everything_public(few) != everything_public(many)
    spoiled = fitted(regressor, 40, 0)
    spoiled.noise_ = dataclasses.replace(spoiled.noise_, scale=spoiled.noise_.scale * 2)
    assert everything_public(few) != everything_public(spoiled)
    counting = fitted(regressor, 40, 0)
    counting._seen = {"rows": [40]}
    assert everything_public(few) != everything_public(counting)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_guarantee_states_what_was_asked_for(make):
    for neighbors in ("replace_one", "add_remove"):
        asked = {"neighbors": neighbors, "epsilon": 0.3, "delta": 1e-6}
        model = fitted(make, 30, 0, mechanism="hull", **asked)
        guarantee = model.guarantee_
        assert guarantee.epsilon == 0.3
        assert guarantee.delta == 0.0  # stronger than what was allowed
        assert guarantee.neighbors == neighbors == model.noise_.guarantee.neighbors
        assert "objective perturbation" in guarantee.mechanism
        assert any("domain" in sentence for sentence in guarantee.assumptions)


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("seed", [0, np.int64(3), np.random.default_rng(0)])
def test_seeded_noise_makes_the_guarantee_void(make, seed):
    """It says why; with the operating system's randomness it holds."""
    X, y = rows(20, 0), ["a", "b"] * 10 if make is classifier else np.arange(20)
    seeded = make(random_state=seed).fit(X, y).guarantee_
    assert not seeded.holds
    assert "random_state" in seeded.void_because[0]
    assert "DOES NOT HOLD" in str(seeded)
    real = make().fit(X, y).guarantee_
    assert real.holds
    assert "DOES NOT HOLD" not in str(real)


@pytest.mark.parametrize("declared", ["classes", "domain", "nothing"])
def test_a_leak_is_announced_exactly_when_labels_are_inferred(declared):
    X, y = np.linspace(-1, 1, 20)[:, None], np.resize(["a", "b"], 20)
    classes = ["a", "b"] if declared == "classes" else None
    target = ["a", "b"] if declared == "domain" else None
    domain = Domain.box([-2.0], [2.0], target=target)
    model = DPLogisticRegression(domain=domain, classes=classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    # What the warning tells once, the guarantee keeps telling.
    card = " ".join(str(model.guarantee_).split())
    assert ("read from y" in card) == (declared == "nothing")
    # So do those of what uses the labels of the model.
    for own in (model.infer(X, y, epsilon=1.0), private_score(model, X, y, epsilon=1.0)):
        assert ("read from y" in str(own.guarantee.assumptions)) == (declared == "nothing")
    leaks = [w for w in caught if issubclass(w.category, PrivacyLeakWarning)]
    assert len(leaks) == len(caught) == (declared == "nothing")
    for leak in leaks:
        assert "classes=" in str(leak.message)
        assert leak.filename == __file__  # it points at the user's own line


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize("classes", [[0, 1], list(range(40))], ids=len)
@pytest.mark.parametrize("mechanism", ["auto", "gaussian"])
def test_what_hides_the_solver_leaves_delta_at_any_epsilon(mechanism, classes):
    """A share of a great epsilon would have delta shrink below all floats."""
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    domain = Domain.unit_box(2, classes)
    model = DPLogisticRegression(epsilon=1e9, delta=1e-6, mechanism=mechanism, domain=domain)
    plan = model._plan(Design(domain, True), 100, len(classes) if len(classes) > 2 else 1)
    assert plan.minimisers[0].output_epsilon * plan.minimisers[0].models <= 1
    assert model.fit(X, np.arange(100) % len(classes)).guarantee_.epsilon == 1e9


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("groups", [None, np.arange(60) // 2])
def test_the_card_says_that_rows_were_made_one_by_one(make, groups):
    """A model cannot see a step before it, such as one that scales by means of all records."""
    y = np.resize(["a", "b"], 60) if make is classifier else np.zeros(60)
    card = " ".join(str(make().fit(rows(60, 0), y, groups=groups).guarantee_).split())
    alone = "from this record alone" if groups is None else "from this person's data alone"
    assert f"{alone}, by public rules" in card
    assert "such as StandardScaler or SimpleImputer, voids the guarantee" in card
