"""Weights of rows: exact sums, noise, trimming, sources, replays, errors, routing and persons."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from inner_fits import exact_gram
from public_estimators import CLASSIFIERS, COUNTS, ESTIMATORS
from sklearn.base import clone

from examples.benchmarks.upkeep import replay as cases
from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression, Ledger
from skdp.linear_model.load import from_json
from skdp.linear_model.proof import check_proof
from skdp.model_selection import PrivateSearchCV, private_score
from skdp.rows import MemoryRows, persons
from skdp.rows.persons import GRID, STEPS, WHOLE, Persons, Shares, weight_steps
from skdp.testing import replay
from skdp.trusted import certify

COLUMNS = {"a": (-1, 1), "b": (-2.0, 2.0), "c": ["u", "v", "w"]}
RELATIONS = pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
KINDS = pytest.mark.parametrize("kind", ESTIMATORS)


def survey(n=240, seed=0):
    """Rows with a target, and integer weights from 1 to 4."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"a": rng.uniform(-1, 1, n), "b": rng.uniform(-2, 2, n), "c": rng.choice(list("uvw"), n)}
    )
    y = np.clip(X["a"] + rng.normal(0, 0.3, n), -1, 1).to_numpy()
    return X, y, rng.integers(1, 5, n)


def made(kind, **settings):
    target = ["no", "yes"] if kind in CLASSIFIERS else (-1.0, 1.0)
    target = (0.0, 2.0) if kind in COUNTS else target
    facts = {"domain": Domain(COLUMNS, target=target), "random_state": 0, "epsilon": 5.0}
    return kind(**(facts | settings))


def target_for(kind, y):
    return np.where(y > 0, "yes", "no") if kind in CLASSIFIERS else y + (kind in COUNTS)


def same(one, other):
    return np.array_equal(one.coef_, other.coef_) and np.array_equal(
        one.intercept_, other.intercept_
    )


# Steps and shares


def test_fractions_with_small_denominators_are_exact_and_others_near():
    for m in range(1, 9):
        assert weight_steps(np.arange(m + 1), float(m)).tolist() == [
            GRID * j // m for j in range(m + 1)
        ]
    w = np.random.default_rng(0).uniform(0.02, 1, 10_000)
    assert weight_steps(w, 1.0) / GRID / w == pytest.approx(1, abs=0.05)
    assert len(STEPS) == 100


def test_greater_weights_are_trimmed():
    assert weight_steps([0.0, 5.0, 5.1, 1e300], 5.0).tolist() == [0, GRID, GRID, GRID]


@pytest.mark.parametrize("cap", [1, 3])
def test_shares_of_a_person_add_up_to_at_most_one_person(cap):
    rng = np.random.default_rng(1)
    ids, w = rng.integers(0, 50, 400), rng.uniform(0, 7, 400)
    codes, shares = Shares(Persons.of([ids]), cap, 5.0).members(ids, w)
    plain = Shares(Persons.of([ids]), cap).members(ids).shares
    totals = np.bincount(codes, shares)
    assert totals.max() <= WHOLE
    assert (shares <= plain).all()
    wanted = plain * np.minimum(w / 5, 1)
    assert shares[wanted > WHOLE / 50] == pytest.approx(wanted[wanted > WHOLE / 50], rel=0.09)


# Sums and objectives


def test_sums_are_those_of_repeated_rows():
    """Exactly, for weights k / 4: a row of weight 1 counts as a fourth of one."""
    rng = np.random.default_rng(2)
    X, y, k = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, 500), rng.integers(0, 5, 500)
    box = Domain.unit_box(2, target=(-1.0, 1.0))
    weighted = exact_gram(MemoryRows(box, X, y, Shares(None, most=4.0).members(None, k)))
    repeated = exact_gram(MemoryRows(box, np.repeat(X, k, axis=0), np.repeat(y, k)))
    assert (4 * weighted == repeated).all()


@KINDS
def test_fits_are_those_of_repeated_rows(kind):
    """With little noise: a fit to rows with weights k, and one to k times each row."""
    X, y, _ = survey()
    k = np.where(y * X["b"] > 0, 4, 1)
    y, again = target_for(kind, y), np.repeat(np.arange(len(X)), k)
    settings = {"epsilon": 1e8, "neighbors": "add_remove"}
    if hasattr(made(kind), "scaling_share"):
        settings["scaling_share"] = 0
    if hasattr(made(kind), "penalty"):
        settings |= {"penalty": None, "n_passes": 40}
    # The sum of the weights is a fourth of the number of the repeated rows.
    fourth, whole = {"n_public": k.sum() // 4}, {"n_public": k.sum()}
    if hasattr(made(kind), "regularization"):
        fourth["regularization"], whole["regularization"] = 1.0, 4.0
    weighted = made(kind, max_weight=4.0, **settings, **fourth).fit(X, y, sample_weight=k)
    settings |= whole
    repeated = made(kind, **settings).fit(X.iloc[again], y[again])
    plain = made(kind, **settings).fit(X, y)
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=6e-3)
    assert np.abs(plain.coef_ - repeated.coef_).max() > (
        5e-3 if "Quantile" in kind.__name__ else 1e-2
    )


# Noise


@KINDS
def test_the_noise_is_that_of_a_fit_without_weights(kind):
    """Plans under add/remove are equal; under replace-one they are those of a removal."""
    X, y, k = survey()
    y = target_for(kind, y)
    weighted = made(kind, max_weight=4, neighbors="add_remove").fit(X, y, sample_weight=k)
    plain = made(kind, neighbors="add_remove").fit(X, y)
    laws = [[(own.law, own.deviation) for own in model.releases_] for model in (weighted, plain)]
    assert laws[0] == laws[1]
    equal = made(kind, max_weight=4, neighbors="add_remove").fit(
        X, y, sample_weight=np.full(240, 4)
    )
    assert same(equal, plain)
    replaced = made(kind, max_weight=4, epsilon=5.0).fit(X, y, sample_weight=k)
    assert replaced.public_.in_two_steps
    assert (replaced.guarantee_.epsilon, replaced.guarantee_.neighbors) == (5.0, "replace_one")
    assert certify(replaced.releases_, replaced.public_).epsilon == 5.0
    removed = made(kind, max_weight=4, epsilon=2.5, neighbors="add_remove", n_public=240)
    assert same(replaced, removed.fit(X, y, sample_weight=k))


@KINDS
def test_the_guarantee_names_the_weights(kind):
    X, y, k = survey()
    model = made(kind, max_weight=4, random_state=None).fit(X, target_for(kind, y), sample_weight=k)
    assert "max_weight" in " ".join(model.guarantee_.assumptions)
    again = from_json(model.to_json())
    assert same(again, model)
    for own in (model, again):
        assert any("max_weight" in text for text in check_proof(own).guarantee.assumptions)
    plain = made(kind).fit(X, target_for(kind, y))
    assert "max_weight" not in " ".join(plain.guarantee_.assumptions)


@KINDS
def test_a_fit_trims_weights(kind):
    X, y, k = survey()
    y = target_for(kind, y)
    trimmed = made(kind, max_weight=2.0).fit(X, y, sample_weight=k)
    assert same(trimmed, made(kind, max_weight=2.0).fit(X, y, sample_weight=np.minimum(k, 2)))


# Sources


@pytest.mark.parametrize("ids", [None, "who"], ids=["rows", "persons"])
@pytest.mark.parametrize("source", ["frame", "batches", "parquet", "csv", "dask"])
def test_a_column_of_any_source_has_the_moments_of_an_array(source, ids, tmp_path):
    X, y, k = survey()
    who = None if ids is None else np.arange(240) // 3
    table = X.assign(y=y, w=k, who=np.arange(240) // 3)
    if ids is None:
        table = table.drop(columns="who")
    if source == "frame":
        data = table
    elif source == "batches":
        data = lambda: (table.iloc[at : at + 50] for at in range(0, 240, 50))  # noqa: E731
    elif source == "dask":
        data = pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=3)
    else:
        pytest.importorskip("pyarrow")
        data = tmp_path / f"rows.{source}"
        getattr(table, f"to_{source}")(data, index=False)
    model = made(DPLinearRegression, max_weight=4.0)
    expected = clone(model).fit(X, y, sample_weight=k, groups=who)
    found = model.fit(data, target="y", sample_weight="w", groups=ids)
    assert same(found, expected)
    assert found.guarantee_ == expected.guarantee_


def test_batches_of_pairs_have_the_weights_as_a_column():
    X, y, k = survey()
    table = X.assign(w=k)
    data = lambda: ((table[at : at + 50], y[at : at + 50]) for at in range(0, 240, 50))  # noqa: E731
    model = made(DPLinearRegression, max_weight=4.0)
    expected = clone(model).fit(X, y, sample_weight=k)
    assert same(model.fit(data, sample_weight="w"), expected)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_batches_give_the_model_of_memory(kind):
    X, y, k = survey()
    table = X.assign(y=target_for(kind, y), w=k)
    data = lambda: (table.iloc[at : at + 50] for at in range(0, 240, 50))  # noqa: E731
    found = made(kind, max_weight=4.0).fit(data, target="y", sample_weight="w")
    expected = made(kind, max_weight=4.0).fit(X, table["y"], sample_weight=k)
    assert found.coef_ == pytest.approx(expected.coef_, rel=1e-6, abs=1e-6)


# Replays


def neighbour_of(X, y, k, ids, neighbors):
    """The first record is left out, or has other cells and another weight."""
    if neighbors == "add_remove":
        kept = slice(1, None) if ids is None else ids != ids[0]
        return X[kept], y[kept], k[kept], None if ids is None else ids[kept]
    X, y, k = X.copy(), y.copy(), k.copy()
    X.iloc[0], y[0], k[0] = [1.0, 2.0, "w"], y[k.argmax()], 4 if k[0] < 3 else 0
    return X, y, k, ids


@pytest.mark.parametrize("ids", [None, np.arange(60) // 2], ids=["rows", "persons"])
@RELATIONS
@KINDS
def test_replays_find_nothing(kind, neighbors, ids):
    X, y, k = survey(60)
    y = target_for(kind, y)
    model = made(kind, max_weight=4.0, neighbors=neighbors)
    names = ("X", "y", "sample_weight", "groups")
    tables = [
        dict(zip(names, own, strict=True))
        for own in ((X, y, k, ids), neighbour_of(X, y, k, ids, neighbors))
    ]
    assert replay(model, *tables).check().n_published
    if kind is DPLinearRegression:
        replay(model, *tables, choose=cases.without_noise).check()


@RELATIONS
def test_replays_of_tables_and_scores_find_nothing(neighbors):
    X, y, k = survey(60)
    model = made(DPLinearRegression, max_weight=4.0, neighbors=neighbors)
    model.fit(X, y, sample_weight=k)
    names = ("X", "y", "sample_weight")
    other = neighbour_of(X, y, k, None, neighbors)[:3]
    tables = [dict(zip(names, own, strict=True)) for own in ((X, y, k), other)]
    replay(partial(model.infer, epsilon=4.0), *tables).check()
    score = partial(private_score, model, metric=["r2", "mean_absolute_error"], epsilon=2.0)
    replay(score, *tables).check()


@pytest.mark.parametrize("most", [1.0, 1.05])
def test_a_twin_with_greater_weights_is_found(most, monkeypatch):
    """One added record at a corner changes the moments by 5 % more than is stated."""
    monkeypatch.setattr(persons, "WHOLE", int(most * WHOLE))
    X = np.array([[-0.6], [0.6], [0.0], [0.0]] * 3)
    y = X[:, 0]
    box = Domain.unit_box(1, target=(-1.0, 1.0))
    model = DPLinearRegression(domain=box, neighbors="add_remove", max_weight=2.0)
    more = {"X": np.append(X, [[1.0]], axis=0), "y": np.append(y, 1.0)}
    more["sample_weight"] = np.full(13, 2.0)
    less = {"X": X, "y": y, "sample_weight": np.full(12, 2.0)}
    found = replay(model, more, less, choose=cases.without_noise)
    assert bool(found.violations) == (most > 1)


# Errors


BAD = {
    "negative": (np.array([1.0, -1.0, 1.0]), "finite numbers >= 0"),
    "nan": (np.array([1.0, np.nan, 1.0]), "finite"),
    "inf": (np.array([1.0, np.inf, 1.0]), "finite"),
    "text": (np.array(["1", "many", "3"]), "finite"),
    "few": ([1.0, 2.0], "as many entries as X"),
    "two columns": (np.ones((3, 2)), "1d array"),
    "name": ("w", "column"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_weights_are_refused_before_anything_is_spent(kind):
    weights, message = BAD[kind]
    ledger = Ledger(1.0)
    box = Domain.unit_box(1, target=[0, 1])
    model = DPLogisticRegression(domain=box, ledger=ledger, max_weight=2.0)
    with pytest.raises(ValueError, match=message) as error:
        model.fit(np.zeros((3, 1)), [0, 1, 0], sample_weight=weights)
    assert ledger.spent.epsilon == 0
    assert "many'" not in str(error.value)
    assert any("No budget was spent" in note for note in error.value.__notes__)


def test_parameters_of_weights():
    X, y, k = survey()
    with pytest.raises(ValueError, match="max_weight must be None without weights"):
        made(DPHuberRegressor, max_weight=3.0).fit(X, y)
    with pytest.raises(ValueError, match="max_weight must be a finite number > 0"):
        made(DPHuberRegressor, max_weight=-3.0).fit(X, y, sample_weight=k)
    with pytest.raises(ValueError, match="max_weight must be None for a plan"):
        made(DPHuberRegressor, max_weight=3.0).plan(1000)
    with pytest.raises(ValueError, match="max_weight must be given with sample_weight"):
        made(DPHuberRegressor).fit(X, y, sample_weight=k)
    model = made(DPLinearRegression, max_weight=4.0, mechanism="matrix", epsilon=50.0)
    model.fit(X, y, sample_weight=k)
    with pytest.raises(ValueError, match="moments of rows only"):
        model.infer()
    with pytest.raises(ValueError, match="another column than groups"):
        model.fit(lambda: iter([X.assign(y=y, w=k)]), target="y", groups="w", sample_weight="w")


@RELATIONS
def test_weights_may_all_be_zero(neighbors):
    """Whether they are is private; in memory and in batches."""
    X, y, _ = survey()
    table = X.assign(y=y, w=0.0)
    model = made(DPLinearRegression, max_weight=4.0, neighbors=neighbors)
    found = clone(model).fit(lambda: iter([table]), target="y", sample_weight="w")
    assert same(found, model.fit(X, y, sample_weight=table["w"]))


@KINDS
def test_all_weights_of_the_first_batch_may_be_zero(kind):
    """Whether they are is private: the other batches are fitted, and there is no error."""
    X, y, k = survey()
    k[:100] = 0
    table = X.assign(y=target_for(kind, y), w=k)
    model = made(kind, max_weight=4.0, neighbors="add_remove")
    names = {"target": "y", "sample_weight": "w"}
    found = clone(model).fit(lambda: iter([table[:100], table[100:]]), **names)
    expected = model.fit(table[100:], **names)
    assert found.coef_ == pytest.approx(expected.coef_, rel=1e-6)


# scikit-learn


@RELATIONS
def test_the_search_weighs_fits_and_scores(neighbors):
    X, y, k = survey(400)
    y = target_for(DPLogisticRegression, y)
    model = made(DPLogisticRegression, max_weight=4.0, neighbors=neighbors, random_state=None)
    grid = {"mechanism": ["l1", "hull"]}
    search = PrivateSearchCV(model, grid, epsilon=8.0).fit(X, y, sample_weight=k)
    assert "max_weight" in " ".join(search.guarantee_.assumptions)
    assert search.best_estimator_.public_.in_two_steps == (neighbors == "replace_one")
    for scoring in ("roc_auc", "balanced_accuracy"):
        with pytest.raises(ValueError, match="sum over records with weights"):
            PrivateSearchCV(model, grid, scoring=scoring).fit(X, y, sample_weight=k)
    with pytest.raises(ValueError, match="max_weight must be None without weights"):
        PrivateSearchCV(model, grid).fit(X, y)
    with pytest.raises(ValueError, match="leave out"):
        PrivateSearchCV(model, {"max_weight": [1.0, 2.0]}).fit(X, y, sample_weight=k)


def test_a_search_replays():
    X, y, k = survey(60)
    other = neighbour_of(X, y, k, None, "replace_one")[:3]
    names = ("X", "y", "sample_weight")
    tables = [dict(zip(names, own, strict=True)) for own in ((X, y, k), other)]
    model = made(DPHuberRegressor, max_weight=4.0)
    replay(PrivateSearchCV(model, {"regularization": [0.5, 1.0]}, epsilon=4.0), *tables).check()


# Scores


@pytest.mark.parametrize("ids", [None, np.arange(240)], ids=["rows", "persons"])
@RELATIONS
def test_private_scores_are_weighted(neighbors, ids):
    """With little noise they are those of repeated rows."""
    X, y, k = survey()
    labels, again = target_for(DPLogisticRegression, y), np.repeat(np.arange(240), k)
    facts = {"epsilon": 1e8, "neighbors": neighbors, "random_state": 0}
    for model, target in (
        (made(DPLogisticRegression).fit(X, labels), labels),
        (made(DPHuberRegressor).fit(X, y), y),
    ):
        names = [["r2", "mean_absolute_error"], ["roc_auc", "accuracy", "brier_score"]]
        names = names[target is labels]
        repeated = private_score(model, X.iloc[again], target[again], metric=names, **facts)
        weights = {"sample_weight": k, "max_weight": 4.0, "groups": ids}
        found = private_score(model, X, target, metric=names, **weights, **facts)
        assert found.value == pytest.approx(repeated.value, abs=1e-4)
        assert found.public.in_two_steps == (neighbors == "replace_one")
        plain = private_score(model, X, target, metric=names, **facts)
        assert np.abs(plain.value - repeated.value).max() > 1e-3
        with pytest.raises(ValueError, match="max_weight must be None without weights"):
            private_score(model, X, target, max_weight=4.0, epsilon=1.0, metric=names)


# The regression table


@pytest.mark.parametrize("ids", [None, np.arange(20_000)], ids=["rows", "persons"])
def test_the_table_is_that_of_weighted_least_squares(ids):
    """Estimates and robust standard errors (HC0), with little noise; persons have one row each."""
    rng = np.random.default_rng(5)
    n = 20_000
    x, u = rng.uniform(-1, 1, n), rng.normal(size=n)
    y = np.clip(x + 0.6 * (1 + np.abs(x)) * u, -4, 4)
    w = rng.integers(1, 9, n)
    domain = Domain({"x": (-1, 1)}, target=(-4.0, 4.0))
    model = DPLinearRegression(domain=domain, epsilon=100.0, max_weight=8, random_state=0)
    given = {"sample_weight": w, "groups": ids}
    table = model.fit(x[:, None], y, **given).infer(
        x[:, None], y, epsilon=2000.0, random_state=1, **given
    )
    rows = np.column_stack([np.ones(n), x])
    inverse = np.linalg.inv((rows * w[:, None]).T @ rows)
    beta = inverse @ (rows.T @ (w * y))
    scores = rows * (w * (y - rows @ beta))[:, None]
    error = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    assert table.coef == pytest.approx(beta, abs=0.3 * error.max())
    assert table.sampling_error == pytest.approx(error, rel=0.1)
