"""The proof that a model's file carries: what is checked again, and what is refused."""

import copy
import dataclasses
import hashlib
import html
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from inner_package import main_module
from public_estimators import ESTIMATORS

import skdp
from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression
from skdp.geometry import LpBall
from skdp.linear_model import check_proof, from_json, load_model
from skdp.linear_model.losses import PseudoHuber
from skdp.mechanisms import KNorm
from skdp.model_selection import PrivateSearchCV
from skdp.trusted import NotPrivate, certify, overview

COLUMNS = {"age": (17, 90), "sex": ["f", "m"], "city": ["a", "b", "c"], "hours": (0, 60)}
CLASSIFIERS = (DPLogisticRegression, skdp.DPCoordinateDescentClassifier)
# A model, or an inference, for each kind of release, noise and change.
MODELS = [
    (DPLogisticRegression, {}),
    (DPLogisticRegression, {"delta": 1e-6, "mechanism": "gaussian"}),
    (DPLogisticRegression, {"labels": 3}),
    (DPLogisticRegression, {"infer": {"epsilon": 0.5, "delta": 1e-6}}),
    (DPLogisticRegression, {"persons": True, "rows_per_person": 3}),
    (DPLogisticRegression, {"mechanism": "logistic"}),
    (DPHuberRegressor, {"scaling_share": 0.1, "neighbors": "add_remove"}),
    (DPHuberRegressor, {"additive": "auto", "epsilon": 3.0}),
    (DPLinearRegression, {}),
    (DPLinearRegression, {"mechanism": "matrix"}),
    (DPLinearRegression, {"mechanism": "laplace"}),
    (DPLinearRegression, {"mechanism": "gaussian", "delta": 1e-6}),
    (DPLinearRegression, {"infer": {"epsilon": 0.1, "delta": 1e-3}}),
    (DPLinearRegression, {"ball": True}),
    (DPLinearRegression, {"ball": True, "delta": 1e-6}),
    (DPLinearRegression, {"delta": 1e-3, "epsilon": 0.3}),
    (DPLogisticRegression, {"mechanism": "hull"}),
    (skdp.DPCoordinateDescentClassifier, {"labels": 3}),
    (skdp.DPCoordinateDescentClassifier, {"delta": 1e-6}),
    (skdp.DPCoordinateDescentRegressor, {"order": "greedy"}),
    (skdp.DPCoordinateDescentRegressor, {"mechanism": "laplace", "ball": True}),
    (DPHuberRegressor, {"persons": True, "infer": {"epsilon": 1.0, "rows_per_person": 3}}),
    (DPLogisticRegression, {"ball": True, "neighbors": "add_remove", "infer": {"epsilon": 2.0}}),
    (DPLinearRegression, {"mechanism": "matrix", "infer": {}}),
    (DPHuberRegressor, {"infer": {"epsilon": 1.0, "effects": ["sex"]}}),
    (DPLogisticRegression, {"infer": {"epsilon": 1.0, "effects": ["city"]}}),
    (skdp.DPPoissonRegressor, {"infer": {"epsilon": 1.0}}),
]
# The share of noise, and of epsilon, that is refused.
TOO_LITTLE = 0.95


def fitted(estimator, parameters, n=3000):
    """A model of artificial records or its inference, with noise from the operating system."""
    given = dict(parameters)
    infer = given.pop("infer", None)
    labels, persons = given.pop("labels", 2), given.pop("persons", False)
    lowest = 0.0 if issubclass(estimator, skdp.DPPoissonRegressor) else -5.0
    target = [*range(labels)] if estimator in CLASSIFIERS else (lowest, 20.0)
    domain = Domain(COLUMNS, target=target)
    if given.pop("ball", False):
        domain = Domain.l2_ball(3, radius=2.0, target=target)
    X, y = domain.sample(n, random_state=0, with_target=True)
    groups = {"groups": np.arange(n) // 3} if persons else {}
    model = estimator(domain=domain, **given).fit(X, y, **groups)
    if infer is None:
        return model
    model.set_params(rows_per_person=infer.get("rows_per_person", 1))
    budget = {name: infer[name] for name in ("epsilon", "delta", "effects") if name in infer}
    return model.infer(X, y, **groups, **budget) if infer else model.infer()


def stated(model):
    """The guarantee, the releases and the public facts of a model or an inference."""
    if hasattr(model, "coef_"):
        return model.guarantee_, model.releases_, model.public_
    return model.guarantee, model.releases, model.public


@pytest.fixture(scope="module")
def files():
    """The dicts of all models and inferences."""
    return {k: fitted(*facts).to_dict() for k, facts in enumerate(MODELS)}


EACH = pytest.mark.parametrize("k", range(len(MODELS)), ids=lambda k: repr(MODELS[k])[14:])


def changed(part, change):
    """A copy of a part of a file in which ``change`` replaced dicts."""
    if isinstance(part, dict):
        part = {key: changed(value, change) for key, value in part.items()}
        return change(part)
    return [changed(value, change) for value in part] if isinstance(part, list) else part


# How the entries of noise in a file grow with its size.
POWERS = dict.fromkeys(["scale", "factor", "deviation", "alpha", "gamma"], 1)
POWERS |= {"precision": -1, "width": -1}


def with_noise(content, factor):
    """The file of a model with the noise of all releases times a factor."""

    def scaled(part):
        for name, power in POWERS.items():
            own = part.get(name)
            if isinstance(own, dict) and part["kind"].endswith("Noise"):
                own["entries"] = [x * factor**power for x in own["entries"]]
            elif isinstance(own, float):
                part[name] *= factor**power
        return part

    releases = changed(content["releases"], scaled)
    assert releases != content["releases"]
    content = content | {"releases": releases}
    # The guarantee names the laws, some of them with their scale.
    _, made, _ = stated(load_model(content))
    named = {"mechanism": ", then ".join(own.description for own in made)}
    return content | {"guarantee": content["guarantee"] | named}


@pytest.fixture
def certify_text(tmp_path, capsys):
    """The exit code, the output and the errors of the command for a file with a text."""

    def run(text):
        path = tmp_path / "model.json"
        path.write_text(text, encoding="utf-8")
        code = main_module.main(["certify", str(path)])
        return code, *capsys.readouterr()

    return run


@EACH
def test_a_file_proves_its_guarantee(files, k, certify_text):
    """The command prints the card, each release with its theorem, and what it cannot check."""
    (code, text, _), model = certify_text(json.dumps(files[k])), load_model(files[k])
    assert code == 0
    proof, (guarantee, releases, public) = check_proof(model), stated(model)
    assert str(proof) in text
    for line in proof.lines:
        assert line.name in text
        assert line.theorem in text
    known = [line.epsilon for line in proof.lines if line.epsilon is not None]
    steps = 2 if public.in_two_steps else 1
    assert steps * math.fsum(known) <= guarantee.epsilon * (1 + 1e-9)
    assert proof.guarantee.epsilon == files[k]["guarantee"]["epsilon"]
    assert proof.lines == overview(releases, public)
    certify(releases, public)


@EACH
def test_less_noise_than_epsilon_needs_is_refused(files, k, certify_text):
    """With 5 % less; the message has the inequality. The same factor above 1 is accepted."""
    assert certify_text(json.dumps(with_noise(files[k], 1.05)))[0] == 0
    code, _, error = certify_text(json.dumps(with_noise(files[k], TOO_LITTLE)))
    assert code == 1
    assert "NOT PROVED" in error
    assert "is stated" in error


@EACH
def test_a_lower_epsilon_or_delta_is_refused(files, k):
    """In the guarantee alone, and in the public facts too."""
    for names in (("guarantee",), ("guarantee", "public")):
        content = copy.deepcopy(files[k])
        for name in names:
            content[name]["epsilon"] *= TOO_LITTLE
        with pytest.raises(NotPrivate, match=r"stated|states"):
            check_proof(load_model(content))


def test_the_files_of_all_kinds_hold_every_type(files):
    """Otherwise a type would be read by no test."""
    kinds = {part for k in files for part in kinds_in(files[k]["releases"])}
    assert {
        *("KNormNoise", "GaussianNoise", "IndependentNoise", "RepeatedNoise"),
        *("MatrixLaplaceNoise", "MatrixGaussianNoise", "MappedBall", "ShearedBall"),
        *("Sensitivity", "Releases", "RowsWithin", "FirstChange", "ColumnSums"),
        *("NoisyMinimiser", "NoisySum", "PrivateChoice", "Softmax"),
        *("LpBall", "SquaresBall", "ProductBall", "SumBall", "MomentLayout", "MomentBall"),
        *("RadialMomentBall", "PseudoHuber", "SharpLogistic", "Laplace", "Gaussian"),
    } - kinds == set()
    assert "Claim" not in kinds


def kinds_in(part):
    if isinstance(part, dict):
        yield part.get("kind")
        for value in part.values():
            yield from kinds_in(value)
    elif isinstance(part, list):
        for value in part:
            yield from kinds_in(value)


# What does not belong to the records of the model


def releases_of(content, name):
    return next(own for own in content["releases"] if own.get("name") == name)


def smaller(part, name):
    """Say that one record changes less than it does, with the noise that this would need."""

    def halved(own):
        for key in ("radius", "square"):
            if key in own and own["kind"] in ("Sensitivity", "RowsWithin"):
                own[key] /= 2
        return own

    own = releases_of(part, name)
    own["change"] = changed(own["change"], halved)


def shorter_domain(part):
    """Bounds of other records: without a column of the model."""
    part["records"] = Domain({"age": (17, 90)}, target=(-5.0, 20.0)).to_dict()


def one_column(part):
    releases_of(part, "scaling")["change"]["ball"]["n_numbers"] = 1


def other_squares(part):
    releases_of(part, "scaling")["change"]["sums"]["squares"] = [5, 0, 0, 0]


def without_release(part):
    part["releases"] = [own for own in part["releases"] if own["name"] in ("scales", "scaling")]


def without_model(part):
    """Other names do not help."""
    for own in part["releases"]:
        own["name"] += "2"


def uneven_ridge(part):
    ridge = releases_of(part, "objective")["ridge"]
    ridge["entries"][-2] /= 100


def one_step(part):
    """A guarantee for persons with weights needs two steps; without them there is less noise."""
    part["public"]["in_two_steps"] = False


def other_relation(part):
    part["public"]["neighbors"] = "add_remove"


def without(name):
    def forge(part):
        part["releases"] = [own for own in part["releases"] if own["name"] != name]

    return forge


def counted(part):
    """Show the exact number of records where it is private."""
    part["n_records"] = 3000


def fewer_sizes(part):
    """Of one number and no residual."""
    own = releases_of(part, "sizes")
    own["change"]["ball"]["dim"] = own["noise"]["ball"]["dim"] = 32
    own["change"]["radius"] = 2.0


def without_means(part):
    """Of two numbers and the residual of counts, without their means."""
    own = releases_of(part, "sizes")
    own["change"]["ball"]["dim"] = own["noise"]["ball"]["dim"] = 96
    own["change"]["radius"] = 6.0


def fewer_limits(part):
    """Of the numbers, without the target."""
    own = releases_of(part, "limits")
    own["change"]["ball"]["dim"] = own["noise"]["ball"]["dim"] = 1


SUMS = "coordinates, curvatures, denominators, limits, numerators, scales, scores, "
SUMS += "sizes of all numbers, squares"
SIZES = "no release gives sizes of all numbers, which the inference has"
FORGED = [
    (3, without("scales"), "no release gives scales, which the inference has"),
    (12, without("limits"), "no release gives limits, which the inference has"),
    (22, without("scales"), "no release gives scales, which the inference has"),
    (22, counted, "no release gives the number of records, which the inference has"),
    (1, uneven_ridge, "the ridge is not the same for all"),
    (3, lambda part: smaller(part, "scores"), "scores: its change is not that of one record"),
    (3, lambda part: smaller(part, "curvatures"), "curvatures: its change is not"),
    (3, without("curvatures"), "no release gives curvatures, which the inference has"),
    (3, without_release, f"gives {SUMS.replace('scales, ', '')}, which the inference"),
    (3, shorter_domain, "no release gives sizes of all numbers, its columns, which the inference"),
    (3, other_relation, "other neighbouring data sets"),
    (3, without("sizes"), SIZES),
    (24, without("other sizes"), SIZES),
    (25, without("other sizes"), SIZES),
    (12, fewer_sizes, SIZES),
    (26, without_means, SIZES),
    (12, fewer_limits, "limits: its change is not that of one record"),
    (3, without("numerators"), "no release gives numerators, which the inference has"),
    (12, lambda part: smaller(part, "squares"), "squares: its change is not"),
    (12, lambda part: smaller(part, "sizes"), "sizes: its change is not"),
    (12, lambda part: smaller(part, "coordinates"), "coordinates: its change is not"),
    (12, lambda part: smaller(part, "numerators"), "numerators: its change is not"),
    (22, lambda part: smaller(part, "denominators"), "denominators: its change is not"),
    (12, without_model, f"no release gives {SUMS}, which the inference"),
    (21, one_step, r"under 'add_remove'"),
    (22, lambda part: smaller(part, "curvatures"), "curvatures: its change is not"),
    (23, lambda part: smaller(part, "moments"), "other moments than those that change"),
    (23, without_model, f"no release gives {SUMS}, which the inference"),
    (0, without_release, "no release gives gradients or moments or objective, which the model"),
    (4, one_step, r"need a guarantee in two steps|under 'add_remove'"),
    (6, lambda part: smaller(part, "scaling"), "scaling: its change is not"),
    (6, one_column, r"scaling: the noise has|scaling: its change is not"),
    (6, shorter_domain, "no release gives the columns of the model"),
    (8, without("scaling"), "no release gives scaling, which the model has"),
    (15, without("cross"), "no release gives cross, which the model has"),
    (8, lambda part: smaller(part, "cross"), "cross: its change is not"),
    (8, lambda part: smaller(part, "moments"), "moments: its change is not"),
    (8, other_squares, r"scaling: its change is not|cannot be evaluated"),
    (9, lambda part: smaller(part, "moments"), "other moments than those that change"),
    (0, other_relation, "other neighbouring data sets"),
]


@pytest.mark.parametrize(("k", "forge", "message"), FORGED)
def test_a_release_of_other_records_is_refused(files, k, forge, message):
    """Each of these files states less change, or fewer releases, than its records give."""
    content = copy.deepcopy(files[k])
    forge(content)
    with pytest.raises(NotPrivate, match=message):
        check_proof(load_model(content))


def test_releases_of_another_kind_do_not_stand_for_those_of_an_inference(files):
    """Moments of other noise give no standard errors, and a minimiser gives no scores."""
    moments, content = copy.deepcopy(files[23]), copy.deepcopy(files[22])
    moments["releases"] = files[10]["releases"]
    minimiser = copy.deepcopy(releases_of(files[16], "objective")) | {"name": "scores"}
    content["releases"] = [minimiser if o["name"] == "scores" else o for o in content["releases"]]
    for forged, what in ((moments, "products of columns"), (content, "scores")):
        with pytest.raises(NotPrivate, match=f"no release gives {what}"):
            check_proof(load_model(forged))


@pytest.mark.parametrize(
    ("estimator", "columns", "target", "labels"),
    [
        (DPLogisticRegression, {"a": (0, 1), "b": (0, 1)}, ["no", "yes"], {}),  # no limits
        (DPLogisticRegression, {"a": (0, 2), "b": (1, 3)}, (0, 1), {"classes": [0, 1]}),
        (DPLinearRegression, {"a": (0, 1), "b": [0, 1, 2]}, (0, 1), {}),
    ],
)
def test_tables_that_release_less_than_others_are_proved(estimator, columns, target, labels):
    """Also those of fewer coefficients than the releases have."""
    X, y = (domain := Domain(columns, target=target)).sample(2000, 0, with_target=True)
    y = np.array(y) > 0.5 if labels else y
    model = estimator(domain=domain, **labels).fit(X, y)
    table = model.infer(X, y, epsilon=8.0)
    is_linear = estimator is DPLinearRegression
    for own in (table, *([table.without("a"), table.merge("b", [1, 2])] if is_linear else [])):
        assert check_proof(load_model(own.to_dict())).guarantee.epsilon == 8.0
    few = replace(table, releases=model.infer(X, y, epsilon=8.0, effects=["a"]).releases)
    with pytest.raises(NotPrivate, match="each coefficient in"):
        check_proof(few)


def test_a_table_says_what_it_does_not_prove(files):
    for k in (3, 12, 21, 22):
        content = copy.deepcopy(files[k])
        content["guarantee"]["assumptions"] = []
        said = check_proof(load_model(content)).assumptions
        assert any("its fit has a guarantee of its own" in sentence for sentence in said)
    assert not any("its fit has" in own for own in check_proof(load_model(files[23])).assumptions)


def test_a_file_does_not_move_the_cursor(files, certify_text):
    content = copy.deepcopy(files[0])
    content["guarantee"]["assumptions"] = ["noise\x1b[2J"]
    _, shown, _ = certify_text(json.dumps(content))
    assert "\x1b" not in shown
    assert "x1b[2J" in shown


@pytest.mark.parametrize("k", [17, 19, 20])
def test_a_change_that_does_not_follow_from_the_domain_is_an_assumption(files, k):
    """The sizes of gradients, and of choices, depend on the rows' weights: they are printed."""
    proof = check_proof(load_model(files[k]))
    assert any("`gradients` by at most" in sentence for sentence in proof.assumptions)
    for own in files[k]["releases"]:
        if own["name"] == "choices":
            assert any("`choices` within an interval" in text for text in proof.assumptions)


# Fits with stages that no other model has, or that can be left out.
STAGED = [
    (DPHuberRegressor, {"mean_share": 1e-6}),
    (DPHuberRegressor, {"mean_share": 0.1, "scaling_share": 0, "delta": 1e-6}),
    (DPHuberRegressor, {"mean_share": 0.1, "loss": "own"}),
    (DPHuberRegressor, {"scaling_share": 0.1, "n": 20}),  # bounds that are those of the domain
    (DPHuberRegressor, {"mechanism": "gaussian", "delta": 1e-6, "neighbors": "add_remove"}),
    (skdp.DPPoissonRegressor, {"scaling_share": 0.1}),
    (skdp.DPGammaRegressor, {"delta": 1e-3, "additive": 6}),
    (skdp.DPQuantileRegressor, {}),
    (skdp.DPQuantileRegressor, {"quantile": [0.1, 0.5, 0.9], "delta": 1e-6}),
    (skdp.DPCoordinateDescentRegressor, {"order": "greedy", "delta": 1e-6}),
    (skdp.DPCoordinateDescentRegressor, {"order": "random", "mechanism": "laplace"}),
    (DPHuberRegressor, {"search": {"mean_share": [0.1, 0.2]}}),
    (DPLogisticRegression, {"search": {"fit_intercept": [True, False]}, "delta": 1e-6}),
]


def staged_file(estimator, given):
    given = dict(given)
    grid, n = given.pop("search", None), given.pop("n", 3000)
    if given.get("loss") == "own":
        given["loss"] = OwnLoss(0.3)
    if grid is None:
        return fitted(estimator, given, n).to_dict()
    target = [0, 1] if estimator in CLASSIFIERS else (-5.0, 20.0)
    X, y = (domain := Domain(COLUMNS, target=target)).sample(n, 0, with_target=True)
    budget = {"epsilon": 3.0, "delta": given.get("delta", 0.0)}
    return (
        PrivateSearchCV(estimator(domain=domain), grid, **budget)
        .fit(X, y)
        .best_estimator_.to_dict()
    )


@pytest.fixture(scope="module")
def staged(files):
    """Files of all kinds of releases and of all estimators."""
    made = [*files.values(), *(staged_file(*facts) for facts in STAGED)]
    assert {own["kind"] for own in made} >= {kind.__name__ for kind in ESTIMATORS}
    return made


@pytest.mark.parametrize("k", range(len(MODELS) + len(STAGED)))
def test_other_releases_than_those_of_the_guarantee_are_refused(staged, k):
    """One is left out, made twice, renamed or moved to the end; the file itself is accepted."""
    check_proof(load_model(staged[k]))
    own = staged[k]["releases"]
    for j, release in enumerate(own):
        rest = own[:j] + own[j + 1 :]
        renamed = [*own[:j], release | {"name": release["name"] + "2"}, *own[j + 1 :]]
        for forged in (rest, [*own, release], renamed, [*rest, release]):
            if forged and forged != own:
                with pytest.raises(NotPrivate):
                    check_proof(load_model(staged[k] | {"releases": forged}))


def huge_layout(part):
    """Moments of so many columns that their pairs would fill the memory."""
    layout = releases_of(part, "moments")["change"]["ball"]["layout"]
    layout |= {"n_encoded": 20_000, "number_index": [*range(20_000)], "blocks": []}


def huge_ball(part):
    weightless = {"kind": "LpBall", "dim": 2**40, "p": 1.0, "radius": 1.0, "weights": None}
    releases_of(part, "moments")["noise"] = {"kind": "KNormNoise", "ball": weightless, "scale": 1.0}


@pytest.mark.parametrize(
    ("grow", "message"),
    [(huge_layout, "at most 8192 columns"), (huge_ball, "a dimension of at most 1048576")],
)
def test_sizes_that_would_fill_the_memory_are_errors(files, grow, message):
    content = copy.deepcopy(files[9])
    grow(content)
    with pytest.raises(ValueError, match=message):
        load_model(content)


def test_a_file_that_cannot_be_read_has_another_exit_code(certify_text, tmp_path, capsys):
    for text in ("", "{}", '{"kind": "os.system", "version": 1}', "[" * 10**5):
        assert certify_text(text)[0] == 2
    assert main_module.main(["certify", str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_guarantee_that_is_void_has_the_exit_code_of_a_refusal(certify_text):
    X, y = np.ones((100, 1)), np.zeros(100)
    domain = Domain.unit_box(1, target=(-1, 1))
    model = DPHuberRegressor(domain=domain, random_state=0).fit(X, y)
    code, out, error = certify_text(model.to_json())
    assert code == 1
    assert "THIS GUARANTEE DOES NOT HOLD" in out
    assert "DOES NOT HOLD" in error


# Parts of the curator's own, and private searches


@dataclasses.dataclass(frozen=True)
class OwnBall(LpBall):
    """A ball of another package."""


@dataclasses.dataclass(frozen=True)
class OwnLoss(PseudoHuber):
    """A loss of another package."""


@pytest.mark.parametrize(
    ("estimator", "own"),
    [
        (DPHuberRegressor, {"loss": OwnLoss(0.3)}),
        (DPHuberRegressor, {"loss": OwnLoss(0.3), "delta": 1e-6, "mechanism": "gaussian"}),
        (DPHuberRegressor, {"mechanism": OwnBall(6)}),
    ],
)
def test_parts_of_other_packages_are_claims(estimator, own, certify_text):
    """The file names their classes and is not refused for them; nothing of them is run."""
    model = fitted(estimator, own)
    code, out, _ = certify_text(model.to_json())
    text = " ".join(out.split())
    assert code == 0
    kind = type(own.get("loss", own.get("mechanism"))).__name__
    assert f"relies on test_proof.{kind}, which is not part of skdp, and was not checked" in text
    proof = check_proof(from_json(model.to_json()))
    assert proof.lines == overview(model.releases_, model.public_)


def test_a_claim_of_more_than_epsilon_is_refused():
    content = fitted(DPHuberRegressor, {"loss": OwnLoss(0.3)}).to_dict()
    for own in content["releases"]:
        if own["kind"] == "Claim":
            own["epsilon"] *= 1.1
    with pytest.raises(NotPrivate, match="is stated"):
        check_proof(load_model(content))


def test_other_balls_and_mechanisms_of_this_package_are_in_the_file():
    model = fitted(DPHuberRegressor, {"mechanism": KNorm(LpBall(6, p=1.5, weights=(1,) * 6))})
    assert "Claim" not in set(kinds_in(model.to_dict()["releases"]))
    check_proof(from_json(model.to_json()))


def test_a_chosen_model_has_the_releases_of_one_fit(certify_text):
    """Its guarantee is that of the search, which the file cannot prove, and says so."""
    domain = Domain(COLUMNS, target=(-5.0, 20.0))
    X, y = domain.sample(2000, random_state=0, with_target=True)
    grid = {"fit_intercept": [True, False]}
    search = PrivateSearchCV(DPHuberRegressor(domain=domain), grid, epsilon=3.0).fit(X, y)
    best = search.best_estimator_
    assert best.public_.epsilon < best.guarantee_.epsilon == 3.0
    code, out, _ = certify_text(best.to_json())
    text = " ".join(out.split())
    assert code == 0
    assert "A private search chose the model" in text
    assert f"alone has epsilon = {best.public_.epsilon:.6g}" in text


# The report


@EACH
def test_a_report_is_one_page_without_scripts(files, k, tmp_path, capsys):
    """It has the card, a row for each release, the coefficients or curves, and the file's hash."""
    path, page = tmp_path / "model<1>.json", tmp_path / "report.html"
    path.write_text(json.dumps(files[k]), encoding="utf-8")
    assert main_module.main(["report", str(path), "-o", str(page)]) == 0
    text, model = page.read_text(encoding="utf-8"), load_model(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert not re.search(r"<script|<link|src=|url\(|@import|javascript|https?://", text)
    ElementTree.fromstring(wellformed(text))
    for release in stated(model)[1]:
        assert f"<strong>{release.name}</strong>" in text
    assert "model&lt;1&gt;.json" in text
    assert "python -m skdp certify" in text
    assert ("<svg" in text) == ("additive" in MODELS[k][1])
    assert "intercept" in text or "city_b" in text or "<svg" in text
    for sentence in check_proof(model).assumptions:
        assert html.escape(sentence[1:]) in text


def test_a_report_has_no_markup_of_an_inference_file(files, tmp_path):
    path, page = tmp_path / "table.json", tmp_path / "report.html"
    content = files[3] | {"model": "<script>", "notes": ["<script>"]}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert main_module.main(["report", str(path), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 3  # in the title, the heading and the notes


def wellformed(text):
    """The page as XML: elements without content are closed."""
    return re.sub(r"<(meta|br|hr|img)([^>]*)>", r"<\1\2/>", text.partition("\n")[2])
