"""The examples run as a user runs them, and print what they say they show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def run(name, folder):
    """Return what a script prints; it must neither fail nor warn."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert not list(folder.iterdir())
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
    for full, tenth in zip(noise[1:5], noise[10:], strict=True):
        assert 4 < tenth / full < 13
    assert "epsilon = 0.001: ('target',) and nothing else" in text


def table(text, title):
    """Return the rows of figures under a title, as floats."""
    block = text.split(title)[1].split("\n\n")[0]
    rows = re.findall(r"^ +(-?[\d.e+-]+(?: +-?[\d.e+-]+)+)$", block, re.M)
    return [[float(cell) for cell in row.split()] for row in rows]


def test_what_the_papers_got_wrong(tmp_path):
    """Every false figure is shown beside what holds, and valid noise is never below its rivals."""
    text = run("what_the_papers_got_wrong.py", tmp_path)
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


def test_which_noise_when(tmp_path):
    """Where flipped Huber helps and where it does not, and that noise gives away what it may."""
    text = run("which_noise_when.py", tmp_path)
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
