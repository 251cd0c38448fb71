"""The tables of the benchmark's page are those of its files."""

import csv
from collections import Counter

import numpy as np
import pytest

from examples.benchmarks.peers import contenders as field
from examples.benchmarks.peers import everything_page as page
from examples.benchmarks.shared.measures import SHARED
from examples.figures import manifest, pages


def file_of(name):
    with (pages.ROOT / "docs/figures" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def stored():
    """Medians of benchmark.csv by set, method without its settings, delta, epsilon, measure."""
    found = {}
    for row in file_of("benchmark.csv"):
        name, base = row["method"], row["method"].partition(", ")[0]
        name = name if base in field.OURS else base
        key = row["set"], name, row["delta"], row["epsilon"], row["measure"]
        found.setdefault(key, []).append(float(row["median"]))
    return {key: max(medians) for key, medians in found.items()}


def test_the_shares_are_those_of_the_file(stored):
    """A mean over the common sets; an epsilon of a percent is due to medians of five digits."""
    shown = manifest.placed()["benchmark-shares"].table
    for task, measure in SHARED.items():
        of = {"auroc": "AUROC", "r2": "R²"}[measure]
        methods = [row[0] for row in shown.rows if row[1] == of]

        def share(name, method, epsilon, measure=measure):
            low, high = (
                stored.get((name, end, field.NONE, "", measure))
                for end in (field.TRIVIAL, field.PLAIN)
            )
            score = stored.get((name, method, field.SMALL, epsilon, measure))
            if score is None or low is None or high is None or high - low < 0.02:
                return None
            return max(-1.0, (score - low) / (high - low))

        names = {key[0] for key in stored if key[4] == measure}
        epsilons = shown.headings[2:]
        common = [
            n for n in names if None not in {share(n, m, e) for m in methods for e in epsilons}
        ]
        assert len(common) >= 8, task
        for method, own, *cells in shown.rows:
            if own != of:
                continue
            for epsilon, cell in zip(epsilons, cells, strict=True):
                mean = 100 * np.mean([share(name, method, epsilon) for name in common])
                assert float(cell.removesuffix(" %")) == pytest.approx(mean, abs=0.51)


@pytest.mark.parametrize("task", SHARED)
def test_the_verdicts_are_those_of_the_file(task):
    """Each count."""
    rows = [row for row in file_of("benchmark_differences.csv") if row["task"] == task]
    for row in rows:
        low, high = float(row["lower"]), float(row["upper"])
        expected = "ahead" if low > 0 else "behind" if high < 0 else "level"
        assert row["verdict"] == expected, row
    shown = manifest.placed()[f"benchmark-verdicts-{task}"].table
    for peer, _, *cells in shown.rows:
        for own, cell in zip(shown.headings[2:], cells, strict=True):
            if peer == "all":
                continue
            tally = Counter(
                row["verdict"]
                for row in rows
                if page.SHORT[row["skdp"]] == own and row["peer"].partition(", ")[0] == peer
            )
            found = " / ".join(str(tally[verdict]) for verdict in ("ahead", "level", "behind"))
            assert cell == (found if tally else ""), (peer, own)


def test_the_losses_are_those_of_the_file():
    """Each cell by more than .005, and the greatest difference of each set."""
    lost = [row for row in file_of("benchmark_differences.csv") if row["verdict"] == "behind"]
    lost = [row for row in lost if float(row["difference"]) < -page.LEAST_LOSS]
    cells, most = Counter(), {}
    for _, counts, sets in manifest.placed()["benchmark-losses"].table.rows:
        cells.update({k: int(v) for k, v in (part.rsplit(" ", 1) for part in counts.split("; "))})
        for name, value in (pair.split(" ") for pair in sets.split("; ")):
            most[name] = max(float(value), most.get(name, 0.0))
    assert cells == Counter(page.SHORT[row["skdp"]] for row in lost)
    assert most.keys() == {row["set"] for row in lost}
    for name, value in most.items():
        found = [float(row["difference"]) for row in lost if row["set"] == name]
        assert value == pytest.approx(-min(found), abs=0.0006)
