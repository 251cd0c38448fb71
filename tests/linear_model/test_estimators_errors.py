"""Bad input of every kind raises before anything is charged, in words about public things."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPHuberRegressor, DPLogisticRegression
from skdp.geometry import LpBall
from skdp.mechanisms import KNorm
from skdp.noise import Gaussian, Laplace

UNCHARGED = "No budget was spent and no noise was drawn."
NAN, INF = float("nan"), float("inf")


class Rough(LpBall):
    """A ball whose sampler is not exact."""

    exact = False


# Parameter, bad values, and what the error must say. First those of all estimators.
SHARED = [
    ("epsilon", [0, -1, NAN, INF, "1", None, True, 1 + 0j], "epsilon must be a finite number > 0"),
    ("epsilon", [11.0], r"asks for epsilon=11\.0.*left epsilon=10\.0"),
    ("delta", [-0.1, 1, NAN, "0", None], r"delta must be a number in \[0, 1\)"),
    ("neighbors", ["replace", "add-remove", None, 1], "'add_remove', 'replace_one'"),
    ("n_public", [0, 1.5, -3, "10", NAN, INF, True], "n_public must be an integer >= 1"),
    ("domain", [{"a": (0, 1)}, "box", 3], r"domain must be a Domain or None.*domain=Domain\("),
    ("domain", [Domain.unit_box(2, (0.0, 1.0))], "have the domain's 2 columns, got 3"),
    ("ledger", [1.0, {}, "ledger"], r"ledger must be a Ledger or None.*Write Ledger\("),
    ("random_state", ["0", -1, 1.5, [1], True], "random_state must be"),
]
PARAMETERS = [
    ("regularization", [-1, NAN, INF, "x", None], r"regularization must be .*\[0, inf\).*auto"),
    ("mechanism", ["gauss", "L1", ""], "mechanism must be one of .*'auto', .*'hull', 'l1', 'l2'"),
    ("mechanism", [None, 3, object(), KNorm], "mechanism must .* norm ball.*'hull', 'l1', 'l2'"),
    ("mechanism", [LpBall(3), KNorm(LpBall(5)), LpBall(1)], "have a ball of 4 dimensions"),
    ("mechanism", [Rough(4), KNorm(Rough(4))], "be sampled exactly"),
    ("scaling_share", [-0.1, 1.0, 1.5, "some", NAN, None, 1e-9], "scaling_share must"),
]
CLASSIFIER = [
    ("classes", [5, "ab", [0, 0, 1], [0, "a"], [[0, 1]], {0, 1}, [0, NAN]], "of distinct labels"),
    ("classes", [[], [0]], "at least two labels"),
    ("loss", ["hinge", "Logistic"], "loss must be 'auto', one of .*'logistic', 'sharp'"),
]
REGRESSOR = [
    ("threshold", [0, -1, NAN, INF, "x", None], 'threshold must be .* > 0.*"auto"'),
    ("loss", ["huber", "squared"], "loss must be 'pseudo_huber' or a Loss"),
    ("domain", [Domain.unit_box(3)], "declare the target's bounds.*target="),
    ("domain", [Domain.unit_box(3, ["a", "b"])], "declare the target's bounds"),
]

LINEAR = [
    ("postprocess", ["lasso"], "postprocess must be one of.*'auto', 'pinv', 'psd', 'ridge'"),
    ("postprocess", [3], "postprocess must be one of .* or a function"),
    ("mechanism", ["gauss", KNorm], "mechanism must be one of"),
    ("mechanism", [LpBall(3)], "dim|coordinates|9"),
    ("mechanism", ["gaussian"], "delta must be > 0"),
    ("domain", [Domain.unit_box(3)], "declare the target's bounds"),
]

ZEROS = np.zeros(3)
STARTS = [
    *((np.zeros(2), 0.0), (np.zeros(4), 0.0), (np.zeros((2, 3)), np.zeros(2))),  # other shapes
    *((ZEROS,), (ZEROS, 0.0, 0.0), 0, "zeros", (["a", "b", "c"], 0.0), ({}, 0.0)),  # no pair
    *((ZEROS, 1j), (ZEROS, None), (np.array([0, NAN, 0]), 0.0), (ZEROS, INF)),  # no numbers
    *((ZEROS, 2.0**21), (np.full(3, 1e308), 1e308)),  # farther than any model
]
DESCENT = [
    (
        "penalty",
        ["L1", "", 0, False, ["l1"]],
        "penalty must be one of .*'elasticnet'.* None stands",
    ),
    ("alpha", [-1, NAN, INF, 1e31, "x", None], r'alpha must be a number in \[0, 1e\+30\].*"auto"'),
    ("l1_ratio", [-0.1, 1.1, NAN, "auto", None], r"l1_ratio must be a number in \[0, 1\]"),
    ("n_passes", [0, -1, 1.5, NAN, INF, "x", None, True], 'n_passes must be an integer.*"auto"'),
    ("step_size", [0, -1, NAN, 1e31, "x", None], r'step_size must be .*\[1e-30, 1e\+30\].*"auto"'),
    ("clip", [0, -1, NAN, 1e31, "none", True], r'clip must be .*\[1e-30, 1e\+30\].*None.*"auto"'),
    ("order", ["greed", None, 1], "order must be one of .*'cyclic', 'greedy', 'random'"),
    ("average", ["no", None, 0, 1], "average must be True or False"),
    (
        "scaling_share",
        [-0.1, 1, NAN, 1e-31, "x", None, True],
        r'scaling_share must be .*\[1e-06, 1\).*0 uses the bounds.*"auto"',
    ),
    ("verbose", [-1, 0.5, "yes", None], "verbose must be an integer >= 0"),
    ("callback", [1, "print", [print]], "callback must be None or a function of a Progress"),
    ("mechanism", ["gauss", "L1", "", "l2", "hull"], "must be one of .*'flipped_huber'.*'laplace'"),
    ("mechanism", [None, 3, object(), Laplace], "mechanism must have the members of a law"),
    ("mechanism", ["gaussian", Gaussian(), "flipped_huber", "subbotin"], "delta must be > 0.*1e-6"),
    ("start", STARTS, "start must be None or a pair.*one row per model"),
]


def each(estimators, table):
    return [
        # By number: the text of some objects is their address, and differs between processes.
        pytest.param(estimator, {name: value}, text, id=f"{estimator.__name__}-{name}-{row}-{k}")
        for estimator in estimators
        for row, (name, values, text) in enumerate(table)
        for k, value in enumerate(values)
    ]


def refuses(model, X, y, kind, text, **fit_parameters):
    """``fit`` raises as it should, with the note, and leaves the ledger alone."""
    ledger = None if "ledger" in model._given else skdp.Ledger(10.0)
    if ledger is not None:
        model.set_params(ledger=ledger)
    with pytest.raises(kind, match=f"(?s){text}") as caught:
        model.fit(X, y, **fit_parameters)
    assert caught.value.__notes__ == [UNCHARGED]
    assert ledger is None or ledger.entries == ()
    assert not hasattr(model, "coef_")


def model_of(estimator, **parameters):
    if estimator in CLASSIFIERS:
        parameters = {"classes": [0, 1], **parameters}
    model = estimator(**parameters)
    model._given = set(parameters)
    return model


X, Y = np.linspace(-1, 1, 30).reshape(10, 3), np.array([0, 1] * 5)
CLASSIFIERS = [DPLogisticRegression, DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, skdp.DPLinearRegression, skdp.DPCoordinateDescentRegressor]
ALL = pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])


@pytest.mark.parametrize(
    ("estimator", "parameter", "text"),
    [
        *each([*CLASSIFIERS, *REGRESSORS], SHARED),
        *each([DPLogisticRegression, DPHuberRegressor], PARAMETERS),
        *each([DPLogisticRegression], CLASSIFIER),
        *each([DPHuberRegressor], REGRESSOR),
        *each([skdp.DPLinearRegression], LINEAR),
        *each([DPCoordinateDescentClassifier, skdp.DPCoordinateDescentRegressor], DESCENT),
    ],
)
def test_bad_parameters_are_named(estimator, parameter, text):
    refuses(model_of(estimator, **parameter), X, Y, ValueError, text)


def spoiled(value, dtype=object):
    cells = X.astype(dtype)
    cells[4, 1] = value
    return cells


TABLES = {
    "sparse": (sparse.csr_array(X), ValueError, "X must be dense.*toarray"),
    "sparse matrix": (sparse.csc_matrix(X), ValueError, "X must be dense"),
    "complex": (X + 1j, ValueError, "Complex data not supported"),
    "complex cells": (spoiled(1j), ValueError, "column 1 must contain only finite numbers"),
    "1-d": (X[:, 0], ValueError, "X must have two dimensions.*Reshape your data"),
    "1-d list": ([1.0, 2.0], ValueError, "X must have two dimensions"),
    "3-d": (X[None], ValueError, "X must have two dimensions, got 3"),
    "a number": (3.0, ValueError, "X must have two dimensions, got 0"),
    "None": (None, ValueError, "X must have two dimensions, got 0"),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], ValueError, "X must have two dimensions, got 1"),
    "ragged 3-d": ([np.zeros((2, 2)), np.zeros((2, 3))], ValueError, "entries of one shape"),
    "no rows": (X[:0], ValueError, "X must have records"),
    "no columns": (X[:, :0], ValueError, "X must have columns"),
    "NaN": (spoiled(NAN, float), ValueError, "column 1 must contain only finite numbers"),
    "inf": (spoiled(-INF, float), ValueError, "column 1 must contain only finite numbers"),
    "None cell": (spoiled(None), ValueError, "column 1 must contain only finite numbers"),
    "a word": (spoiled("word"), ValueError, "column 1 must contain only finite numbers"),
    "a dict": (spoiled({}), TypeError, "column 1 must contain only finite numbers"),
    "words": (np.full((10, 3), "word"), ValueError, "column 0 must contain only finite numbers"),
    "dates": (np.zeros((10, 3), "M8[s]"), ValueError, "column 0 must contain only finite numbers"),
}


@ALL
@pytest.mark.parametrize("name", TABLES)
def test_bad_tables_are_refused(estimator, name):
    refuses(model_of(estimator), TABLES[name][0], Y, *TABLES[name][1:])


TARGETS = {
    "None": (None, ValueError, "requires y to be passed"),
    "too short": (Y[:9], ValueError, "y must have as many entries as X has rows"),
    "too long": ([*Y, 0], ValueError, "y must have as many entries as X has rows"),
    "two columns": (np.array([Y, Y]).T, ValueError, "y must be a 1d array, got 2"),
    "a frame": (pd.DataFrame({"a": Y, "b": Y}), ValueError, "y must be a 1d array, got 2"),
    "a number": (1, ValueError, "y must be a 1d array, got 0"),
    "sparse": (sparse.csr_array(Y[None]), ValueError, "y must be dense"),
    "complex": (Y + 1j, ValueError, "Complex data not supported"),
    "ragged": ([[0], [0, 1]] * 5, ValueError, "y must have entries of one shape"),
}
LABELS = {
    "an unknown number": ([0, 1] * 4 + [0, 2], "y must contain only declared labels"),
    "words": (["0", "1"] * 5, "y must contain only declared labels"),
    "mixed": ([0, "1"] * 5, "y must contain only declared labels"),
    "NaN": ([0, NAN] * 5, "y must contain only declared labels"),
    "None": ([0, None] * 5, "y must contain only declared labels"),
    "numbers between": ([0.5] * 10, "y must contain only declared labels"),
}
NUMBERS = {
    "NaN": [0.0, NAN] * 5,
    "inf": [0.0, INF] * 5,
    "None": [0.0, None] * 5,
    "words": ["a", "b"] * 5,
    "dates": np.zeros(10, "M8[s]"),
}


@ALL
@pytest.mark.parametrize("name", TARGETS)
def test_bad_targets_are_refused(estimator, name):
    refuses(model_of(estimator), X, *TARGETS[name])


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("name", LABELS)
def test_undeclared_labels_are_refused_and_the_declared_ones_named(estimator, name):
    y, text = LABELS[name]
    refuses(model_of(estimator), X, y, ValueError, rf"{text}.*The labels are \[0, 1\]")


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize("name", NUMBERS)
def test_targets_that_are_not_numbers_are_refused(estimator, name):
    text = "target must contain only finite numbers"
    refuses(model_of(estimator), X, NUMBERS[name], ValueError, text)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([0.0, NAN] * 5, "y must not contain NaN"),
        (np.linspace(0, 1, 10), "Unknown label type"),
        ([0, None] * 5, ""),
    ],
)
def test_labels_that_cannot_be_inferred_are_refused(y, text):
    refuses(model_of(DPLogisticRegression, classes=None), X, y, (ValueError, TypeError), text)


def test_positions_of_labels_are_explained_where_they_are_refused():
    model = model_of(DPLogisticRegression, classes=["no", "yes"])
    text = r"The labels are \[0, 1\], which stand for \['no', 'yes'\]"
    refuses(model, X, np.array([1, 2] * 5), ValueError, text)


@ALL
def test_fit_parameters_are_refused(estimator):
    """An offset would change what one record can do."""
    text = "does not support offset.*same bound"
    refuses(model_of(estimator), X, Y, TypeError, text, offset=np.ones(10))


def test_an_unfitted_model_says_so():
    """Also one whose only fit has failed."""
    from sklearn.exceptions import NotFittedError

    failed = DPHuberRegressor()
    with pytest.raises(ValueError, match="target must contain"):
        failed.fit(X, np.full(10, NAN))
    for model in (*(estimator() for estimator in [*CLASSIFIERS, *REGRESSORS]), failed):
        with pytest.raises(NotFittedError):
            model.predict(X)


@ALL
@pytest.mark.parametrize("scale", [0.5, 100.0])
def test_a_fit_without_a_domain_warns_whatever_the_data_are(estimator, scale):
    """The text is the same for data inside and outside of [-1, 1]; nothing depends on them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-scale, scale, (60, 2))
    is_classifier = estimator in CLASSIFIERS
    y = rng.integers(0, 2, 60) if is_classifier else X[:, 0]
    labels = {"classes": [0, 1]} if is_classifier else {}
    with pytest.warns(skdp.UndeclaredDomainWarning, match="clipped to \\[-1, 1\\]") as caught:
        estimator(random_state=0, **labels).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    domain = Domain.unit_box(2) if is_classifier else Domain.unit_box(2, target=(-1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator(domain=domain, random_state=0, **labels).fit(X, y)


def test_a_warning_that_is_an_error_spends_nothing():
    ledger = skdp.Ledger(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(skdp.UndeclaredDomainWarning):
            DPLogisticRegression(classes=[0, 1], ledger=ledger).fit([[0.0], [1.0]], [0, 1])
    assert not ledger.entries
