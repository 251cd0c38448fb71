"""The benchmark of everything: what is run, what is kept, what the page says of it."""

import ast
import csv
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import skdp

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples" / "benchmarks"))

import contenders as field
import everything
import everything_page as page
import mutation_sites
import report
import verdicts
from contenders import Contender, Run
from data import names_of, read
from measures import AUROC, MEASURES, R2
from verdicts import AHEAD, BEHIND, LEVEL, Cell, Scores

HUBER = Contender(field.HUBER, "regression")


def run(method, scores, repetition=0, name="diabetes", delta="0", measure=R2):
    """Return a run; its scores are numbers by epsilon, all of one measure."""
    found = {epsilon: {measure: score} for epsilon, score in scores.items()}
    return Run(name, method, delta, repetition, found, 1.0)


def field_of(scores_by_method, repeats=20, **facts):
    """Runs at epsilon = 1 whose score is the given one of each repetition."""
    return [
        run(method, {1.0: score[k]}, k, **facts)
        for method, score in scores_by_method.items()
        for k in range(repeats)
    ]


# Who takes part


def test_every_estimator_takes_part():
    """An estimator that is added to the package has to be added to the benchmark."""
    ours = {name for name in skdp.__all__ if name.startswith("DP")}
    assert ours == set(field.OURS)
    assert ours <= {c.method for c in field.contenders()}


def test_delta_is_that_of_the_training_rows():
    """1 / n^2 for n = 400 to the first digit: four fifths of 442 rows train."""
    own = Contender(field.DESCENT["regression"], "regression", field.INVERSE_SQUARE)
    assert field.delta_of(own, 442) == pytest.approx(1 / 400**2)
    assert field.delta_of(HUBER, 442) == 0


# Runs


def test_runs_repeat_and_differ_between_splits():
    """The same split and seed give the same score; another split another one."""
    wanted = [(0, (0.5, 4.0)), (1, (0.5, 4.0))]
    first, again = (field.runs(HUBER, "diabetes", wanted) for _ in range(2))
    assert [r.scores for r in first] == [r.scores for r in again]
    assert first[0].scores != first[1].scores
    assert list(first[0].scores) == [0.5, 4.0]


def test_a_run_comes_back_from_its_line():
    """With infinite epsilon of the references, and to six digits."""
    one = run(field.TRIVIAL, {np.inf: -1 / 3}, 4)
    back = Run.from_line(one.line())
    assert back.scores == {np.inf: {R2: -0.333333}}
    assert (back.set, back.method, back.delta, back.repetition) == ("diabetes", "trivial", "0", 4)


def test_runs_of_several_measures():
    """Each task has its own; a classifier's are of one fit."""
    found = field.runs(
        Contender(field.TRIVIAL, "classification"), "breast_cancer_wdbc", [(0, (1.0,))]
    )
    assert tuple(found[0].scores[1.0]) == MEASURES["classification"]
    assert found[0].scores[1.0][AUROC] == 0.5


def test_runs_in_an_older_format_are_told_and_kept(tmp_path, capsys):
    """They had a number in place of a dictionary; their runs are made again."""
    path, new = tmp_path / "runs.jsonl", run(field.HUBER, {1.0: 0.5}).line() + "\n"
    older = new.replace('{"r2": 0.5}', "0.5")
    assert older != new
    path.write_text(older + new + older, encoding="utf-8")
    assert len(list(everything.load(path))) == 1
    assert "2 runs in an older format" in capsys.readouterr().err
    everything.repair(path)
    assert path.read_text(encoding="utf-8") == older + new + older


# AdaSSP


@pytest.mark.parametrize("extra", [0.0, 1.0])
def test_adassp_without_noise_is_least_squares(extra):
    """At epsilon = 1e9 nothing but the moments is left; at 0.01 it is far off (the twin)."""
    data = read("diabetes")
    X, y, domain = data.encoded, data.y, data.domain.encoded
    plain = field._model(Contender(field.PLAIN, "regression"), data, np.inf, 0).fit(X, y).predict(X)
    near, far = (
        field.AdaSSP(domain, epsilon, 1e-6, extra, seed=0).fit(X, y).predict(X)
        for epsilon in (1e9, 0.01)
    )
    assert np.abs(near - plain).max() < 0.1
    assert np.abs(far - plain).max() > 10


def test_adassp_noise_covers_every_replacement():
    """Of X'X and X'y together, over angles between rows; a tenth less would not cover them."""
    c = np.linspace(-1, 1, 2001)
    rows = np.stack([c, np.sqrt(1 - c * c)], axis=1)
    matrix = np.array([1.0, 0.0])[:, None] * np.array([1.0, 0.0]) - rows[:, :, None] * rows[:, None]
    vector = np.array([1.0, 0.0]) + rows  # targets 1 and -1
    changes = (matrix**2).sum(axis=(1, 2)) + (vector**2).sum(axis=1)
    assert 0.9 * field.SQUARES["replace_one"] < changes.max() <= field.SQUARES["replace_one"] + 1e-9
    # The least eigenvalue moves by at most the spectral norm of the matrix's change.
    assert np.abs(np.linalg.eigvalsh(matrix)).max() <= 1 + 1e-9


# diffprivlib, by a stand-in for its environment

STAND_IN = """
import json, sys
import numpy as np
arrays, asked = dict(np.load(sys.argv[2])), json.loads(sys.argv[3])
if asked["task"] == "classification":
    sys.exit("no classes here")
for split in asked["splits"]:
    test = arrays["test%d" % split["repetition"]]
    facts = [arrays["X"].shape[1], len(test), arrays["lower"].min(), float(np.ptp(arrays["y"]))]
    scores = [(epsilon, {"r2": fact}) for epsilon, fact in zip(split["epsilons"], facts)]
    print(json.dumps({"repetition": split["repetition"], "scores": scores, "seconds": 0.5}))
"""


@pytest.fixture
def stand_in(tmp_path):
    """A program that is called as the other environment's Python is."""
    script, program = tmp_path / "stand_in.py", tmp_path / "python"
    script.write_text(STAND_IN, encoding="utf-8")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_arrays_and_scores_cross_to_the_other_environment(stand_in):
    """It sees encoded rows, the same test rows, public bounds, and the target in its bounds."""
    wanted = [(0, field.EPSILONS), (3, field.EPSILONS)]
    found = field.runs(Contender(field.DIFFPRIVLIB, "regression"), "diabetes", wanted, stand_in)
    data = read("diabetes")
    assert [r.repetition for r in found] == [0, 3]
    spread = 2 * np.ptp(data.y) / 350  # declared from 0 to 350
    facts = [data.encoded.shape[1], round(0.2 * len(data.y)), -1, spread]
    assert [scores[R2] for scores in found[0].scores.values()] == pytest.approx(facts)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_failure_over_there_is_told(stand_in):
    contender = Contender(f"{field.DIFFPRIVLIB}, C=1", "classification")
    with pytest.raises(SystemExit, match="no classes here"):
        field.runs(contender, "breast_cancer_wdbc", [(0, (1.0,))], stand_in)


def test_indicators_have_zero_as_their_lower_bound():
    """Numbers have -1: bounds are those of the encoded columns."""
    handed = field._handed_over(read("diabetes"), [0])
    indicators = [k for block in read("diabetes").domain.encoded.blocks for k in range(99)[block]]
    assert (handed["lower"][indicators] == 0).all()
    assert np.isin(handed["lower"], [-1, 0]).all()
    assert (handed["X"] >= handed["lower"]).all()


# What is left to run


def test_only_what_is_missing_is_run():
    """A stored epsilon is not run again, another is, and the rest of the splits."""
    jobs = list(
        everything.missing([run(field.HUBER, {0.1: 0.0, 4.0: 0.5})], [HUBER], ["diabetes"], 2)
    )
    assert [job.wanted for job in jobs] == [((0, (0.5, 1.0)), (1, field.EPSILONS))]
    stored = [run(field.HUBER, dict.fromkeys(field.EPSILONS, 0.0), k) for k in range(2)]
    assert not list(everything.missing(stored, [HUBER], ["diabetes"], 2))


def test_the_order_gives_a_table_early():
    """All sets have their first splits before any has more; the large ones come last, alone."""
    names = names_of("regression")
    jobs = list(everything.missing([], [HUBER], names, 10))
    large = [job for job in jobs if job.name in everything.LARGE]
    usual = jobs[: len(jobs) - len(large)]
    assert not {job.name for job in usual} & everything.LARGE
    firsts = [job.wanted[0][0] for job in usual]
    assert firsts == [0] * (len(names) - 1) + [5] * (len(names) - 1)
    assert [len(job.wanted) for job in large] == [1] * 10


def test_a_line_that_was_cut_off_is_dropped(tmp_path):
    """And what is stored afterwards stands on a line of its own."""
    path = tmp_path / "runs.jsonl"
    whole = run(field.HUBER, {1.0: 0.5}).line() + "\n"
    path.write_text(whole + whole[:20], encoding="utf-8")
    assert len(list(everything.load(path))) == 1
    everything.repair(path)
    assert path.read_text(encoding="utf-8") == whole
    assert not list(everything.load(tmp_path / "none"))


# Verdicts


def test_verdicts_tell_noise_from_loss():
    """Lost on all 20 splits is behind; lost on 11 of 20 is what a coin does.

    Nothing is random here, the scores are made.
    """
    base = np.linspace(0.5, 0.6, 20)
    eleven = np.where(np.arange(20) < 11, -1e-3, 5e-4)
    scores = Scores.of(
        field_of(
            {
                "peer": base,
                "better": base + 1e-3,
                "same": base,
                "worse": base - 1e-3,
                "wavering": np.sort(base + eleven) - 1e-5 * (np.arange(20) == 9),
            }
        )
    )
    cell = {name: Cell("diabetes", name, "0", 1.0) for name in ("better", "same", "worse")}
    peer = Cell("diabetes", "peer", "0", 1.0)
    assert scores.verdict(cell["better"], peer) == AHEAD
    assert scores.verdict(cell["same"], peer) == AHEAD
    assert scores.verdict(cell["worse"], peer) == BEHIND
    assert scores.verdict(Cell("diabetes", "wavering", "0", 1.0), peer) == LEVEL


def test_five_splits_are_too_few_to_be_behind():
    """A coin loses five times of five in 1 of 16 cases, two-sided."""
    scores = Scores.of(field_of({"own": np.zeros(5), "peer": np.ones(5)}, repeats=5))
    own, peer = (Cell("diabetes", name, "0", 1.0) for name in ("own", "peer"))
    assert scores.verdict(own, peer) == LEVEL


def test_the_peer_is_given_its_better_setting():
    """Ours has none to choose from."""
    runs = field_of(
        {f"{field.DIFFPRIVLIB}, C=1": np.zeros(3), f"{field.DIFFPRIVLIB}, C=0.1": np.ones(3)}, 3
    )
    scores = Scores.of(runs)
    assert scores.median("diabetes", field.DIFFPRIVLIB, "0", 1.0) == 1
    assert scores.median("diabetes", field.LOGISTIC, "0", 1.0) is None
    assert verdicts.settings_of(field.LOGISTIC) == [field.LOGISTIC]


# The page


@pytest.fixture
def written(tmp_path):
    """The page of a small field in which least squares is behind and Huber is ahead."""
    base = np.linspace(0.2, 0.4, 20)
    runs = field_of({field.LINEAR: base - 0.1, field.HUBER: base + 0.1, field.DIFFPRIVLIB: base})
    runs += [run(field.TRIVIAL, {np.inf: 0.0}), run(field.PLAIN, {np.inf: 0.5})]
    page.write(runs, tmp_path)
    return tmp_path


def test_page_says_where_ours_is_behind(written):
    """With both medians; and nowhere that the other one is."""
    text = (written / "benchmark.md").read_text(encoding="utf-8")
    assert (
        f"**{field.LINEAR} (delta = 0) against diffprivlib, behind:** diabetes at 1 (.200 to .300)"
        in text
    )
    assert f"**{field.HUBER} (delta = 0) against diffprivlib" not in text
    line = next(line for line in text.splitlines() if line.startswith("| diabetes | 1 "))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["diabetes", "1", ".200†", ".400", "", "", ".300", "", ".500", ".000"]
    assert "are set on simulated populations only" in text
    shares = [line for line in text.splitlines() if line.startswith("| DPHuberRegressor ")]
    assert "80 %" in shares[0]
    assert "## Classification" not in text
    assert "20 random splits (1 for trivial on diabetes; 1 for without privacy on diabetes)" in text


def test_table_and_picture_are_written(written):
    """A row for each figure, with quartiles; a picture for each task that was run."""
    with (written / "benchmark.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    huber = next(row for row in rows if row["method"] == field.HUBER)
    assert float(huber["median"]) == pytest.approx(0.4)
    assert float(huber["lower quartile"]) == pytest.approx(0.35)
    assert (written / "benchmark_regression.png").read_bytes().startswith(b"\x89PNG")
    assert not (written / "benchmark_classification.png").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.8251, ".825"),
        (-0.0004, ".000"),
        (-0.25, "-.250"),
        (1.0, "1.000"),
        (-3e7, "-3e7"),
        (10.25, "10.250"),
    ],
)
def test_numbers_are_short(value, text):
    assert page.number(value) == text


def test_command_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    """The first call runs and writes; the second one runs nothing more."""
    store, docs = tmp_path / "runs.jsonl", tmp_path / "docs"
    asked = ["--sets", "diabetes", "--methods", "Huber", "trivial", "--repeats", "1", "--jobs", "1"]
    asked += ["--store", str(store), "--docs", str(docs)]
    everything.main(asked)
    first = store.read_text(encoding="utf-8")
    assert len(first.splitlines()) == 4  # Huber at three deltas, and the mean
    assert "4/4 runs" in capsys.readouterr().err
    everything.main(asked)
    assert store.read_text(encoding="utf-8") == first
    assert "runs" not in capsys.readouterr().err
    assert (docs / "benchmark.md").exists()
    assert report.RESULTS not in store.parents


def test_exclusions_of_mutations_name_what_there_is():
    """A name that is no longer defined would hide that its successor is not excluded."""
    package = Path(skdp.__file__).parent
    for module in mutation_sites.EXCLUDED:
        assert (package / module).exists(), module
    for module, names in mutation_sites.NAMES.items():
        tree = ast.parse((package / module).read_text(encoding="utf-8"))
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        defined = {name for node in statements for name in mutation_sites.defined(node)}
        assert set(names.split()) <= defined, module


def test_mutations_are_drawn_from_all_folders_of_the_package():
    package = Path(skdp.__file__).parent
    drawn = mutation_sites.drawn(package, 10**6, np.random.default_rng(0))
    modules = {mutation.module for mutation in drawn}
    assert {"linear_model/_objective/families.py", "rows/total.py"} <= modules
    assert not modules & set(mutation_sites.EXCLUDED)
    for mutation in drawn[::50]:
        source = (package / mutation.module).read_bytes()
        assert source[mutation.start : mutation.stop].decode() == mutation.old
        ast.parse(mutation.applied(source))
