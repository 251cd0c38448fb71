"""Domains, guarantees and fitted models as dicts and JSON text, and back."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import importlib
import json
import os
import pickle
from contextlib import suppress
from functools import reduce
from operator import getitem

import numpy as np
import pandas as pd
import pytest
from file_edits import changed, outcome, paths
from sklearn.base import clone, is_classifier
from spent import refused

import skdp
from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Guarantee, from_json, load_model
from skdp.geometry import LpBall
from skdp.linear_model import SKOPS_TYPES, check_proof
from skdp.linear_model.losses import LogisticLoss, PseudoHuber
from skdp.mechanisms import KNorm, Sensitivity, calibrate
from skdp.noise import Laplace
from skdp.trusted import NotPrivate, overview

CLASSIFIERS = [DPLogisticRegression, skdp.DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, skdp.DPLinearRegression, skdp.DPCoordinateDescentRegressor]
ESTIMATORS = [*CLASSIFIERS, *REGRESSORS]
SEED = 918273645

DOMAINS = {
    "numbers and levels": Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"]),
    "other": Domain({"sex": ["f", "m", "?"], "x": (-1, 1)}, target=(0, 1), other={"sex": "?"}),
    "types of levels": Domain({"a": [0, "0", 2.5, True], "b": [1.0], "c": [False, 7]}),
    "awkward numbers": Domain({"a": (-1e-300, 0.1 + 0.2), "b": (-1e308, 1.7e308)}),
    "awkward names": Domain({'"\n\\': (0, 1), "Ünï": ["", "\u2028"]}, target=["\ud800", "b"]),
    "missing": Domain(
        {"a": (0, 9), "b": (0, 9), "c": (0, 9), "d": ["x"]},
        missing={"a": "indicator", "b": "middle", "c": 7.5, "d": "indicator"},
    ),
    "box": Domain.box([0, -1.5], [1, 2], target=[True, False]),
    "named box": Domain.box([0], [1], names=["x"], target=[2**70, 0]),
    "unit box": Domain.unit_box(3, target=(-1.0, 1.0)),
    "ball": Domain.l2_ball(4, 2.5, target=(-3, 3)),
    "ball without target": Domain.l2_ball(1, 1.0),
    "interactions": Domain({"a": ["x", "y"], "b": (0, 1), "c": ["u", "v"]}).interact("c", "a"),
    "encoded": Domain({"a": (0, 2), "b": ["x", "y", "z"], "c": ["one"]}, target=[0, 1]).encoded,
    "estimated": skdp.estimate_domain(
        pd.DataFrame({"a": np.linspace(3, 5, 500)}), epsilon=1.0, random_state=0
    ),
}


def types_in(content):
    """The types of everything in a tree of dicts and lists."""
    yield type(content)
    if isinstance(content, dict):
        for key, value in content.items():
            assert type(key) is str
            yield from types_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from types_in(value)


PLAIN = {dict, list, str, int, float, bool, type(None)}


def exact(domain):
    """What == of levels does not tell apart: 1, 1.0 and True; -0.0 and 0.0."""
    return repr([*map(dataclasses.astuple, domain._columns), domain._key()])


# Domains


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_a_domain_reads_back_as_it_was(domain):
    """Equal, with the same encoding, and with what == does not compare.

    These are the types of levels, and the guarantee of an estimate.
    """
    for again in (Domain.from_dict(domain.to_dict()), Domain.from_json(domain.to_json())):
        assert type(again) is Domain
        assert again == domain
        assert exact(again) == exact(domain)
        assert repr(again) == repr(domain)
        stated = domain.estimated  # losses are not written
        assert again.estimated == (stated and dataclasses.replace(stated, losses=()))
        assert again.encoded_names() == domain.encoded_names()
        rows = domain.sample(20, np.random.default_rng(0))
        np.testing.assert_array_equal(again.encode(rows), domain.encode(rows))
    assert set(types_in(domain.to_dict())) <= PLAIN
    assert json.loads(domain.to_json()) == domain.to_dict()


@pytest.mark.parametrize("level", [(1, 2), datetime.date(2020, 1, 1), b"x", np.inf, 1j])
@pytest.mark.parametrize("place", ["column", "target"])
def test_other_levels_are_an_error_that_names_the_column(level, place):
    if place == "column":
        domain, name = Domain({"fine": (0, 1), "day": ["a", level]}), "column 'day'"
    else:
        domain, name = Domain({"fine": (0, 1)}, target=["a", level]), "the target"
    with pytest.raises(ValueError, match=f"{name} must have levels that are strings, finite"):
        domain.to_dict()


def without(key):
    return lambda part: {name: value for name, value in part.items() if name != key}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {**d, "version": 2}, "have the version 1, got 2. If a later version"),
        (lambda d: {**d, "version": True}, "have the version 1"),
        (lambda d: {**d, "kind": "Guarantee"}, r"a kind of \['Domain'\], got 'Guarantee'"),
        (lambda d: {**d, "missing": {}}, r"no entries but .*, got \['missing'\]"),
        (lambda d: without("radius")(d), r"Missing are \['radius'\]"),
        (lambda d: {**d, "columns": []}, "at least one column"),
        (lambda d: {**d, "radius": 1.0}, "bounds -radius and radius"),
        (
            lambda d: {**d, "columns": [*d["columns"], d["columns"][0] | {"name": None}]},
            "a name for every",
        ),
        (lambda d: {**d, "columns": d["columns"] * 2}, "differ from each other"),
    ],
)
def test_a_broken_domain(change, message):
    with pytest.raises(ValueError, match=message):
        Domain.from_dict(change(DOMAINS["numbers and levels"].to_dict()))


BROKEN = ["", "{", "[" * 100_000, '{"a": NaN}', '{"a": -Infinity}', "9" * 5000, b""]
# Of two entries with one name a reader may see one, and the program take the other.
REPEATED = DOMAINS["box"].to_json().replace('"radius": null', '"radius": null, "radius": null')


@pytest.mark.parametrize(
    ("text", "message"),
    [*((text, "") for text in BROKEN), (REPEATED, ".*an entry is repeated")],
    ids=str,
)
def test_broken_json(text, message):
    """Strict JSON only; the error hides that of the parser."""
    with pytest.raises(ValueError, match=f"(?s)the domain must{message}") as error:
        Domain.from_json(text)
    assert error.value.__context__ is None


# Guarantees


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(0.1 + 0.2),
        Guarantee(1.0, 1e-6, "add_remove", "noise", ("a", "b"), ("seeded",)),
        calibrate("gaussian", Sensitivity(LpBall(2)), epsilon=0.5, delta=1e-6).guarantee,
        Guarantee(0.0, 1.0),
    ],
    ids=["pure", "void", "with losses", "nothing"],
)
def test_a_guarantee_reads_back_without_its_losses(guarantee):
    content = guarantee.to_dict()
    assert set(types_in(content)) <= PLAIN
    again = Guarantee.from_dict(json.loads(json.dumps(content, allow_nan=False)))
    assert again == dataclasses.replace(guarantee, losses=())
    assert str(again).splitlines()[:4] == str(guarantee).splitlines()[:4]
    # What it claims beyond epsilon and delta is true: no less than what the losses show.
    assert again.mu >= guarantee.mu
    assert again.delta_at(0.1) >= guarantee.delta_at(0.1)
    if guarantee.holds:
        assert content["equivalents"]["rho"] in (guarantee.rho, None)
    else:
        assert content["equivalents"] == {"mu": None, "rho": None}


# Models


@pytest.fixture(scope="module")
def tables(people, answers, pay, domain, pay_domain):
    """For each name: rows, targets of a classifier and a regressor, and both domains."""
    rng = np.random.default_rng(0)
    numbers = rng.uniform(-1, 1, size=(300, 3))
    three = rng.choice(["a", "b", "c"], len(people))
    size = pay / 60
    columns = {"age": (17, 90), "sex": ["f", "m"], "job": ["none", "clerk", "smith"]}
    columns["hours"] = (0, 80)

    def both(make):
        return make(["no", "yes"]), make((-10.0, 50.0))

    codes = pd.DataFrame({"u": rng.choice([3, 1], 300), "v": rng.choice(["x", "y", "z"], 300)})
    found = {
        "frame": (people, answers, pay, (domain, pay_domain)),
        "ball": (numbers, None, None, both(lambda target: Domain.l2_ball(3, 1.2, target))),
        "box": (numbers, None, None, both(lambda target: Domain.box([-1] * 3, [2] * 3, target))),
        "levels": (codes, None, None, both(lambda t: Domain({"u": [3, 1], "v": [*"xyz"]}, t))),
        "undeclared": (numbers, None, None, (None, None)),
        "encoded": (domain.encode(people), answers, pay, (domain.encoded, pay_domain.encoded)),
        "three": (people, three, size, (Domain(columns, ["b", "a", "c"]), pay_domain)),
    }
    for name, (rows, y, t, domains) in found.items():
        if y is None:
            y = np.where(np.arange(len(rows)) % 3 > 0, "yes", "no")
            t = np.linspace(-1, 1, len(rows))
        found[name] = rows, y, t, domains
    return found


@pytest.fixture(scope="module")
def fitted(tables):
    """Return a fitted model with rows, fitting each once."""
    known = {}

    def model_of(estimator, name, **parameters):
        key = estimator, name, *sorted(parameters.items())
        if key not in known:
            rows, labels, numbers, domains = tables[name]
            classes = is_classifier(estimator())
            given = {"random_state": SEED, "domain": domains[0 if classes else 1], **parameters}
            known[key] = estimator(**given).fit(rows, labels if classes else numbers)
        return copy.copy(known[key]), tables[name][0]

    return model_of


TABLES = ["frame", "ball", "box", "levels", "undeclared", "encoded", "three"]
OPTIONS = [
    *((estimator, name, {}) for estimator in ESTIMATORS for name in TABLES),
    *((estimator, "frame", {"delta": 1e-6}) for estimator in ESTIMATORS),
    *((estimator, "box", {"fit_intercept": False}) for estimator in ESTIMATORS),
    *((estimator, "box", {"neighbors": "add_remove", "n_public": 300}) for estimator in ESTIMATORS),
    (DPLogisticRegression, "frame", {"epsilon": 20.0, "scaling_share": 0.2}),
    (DPLogisticRegression, "three", {"delta": 1e-5, "mechanism": "gaussian"}),
    (DPHuberRegressor, "frame", {"epsilon": 20.0, "scaling_share": 0.2}),
    (DPHuberRegressor, "frame", {"loss": PseudoHuber(0.2)}),
    (skdp.DPLinearRegression, "box", {"mechanism": "gaussian", "delta": 1e-6}),
    (skdp.DPLinearRegression, "box", {"epsilon": 100.0}),
]
pytestmark = pytest.mark.filterwarnings("ignore:No domain was given")


def values_of(model, rows):
    """Everything that a model computes of rows."""
    methods = ("predict", "decision_function", "predict_proba", "predict_log_proba")
    return [getattr(model, name)(rows) for name in methods if hasattr(model, name)]


def same_values(one, other, rows):
    pairs = zip(values_of(one, rows), values_of(other, rows), strict=True)
    return all(a.dtype.kind == b.dtype.kind and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("estimator", "name", "parameters"), OPTIONS)
def test_a_model_reads_back_with_the_same_predictions(fitted, estimator, name, parameters):
    """Bit for bit, from the dict and from text; with all attributes that are numbers."""
    model, rows = fitted(estimator, name, **parameters)
    content, text = model.to_dict(), model.to_json()
    assert set(types_in(content)) <= PLAIN
    assert json.loads(text) == content
    for again in (load_model(content), from_json(text)):
        assert type(again) is estimator
        assert same_values(model, again, rows)
        assert same_values(model, again, rows[:1])
        assert again.to_json() == text or parameters  # objects are left out again
        lines = overview(model.releases_, model.public_)
        assert overview(again.releases_, again.public_) == check_proof(again).lines == lines
        for attribute in vars(model):
            if attribute.endswith("_") and attribute not in ABSENT:
                expected, found = getattr(model, attribute), getattr(again, attribute)
                np.testing.assert_array_equal(found, expected, err_msg=attribute)
        assert again.guarantee_ == dataclasses.replace(model.guarantee_, losses=())
        assert again._design.domain == model._design.domain
        assert again.domain == model.domain
        assert str(SEED) not in text
        repr(again)
        copies = pickle.loads(pickle.dumps(again)), copy.deepcopy(again)
        assert all(same_values(again, one, rows) for one in copies)


ABSENT = {"noise_", "loss_", "history_", "moments_", "coef_corr_", "guarantee_"}
ABSENT |= {"releases_"}  # compared line by line


@pytest.mark.parametrize("labels", [[2, 7], [-1.5, 0.5, 2.5], [False, True], ["a", "bcd"]], ids=str)
@pytest.mark.parametrize("dtype", [None, object])
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels_keep_their_types(estimator, labels, dtype):
    rows = np.random.default_rng(0).uniform(-1, 1, size=(100, 2))
    y = np.array(labels, dtype=dtype)[np.arange(100) % len(labels)]
    model = estimator(domain=Domain.unit_box(2), classes=labels, random_state=0).fit(rows, y)
    again = from_json(model.to_json())
    assert again.classes_.dtype == model.classes_.dtype
    assert again.predict(rows).tolist() == model.predict(rows).tolist()
    assert again.get_params()["classes"] == labels


def test_labels_that_json_cannot_hold_are_an_error():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    rows = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    model = DPLogisticRegression(domain=Domain.unit_box(2), classes=days, random_state=0)
    model.fit(rows, days[np.arange(50) % 2])
    with pytest.raises(ValueError, match=r"classes must contain strings, bools.*Declare strings"):
        model.to_dict()


def test_a_model_from_moments_reads_back(fitted):
    model, rows = fitted(skdp.DPLinearRegression, "box", mechanism="matrix")
    other = model.from_moments(["x0"], target="x2")
    again = from_json(other.to_json())
    assert same_values(other, again, rows[:, :1])
    assert overview(again.releases_, again.public_) == overview(model.releases_, model.public_)
    with pytest.raises(ValueError, match="find the released moments"):
        again.from_moments()


def test_a_file_is_read_up_to_a_size(tmp_path, fitted, monkeypatch):
    model, rows = fitted(DPHuberRegressor, "frame")
    path = tmp_path / "model.json"
    path.write_text(model.to_json())
    assert same_values(load_model(path), model, rows)
    assert same_values(load_model(str(path)), model, rows)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "other.json")
    text = model.to_json()
    for wrong in (path, str(path), 3, None, json.loads(text)):
        with pytest.raises(ValueError, match="text must be JSON text"):
            from_json(wrong)
    # At the greatest size, and beyond it.
    monkeypatch.setattr("skdp.linear_model.load._MOST", path.stat().st_size)
    assert same_values(load_model(path), model, rows)
    assert same_values(from_json(text), model, rows)
    path.write_text(text + " ")
    with pytest.raises(ValueError, match=r"the file must have at most \d+ bytes"):
        load_model(path)
    with pytest.raises(ValueError, match=r"text must have at most \d+ characters"):
        from_json(text + " ")
    monkeypatch.undo()
    path.write_bytes(pickle.dumps(model))
    with pytest.raises(ValueError, match="the file must be JSON text"):
        load_model(path)


def test_only_dicts_and_regular_files_are_read(fitted):
    """A device or a pipe may have no end; text of a model is not quoted."""
    text = fitted(DPHuberRegressor, "frame")[0].to_json()
    for wrong in (text, " \n" + text, "model\0.json"):
        with pytest.raises(ValueError, match="For JSON text call from_json") as caught:
            load_model(wrong)
        assert "coef" not in str(caught.value)
    for place in (".", "", os.devnull, 3):
        with pytest.raises(ValueError, match=r"source must be a dict, or the path of a regular"):
            load_model(place)


def test_a_subclass_is_an_error(fitted):
    class Mine(DPHuberRegressor):
        pass

    model, _ = fitted(DPHuberRegressor, "box")
    mine = Mine()
    vars(mine).update(vars(model))
    with pytest.raises(ValueError, match="be an estimator of skdp, got 'Mine'"):
        mine.to_dict()


# Fitting again


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_loaded_model_is_fitted_again_with_the_same_parameters(fitted, tables, estimator):
    """But for random_state: the second fit is a real one."""
    model, rows = fitted(estimator, "frame", epsilon=2.0)
    again = load_model(model.to_dict())
    assert again.random_state is None
    parameters = model.get_params() | {"random_state": None}
    assert clone(again).get_params() == parameters
    target = tables["frame"][1 if is_classifier(model) else 2]
    refitted = clone(again).fit(rows, target)
    assert refitted.guarantee_.holds
    assert not np.array_equal(refitted.coef_, model.coef_)
    seeded = clone(again).set_params(random_state=SEED).fit(rows, target)
    np.testing.assert_array_equal(seeded.coef_, model.coef_)


def mean_of_target(moments):
    """The coefficients (intercept first) of the model that predicts the mean."""
    return np.append(moments.matrix[0, -1], np.zeros(len(moments.matrix) - 2))


OBJECTS = [
    *((estimator, "ledger", skdp.Ledger(10.0)) for estimator in ESTIMATORS),
    (DPLogisticRegression, "loss", LogisticLoss()),
    (DPHuberRegressor, "loss", PseudoHuber(0.3)),
    (DPLogisticRegression, "mechanism", LpBall(4)),
    (DPHuberRegressor, "mechanism", KNorm("l2")),
    (skdp.DPLinearRegression, "mechanism", KNorm("l1")),
    (skdp.DPLinearRegression, "postprocess", mean_of_target),
    (skdp.DPCoordinateDescentClassifier, "mechanism", Laplace()),
    (skdp.DPCoordinateDescentClassifier, "callback", print),
    (skdp.DPCoordinateDescentRegressor, "start", (np.zeros(3), 0.0)),
]


@pytest.mark.parametrize(("estimator", "parameter", "value"), OBJECTS)
def test_objects_are_left_out_and_a_fit_without_them_is_an_error(
    tables, estimator, parameter, value
):
    """Before anything is spent. With the object it works."""
    rows, labels, numbers, domains = tables["box"]
    domain, y = domains[estimator in REGRESSORS], numbers if estimator in REGRESSORS else labels
    model = estimator(domain=domain, random_state=0, **{parameter: value}).fit(rows, y)
    content = model.to_dict()
    assert content["left_out"] == [parameter]
    again = load_model(content)
    assert repr(getattr(again, parameter)) == "<not in the file>"
    assert "<not in the file>" in repr(again)
    assert same_values(model, again, rows)
    assert again.to_dict() == content
    copied = clone(again)
    if parameter != "ledger":
        copied.set_params(ledger=skdp.Ledger(10.0))
    with refused(parameter, None if parameter == "ledger" else copied.ledger):
        copied.fit(rows, y)
    copied.set_params(**{parameter: value}).fit(rows, y)
    assert copied.ledger.spent.epsilon >= 1.0


def test_another_domain_that_was_set_after_the_fit_is_left_out(fitted):
    """The domain of the fit is in the file, and is not the estimator's parameter any more."""
    model, rows = fitted(DPHuberRegressor, "box")
    model.domain = Domain.unit_box(3, target=(0, 1))
    again = from_json(model.to_json())
    assert same_values(model, again, rows)
    with pytest.raises(ValueError, match="domain must be a Domain or None"):
        again.fit(rows, np.zeros(len(rows)))


# Wrong files


@pytest.mark.rest_is_slow(3)
@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (DPLogisticRegression, "three"),
        *((estimator, "frame") for estimator in [*REGRESSORS, *CLASSIFIERS]),
    ],
)
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_wrong_entries_of_a_model(fitted, estimator, name):
    """Every entry is replaced by values of other types: an error, or a model that predicts."""
    model, rows = fitted(estimator, name)
    content, accepted = model.to_dict(), set()
    for path in paths(content, most=3):
        part = reduce(getitem, path, content)
        if isinstance(part, dict):
            with pytest.raises(ValueError, match="must"):
                load_model(changed(content, path, lambda old: {**old, "unknown": 1}))
            optional = path[:1] in (("parameters",), ("attributes",))
            for key in part if not optional else ():
                with pytest.raises(ValueError, match="must"):
                    load_model(changed(content, path, without(key)))
        for wrong in (None, "x", -1, True, [], {}, np.nan, 10**400) if path else ():
            if wrong == part and type(wrong) in (type(part), int):
                continue
            again, error = outcome(load_model, changed(content, path, lambda _, wrong=wrong: wrong))
            if error is None:
                accepted.add(path[0])
                assert again.predict(rows[:3]).shape == (3,)
                assert repr(again)
                assert str(again.guarantee_)
                with suppress(NotPrivate):
                    assert check_proof(again).guarantee.epsilon >= again.public_.epsilon
            else:
                assert "must" in str(error)
                assert error.__context__ is None or error.__suppress_context__
    # What predictions are computed from, and what a reader sees of it, cannot be changed apart.
    free = {"skdp", "guarantee", "public", "releases", "records", "attributes", "parameters"}
    assert accepted <= {*free, "left_out", "feature_names", "domain", "classes"}


EDITS = [
    (("kind",), lambda _: "Pipeline", "have a kind of"),
    (("kind",), lambda _: "os.system", "have a kind of"),
    (("version",), lambda _: 2, "have the version 1, got 2"),
    (("encoded", "coef", "shape"), lambda _: [5, 1], r"numbers of shape \(1, 5\)"),
    (("encoded", "intercept", "entries"), lambda old: old * 2, "be that of 2 entries"),
    (("encoded", "coef", "entries", 0), lambda old: old + 1e-6, "coef must agree"),
    (("encoded", "intercept", "entries", 0), lambda old: old + 1e-6, "intercept must agree"),
    (("coefficients", "coef"), lambda old: np.add(old, 1e-6).tolist(), "coef must agree"),
    (("coefficients", "names", 0), lambda _: "income", "names must be those of the domain"),
    (("domain", "columns", 0, "upper"), lambda _: 91.0, "must agree"),
    (("domain", "columns", 0, "name"), lambda _: "income", "feature_names must be the names"),
    (("feature_names",), lambda old: old[:-1], "have 4 entries, got 3"),
    (("parameters", "random_state"), lambda _: 3, "no entries but|not be in the file"),
    (("parameters", "epsilon"), lambda _: [1.0], "be a string, a finite number"),
    (("left_out",), lambda _: ["epsilon"], "not be in the file and left out"),
    (("left_out",), lambda _: ["fit"], "no entries but"),
    (("releases", 0, "noise", "scale"), lambda _: -1.0, "scale must be a finite number > 0"),
    (("releases",), lambda _: [], "releases must name what was released"),
    (("public", "unit"), lambda _: "table", "unit must be one of"),
    (("skdp",), lambda _: None, "skdp must be a string"),
]


@pytest.mark.parametrize(("path", "change", "message"), EDITS)
def test_an_edited_model(fitted, path, change, message):
    """Entries that contradict each other, shapes that do not fit, and unknown classes."""
    model, _ = fitted(DPHuberRegressor, "frame")
    content = model.to_dict()
    if path == ("parameters", "random_state"):
        content["parameters"]["random_state"] = None
    with pytest.raises(ValueError, match=message):
        from_json(json.dumps(changed(content, path, change)))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a"], "str"),
        (["a", "a"], "str"),
        ([1, True], "int64"),
        ([1, 2], "datetime64[s]"),
        ([1, 2], "U1000000000"),
        ([None, "a"], "object"),
        (["maybe", "yes"], "str"),  # the domain declares others
    ],
)
def test_wrong_labels_of_a_model(fitted, labels, kind):
    model, _ = fitted(DPLogisticRegression, "frame")
    array = {"kind": "array", "type": kind, "shape": [len(labels)], "entries": labels}
    content = model.to_dict() | {"classes": array}
    with pytest.raises(ValueError, match=r"classes(: entries|: type|: labels)? must"):
        load_model(content)


# What is in a file


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_file_has_no_data_and_no_seed(tables, estimator):
    """Two models with the same coefficients and other rows have the same file."""
    rows, labels, numbers, domains = tables["box"]
    y, domain = (numbers, domains[1]) if estimator in REGRESSORS else (labels, domains[0])
    model = estimator(domain=domain, random_state=SEED).fit(rows, y)
    other = estimator(domain=domain, random_state=SEED + 1).fit(rows[::-1] / 2, y)
    for name, value in vars(model).items():
        if name.lstrip("_").startswith(("coef", "intercept", "encoded", "bounds", "clipping")):
            setattr(other, name, value)
        if name in ("target_bounds_", "threshold_"):
            setattr(other, name, value)
    assert other.to_json() == model.to_json()
    assert str(SEED) not in model.to_json()


# skops


def test_skops_reads_a_model_with_the_documented_types(fitted):
    """All types that it asks for are in the list, and predictions are the same."""
    sio = pytest.importorskip("skops.io")
    for estimator, name, parameters in OPTIONS:
        if name not in ("frame", "encoded", "three"):
            continue
        model, rows = fitted(estimator, name, **parameters)
        dumped = sio.dumps(model)
        assert set(sio.get_untrusted_types(data=dumped)) <= {*SKOPS_TYPES}
        assert same_values(sio.loads(dumped, trusted=[*SKOPS_TYPES]), model, rows)


def test_the_documented_types_are_classes_of_this_package():
    for name in SKOPS_TYPES:
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), kind), type)
        assert name.startswith("skdp.")
    assert sorted(SKOPS_TYPES) == [*dict.fromkeys(SKOPS_TYPES)]
