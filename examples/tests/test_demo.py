"""The demonstration runs from the command line, tells true figures and saves its picture."""

import sys

import numpy as np
import pytest

from examples import demo
from skdp.datasets import load_breast_cancer
from skdp.model_selection import EpsilonCurve


@pytest.fixture
def output(tmp_path, capsys):
    path = tmp_path / "epsilon_curve.png"
    demo.main(["--repeats", "2", "--output", str(path)])
    return capsys.readouterr().out, path


def test_prints_table_card_and_saves_picture(output):
    """Every epsilon has a row, the card is that of a release that holds, the file is a PNG."""
    text, path = output
    rows = [line.split() for line in text.splitlines()]
    for epsilon in demo.EPSILONS:
        assert any(len(row) == 5 and row[0] == f"{epsilon:g}" for row in rows)
    assert "Differential privacy guarantee" in text
    assert "without privacy" in text
    assert "most common label" in text
    assert path.read_bytes().startswith(b"\x89PNG")


def test_noise_of_the_demo_is_cryptographic():
    X, y, _ = load_breast_cancer(as_frame=False)
    assert demo.private_model(1.0).fit(X, y).guarantee_.holds


def test_goes_on_without_matplotlib(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    epsilons, ones = np.array(demo.EPSILONS), np.ones(2)
    curve = EpsilonCurve(epsilons, np.ones((len(epsilons), 2)), ones, ones, "model", "accuracy")
    demo.draw(curve, tmp_path / "none.png")
    assert "pip install 'skdp[plot]'" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_rejects_no_repeats(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--repeats", "0"])
    assert "--repeats must be an integer >= 1, got 0." in capsys.readouterr().err
