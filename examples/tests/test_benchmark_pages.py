"""The tables of the benchmark's pages are those of its file."""

import csv

import numpy as np
import pytest

from examples.benchmarks.peers import contenders as field
from examples.benchmarks.peers import everything_page as page
from examples.figures import manifest, pages


@pytest.fixture(scope="module")
def stored():
    """Medians of benchmark.csv by set, method without its settings, delta, epsilon, measure."""
    with (pages.ROOT / "docs/figures/benchmark.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        name = row["method"]
        name = name if name.endswith(", curves") else name.partition(", ")[0]
        key = row["set"], name, row["delta"], row["epsilon"], row["measure"]
        found.setdefault(key, []).append(float(row["median"]))
    return {key: max(medians) for key, medians in found.items()}


@pytest.mark.parametrize(
    ("table", "measure"),
    [
        ("classification-accuracy", "accuracy"),
        ("classification-auroc", "auroc"),
        ("regression-r2", "r2"),
        ("small-classification", "auroc"),
        ("small-regression", "r2"),
    ],
)
def test_the_page_by_set_is_that_of_the_file(stored, table, measure):
    """Every cell of it, at epsilon = 1; the better setting of a peer."""
    shown = manifest.placed()[f"benchmark-{table}"].table
    delta = field.SMALL if table.startswith("small") else field.NONE
    task = "regression" if measure == "r2" else "classification"
    compared = 0
    for name, *cells in shown.rows:
        for heading, cell in zip(shown.headings[1:], cells, strict=True):
            method, marked, _ = heading.partition(" (")
            method = field.DESCENT[task] if method == page.SHORT[field.DESCENT[task]] else method
            own = field.INVERSE_SQUARE if marked else delta
            key = (name, method, own, "1", measure)
            if method in (field.PLAIN, field.TRIVIAL):
                key = (name, method, field.NONE, "", measure)
            median = stored.get(key)
            if median is None:
                assert not cell, key
                continue
            # A median of five digits may be rounded to either of two numbers of three.
            assert cell in {page.number(median * (1 + 5e-5 * side)) for side in (-1, 0, 1)}, key
            compared += 1
    assert compared > 80


def test_the_shares_are_those_of_the_file(stored):
    """A mean over the sets; an epsilon of a percent is due to medians of five digits."""
    compared = 0
    for table in ("benchmark-shares", "benchmark-small-shares"):
        shown = manifest.placed()[table].table
        for method, delta, of, *cells in shown.rows:
            measure = {"AUROC": "auroc", "R²": "r2"}[of]
            for epsilon, cell in zip(shown.headings[3:7], cells[:4], strict=True):
                shares = []
                for name in {key[0] for key in stored}:
                    ends = [
                        stored.get((name, end, field.NONE, "", measure))
                        for end in (field.TRIVIAL, field.PLAIN)
                    ]
                    score = stored.get((name, method, delta, epsilon, measure))
                    if score is not None and None not in ends and ends[1] - ends[0] >= 0.02:
                        shares.append(max(-1.0, (score - ends[0]) / (ends[1] - ends[0])))
                if not shares:
                    assert not cell
                    continue
                assert float(cell.removesuffix(" %")) == pytest.approx(
                    100 * np.mean(shares), abs=0.51
                )
                compared += 1
    assert compared == 4 * 28
