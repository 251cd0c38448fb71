"""The table of coefficients: text, HTML, dicts and frames."""

from __future__ import annotations

import html
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from inner_inference import digits

from skdp import Domain, DPLinearRegression
from skdp.linear_model import CoefficientTable, Inference

NUMBERS = ["coef", "std_error", "sampling_error", "privacy_error", "z", "p_value", "lower", "upper"]


@cache
def fitted(names=("age", "pay"), epsilon=20.0, n=4000, seed=0, **parameters):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, 2))
    y = X @ [1.0, 0.0] + rng.normal(size=n) / 4
    domain = Domain.box([0, 0], [1, 1], names=list(names), target=(-1, 2))
    model = DPLinearRegression(
        epsilon=epsilon, domain=domain, mechanism="matrix", random_state=seed, **parameters
    )
    return model.fit(pd.DataFrame(X, columns=list(names)), y).infer()


@pytest.fixture(scope="module")
def table():
    return fitted().summary()


@pytest.fixture(scope="module")
def hidden():
    """Of a fit whose noise hides everything."""
    return next(
        own for seed in range(20)
        if not (own := fitted(epsilon=1e-3, n=300, seed=seed).summary()).inference.is_usable
    )  # fmt: skip


def lines_of(table, names):
    """Return the words of the lines of the coefficients."""
    found = [line.split() for line in str(table).splitlines()]
    return [words for words in found if words and words[0] in names and len(words) == 9]


def test_numbers_are_those_of_the_inference(table):
    found, own = table.to_dict(), table.inference
    assert found["names"] == ["intercept", "age", "pay"]
    np.testing.assert_array_equal(found["coef"], own.coef)
    np.testing.assert_array_equal(found["std_error"], own.std_error)
    np.testing.assert_array_equal(found["p_value"], own.p_values)
    np.testing.assert_array_equal(np.column_stack([found["lower"], found["upper"]]), own.conf_int())
    assert all(type(value) is float for name in NUMBERS for value in found[name])
    assert isinstance(own, Inference)
    assert isinstance(table, CoefficientTable)


def test_each_line_has_four_significant_digits(table):
    found = table.to_dict()
    for row, words in enumerate(lines_of(table, found["names"])):
        for name, word in zip(NUMBERS, words[1:], strict=True):
            digits = 5e-4 if name in ("z", "p_value") else 5e-4 * abs(found[name][row])
            assert float(word) == pytest.approx(found[name][row], abs=1.01 * digits)


def test_columns_are_aligned_and_no_line_is_longer_than_the_rules(table):
    lines = str(table).splitlines()
    first, header = lines.index("-" * len(lines[1])), lines.index("=" * len(lines[1]), 2) + 1
    body = lines[header : first + 4]
    assert len({len(line) for line in body if not line.startswith("-")}) == 1
    assert max(map(len, lines)) == len(lines[1])
    ends = [match.end() for match in re.finditer(r"std err|P>\|z\||[\d.]+\]", body[0])]
    for line in body[2:]:
        assert all(line[end - 1] != " " for end in ends)
    assert "0.025" in body[0]
    assert "0.975" in body[0]


def test_the_head_tells_what_is_public(table):
    head = table.to_dict()["head"]
    assert head["No. records"] == "4000"
    assert (head["Epsilon"], head["Delta"]) == ("20", "0")
    assert (head["Neighbours"], head["Unit"]) == ("replace_one", "row")
    assert "Coefficients of DPLinearRegression" in str(table)
    private = fitted(neighbors="add_remove", n_public=4000).summary()
    assert private.to_dict()["head"]["No. records"] == "private"
    assert "4000" not in str(private)


def test_the_foot_has_the_guarantee_the_method_and_what_is_assumed(table):
    foot = " ".join(str(table).split())
    assert "epsilon = 20 and delta = 0" in foot
    assert "The coefficients are not shrunk." in foot
    assert "errors have one variance" in foot
    # The fit had a seed.
    assert "THE GUARANTEE DOES NOT HOLD" in foot
    assert "DOES NOT HOLD" not in str(fitted(seed=None).summary())
    assert "unbounded" not in foot


def test_another_level_has_other_ends(table):
    wide = fitted().summary(level=0.99)
    assert "[0.005" in str(wide)
    assert "0.995]" in str(wide)
    assert wide.to_dict()["upper"][1] > table.to_dict()["upper"][1]
    with pytest.raises(ValueError, match="level"):
        fitted().summary(level=95)


def test_hidden_coefficients_have_infinite_ends_and_a_reason(hidden):
    found = hidden.to_dict()
    assert found["lower"] == [-np.inf] * 3
    assert found["upper"] == [np.inf] * 3
    assert found["p_value"] == [1.0] * 3
    assert found["std_error"] == [np.inf] * 3
    for words in (lines := lines_of(hidden, found["names"])):
        assert words[-2:] == ["-inf", "inf"]
        assert words[5] == "0.000"
    assert len(lines) == 3
    assert "nan" not in str(hidden)
    assert any("larger epsilon, more records" in note for note in found["notes"])
    assert any(f"hides {hidden.inference.least_known} most" in note for note in found["notes"])


def test_the_least_known_coefficient_is_that_of_a_column_without_variation():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 3)) * [1, 0, 1]
    domain = Domain.unit_box(3, target=(-2, 2))
    model = DPLinearRegression(epsilon=5.0, domain=domain, mechanism="matrix", random_state=0)
    assert model.fit(X, X[:, 0]).infer().least_known == "x1"


def test_some_unbounded_intervals_are_counted():
    counted = []
    for seed in range(40):
        table = fitted(epsilon=0.3, n=500, seed=seed).summary()
        n_open = int(np.isinf(table.to_dict()["upper"]).sum())
        if table.inference.is_usable and n_open:
            assert f"{n_open} of 3 coefficients have an unbounded interval" in str(table)
            (note, *_) = table.to_dict()["notes"]
            assert f"hides {table.inference.least_known} most" in note
            counted.append(n_open)
    assert counted


def test_long_and_odd_names_are_whole_and_keep_the_table_aligned():
    long = "a" * 90
    text = str(fitted(names=(long, "two\nlines")).summary())
    assert long in text
    assert "two\\nlines" in text
    lines = text.splitlines()
    assert len(lines[1]) > 150
    assert max(map(len, lines)) == len(lines[1])


def test_html_has_the_same_cells_and_no_markup_from_names():
    table = fitted(names=("<b>age</b>", "pay & more")).summary()
    page = table._repr_html_()
    assert "<b>age</b>" not in page
    assert "&lt;b&gt;age&lt;/b&gt;" in page
    assert "pay &amp; more" in page
    shown = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", page)]
    text = str(table)
    assert len(shown) == 3 * 8
    assert all(cell in text for cell in shown)
    # It has the colours of the page, light or dark.
    assert set(re.findall(r"color:\w+", page)) == {"color:inherit"}
    assert "background:" not in page.replace("background:none", "")
    assert "<style" not in page


def test_a_frame_has_the_names_as_index(table):
    frame = table.to_frame()
    assert frame.index.tolist() == ["intercept", "age", "pay"]
    assert frame.columns.tolist() == NUMBERS
    assert frame.loc["age", "coef"] == table.inference.coef[1]


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
