"""A fit that fails says whether the budget was spent, and never what the data were."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from inner_objective import NotCertified
from inner_objective import theorem_module as objective

import skdp
from skdp import BudgetExceeded, Domain, DPCoordinateDescentRegressor, DPLogisticRegression, Ledger

NUMBER, WORD = 12345.678, "SECRET"
N_RECORDS = 137  # under add/remove their number is private as well
PRIVATE = (str(NUMBER), "12345", WORD, str(N_RECORDS), str(N_RECORDS - 1))


def maker(estimator, target, **given):
    """The estimator with a domain of a number and a column of levels."""
    domain = Domain({"a": (0, 1), "b": ["u", "v"]}, target=target)
    return partial(estimator, domain=domain, **given)


LABELS = ["no", "yes"]
classifier = maker(DPLogisticRegression, LABELS)
regressor = maker(skdp.DPHuberRegressor, (0.0, 1.0))
MAKERS = {
    "classifier": classifier,
    "regressor": regressor,
    "linear": maker(skdp.DPLinearRegression, (0.0, 1.0)),
    "descent classifier": maker(skdp.DPCoordinateDescentClassifier, LABELS),
    "descent regressor": maker(DPCoordinateDescentRegressor, (0.0, 1.0)),
    # Without a look at the data before the descent.
    "descent blindly": maker(DPCoordinateDescentRegressor, (0.0, 1.0), scaling_share=0),
}
CLASSIFIERS = [classifier, MAKERS["descent classifier"]]
BOTH = pytest.mark.parametrize("make", [classifier, regressor], ids=["classifier", "regressor"])
ALL = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def data(make):
    X = pd.DataFrame({"a": np.linspace(0, 1, N_RECORDS), "b": np.resize(["u", "v"], N_RECORDS)})
    X.loc[3, ["a", "b"]] = NUMBER, WORD
    numbers = np.full(N_RECORDS, NUMBER)
    y = np.resize(["no", "yes"], N_RECORDS) if make in CLASSIFIERS else numbers
    return X, y


def chain(error):
    """Everything that an error and those behind it say, shown by a traceback or not."""
    while error is not None:
        yield from (str(error), repr(error.args), *getattr(error, "__notes__", ()))
        error = error.__context__ or error.__cause__


def fail_to_certify(*args):
    raise NotCertified("No point was found.")


@BOTH
def test_an_error_after_the_charge_says_that_it_was_spent(make, monkeypatch):
    """The solver fails: the ledger holds the charge, and there is no model."""
    monkeypatch.setattr(objective, "minimise", fail_to_certify)
    ledger, (X, y) = Ledger(1.0), data(make)
    model = make(ledger=ledger, epsilon=0.25)
    with pytest.raises(NotCertified) as caught:
        model.fit(X, y)
    (note,) = caught.value.__notes__
    assert "The budget was spent: epsilon = 0.25" in note
    assert "nothing was released" in note
    assert ledger.spent.epsilon == 0.25
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "guarantee_")


def test_a_failure_in_a_later_model_of_several_counts_the_whole_charge(monkeypatch):
    """One label against the rest: the second minimisation fails, all of epsilon is spent."""
    real, calls = objective.minimise, []

    def fail_second(*args):
        calls.append(args)
        return real(*args) if len(calls) == 1 else fail_to_certify()

    monkeypatch.setattr(objective, "minimise", fail_second)
    ledger = Ledger(1.0)
    model = DPLogisticRegression(classes=[0, 1, 2], loss="sharp", ledger=ledger, epsilon=0.9)
    with pytest.raises(NotCertified) as caught:
        model.fit(np.zeros((4, 1)), [0, 1, 2, 0])
    assert "The budget was spent" in caught.value.__notes__[0]
    assert [entry.epsilon for entry in ledger.entries] == [0.9]


@ALL
def test_the_charge_comes_before_the_noise(make):
    """With an empty ledger no generator is asked for a single number."""

    class Untouchable(np.random.Generator):
        def gamma(self, *args, **kwargs):
            raise AssertionError("noise was drawn")

        uniform = standard_exponential = standard_normal = random = laplace = gamma
        normal = integers = bytes = gamma

    ledger, (X, y) = Ledger(0.5), data(make)
    rng = Untouchable(np.random.PCG64(0))
    with pytest.raises(AssertionError, match="noise was drawn"):
        make(random_state=rng).fit(X, y)
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon=0\.6.*left epsilon=0\.5") as caught:
        make(ledger=ledger, epsilon=0.6, random_state=rng).fit(X, y)
    assert caught.value.__notes__ == ["No budget was spent and no noise was drawn."]
    assert ledger.entries == ()
    make(ledger=ledger, epsilon=0.5).fit(X, y)  # exactly what was left
    assert ledger.remaining.epsilon == 0.0


def spoilt(X, column, value):
    X = X.astype({column: object})
    X.loc[5, column] = value
    return X


def failing_fits(make):
    """Fits that cannot succeed because of the data, each with the private things planted."""
    X, y = data(make)
    others = np.resize(["no", WORD], N_RECORDS)
    yield spoilt(X, "a", WORD), y
    yield spoilt(X, "a", f"{NUMBER} {WORD}"), y
    yield spoilt(X, "a", [NUMBER]), y
    yield spoilt(X, "a", np.nan), y
    yield spoilt(X, "a", 12345 + 678j), y
    yield X.to_numpy(dtype=str)[:, ::-1], y
    yield X.to_numpy()[:, :1], y
    yield X.drop(columns="b"), y
    yield X.to_numpy()[:, 1], y
    yield X, others
    yield X, [*others[1:], NUMBER]
    yield X, [*y[1:], [NUMBER, WORD]]
    yield X, [*y[1:], {WORD: NUMBER}]
    yield X, y[1:]
    yield X, np.array([y, y]).T
    yield X, np.append(y[1:].astype(object), 12345 + 678j)
    if make not in CLASSIFIERS:
        yield X, np.append(y[1:], np.inf)


@ALL
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_no_error_tells_a_value_or_the_number_of_records(make, neighbors):
    """Nothing planted is found in messages, notes, contexts or tracebacks; nor in warnings."""
    for X, y in failing_fits(make):
        model = make(neighbors=neighbors)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises((ValueError, TypeError)) as error:
                model.fit(X, y)
        told = "".join(chain(error.value)) + "".join(str(w.message) for w in caught)
        assert [p for p in PRIVATE if p in told] == []
        assert "No budget was spent" in told


@BOTH
def test_no_error_after_the_charge_tells_a_value(make, monkeypatch):
    """The real solver's error, from a tolerance that cannot be reached."""
    monkeypatch.setattr(objective.NoisyMinimiser, "tolerance", 1e-300)
    X, y = data(make)
    with pytest.raises(NotCertified) as error:
        make(neighbors="add_remove").fit(X, y)
    told = "".join(chain(error.value))
    assert [p for p in PRIVATE if p in told] == []
    assert "The budget was spent" in told


@ALL
def test_no_warning_comes_from_extreme_data(make):
    X, y = data(make)
    X.loc[:20, "a"] = np.resize([1e308, -1e308, 5e-324, -0.0], 21)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make(random_state=0).fit(X, y)
        model.predict(X)


def test_the_search_finds_what_is_planted():
    """The twin: an error that quotes a value, or hides it in a context, is caught."""

    def hide():
        try:
            float(WORD)
        except ValueError:
            raise ValueError("column 'a' must contain only finite numbers") from None

    with pytest.raises(ValueError) as error:
        hide()
    assert WORD not in str(error.value)
    assert WORD in "".join(chain(error.value))


def test_predictions_fail_without_telling_values():
    X, y = data(classifier)
    model = classifier(random_state=0).fit(X, y)
    for bad in (spoilt(X, "a", WORD), spoilt(X, "a", np.inf), X.drop(columns="b")):
        with pytest.raises(ValueError) as error:
            model.predict(bad)
        assert [p for p in PRIVATE if p in "".join(chain(error.value))] == []


def test_a_refit_that_fails_leaves_the_earlier_model(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 2)), rng.integers(0, 2, 60)
    model = DPLogisticRegression(classes=[0, 1], random_state=0).fit(X, y)
    before = model.predict(X).tolist(), model.classes_.tolist(), model.guarantee_
    monkeypatch.setattr(objective, "minimise", fail_to_certify)
    with pytest.raises(NotCertified):
        model.set_params(classes=["a", "b"]).fit(X, np.where(y, "a", "b"))
    assert (model.predict(X).tolist(), model.classes_.tolist(), model.guarantee_) == before
