"""The examples run as a user runs them, and print what they say they show."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
COLUMNS = "educ_years|experience|experience_sq|female"


def run(name, folder, pictures=frozenset(), option="--pictures"):
    """Return what a script prints; it must neither fail nor warn, and draw what it should."""
    if pictures:
        pytest.importorskip("matplotlib")
    environment = {
        **os.environ,
        "MPLBACKEND": "Agg",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, str(EXAMPLES / name), *([option, "new"] if pictures else [])]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert {path.stem for path in folder.glob("new/*")} == pictures
    assert {path.name for path in folder.iterdir()} == ({"new"} if pictures else set())
    return done.stdout


def test_first_private_model(tmp_path):
    """Both models by column name, a card of a guarantee that holds, and the budget going down."""
    text = run("first_private_model.py", tmp_path)
    labels = [line.split()[0] for line in text.splitlines() if re.match(r"  \S+ +-?[\d,.]+$", line)]
    assert labels == ["age", "hours", "job_trade", "job_care", "intercept"] * 2
    assert "Log-odds of yes" in text
    assert "Differential privacy guarantee" in text
    assert "DOES NOT HOLD" not in text
    assert "after one fit: epsilon=1.0, delta=0.0" in text
    assert "after two fits: epsilon=0.0, delta=0.0" in text


def test_grid_search(tmp_path):
    """The cost is that of three folds at each epsilon and one more fit at the winner's."""
    text = run("grid_search.py", tmp_path)
    costs = {
        label: (int(fits), float(cost))
        for label, fits, cost in re.findall(r"^ *([\d.]+|total) +(\d+) +([\d.]+)$", text, re.M)
    }
    winner = re.search(r"guarantee says epsilon = ([\d.]+)\. ", text)[1]
    for label in ("0.1", "1", "10"):
        fits = 3 + (label == winner)
        assert costs[label] == (fits, pytest.approx(fits * float(label)))
    assert costs["total"] == (10, pytest.approx(33.3 + float(winner)))
    assert "the search that found it cost 33.3 before" in text
    words = " ".join(text.split())
    assert "Choosing by looking at scores on private data is itself a release" in words


def test_linear_regression(tmp_path):
    """Three regressions for one charge, more noise for a tenth, and the way out."""
    text = run("linear_regression.py", tmp_path)
    found = re.findall(r"^  (\S+) +(-?[\d.]+)  noise ([\d.]+)$", text, re.M)
    names = [name for name, _, _ in found]
    columns = ["age", "hours", "job_trade", "job_care", "intercept"]
    assert names == [*columns, *["age", "intercept"] * 2, *columns]
    assert "after three regressions: epsilon=0.2, delta=0.0" in text
    noise = [float(n) for _, _, n in found]
    # Ratios of deviations depend on what was released: 3.8 to 9.8 in 60 runs.
    for full, tenth in zip(noise[1:5], noise[10:], strict=True):
        assert 2 < tenth / full < 20
    assert "epsilon = 0.001: ('target',) and nothing else" in text


def table(text, title):
    """Return the rows of figures under a title, as floats."""
    block = text.split(title)[1].split("\n\n")[0]
    rows = re.findall(r"^ +(-?[\d.e+-]+(?: +-?[\d.e+-]+)+)$", block, re.M)
    return [[float(cell) for cell in row.split()] for row in rows]


def words_after(text, title):
    """Return the rows under a title that begin with words, as floats by these words."""
    block = text.split(title)[1].split("\n\n")[0]
    # Names have single spaces, columns are two or more apart.
    rows = re.findall(r"^ +(\S.*?)((?:  +-?\d[\d.]*)+)$", block, re.M)
    return {name: [float(cell) for cell in cells.split()] for name, cells in rows}


def test_first_model(tmp_path):
    """A card that holds, a budget that goes down, and a fit that is refused."""
    text = run("01_first_model.py", tmp_path)
    assert "Differential privacy guarantee" in text
    assert "DOES NOT HOLD" not in text
    assert "left of the budget: epsilon=1.0, delta=0.0" in text
    assert "refused: The release does not fit" in text
    private = float(re.search(r"^private: ([\d.]+)", text, re.M)[1])
    free = float(re.search(r"^without privacy: ([\d.]+)", text, re.M)[1])
    assert 0 <= private <= 1  # the noise is fresh
    assert free > 0.9
    names = re.findall(r"^  (\S+) +-?\d+\.\d{3}$", text, re.M)
    assert names == ["age", "hours", "job_trade", "job_care"]


def test_cost_of_classification(tmp_path):
    """More epsilon, more accuracy; between trivial and free; the wrong shape costs."""
    text = run("02_cost_classification.py", tmp_path, {"breast_cancer"})
    found = words_after(text, "median test accuracy")
    low, middle, high, trivial, free = found["objective, delta = 0"]
    assert trivial < low < middle < high < free
    without, small = found["descent, delta = 0"], found["descent, delta = 1/n²"]
    assert without[1] < small[1]
    assert small[2] > 0.9
    shapes = words_after(text, "objective perturbation, delta = 0")
    assert max(shapes[name][0] for name in ("hull", "linf", "l2", "l1")) < shapes["auto"][0]
    laws = words_after(text, "coordinate descent, delta = 1/n²")
    assert laws["laplace"][0] < laws["auto"][0]


def test_cost_of_regression(tmp_path):
    """Ahead of AdaSSP wherever there is budget for moments; noise of coefficients is told."""
    text = run("03_cost_regression.py", tmp_path, {"coefficients", "diabetes"})
    found = words_after(text, "median test R^2")
    for name in ("robust, delta = 0", "descent, delta = 1/n²"):
        ahead = zip(found[name][:3], found["AdaSSP, delta = 1/n²"][:3], strict=True)
        assert all(own > other for own, other in ahead)
    assert found["moments, delta = 1/n²"][1] > found["AdaSSP, delta = 1/n²"][1]
    assert len(words_after(text, "epsilon = 10\n")) == 10


def test_norm_balls(tmp_path):
    """Polytopes come down to the hull's error; draws have it; and the hull loses to a diamond."""
    text = run("05_norm_balls.py", tmp_path, {"balls", "noise", "paradox"})
    exact = float(re.search(r"the hull itself: ([\d.]+)", text)[1])
    steps = [float(cell) for cell in re.findall(r"directions: ([\d.]+)", text)]
    assert exact < steps[-1] < 1.001 * exact
    assert steps == sorted(steps, reverse=True)
    drawn, law = re.search(r"error of the draws: ([\d.]+), by the law: ([\d.]+)", text).groups()
    assert float(drawn) == pytest.approx(float(law), rel=0.05)
    means = re.findall(r"greatest entry ([\d.]+), of the length ([\d.]+)", text)
    (rectangle, _), (diamond, _) = [[float(cell) for cell in row] for row in means]
    assert rectangle == pytest.approx(150, rel=0.02)
    assert diamond == pytest.approx(111, rel=0.02)


def test_coordinate_descent(tmp_path):
    """Passes are worth their noise with a delta, and not without one."""
    text = run("06_coordinate_descent.py", tmp_path, {"passes"})
    passes = words_after(text, "after so many passes")
    assert passes["delta = 1e-05"][2] > passes["delta = 1e-05"][0]
    assert max(passes["delta = 0"]) < min(passes["delta = 1e-05"])
    last = table(text, "Accuracy at (1, 1e-5)")[0]
    assert last[2] == max(last[:3])


def test_your_own_parts(tmp_path):
    """Sound parts pass, each fault is told, and own parts work in the estimators."""
    text = run("07_your_own_parts.py", tmp_path, {"own_law"})
    for name in ("Secant", "Cylinder", "LaplaceInTheBox"):
        assert f"{name}: passed" in text
    assert "OffCentre: OffCentre.logpdf must be even" in text
    assert "Crowded: Crowded.sample must draw from the whole ball" in text
    assert "Halved: BoxNoise.rvs must be (1, 0)-private" in text
    assert "spent epsilon=5.0, delta=1e-05" in text
    assert "left of the budget: epsilon=1.0, delta=0.0" in text
    errors = [float(cell) for cell in re.findall(r"root mean squared error ([\d.]+)", text)]
    assert errors == sorted(errors)


def test_what_the_papers_got_wrong(tmp_path):
    """Every false figure is shown beside what holds, and valid noise is never below its rivals."""
    text = run("08_what_the_papers_got_wrong.py", tmp_path)
    true = {int(m): low for _, m, _, _, low, _ in table(text, "noise published for delta")}
    assert true[10] == pytest.approx(1e-4, rel=1e-3)
    assert true[500] == pytest.approx(0.125, abs=0.001)
    assert true[2000] == pytest.approx(0.436, abs=0.001)
    for _, _, published, subbotin, gaussian, l2, _ in table(text, "mean squared error per"):
        assert l2 < gaussian <= subbotin
        assert published <= gaussian * 1.001
    ratios = {(e, d): ratio for e, d, *_, ratio in table(text, "One number: least variances")}
    assert ratios[0.3, 0.01] == pytest.approx(0.72, abs=0.005)
    assert ratios[1.0, 1e-6] == pytest.approx(1.0, abs=1e-3)
    assert min(low for _, low, _ in table(text, "delta of variance 502")) > 4e-5
    for dim, _, _, laplace, gaussian, l2, linf, pure in table(text, "K numbers: variance"):
        assert linf <= pure < l2 < min(laplace, gaussian)
        assert 3 <= dim <= 20
    assert table(text, "T steps: variance of each")[-1][-1] > 0.99


def test_a_model_you_can_read(tmp_path):
    """Curves find simulated effects, and lose to lines where there are few records and noise.

    The automatic choice is that of the better of both.
    """
    text = run("09_a_model_you_can_read.py", tmp_path, {"bands", "effects", "labels"})
    many, few = (
        {name.split()[-1]: cells[:-1] for name, cells in words_after(text, title).items()}
        for title in ("simulated: R^2", "diabetes: R^2")
    )
    assert min(many["curves"]) > max(many["lines"]) + 0.3
    pairs = zip(few["curves"][:3], few["lines"][:3], strict=True)  # not at an epsilon of 10
    assert all(own < other for own, other in pairs)
    assert few['"auto"'] == few["lines"]
    assert min(many['"auto"']) > max(many["lines"]) + 0.3
    assert "coefficients: 4 with lines, 24 with curves" in text
    whole, off = re.search(r"over (\d+) rentals\n.* is (\d+) off", text).groups()
    assert float(off) < 0.1 * float(whole)
    chances = dict(re.findall(r"at +(\d+):00.*busy ([\d.]+)", text))
    assert float(chances["3"]) < 0.5 < float(chances["8"]) < float(chances["17"])


def compared(text, title):
    """Return by coefficient how many intervals hold the estimate, and how long they are."""
    block = text.split(f"{title}: 442 rows")[1].split("\n\n")[0]
    found = {}
    for name, cells in re.findall(r"^  (\w+) +-?[\d.]+ +[\d.]+((?: +\d+/20 +\S+)+)$", block, re.M):
        pairs = re.findall(r"(\d+)/20 +(\S+)", cells)
        found[name] = [(int(holds), float(length)) for holds, length in pairs]
    return found


def test_publish_a_regression_table(tmp_path):
    """Few patients have unbounded intervals, which shrink with epsilon and hold the estimates.

    The noise of the first table is fresh; that of the others has seeds.
    """
    text = run("10_publish_a_regression_table.py", tmp_path, {"compared_diabetes", "table"})
    many = compared(text, "diabetes")
    assert list(many) == ["intercept", "age", "sex_2", "bmi", "bp"]
    for (_, one), (_, three), (_, ten) in many.values():
        assert one == float("inf")
        assert 3 < three < 20
        assert 1 < ten < 4
    few = compared(text, "diabetes, one column")
    assert all(length < 30 for own in few.values() for _, length in own)
    assert min(holds for own in (many | few).values() for holds, _ in own) >= 17
    assert text.count("THE GUARANTEE DOES NOT HOLD") == 1
    assert re.search(r"coefficients\s+of\s+5\s+are\s+unbounded", text)
    assert "refused: The release does not fit" in text
    assert "(1, 0)-differential privacy for one row" in text
    naive, robust, sampling, _ = map(
        float,
        re.search(r"^schooling +(\d.*)$", text.split("standard errors  ")[1], re.M)[1].split(),
    )
    assert naive < 0.6 * robust
    assert sampling == pytest.approx(robust, rel=0.3)


def test_wages(tmp_path, monkeypatch):
    """Intervals hold least squares, one effect is shorter than all, and many records suffice.

    On the simulated workers: the noise has seeds.
    """
    monkeypatch.delenv("SKDP_DATA", raising=False)
    text = run("11_wages.py", tmp_path)
    beside = re.findall(rf"^(?:{COLUMNS})((?: +-?[\d.]+){{6}})$", text, re.M)
    assert len(beside) == 4
    for numbers in beside:
        slope, _, _, _, low, high = map(float, numbers.split())
        assert low <= slope <= high
    rows = re.findall(r"^ +([\d.]+)((?: +(?:[\d.]+|inf)){5})$", text, re.M)
    lengths = {float(label): [float(own) for own in numbers.split()] for label, numbers in rows}
    assert list(lengths) == [0.5, 1, 4, 2500, 5000, 10_000, 20_000, 54_875]
    for *one, every in lengths.values():
        assert np.median(one) < every
    assert max(lengths[4][:4]) < 1.3
    assert min(lengths[2500]) > 3
    assert "educ_years" in text.split("least squares\n")[1]
    assert "no file of Air Quality" in text


def test_which_noise_when(tmp_path):
    """Where flipped Huber helps and where it does not, and that noise gives away what it may."""
    text = run("04_which_noise_when.py", tmp_path)
    ratios = {(e, d): ratio for e, d, *_, ratio in table(text, "One number: variance of each")}
    assert ratios[0.3, 0.01] == pytest.approx(0.7186, abs=5e-4)
    assert ratios[1.0, 0.05] == pytest.approx(0.7633, abs=5e-4)
    assert all(ratio > 0.999 for (_, delta), ratio in ratios.items() if delta == 1e-6)
    assert "flipped huber" not in text.split("Five numbers in a box")[1].split("Several")[0]
    for _, _, _, laplace, gaussian, l2, linf, own in table(text, "Several numbers in a box"):
        assert min(laplace, gaussian, l2, linf) < own < laplace
    assert "for its least total variance, 14.03; next offset_gaussian" in text
    profiles = text.split("delta at other epsilons")[1]
    last = dict(re.findall(r"^ *(\S.*?)  .* ([\d.e-]+)$", profiles, re.M))
    assert float(last["truncated laplace"]) == 0.01
    assert float(last["laplace"]) == 0
    assert float(last["flipped huber"]) < 1e-3


def test_pictures_are_drawn(tmp_path):
    """Where a folder is named, and there only: without one, the first test of it found no file."""
    run("01_first_model.py", tmp_path, {"first_model"})


def test_compare_norm_balls(tmp_path):
    """Areas, and the paradox: the diamond has less mean error and a greater volume."""
    text = run("compare_norm_balls.py", tmp_path, {"paradox", "sensitivity_space"}, "--out")
    found = [line.split() for line in text.splitlines()]
    areas = [row[2] for row in found if row[:1] in (["l1"], ["l2"], ["linf"], ["hull"])]
    assert areas == ["19.53", "16.16", "16", "13.33", "32", "25.13", "16"]
    assert "K is inside H: True" in text
    rows = {row[0]: row[1:] for row in found if row[:1] in (["K"], ["H"]) and len(row) == 7}
    rows = {name: [float(x) for x in row] for name, row in rows.items() if row[0] != "is"}
    assert rows["K"] == [150.00, 150.03, 151.50, 40000.00, 4.00, 60000.00]
    assert rows["H"] == [111.00, 112.38, 121.00, 24200.00, 242.00, 72600.00]


def test_adult_curve(monkeypatch, tmp_path):
    """The README's picture is small, and its script draws both models and both references.

    The bundled data stand for Adult, which is not here.
    """
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    sys.path.insert(0, str(EXAMPLES))
    import adult_curve

    from skdp.datasets import load_breast_cancer

    kept = ROOT / "docs" / "figures" / "adult_curve.png"
    assert kept.stat().st_size < 100_000
    assert "(docs/figures/adult_curve.png)" in (ROOT / "README.md").read_text(encoding="utf-8")
    monkeypatch.setattr(adult_curve, "fetch_adult", load_breast_cancer)
    monkeypatch.setattr(adult_curve, "EPSILONS", (1.0, 10.0))
    out = tmp_path / "new" / "curve.png"
    monkeypatch.setattr(sys, "argv", ["adult_curve.py", "--splits", "2", "--out", str(out)])
    adult_curve.main()
    assert out.stat().st_size > 0
    (axes,) = matplotlib.pyplot.gcf().axes
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    names = ["many steps, delta = 1/n²", "one release, delta = 0"]
    assert shown == [*names, "without privacy", "trivial"]
    matplotlib.pyplot.close("all")


def test_canonical_noise(tmp_path, monkeypatch, capsys):
    """Without a folder nothing is saved; every noise is canonical, but for roots that are none."""
    script = EXAMPLES / "canonical_noise.py"
    for arguments, saved in (([], []), (["--out", str(tmp_path)], ["canonical_noise.png"])):
        monkeypatch.setattr(sys, "argv", [str(script), *arguments])
        runpy.run_path(str(script), run_name="__main__")
        assert [path.name for path in tmp_path.iterdir()] == saved
        text = capsys.readouterr().out
        rows = re.findall(r"^ +\d +([\d.]+) +([\d.e-]+) +([\d.e-]+)$", text, re.M)
        spent = [float(row[2]) for row in rows]
        assert max(spent[:5]) < 1e-14
        assert min(spent[5:]) > 1e-2


def test_durations(tmp_path):
    """Private curves are near those of Kaplan and Meier, and far from them with other weights."""
    text = run("12_durations.py", tmp_path)
    rows = re.findall(r"^(?:7|14|30|60|90|180)\.0 +([\d.]+) +([\d.]+)$", text, re.M)
    usual, private = np.array(rows, dtype=float).T
    assert len(usual) == 12
    assert np.abs(private - usual)[:6].max() < 0.02
    assert np.abs(private - usual)[6:].max() > 0.2


def test_score_in_the_warehouse(tmp_path):
    """SQL and ONNX predict what Python predicts."""
    text = run("13_score_in_the_warehouse.py", tmp_path)
    found = re.findall(r"greatest difference of \w+: +([\d.e-]+)$", text, re.M)
    assert len(found) == 2
    assert max(map(float, found)) < 1e-9
