"""The README is short, and its table is that of the benchmark; the example runs as a doctest."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MINE = {
    '`DPLogisticRegression(additive="auto")`': "DPLogisticRegression, curves",
    "`DPLogisticRegression()`": "DPLogisticRegression",
    '`DPHuberRegressor(additive="auto")`': "DPHuberRegressor, curves",
    "`DPHuberRegressor()`": "DPHuberRegressor",
    "gradient descent": "DP-GD",
}
MEASURES = {"classification": "AUROC", "regression": "R²"}


def rows(lines):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def shares():
    """The lines of the benchmark's table of shares, by method and measure."""
    page = (ROOT / "docs" / "figures" / "benchmark.md").read_text(encoding="utf-8")
    table = page.partition("<!-- figure: benchmark-shares -->\n")[2].partition("\n\n")[0]
    return {(method, measure): row for method, measure, *row in rows(table.splitlines()[2:])}


def test_it_is_short():
    assert len(README.splitlines()) <= 150


def test_the_table_is_that_of_the_benchmark():
    """Every share."""
    lines = README.partition("<!-- figure: readme-shares -->\n")[2].partition("\n\n")[0]
    part, table, seen = "", shares(), 0
    for first, method, *cells in rows(lines.splitlines())[2:]:
        part, name = first or part, method.strip("*")
        assert cells == table[MINE.get(name, name), MEASURES[part]], method
        seen += 1
    assert seen >= 11


def test_links_lead_to_files():
    for target in re.findall(r"\]\((?!https:)([^)#:]+)", README):
        assert (ROOT / target).exists(), target


def test_the_number_of_the_landing_page_is_that_of_the_figures():
    """Of the persons of Adult: at epsilon = 1, and without privacy."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    figures = (ROOT / "docs" / "figures" / "accuracy.md").read_text(encoding="utf-8")
    table = figures.partition("<!-- figure: accuracy-adult -->\n")[2].partition("\n\n")[0]
    heads, _, cells = rows(table.splitlines())
    measured = dict(zip(heads, cells, strict=True))
    shown = [f"{100 * float(measured[name]):.1f} %" for name in ("1", "without privacy")]
    assert re.findall(r"[\d.]+ %", index) == shown
