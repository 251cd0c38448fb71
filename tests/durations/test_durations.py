"""Rows of persons and periods against brute force; curves against sums by hand; fits of them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from skdp import Domain, DPLogisticRegression
from skdp.durations import PersonPeriods
from skdp.testing import replay

EDGES = [0, 30, 60, 90]
PERSON = Domain({"age": (18, 100), "sex": ["f", "m"]}, missing={"age": "middle"})
PERIODS = PersonPeriods(PERSON, EDGES)
X = pd.DataFrame({"age": [70, 40, 18], "sex": ["m", "f", "m"]}, index=[7, 7, 3])


def by_hand(time, event, edges):
    """The labels of the rows of one person, period by period."""
    labels = []
    for start, stop in pairwise(edges):
        if event and time <= stop:
            return [*labels, 1]
        # Later, or censored after the middle; the first period is always there.
        if labels and time < (start + stop) / 2:
            break
        labels.append(0)
    return labels


@pytest.mark.parametrize("edges", [[0, 1], [0, 30, 60, 90], [-2.5, 0, 0.1, 7, 40]])
def test_the_rows_are_those_by_hand(edges):
    rng = np.random.default_rng(0)
    special = np.concatenate([edges, np.diff(edges) / 2 + edges[:-1]])
    time = np.append(rng.uniform(edges[0], edges[-1] * 1.2, 300), rng.choice(special, 300))
    event = rng.random(600) < 0.5
    ages = rng.uniform(18, 100, 600)
    periods = PersonPeriods(Domain({"age": (18, 100)}), edges)
    long, y, groups = periods.encode(ages[:, None], time, event)
    for k in range(600):
        own, expected = groups == k, by_hand(time[k], event[k], edges)
        assert y[own].tolist() == expected
        assert long["age"][own].tolist() == [ages[k]] * len(expected)
        assert long["period"][own].cat.codes.tolist() == [*range(len(expected))]
    assert len(long) == len(y) == len(groups)


def test_events_at_an_edge_belong_to_the_period_that_ends_there():
    long, y, _ = PERIODS.encode(X, [30, 30.5, 90], [1, 1, 1])
    assert y.tolist() == [1, 0, 1, 0, 0, 1]
    assert long["period"].tolist()[:3] == ["0 to 30", "0 to 30", "30 to 60"]


def test_durations_beyond_the_last_edge_are_censored_there():
    rows = PERIODS.encode(X, [90.01, 1e9, 90], [True, True, False])
    assert rows[1].tolist() == [0] * 9


def test_every_person_has_a_row_so_that_their_number_does_not_depend_on_durations():
    _, y, groups = PERIODS.encode(X, [0, 0.1, 0], [False, False, True])
    assert groups.tolist() == [0, 1, 2]
    assert y.tolist() == [0, 0, 1]


def test_columns_of_the_table_can_be_named():
    table = X.assign(days=[42, 20, 70], died=[1, 0, 0], who=["a", "b", "a"])
    named = PERIODS.encode(table, "days", "died", groups="who")
    given = PERIODS.encode(X, table["days"].to_numpy(), [True, False, False], ["a", "b", "a"])
    pd.testing.assert_frame_equal(named[0], given[0])
    assert [*named[0]] == ["age", "sex", "period"]
    assert [*table] == [*X, "days", "died", "who"]  # the table is not changed
    assert named[1].tolist() == given[1].tolist() == [0, 1, 0, 0, 0]
    assert named[2].tolist() == given[2].tolist() == ["a", "a", "b", "a", "a"]


def test_the_domain_has_the_periods_and_keeps_all_else():
    pair = PERSON.interact("age", "sex")
    domain = PersonPeriods(pair, EDGES).domain
    assert domain.encoded_names()[-2:] == ("period_30 to 60", "period_60 to 90")
    assert domain.encoded_names()[:-2] == pair.encoded_names()
    assert domain.target == [0, 1]
    assert Domain.from_json(domain.to_json()) == domain
    assert domain.interact("age", "period").n_encoded == 3 + 5
    assert PersonPeriods(PERSON, range(4)) == PersonPeriods(PERSON, (0.0, 1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("columns", "edges", "words"),
    [
        (Domain.unit_box(2), EDGES, "columns must be a Domain of columns with names"),
        ({"age": (0, 1)}, EDGES, "columns must be a Domain"),
        (Domain({"period": (0, 1)}), EDGES, "not have the name 'period'"),
        (PERSON, [0], "edges must be at least two increasing numbers"),
        (PERSON, [0, 30, 30], "edges must be at least two increasing numbers"),
        (PERSON, [0, np.nan, 30], "edges must be at least two increasing numbers"),
        (PERSON, [0, 30, np.inf], "edges must be at least two increasing numbers"),
        (PERSON, [1, 1 + 1e-9, 1 + 2e-9], "distinct levels"),
    ],
)
def test_wrong_declarations_are_errors(columns, edges, words):
    with pytest.raises(ValueError, match=words):
        PersonPeriods(columns, edges)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time": [42, -777, 1]}, "time must be at least edges"),
        ({"time": [42, np.nan, 1]}, "time must contain only finite numbers"),
        ({"time": [42, np.inf, 1]}, "time must contain only finite numbers"),
        ({"event": [0, 777, 1]}, "event must be True or 1"),
        ({"event": ["777", "no", "yes"]}, "event must be True or 1"),
        ({"event": [0, None, 1]}, "event must be True or 1"),
        ({"event": [0, np.nan, 1]}, "event must be True or 1"),
        ({"event": pd.array([True, None, False], "boolean")}, "event must be True or 1"),
        ({"time": [1, 2]}, "must have as many entries as X has rows"),
        ({"groups": [1, 2]}, "must have as many entries as X has rows"),
        ({"time": "days"}, "time must be a column of X"),
    ],
)
def test_wrong_data_are_errors_that_show_no_value(change, words):
    with pytest.raises(ValueError, match=words) as error:
        PERIODS.encode(**{"X": X, "time": [42, 20, 70], "event": [1, 0, 0]} | change)
    assert "777" not in str(error.value)


class Hazards:
    """A classifier with the same hazards in each row."""

    def predict_log_proba(self, X):
        assert [*X] == ["age", "sex", "period"]
        hazard = np.array([0.1, 0.2, 0.5])[X["period"].cat.codes]
        return np.log(np.column_stack([1 - hazard, hazard]))


def test_survival_is_the_product_by_hand():
    found = PERIODS.survival(Hazards(), X)
    assert found == pytest.approx(np.tile([0.9, 0.72, 0.36], (3, 1)))
    # Areas of three trapezia of width 30.
    assert PERIODS.restricted_mean(found)[0] == pytest.approx(30 * (0.95 + 0.81 + 0.54))
    # On the line from .72 at 60 to .36 at 90.
    assert PERIODS.median(found)[0] == pytest.approx(60 + 30 * 0.22 / 0.36)
    assert PERIODS.median([[0.9, 0.8, 0.7], [0.5, 0.5, 0.4]]).tolist() == [np.inf, 30.0]


TRUTH, K = np.array([0.8, 0.6]), 8
SIMULATED = PersonPeriods(Domain({"a": (-1, 1), "b": (-1, 1)}), range(K + 1))


def draw(n, seed):
    """Persons with constant hazards, of whom a part is censored at the end of a period."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(rng.uniform(-1, 1, (n, 2)), columns=["a", "b"])
    occurs = rng.random((n, K)) < expit(-2 + people.to_numpy() @ TRUTH)[:, None]
    time = np.where(occurs.any(axis=1), occurs.argmax(axis=1) + 1, K + 1)
    end = rng.integers(2, K + 4, n)
    return people, np.minimum(time, end), time <= end


def fitted(seed, **facts):
    rows, y, groups = SIMULATED.encode(*draw(20_000, seed))
    model = DPLogisticRegression(domain=SIMULATED.domain, random_state=seed, **facts)
    return model.fit(rows, y, groups=groups), (rows, y, groups)


def test_curves_and_bands_of_a_fit_hold_the_truth():
    model, (rows, y, groups) = fitted(0, epsilon=2, rows_per_person=K)
    inference = model.infer(rows, y, groups=groups, epsilon=8.0, random_state=1)
    people = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, -1.0]})
    hazard = expit(-2 + people.to_numpy() @ TRUTH)
    truth = (1 - hazard[:, None]) ** np.arange(1, K + 1)
    assert np.abs(SIMULATED.survival(model, people) - truth).max() < 0.03
    found, band = SIMULATED.survival_band(inference, people, level=0.999)
    assert ((band[..., 0] <= found) & (found <= band[..., 1])).all()
    assert ((band[..., 0] <= truth) & (truth <= band[..., 1])).all()
    assert np.ptp(band, axis=2).max() < 0.35
    narrower = SIMULATED.survival_band(inference, people, level=0.5)[1]
    assert (np.ptp(narrower, axis=2) < np.ptp(band, axis=2)).all()


def test_estimates_of_a_band_are_those_of_a_classifier_with_these_coefficients():
    """In the user's units, with levels, an interaction, a missing cell and one period more."""
    columns = {"age": (18, 100), "bmi": (10, 60), "sex": ["f", "m"]}
    domain = Domain(columns, missing={"age": "indicator"}).interact("bmi", "sex")
    periods = PersonPeriods(domain, EDGES)
    people = domain.sample(3000, random_state=0)
    rng = np.random.default_rng(0)
    rows, y, groups = periods.encode(people, rng.uniform(1, 120, 3000), rng.random(3000) < 0.6)
    model = DPLogisticRegression(epsilon=99, domain=periods.domain, rows_per_person=3)
    model.fit(rows, y, groups=groups)
    inference = model.infer(rows, y, groups=groups, epsilon=99)
    clone = pickled(model)
    # The model with the coefficients of the inference, in encoded units.
    slopes = inference.coef[1:].copy()
    number = model.domain.number_index if hasattr(model, "domain_") else periods.domain.number_index
    shift = float(slopes[number] @ [59.0])
    slopes[number] *= 41.0
    clone._encoded_coef, clone._encoded_intercept = slopes[None], inference.coef[:1] + shift
    found = periods.survival_band(inference, people[:9])[0]
    assert found == pytest.approx(periods.survival(clone, people[:9]))


def pickled(model):
    import pickle

    return pickle.loads(pickle.dumps(model))


def test_a_band_needs_the_table_of_the_rows():
    model, (rows, y, groups) = fitted(0, rows_per_person=K)
    some = model.infer(rows, y, groups=groups, epsilon=8.0, effects=["a"])
    with pytest.raises(ValueError, match="inference must have all coefficients"):
        SIMULATED.survival_band(some, rows[:1])


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_replaced_duration_stays_within_the_guarantee(cap, neighbors):
    """The other duration has three rows instead of one, with other values."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.uniform(18, 100, 40), "sex": rng.choice(["f", "m"], 40)})
    time, event = rng.uniform(1, 120, 40), rng.random(40) < 0.5
    time[7], event[7] = 3, True
    other, late, none = people.copy(), time.copy(), event.copy()
    other.loc[7, "age"], late[7], none[7] = 18, 200, False
    before, after = PERIODS.encode(people, time, event), PERIODS.encode(other, late, none)
    if neighbors == "add_remove":
        after = tuple(part[before[2] != 7] for part in before)
    model = DPLogisticRegression(
        domain=PERIODS.domain, neighbors=neighbors, rows_per_person=cap, epsilon=1.0
    )
    names = "X", "y", "groups"
    pair = (dict(zip(names, rows, strict=True)) for rows in (before, after))
    found = replay(model, *pair).check()
    assert found.n_published
    assert found.loss <= 1.0
