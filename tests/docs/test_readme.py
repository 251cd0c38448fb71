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
    """The lines of the benchmark's table with delta = 1e-6, by method and measure."""
    page = (ROOT / "docs" / "figures" / "benchmark.md").read_text(encoding="utf-8")
    wanted = [
        line for line in page.splitlines() if re.match(r"\|[^|]+\| 1e-6, add/remove +\|", line)
    ]
    found = (row for row in rows(wanted) if row[2] in MEASURES.values())
    return {(method, measure): row for method, _, measure, *row in found}


def test_it_is_short():
    assert len(README.splitlines()) <= 150


def test_the_table_is_that_of_the_benchmark():
    """Every share, and the number of sets where it is not that of the others."""
    lines = README.partition("<!-- figure: readme-shares -->\n")[2].partition("\n\n")[0]
    part, all_sets = "", {"AUROC": "14", "R²": "11"}
    table, seen = shares(), 0
    for first, method, *cells in rows(lines.splitlines())[2:]:
        part = first or part
        name, _, sets = method.strip("*").partition(" (")
        *expected, of = table[MINE.get(name, name), MEASURES[part]]
        assert cells == expected, method
        assert of == (re.match(r"\d+", sets)[0] if sets else all_sets[MEASURES[part]]), method
        seen += 1
    assert seen == 11


def test_links_lead_to_files():
    for target in re.findall(r"\]\(([^)#:]+)", README):
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
