"""Numeric parameters of public callables: odd values get an error that names the parameter."""

import math
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Guarantee, Ledger, estimate_domain
from skdp.geometry import LpBall, MappedBall, ShearedBall, SquaresBall, SumBall
from skdp.mechanisms import EllipticGaussian, Independent, KNorm, Sensitivity, calibrate
from skdp.model_selection import PrivateSearchCV, epsilon_curve
from skdp.noise import FlippedHuber, Gaussian, Laplace, Subbotin, TruncatedLaplace, Tulap
from skdp.privacy import Composition, GaussianLoss, PairLoss, ShiftLoss, compose

# Never a number.
WRONG = {
    "empty text": "",
    "bytes": b"",
    "NUL": "\0",
    "text": "x",
    "NA": pd.NA,
    "NaT": pd.NaT,
    "array": np.array([1.0]),
    "no entries": np.array([]),
    "array of text": np.array(["replace_one"]),
    "Series": pd.Series([1.0]),
    "frame": pd.DataFrame({"a": [1.0]}),
    "complex": 1j,
    "list": [1.0],
    "dict": {},
    "object": object(),
    "NaN": math.nan,
    "signalling NaN": Decimal("sNaN"),
}
# A number that some parameters take.
EXTREME = {
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "a half": 0.5,
    "huge": 10**400,
    "too many digits": 10**5000,
    "10^13": 10**13,
    "10^200": 10**200,
    "True": True,
    "Decimal": Decimal("0.5"),
    "0-d": np.array(1.0),
}
X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
Y = (X[:, 0] > 0).astype(int)
CLASSES, NUMBERS = (Domain.unit_box(2, target=target) for target in ([0, 1], (0, 1)))
BALL = LpBall(2, p=1)
SENSITIVITY = Sensitivity(BALL, 1.0)
MODEL = DPLogisticRegression(domain=CLASSES, random_state=0)
PUBLIC = DPLogisticRegression(domain=CLASSES, random_state=0).fit(X, Y)


def fitted(kind, name, value):
    """A fit for persons, so that all parameters count; an error leaves the ledger as it was."""
    ledger, domain = Ledger(math.inf, 0.9), NUMBERS if "Regress" in kind.__name__ else CLASSES
    domain = CLASSES if kind is DPLogisticRegression else domain
    given = {"domain": domain, "random_state": 0, "ledger": ledger, name: value}
    try:
        kind(**given).fit(X, Y, groups=np.arange(40))
    except Exception:
        assert ledger.spent.epsilon == 0
        raise


def inferred(name, value):
    ledger = Ledger(math.inf, 0.9)
    try:
        PUBLIC.infer(X, Y, **{"epsilon": 1.0, "random_state": 0, "ledger": ledger, name: value})
    except Exception:
        assert ledger.spent.epsilon == 0
        raise


def searched(name, value):
    grid = {"regularization": [1.0, 2.0]}
    PrivateSearchCV(MODEL, grid, **{"random_state": 0, name: value}).fit(X, Y)


def curved(name, value):
    epsilon_curve(MODEL, X, Y, **{"epsilons": [1.0], "repeats": 1, "random_state": 0, name: value})


def called(function, name, value, **others):
    return function(**others, **{name: value})


# Of all estimators; one reader has them, which two estimators show.
ALL = ["epsilon", "delta", "n_public", "rows_per_person", "neighbors", "fit_intercept"]
FITS = {
    DPLogisticRegression: [*ALL, "regularization", "scaling_share", "additive"],
    DPHuberRegressor: ["threshold", "regularization", "scaling_share"],
    skdp.DPPoissonRegressor: ["threshold"],
    skdp.DPLinearRegression: ALL,
    skdp.DPCoordinateDescentClassifier: ["n_passes", "alpha", "l1_ratio", "step_size", "clip"],
    skdp.DPCoordinateDescentRegressor: ["scaling_share", "mechanism", "verbose", "average"],
}
CALLS = {
    f"{kind.__name__}: {name}": partial(fitted, kind, name)
    for kind, names in FITS.items()
    for name in names
} | {
    f"{label}: {name}": partial(called, function, name, **others)
    for label, function, others, names in [
        ("Ledger", Ledger, {}, ["epsilon"]),
        ("Ledger", partial(Ledger, 1.0), {}, ["delta"]),
        ("Guarantee", Guarantee, {}, ["epsilon"]),
        ("Guarantee", partial(Guarantee, 1.0), {}, ["delta", "neighbors", "unit"]),
        ("Guarantee.delta_at", Guarantee(1.0).delta_at, {}, ["epsilon"]),
        ("Guarantee.epsilon_at", Guarantee(1.0).epsilon_at, {}, ["delta"]),
        ("Guarantee.group", Guarantee(1.0).group, {}, ["k"]),
        ("compose", partial(compose, Guarantee(1.0), Guarantee(1.0)), {}, ["delta"]),
        ("calibrate", partial(calibrate, KNorm("l1"), SENSITIVITY), {}, ["epsilon"]),
        ("calibrate", partial(calibrate, "l2", SENSITIVITY, epsilon=1.0), {}, ["delta"]),
        ("Sensitivity", partial(Sensitivity, BALL), {}, ["radius", "neighbors"]),
        ("LpBall", LpBall, {}, ["dim"]),
        ("LpBall", partial(LpBall, 2), {}, ["p", "radius", "weights"]),
        ("MappedBall", partial(MappedBall, BALL), {}, ["matrix"]),
        ("ShearedBall", partial(ShearedBall, BALL), {}, ["shift"]),
        ("SumBall", partial(SumBall, [BALL]), {}, ["weights"]),
        ("SquaresBall", SquaresBall, {}, ["n_numbers"]),
        ("EllipticGaussian", EllipticGaussian, {}, ["weights"]),
        ("Independent", partial(Independent, "laplace"), {}, ["proportions"]),
        ("Laplace", Laplace, {}, ["scale"]),
        ("Gaussian", Gaussian, {}, ["scale"]),
        ("Subbotin", Subbotin, {}, ["r"]),
        ("FlippedHuber", FlippedHuber, {}, ["alpha"]),
        ("TruncatedLaplace", TruncatedLaplace, {}, ["bound"]),
        ("Tulap", Tulap, {}, ["epsilon"]),
        ("PairLoss", PairLoss, {}, ["epsilon"]),
        ("GaussianLoss", GaussianLoss, {}, ["mu"]),
        ("ShiftLoss", partial(ShiftLoss, Laplace()), {}, ["shift"]),
        ("Composition", Composition, {}, ["parts"]),
        ("Composition", Composition([(PairLoss(1.0), 2)]).delta_at, {}, ["epsilon"]),
        ("Domain.unit_box", Domain.unit_box, {}, ["d"]),
        ("Domain.l2_ball", Domain.l2_ball, {"d": 2}, ["radius"]),
        ("estimate_domain", partial(estimate_domain, X), {"random_state": 0}, ["epsilon"]),
        ("estimate_domain", partial(estimate_domain, X, epsilon=1.0), {}, ["delta", "neighbors"]),
    ]
    for name in names
}
CALLS |= {
    "a bound of a Domain: 'a'": lambda value: Domain({"a": (-2, value)}),
    "a column of a Domain: 'a'": lambda value: Domain({"a": value}),
    "a knot: 'a'": lambda value: Domain({"a": skdp.Spline(0, 1, knots=value)}),
}
SEARCHES = ["epsilon", "delta", "held_out", "n_jobs"]
CURVES = ["epsilons", "repeats", "n_jobs"]
INFERENCE = ["epsilon", "delta", "ledger", "random_state"]
CALLS |= {f"infer: {name}": partial(inferred, name) for name in INFERENCE}
CALLS |= {f"PrivateSearchCV: {name}": partial(searched, name) for name in SEARCHES}
CALLS |= {f"epsilon_curve: {name}": partial(curved, name) for name in CURVES}
# These take sequences, among them some of the values that are no numbers.
SEQUENCES = ["weights", "matrix", "shift", "proportions", "epsilons", "deltas", "parts", "'a'"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_odd_values_are_taken_or_get_an_error_that_names_the_parameter(call):
    """No raw error of numpy, pandas or Python; what is no number is refused."""
    function, name = CALLS[call], call.rpartition(" ")[2]
    taken = []
    for label, value in (WRONG | EXTREME).items():
        try:
            function(value)
            taken.append(label)
        except (TypeError, ValueError) as error:
            text = str(error)
            assert name in text, (label, text)
            assert " must " in text, (label, text)
            assert len(text) < 1000, label
    assert name in SEQUENCES or not {*taken} & {*WRONG}


LIMITS = {
    "DPCoordinateDescentClassifier: n_passes": 10**6,
    "DPLogisticRegression: n_public": 2**53,
    "DPLogisticRegression: rows_per_person": 10**9,
    "epsilon_curve: repeats": 10**4,
    "Domain.unit_box: d": 10**6,
}


@pytest.mark.parametrize("call", LIMITS)
def test_counts_that_would_take_days_are_refused(call):
    """Before the budget is spent (`fitted`), and before memory is asked for."""
    with pytest.raises(ValueError, match=f"must be an integer <= {LIMITS[call]}, got"):
        CALLS[call](LIMITS[call] + 1)
