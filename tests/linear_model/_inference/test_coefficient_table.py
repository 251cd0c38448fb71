"""The table of coefficients: text, HTML, dicts, frames and files; and tables of fewer columns."""

from __future__ import annotations

import html
import pickle
import re
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from inner_inference import digits
from inner_package import FloatArray, decode, encode

from skdp import Domain, DPLinearRegression
from skdp.linear_model import check_proof, from_json, load_model

NUMBERS = ["coef", "std_error", "sampling_error", "privacy_error", "z", "p_value", "lower", "upper"]
NAMES = ("intercept", "age", "job_craft", "job_sales", "pay")
JOBS = ["clerk", "craft", "sales"]


@cache
def inferred(epsilon=20.0, n=4000, names=("age", "job", "pay"), seed=0, free=False, **parameters):
    """Coefficients .1 of age and 1 of sales; ``free`` ones are those of the moments of the fit."""
    rng = np.random.default_rng(0)
    age, job = rng.uniform(20, 60, n), rng.choice(JOBS, n)
    X = pd.DataFrame(dict(zip(names, (age, job, rng.uniform(0, 1, n)), strict=True)))
    y = 0.1 * age + (job == "sales") + rng.normal(size=n) / 2
    columns = dict(zip(names, ((20, 60), JOBS, (0, 1)), strict=True))
    domain = Domain(columns, target=(-1, 10))
    facts = {"mechanism": "matrix"} if free else {}
    model = DPLinearRegression(
        epsilon=epsilon, domain=domain, random_state=seed, **facts, **parameters
    ).fit(X, y)
    return model.infer() if free else model.infer(X, y, epsilon=epsilon, random_state=seed)


@pytest.fixture(scope="module")
def table():
    return inferred().summary()


def lines_of(table, names):
    """Return the words of the lines of the coefficients."""
    found = [line.split() for line in str(table).splitlines()]
    return [words for words in found if words and words[0] in names and len(words) == 9]


def test_numbers_are_those_of_the_inference(table):
    found, own = table.to_dict(), table.inference
    assert (found["names"], own.columns) == ([*NAMES], ("", "age", "job", "job", "pay"))
    np.testing.assert_array_equal(found["coef"], own.coef)
    np.testing.assert_array_equal(np.column_stack([found["lower"], found["upper"]]), own.conf_int())
    np.testing.assert_allclose(own.coef[1:], [0.1, 0, 1, 0], atol=0.1)
    whole = np.hypot(own.sampling_error, own.privacy_error)
    np.testing.assert_allclose(own.std_error, whole, rtol=0.05)  # the denominators' noise is in one
    assert (own.privacy_error > 0).all()
    frame = table.to_frame()
    assert (frame.index.tolist(), frame.columns.tolist()) == ([*NAMES], NUMBERS)
    # Each line has four significant digits.
    for row, words in enumerate(lines_of(table, NAMES)):
        for name, word in zip(NUMBERS, words[1:], strict=True):
            error = 5e-4 if name in ("z", "p_value") else 5e-4 * abs(found[name][row])
            assert float(word) == pytest.approx(found[name][row], abs=1.01 * error)


def test_the_text_is_aligned_and_has_what_is_public(table):
    lines, head = str(table).splitlines(), table.to_dict()["head"]
    assert max(map(len, lines)) == len(lines[1])
    first = lines.index("-" * len(lines[1]))
    assert len({len(line) for line in (lines[first - 1], *lines[first + 1 : first + 6])}) == 1
    assert {"[0.025", "0.975]"} <= {*lines[first - 1].split()}
    assert (head["No. records"], head["Epsilon"], head["Delta"]) == ("4000", "20", "0")
    assert (head["Neighbours"], head["Unit"]) == ("replace_one", "row")
    foot = " ".join(str(table).split())
    for words in ("Coefficients of DPLinearRegression", "epsilon = 20 and delta = 0", "not shrunk",
                  "adds to this one: epsilon = 20", "residuals clipped at",
                  "THE GUARANTEE DOES NOT HOLD"):  # the fit had a seed  # fmt: skip
        assert words in foot
    assert "unbounded" not in foot
    assert "DOES NOT HOLD" not in str(inferred(seed=None).summary())
    private = inferred(neighbors="add_remove", n_public=4000).summary()
    assert private.to_dict()["head"]["No. records"] == "private"
    assert "4000" not in str(private)
    free = " ".join(str(inferred(free=True).summary()).split())
    assert "one variance" in free
    assert "adds to this one" not in free
    assert "[0.005" in str(table.inference.summary(level=0.99))


def test_hidden_coefficients_have_infinite_ends_and_are_named_in_the_foot():
    """Some or all are hidden, also of the moments of a fit."""
    some, every = inferred(0.2, 1500), inferred(1e-3, 300, free=True)
    assert 0 < some.is_hidden.sum() < len(NAMES) == every.is_hidden.sum()
    for own in (some, every):
        found, hidden = own.summary().to_dict(), own.is_hidden
        names = [name for name, is_hidden in zip(NAMES, hidden, strict=True) if is_hidden]
        note = (
            f"The noise hides {', '.join(names)}: the intervals of {len(names)} coefficients of 5"
        )
        assert found["notes"][0].startswith(note)
        assert np.isinf(found["lower"]).tolist() == np.isinf(found["upper"]).tolist()
        assert np.isinf(found["upper"]).tolist() == hidden.tolist()
        assert np.isinf(found["std_error"]).tolist() == hidden.tolist()
        assert np.all(np.array(found["p_value"])[hidden] > 0.05)
        for words in lines_of(own.summary(), names):
            assert words[-2:] == ["-inf", "inf"]
        assert "nan" not in str(own.summary())
        assert f"{len(names)} hidden" in repr(own)


def test_html_has_the_same_cells_and_no_markup_from_names():
    long = "a" * 90
    table = inferred(names=("<b>age</b>", "two\nlines", long)).summary()
    page, text = table._repr_html_(), str(table)
    assert "<b>age</b>" not in page
    assert "&lt;b&gt;age&lt;/b&gt;" in page
    shown = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", page)]
    assert len(shown) == 5 * 8
    assert all(cell in text for cell in (*shown, long, "two\\nlines"))
    # It has the colours of the page, light or dark.
    assert set(re.findall(r"color:\w+", page)) == {"color:inherit"}
    assert "background:" not in page.replace("background:none", "")


def test_a_frame_needs_pandas_and_the_text_does_not(table, monkeypatch):
    def without(name):
        raise ImportError(name)

    monkeypatch.setattr("skdp.trusted.checks.import_module", without)
    with pytest.raises(ImportError, match="pandas must be installed"):
        table.to_frame()
    assert "coef" in str(table)


def test_numbers_have_four_significant_digits():
    values = [0.0, 1.0, 12.34567, 9999.9, 123456.0, 0.00012345, -2.5e-9, np.inf, -np.inf]
    shown = ["0", "1.000", "12.35", "1.000e+04", "1.235e+05", "0.0001234", "-2.500e-09"]
    assert list(map(digits, values)) == [*shown, "inf", "-inf"]


def test_intervals_p_values_combinations_and_joint_tests_agree():
    found = inferred(2.0)
    for j, p in enumerate(found.p_values):
        if 1e-9 < p < 1:  # at the level 1 - p the interval ends at 0
            low, high = found.conf_int(level=1 - p)[j]
            assert min(abs(low), abs(high)) < 1e-6 * (high - low)
    values, ends = found.combine(np.eye(5), level=0.9)
    np.testing.assert_allclose(values, found.coef)
    np.testing.assert_allclose(ends, found.conf_int(level=0.9))
    both = found.wald_test("job")
    assert both == found.wald_test([*NAMES[2:4]])
    assert both == found.wald_test(np.eye(5)[2:4])
    assert both.n_restrictions == 2
    assert both.p_value < 1e-3
    assert found.wald_test(["pay"]).p_value == pytest.approx(found.p_values[4])
    named = dict(zip(NAMES[2:4], found.coef[2:4], strict=True))
    assert found.wald_test(named).p_value > 0.999
    assert found.wald_test({"job_sales": 1.0}) == found.wald_test("job_sales", 1.0)
    assert found.wald_test({"age": 1e300}).p_value < 1e-3
    for columns, value, message in [
        (["jobs"], 0.0, "names of coefficients or columns"),
        (np.eye(5)[[1, 1]], 0.0, "linearly independent"),
        ("job", [0.0, 1.0], "value must be a finite number, or one for each of the 1 names"),
        (["job", "age"], [0.0, np.nan], "value must be a finite number, or one for each of the 2"),
        (["job", "job_craft"], [0.0, 1.0], "linearly independent"),
        ("age", "x", "value must be a number.*, got 'x'"),
        ({"age": "x"}, 0.0, r"value must be a number.*, got \['x'\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            found.wald_test(columns, value)
    # Values belong to the names as given; that of a column is that of all its coefficients.
    mixed = found.wald_test({"job": 0.5, "age": 0.1})
    assert mixed == found.wald_test(["job", "age"], [0.5, 0.1])
    same = found.wald_test([NAMES[1], *NAMES[3:1:-1]], [0.1, 0.5, 0.5])
    assert mixed.statistic == pytest.approx(same.statistic)
    assert mixed.p_value != pytest.approx(found.wald_test({"job": 0.1, "age": 0.5}).p_value)
    assert found.wald_test(["job", "job_craft"]) == both
    for weights in ([[1, 2]], [["a"] * 5], [[np.nan, 0, 0, 0, 0]], np.zeros((0, 5))):
        with pytest.raises(ValueError, match="matrix of finite numbers with 5 columns"):
            found.combine(weights)
    # ``conf_int(0.05)`` is an interval of 95 % in statsmodels, and would be one of 5 % here.
    for call in (found.conf_int, found.summary, partial(found.combine, np.eye(5))):
        with pytest.raises(TypeError, match="positional argument"):
            call(0.05)
        with pytest.raises(ValueError, match="level must"):
            call(level=1.0)


def test_tables_without_columns_or_with_merged_levels():
    found = inferred()
    less, sales = found.without("job", "pay"), found.merge("job", ["craft", "sales"])
    assert (less.names, less.columns) == (("intercept", "age"), ("", "age"))
    assert sales.names == ("intercept", "age", "job_craft | job_sales", "pay")
    assert abs(sales.coef[2] - 0.5) < 4 * sales.std_error[2] < 0.3
    assert found.merge("job", ["sales", "clerk"]).names == ("intercept", "age", "job_craft", "pay")
    assert "job_craft | job_sales" in str(sales.summary())
    assert (less.guarantee, less.releases) == (found.guarantee, found.releases)
    few, again = less, from_json(found.to_json())
    np.testing.assert_array_equal(again.without("pay").coef, found.without("pay").coef)
    for call, message in [
        (lambda: found.without(*NAMES), "leave a coefficient"),
        (lambda: found.without("city"), "names of coefficients or columns"),
        (lambda: found.merge("age", JOBS[1:]), "column must be a column of levels"),
        (lambda: found.merge("job", ["sales"]), "levels must be two or more of"),
        (lambda: found.merge("job", "sales"), "levels must be two or more of"),
        (lambda: found.merge("job", ["sales", "chef"]), "levels must be two or more of"),
        (lambda: found.merge("job", [["sales"], "craft"]), "levels must be two or more of"),
        (lambda: found.merge("job", 3), "levels must be a sequence, got 3"),
        (lambda: found.merge(["job"], JOBS), "column must be a column of levels"),
        (lambda: few.without("age"), "the table must be of a regression.*in one call"),
        (lambda: inferred(free=True).without("age"), "the table must be of a regression"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("parameters", [{}, {"fit_intercept": False}, {"free": True}])
def test_a_file_keeps_the_inference(parameters):
    """Tables, intervals and tests are the same, and it proves its guarantee."""
    found = inferred(**parameters)
    again = from_json(text := found.to_json())
    assert again.to_json() == text
    for own in (again, pickle.loads(pickle.dumps(found))):
        assert str(own.summary()) == str(found.summary())
        np.testing.assert_array_equal(own.conf_int(level=0.9), found.conf_int(level=0.9))
        assert own.wald_test("job") == found.wald_test("job")
        assert check_proof(own).lines == check_proof(found).lines
    endless = replace(found, estimate=replace(found.estimate, freedom=np.inf))
    assert from_json(endless.to_json()).estimate.freedom == np.inf
    for name in ("rows", "constants"):
        with pytest.raises(ValueError, match="the inference must contain only finite numbers"):
            replace(found, **{name: np.nan * getattr(found, name)}).to_json()


def entries_of(change):
    """A change of an array in a file."""
    return lambda old: encode("an array", change(decode("an array", FloatArray, old)))


ARRAYS = ("start", "numerator", "denominator", "sampling", "privacy", "spread", "shared", "excess")
ESTIMATE = {name: entries_of(lambda old: old[1:]) for name in ARRAYS}
ESTIMATE |= {name: entries_of(np.negative) for name in ("sampling", "privacy", "spread", "excess")}
ESTIMATE |= {"freedom": lambda old: 0.0}
EDITS = {
    "rows": entries_of(lambda old: old[1:]),
    "constants": entries_of(lambda old: old[2:]),
    "names": lambda old: ["income", *old[1:]],
    "notes": lambda old: "no list",
    "n_records": lambda old: 1.5,
    "kind": lambda old: "os.system",
    "version": lambda old: 2,
    "skdp": lambda old: None,
    "model": lambda old: 3,
    "domain": lambda old: Domain({"age": (20, 60)}).to_dict(),
    "guarantee": lambda old: old | {"epsilon": -1.0},
    "fit": lambda old: 1.0,
    "public": lambda old: old | {"unit": "table"},
    "releases": lambda old: [],
    "records": lambda old: [],
    "equations": lambda old: old | {"start": old["numerator"], "back": old["start"]},
    "r_squared": lambda old: "high",
    "slope": lambda old: -2.0,
}


@pytest.mark.parametrize("name", [*ESTIMATE, *EDITS])
def test_an_edited_inference_is_refused(name):
    content = inferred().to_dict()
    assert {*content} == {*EDITS, "estimate"}
    part, change = (content["estimate"], ESTIMATE) if name in ESTIMATE else (content, EDITS)
    part[name] = change[name](part[name])
    with pytest.raises(ValueError, match="must"):
        load_model(content)
    part.pop(name)
    with pytest.raises(ValueError, match="must"):
        load_model(content)


@pytest.mark.parametrize("name", ["sampling", "privacy"])
def test_matrices_that_are_no_covariances_are_refused(name):
    for change in (np.ravel, lambda old: old + np.inf, lambda old: old + np.triu(old, 1)):
        content = inferred().to_dict()
        content["estimate"][name] = entries_of(change)(content["estimate"][name])
        with pytest.raises(ValueError, match=rf"{name}.* must"):
            load_model(content)
