"""Estimated bounds and levels: the guarantee by exact probabilities, usefulness, errors.

``docs/proofs/estimated_bounds.md``: Theorem 1 is checked by exact probabilities of cells of the
released counts for all pairs of neighbours from a small set, Theorem 2 by exact tails. Each check
has a twin with too little noise that it must catch.
"""

import copy
import math
import pickle
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from inner_package import OCTAVES, SHARES, CountNoise, LevelCounts, Magnitudes, Steps, counts
from scipy.sparse import csr_matrix
from scipy.stats import kstest, laplace, norm
from sklearn.pipeline import make_pipeline

import skdp
from skdp import Domain, DPLogisticRegression, Ledger, estimate_domain
from skdp.bounds.estimate import BoundsPlan, Request
from skdp.domain.domain import subset
from skdp.model_selection import PrivateSearchCV
from skdp.privacy import guarantee_of
from skdp.rows.persons import WHOLE
from skdp.trusted import NotPrivate, Public, certify
from skdp.trusted.losses import GaussianLoss
from skdp.trusted.noise import publication
from skdp.trusted.radial import RadialLoss

RNG = np.random.default_rng(0)
N = 20_000
SECRET = 12345.678

# Cells

GRIDS = [Magnitudes(1e6), Magnitudes(8.0), Steps(0.0, 1.0, 16), Steps(-128.0, -64.0, 64)]
NUMBERS = np.concatenate(
    [[0.0, -0.0, 1e308, -1e308, 5e-324], *([s * 2.0**k for s in (-1, 1)] for k in range(-60, 61))]
)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_a_record_is_in_one_cell_whatever_the_others_are(grid):
    """Counts are sums of the counts of single records, each one 1 in one cell, in order."""
    values = np.concatenate([NUMBERS, RNG.normal(0, 100, 500)])
    ones = np.ones(len(values), np.int64)
    single = np.array([counts(grid, values[k : k + 1], ones[:1]) for k in range(len(values))])
    assert single.shape == (len(values), grid.n)
    assert set(single.ravel()) == {0, 1}
    assert (single.sum(axis=1) == 1).all()
    assert (single.sum(axis=0) == counts(grid, values, ones)).all()
    assert (np.diff(grid.cells(np.sort(values))) >= 0).all()


def test_powers_of_two_are_the_upper_ends_of_their_cells():
    grid = Magnitudes(1e6)
    cells = grid.cells(np.array([1.0, 1.0001, 2.0, -1.0, 0.0, 1e6, 1e9]))
    assert (cells - OCTAVES).tolist() == [20, 21, 21, -20, 0, 40, 40]
    assert grid.ends[20] == 1.0
    assert Steps(0.0, 1.0, 4).cells(np.array([-1, 0, 0.25, 0.26, 1, 9])).tolist() == [
        0, 0, 0, 1, 3, 3,
    ]  # fmt: skip


# Theorem 1: exact probabilities of cells

RECORDS = [0.0, 1.0, -3.0, 1e9, 1e-9]
STAGES = [(0, Magnitudes(1e6)), (1, Steps(0.0, 1.0, 16)), (1, Steps(-8.0, 8.0, 64))]


def weighted(noise, grid, rows):
    """The exact counts that are released, of all columns: (columns * cells,)."""
    rows = np.asarray(rows, float).reshape(-1, len(noise.weights))
    ones = np.ones(len(rows), np.int64)
    table = [w * counts(grid, own, ones) for w, own in zip(noise.weights, rows.T, strict=True)]
    return np.concatenate(table)


def pairs_of(noise):
    """Records that replace each other, or a record and none; other records change nothing."""
    rows = list(product(RECORDS, repeat=len(noise.weights)))
    if noise.neighbors == "add_remove":
        return [*((one, []) for one in rows), *(([], one) for one in rows)]
    return [(one, two) for one in rows[:: len(rows) // 5] for two in rows]


@lru_cache
def ratio(scale, one, two):
    """Greatest log-ratio of the probabilities of a cell, half a scale wide, for two counts."""
    edges = np.concatenate([[-np.inf], np.arange(-30, 31) / 2 * scale, [np.inf]])

    def log_masses(value):
        below, above = laplace.cdf(edges, value, scale), laplace.sf(edges, value, scale)
        return np.log(np.where(edges[1:] <= value, np.diff(below), -np.diff(above)))

    return float(np.max(log_masses(one) - log_masses(two)))


def worst_ratio(scale, one, two):
    """The same for all counts together: their noise is independent."""
    moved = np.flatnonzero(one != two)
    return sum(ratio(scale, int(one[k]), int(two[k])) for k in moved)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("weights", [(1,), (1, 1, 2)], ids=str)
def test_cells_of_released_counts_keep_epsilon_and_reach_it(neighbors, weights):
    """The log-ratio of both releases is at most epsilon, and equal to it for some neighbours."""
    noise = CountNoise(0.8, 0.0, neighbors, weights)
    ratios, twin = [], []
    for stage, grid in STAGES:
        scale = noise.noise(stage, grid.n).scale
        sums = [(weighted(noise, grid, a), weighted(noise, grid, b)) for a, b in pairs_of(noise)]
        ratios.append(max(worst_ratio(scale, a, b) for a, b in sums))
        twin.append(max(worst_ratio(scale / 1.05, a, b) for a, b in sums))
    assert ratios == pytest.approx([0.8 * SHARES[stage] for stage, _ in STAGES], rel=1e-9)
    for second in (1, 2):
        assert ratios[0] + ratios[second] <= 0.8 * (1 + 1e-9)
        assert twin[0] + twin[second] > 0.8 * 1.04


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_gaussian_counts_keep_delta_and_reach_it(neighbors):
    """By the exact delta of two normal laws; 5 % less noise exceeds it."""
    noise = CountNoise(0.5, 1e-5, neighbors, (1,) * 12 + (3,))
    assert noise.is_gaussian
    shifts = []
    for stage, grid in STAGES[:2]:
        one, two = np.zeros(13), np.full(13, 1.0)
        pair = (one, []) if neighbors == "add_remove" else (one, two)
        moved = weighted(noise, grid, pair[0]) - weighted(noise, grid, pair[1])
        deviation = math.sqrt(noise.noise(stage, grid.n).variance()[0])
        shifts.append(float(np.linalg.norm(moved)) / deviation)

    def delta(mu):
        a, b = 0.5 / mu - mu / 2, 0.5 / mu + mu / 2
        return norm.sf(a) - math.exp(0.5) * norm.sf(b)

    assert 0.9999e-5 < delta(math.hypot(*shifts)) <= 1e-5 * (1 + 1e-9)
    assert delta(1.05 * math.hypot(*shifts)) > 1.1e-5
    cells = [grid.n for _, grid in STAGES[:2]]
    stated = guarantee_of(noise.releases(cells), Public(0.5, 1e-5, neighbors))
    assert stated.delta_at(0.5) == pytest.approx(1e-5)
    few = CountNoise(0.5, 1e-5, neighbors, (1,))
    assert not few.is_gaussian
    assert certify(few.releases(cells), Public(0.5, 1e-5, neighbors)).delta == 0


def test_released_counts_have_the_noise_that_was_proved():
    """Differences to exact counts have the law of the calibrated scale: false alarm 1e-6."""
    noise = CountNoise(1.0, 0.0, "replace_one", (1,) * 1000)
    exact = np.tile(np.arange(300), (1000, 1))
    released = noise.release(0, exact * WHOLE, np.random.default_rng(1))[0]
    found = (released - exact).ravel()
    scale = noise.noise(0, 81).scale
    assert kstest(found, laplace(scale=scale).cdf).pvalue > 1e-6
    assert kstest(found, laplace(scale=0.95 * scale).cdf).pvalue < 1e-6
    assert noise.deviation(0) == pytest.approx(math.sqrt(2) * scale)


def test_weights_are_undone_and_divide_the_noise():
    noise = CountNoise(1e9, 0.0, "replace_one", (1, 4))
    table = np.arange(162).reshape(2, 81)
    released, deviations = noise.release(0, table * WHOLE, np.random.default_rng(0))
    assert np.abs(released - table).max() < 1e-6
    assert deviations[0] == 4 * deviations[1]


# Theorem 2: levels


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("columns", [1, 5])
def test_a_string_of_one_record_is_released_with_probability_delta_at_most(neighbors, columns):
    """Exact tails of the noise with its stretch; a threshold lower by a quarter is caught."""
    plan = LevelCounts(0.7, 1e-6, neighbors, columns)
    law = laplace(scale=plan.noise.scale * publication(plan.noise).stretch)
    some = 1 - (1 - law.sf(plan.threshold - 1)) ** columns
    none = law.sf(plan.threshold) * columns * (1 + math.exp(0.7))
    assert some <= 1e-6
    assert none <= 1e-6
    assert 1 - (1 - law.sf(0.75 * plan.threshold - 1)) ** columns > 1e-6


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("columns", [1, 5])
def test_counts_of_strings_keep_epsilon_and_reach_it(neighbors, columns):
    """Exact cells of all counts that one record changes; 5 % less noise exceeds epsilon."""
    scale = LevelCounts(0.7, 1e-6, neighbors, columns).noise.scale
    # For each column the counts of the strings "a" and "b", where a record has "a" or "b".
    one, two = np.tile([1, 0], columns), np.tile([0, 1], columns)
    two = two if neighbors == "replace_one" else 0 * two
    assert worst_ratio(scale, one, two) == pytest.approx(0.7, rel=1e-9)
    assert worst_ratio(scale / 1.05, one, two) > 0.7 * 1.04


def test_counts_of_strings_have_the_noise_that_was_proved():
    """Which levels are released follows the exact tail at the threshold: six deviations."""
    plan = LevelCounts(1.0, 1e-3, "replace_one", 1)
    least = plan.threshold
    names = {f"{k:04}": int(least) for k in range(6000)}
    found = plan.release([names], np.random.default_rng(0))[0]
    share = laplace(scale=plan.noise.scale).sf(least - int(least))
    assert abs(len(found) - 6000 * share) < 6 * math.sqrt(6000 * share * (1 - share))


def cities(n=2000):
    frame = pd.DataFrame({"city": ["Rome"] * (n // 2) + ["Oslo"] * (n // 4) + ["Bern"] * (n // 4)})
    frame.loc[0, "city"] = "only here"
    return frame


@pytest.mark.parametrize("kind", [object, "category", "string"])
def test_frequent_strings_are_found(kind):
    X = cities().astype(kind)
    found = estimate_domain(X, columns={"city": "levels"}, epsilon=1, delta=1e-6, random_state=0)
    assert str(found).startswith("Domain({'city': ['Rome', '")
    assert set(found._columns[0].levels) == {"Rome", "Oslo", "Bern"}
    assert (found.estimated.epsilon, found.estimated.delta) == (1, 1e-6)
    assert found.encode(X).sum() == 999 or found.encode(X).sum() == 1000


def test_columns_of_strings_never_fail():
    """Without a frequent string, with cells that are no strings, and with names that repeat."""
    columns = {"a": "levels", "b": "levels", "a_x": (0, 1)}
    X = pd.DataFrame({"a": ["w"] * 600 + ["x"] * 400, "b": [None, 3] * 500, "a_x": 0.5})
    found = estimate_domain(X, columns=columns, epsilon=5, delta=1e-3, random_state=0)
    assert repr(found).startswith("Domain({'a': ['w'], 'b': ['other'], 'a_x': (0, 1)})")
    assert found.encode(X).shape == (1000, 1)


def test_levels_and_bounds_share_the_budget():
    X = cities().assign(x=range(2000))
    request = Request.of(X, {"city": "levels", "x": "bounds"}, None, None, None, 1e6)
    plan = BoundsPlan.of(request, 1.0, 1e-6, "replace_one")
    assert plan.numbers.epsilon + plan.strings.epsilon == 1
    assert plan.numbers.delta + plan.strings.delta <= 1e-6
    assert plan.guarantee(Public(1.0, 1e-6)).delta == 1e-6
    with pytest.raises(NotPrivate):
        plan.guarantee(Public(0.99, 1e-6))


# Usefulness

COLUMNS = {
    "normal": RNG.normal(0, 1, N),
    "years": RNG.integers(1990, 2021, N),
    "milli": RNG.gamma(2, 1e-3, N),
    "longitude": RNG.normal(-122, 0.3, N),
    "incomes": np.exp(RNG.normal(10, 0.8, N)),
    "heavy": RNG.standard_t(2, N),
    "whole": RNG.binomial(10, 0.3, N),
    "binary": RNG.integers(0, 2, N),
    "rare": RNG.random(N) < 0.03,
    "negative": -RNG.uniform(1e4, 1e5, N),
}


@lru_cache
def of_ten_columns(neighbors):
    X = np.column_stack(list(COLUMNS.values()))
    return estimate_domain(X, epsilon=1.0, neighbors=neighbors, random_state=1)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", COLUMNS)
def test_bounds_hold_most_records_and_are_not_wide(name, neighbors):
    """Among ten columns at epsilon = 1: at most 1 in 20 is clipped, and the width is right.

    The limits are wider by a factor of up to 1e8.
    """
    domain = of_ten_columns(neighbors)
    column, values = domain._columns[list(COLUMNS).index(name)], COLUMNS[name].astype(float)
    outside = np.mean((values < column.lower) | (values > column.upper))
    low, high = np.quantile(values, [0.01, 0.99])
    assert outside < 0.05
    assert column.upper - column.lower < 5 * (high - low)


@pytest.mark.parametrize("n", [1, 50])
@pytest.mark.parametrize("value", [0.0, 5.0, -1e300, 5e-324])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
def test_no_data_make_it_fail(n, value, epsilon):
    X = np.full((n, 3), value)
    X[0, 0] = 1e308
    for seed, neighbors in enumerate(["replace_one", "add_remove"]):
        domain = estimate_domain(
            X, X[:, 1], target="bounds", epsilon=epsilon, neighbors=neighbors, random_state=seed
        )
        lower, upper = np.array([[c.lower, c.upper] for c in domain._columns]).T
        assert (lower < upper).all()
        assert np.abs([lower, upper]).max() <= 1e6


@pytest.mark.parametrize(("columns", "spent"), [(40, 1e-6), (1, 0.0)])
def test_delta_is_spent_where_gaussian_noise_is_less(columns, spent):
    """The guarantee says which noise was taken, and has its privacy losses."""
    X = np.tile(COLUMNS["normal"][:, None], (1, columns))
    domain = estimate_domain(X, epsilon=0.5, delta=1e-6, random_state=0)
    assert domain.estimated.delta == spent
    kinds = {type(loss) for loss, _ in domain.estimated.losses}
    assert kinds == {GaussianLoss if spent else RadialLoss}
    assert ("Gaussian" if spent else "Laplace") in domain.estimated.mechanism
    widths = [column.upper - column.lower for column in domain._columns]
    assert 2 < np.median(widths) < 20


def test_limits_are_kept_by_column():
    X = np.full((1000, 2), 1e5)
    X[:500] *= -1
    frame = pd.DataFrame(X, columns=["a", "b"])
    domain = estimate_domain(
        frame, X[:, 0], target="bounds", limit={"a": 100, "target": 10}, epsilon=1, random_state=0
    )
    a, b = domain._columns
    assert max(abs(a.lower), abs(a.upper)) <= 100
    assert max(abs(b.lower), abs(b.upper)) > 1e4
    assert max(map(abs, domain.target_bounds)) <= 10


# Declared columns, and what the domain states


def test_declared_columns_pass_through_and_cost_nothing():
    """Tuples, lists, labels and ``other`` are those of a Domain; then nothing is spent."""
    columns = {"x": (0, 3), "sex": ["f", "m"]}
    X = pd.DataFrame({"x": [1.0, 2.0], "sex": ["f", "m"]})
    ledger = Ledger(1.0)
    found = estimate_domain(
        X, columns=columns, target=["no", "yes"], other={"sex": "m"}, epsilon=1, ledger=ledger
    )
    assert found == Domain(columns, ["no", "yes"], {"sex": "m"})
    assert found.estimated is None
    assert not ledger.entries


def test_only_the_asked_columns_are_estimated():
    X = pd.DataFrame({"a": COLUMNS["years"], "b": COLUMNS["normal"], "c": ["u"] * N})
    columns = {"a": None, "b": (-3, 3), "c": ["u", "v"]}
    found = estimate_domain(X, columns=columns, target=(0, 1), epsilon=1, random_state=0)
    assert found._columns[1:] == Domain({k: columns[k] for k in "bc"})._columns
    assert found.target_bounds == (0, 1)
    assert 1900 < found._columns[0].lower < found._columns[0].upper < 2100


def test_a_domain_remembers_its_cost():
    """In words, in copies, pickles and domains made of it; comparisons do not see it."""
    X = np.column_stack([COLUMNS["normal"], COLUMNS["years"]])
    domain = estimate_domain(X, epsilon=0.25, random_state=0)
    declared = Domain.box(*np.array([[c.lower, c.upper] for c in domain._columns]).T)
    assert domain == declared
    assert hash(domain) == hash(declared)
    assert declared.estimated is None
    assert "estimated" not in repr(declared)
    assert repr(domain) == f"{declared!r}, estimated with epsilon = 0.25, delta = 0"
    part = subset(domain, ["x0"], None)[0]
    for one in (pickle.loads(pickle.dumps(domain)), copy.deepcopy(domain), domain.encoded, part):
        assert one.estimated == domain.estimated
    assert not domain.estimated.holds
    assert estimate_domain(X, epsilon=0.25).estimated.holds


def test_guarantees_of_models_state_that_bounds_were_estimated():
    """The model and the search; with declared bounds the sentence is the usual one."""
    X, y = COLUMNS["normal"][:400, None], COLUMNS["normal"][:400] > 0
    domain = estimate_domain(X, target=[False, True], epsilon=0.25)
    declared = Domain.unit_box(1, target=[False, True])
    for model in (
        DPLogisticRegression(domain=domain),
        PrivateSearchCV(
            DPLogisticRegression(domain=domain), {"regularization": [0.5, 1.0]}, epsilon=2.0
        ),
    ):
        said = model.fit(X, y).guarantee_.assumptions[0]
        assert said.startswith("bounds or levels of the domain were estimated from the data with")
        cost = "epsilon = 0.25 and delta = 0 for one row under 'replace_one'"
        assert f"{cost}, which this guarantee does not include" in said
        assert "the labels" in said
    said = DPLogisticRegression(domain=declared).fit(X, y).guarantee_.assumptions[0]
    assert said == "the domain, the labels and all parameters were chosen without the data"
    seeded = estimate_domain(X, target=[False, True], epsilon=0.25, random_state=0)
    said = DPLogisticRegression(domain=seeded).fit(X, y).guarantee_.assumptions[0]
    assert "by a release whose guarantee does not hold" in said


def test_a_search_states_that_the_bounds_of_its_encoder_were_estimated():
    """Also if the model behind the encoder has a domain of its own without the estimate."""
    X, y = COLUMNS["normal"][:400, None], COLUMNS["normal"][:400] > 0
    domain = estimate_domain(X, epsilon=0.25, neighbors="add_remove")
    model = DPLogisticRegression(
        domain=Domain.unit_box(1, target=[False, True]), neighbors="add_remove"
    )
    pipeline = make_pipeline(domain.encoder(), model)
    grid = {"dplogisticregression__regularization": [0.5, 1.0]}
    said = PrivateSearchCV(pipeline, grid, epsilon=2.0).fit(X, y).guarantee_.assumptions[0]
    cost = "epsilon = 0.25 and delta = 0 for one row under 'add_remove'"
    assert f"of the domain were estimated from the data with {cost}" in said


# The ledger and errors


def test_the_ledger_is_charged_before_noise_is_drawn():
    """A refused spend draws nothing; an accepted one is in the ledger with its note."""
    X, rng = np.ones((10, 1)), np.random.default_rng(0)
    state = rng.bit_generator.state
    ledger = Ledger(0.5)
    with pytest.raises(skdp.BudgetExceeded) as caught:
        estimate_domain(X, epsilon=1, ledger=ledger, random_state=rng)
    assert rng.bit_generator.state == state
    assert caught.value.__notes__ == ["No budget was spent and no noise was drawn."]
    estimate_domain(X, epsilon=0.4, ledger=ledger)
    assert ledger.spent.epsilon == 0.4
    assert ledger.entries[0].note == "estimate_domain"


def test_an_error_after_the_spend_says_so(monkeypatch):
    """Whatever fails then, memory for instance; the ledger keeps the entry."""
    monkeypatch.setattr(BoundsPlan, "release", lambda *given: 1 / 0)
    ledger = Ledger(1.0)
    with pytest.raises(ZeroDivisionError) as caught:
        estimate_domain(np.ones((10, 1)), epsilon=0.4, ledger=ledger)
    assert caught.value.__notes__[0].startswith("The budget was spent: epsilon = 0.4.")
    assert ledger.spent.epsilon == 0.4


WRONG = {
    "missing": np.array([[1.0], [np.nan]]),
    "infinite": np.array([[1.0], [np.inf]]),
    "word": np.array([[SECRET], ["SECRET"]], dtype=object),
    "complex": np.array([[1.0 + 1j], [SECRET]]),
    "one dimension": np.full(3, SECRET),
    "no rows": np.empty((0, 1)),
    "no columns": np.empty((3, 0)),
    "sparse": csr_matrix([[SECRET]]),
    "path": "table.csv",
    "function": lambda: [SECRET],
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_in_tables_come_before_the_budget_and_quote_nothing(name):
    ledger = Ledger(1.0)
    with pytest.raises((ValueError, TypeError)) as caught:
        estimate_domain(WRONG[name], epsilon=1, ledger=ledger)
    text = "".join([str(caught.value), *caught.value.__notes__])
    assert "No budget was spent" in text
    assert "12345" not in text
    assert "SECRET" not in text
    assert caught.value.__context__ is None
    assert not ledger.entries


X1 = np.ones((4, 1))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"delta": 1}, "delta must be"),
        ({"neighbors": "swap"}, "neighbors must be"),
        ({"limit": 0}, "limit must be"),
        ({"columns": {"a": "levels"}}, 'delta must be > 0 for columns of "levels"'),
        ({"X": pd.DataFrame({"a": [1.0], "b": [2]}), "columns": {"a": "bounds"}}, "only declared"),
        ({"X": pd.DataFrame([[1.0]])}, "column names must be strings"),
        ({"limit": {"z": 1}}, "limit must have keys among"),
        ({"ledger": 1.0}, "ledger must be"),
        ({"columns": {}}, "columns must be a dict"),
        ({"columns": {"a": "range"}}, "must be a tuple of bounds"),
        ({"columns": {"a": (1, 0)}}, "lower < upper"),
        ({"columns": {"a": "bounds", "b": "bounds"}}, "X must have 2 columns"),
        ({"columns": {"a": "levels"}, "other": {"a": "x"}, "delta": 0.1}, "declared levels"),
        ({"target": "bounds"}, "y must be given"),
        ({"target": "bounds", "y": [1, 2]}, "as many entries"),
        ({"target": "bounds", "y": [1, 2, 3, "SECRET"]}, "the target must contain only finite"),
        ({"target": "labels"}, "the target must be declared"),
        ({"random_state": "seed"}, "random_state must be"),
    ],
)
def test_wrong_arguments_raise_before_the_budget(given, words):
    ledger = Ledger(1.0)
    with pytest.raises(ValueError, match=words) as caught:
        estimate_domain(**{"X": X1, "epsilon": 1, "ledger": ledger, **given})
    assert "SECRET" not in str(caught.value)
    assert not ledger.entries
