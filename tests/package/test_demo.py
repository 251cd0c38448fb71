"""The demonstration runs from the command line, tells true figures and saves its picture."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdp import __main__ as demo
from skdp.model_selection import EpsilonCurve


@pytest.fixture
def output(tmp_path, capsys):
    """What two splits print, and the picture they leave behind."""
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
    """The card printed to the user must not be void."""
    X, y = demo.load()
    assert demo.private_model(1.0).fit(X, y).guarantee_.holds


def test_domain_is_that_of_the_data():
    """Columns stand in the order of the data, labels are declared, bounds clip next to nothing."""
    data = load_breast_cancer()
    assert demo.DOMAIN.names == tuple(data.feature_names)
    assert set(demo.DOMAIN.target_labels) == set(data.target_names)
    # 2 of 17070 cells lie outside; a column in the wrong place would clip hundreds or use
    # only a corner of its range.
    encoded = demo.DOMAIN.encode(data.data)
    assert (encoded == 1).sum() <= 5
    assert (np.ptp(encoded, axis=0) > 0.8).all()


def test_goes_on_without_matplotlib(monkeypatch, tmp_path, capsys):
    """Where the picture cannot be drawn, the user learns what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    epsilons, ones = np.array(demo.EPSILONS), np.ones(2)
    curve = EpsilonCurve(epsilons, np.ones((len(epsilons), 2)), ones, ones, "model", "accuracy")
    demo.draw(curve, tmp_path / "none.png")
    assert "pip install 'skdp[plot]'" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_rejects_no_repeats(capsys):
    """A count below one is refused with the rule and the value."""
    with pytest.raises(SystemExit):
        demo.main(["--repeats", "0"])
    assert "--repeats must be a whole number >= 1, got 0." in capsys.readouterr().err


def test_references_are_those_of_the_splits():
    """By hand: the most common label, and logistic regression on the encoded columns."""
    X, y = demo.load()
    curve = demo.measure(X, y, 2)
    for seed in range(2):
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        assert curve.trivial[seed] == np.mean(y_test == "benign")
        free = LogisticRegression(max_iter=1000).fit(demo.DOMAIN.encode(train), y_train)
        assert curve.without_privacy[seed] == free.score(demo.DOMAIN.encode(test), y_test)
    assert curve.scores.shape == (len(demo.EPSILONS), 2)


def test_progress_counts_to_the_end_on_standard_error(tmp_path, capsys):
    """The bar is drawn apart from the results, which can be piped on."""
    demo.main(["--repeats", "3", "--output", str(tmp_path / "curve.png")])
    shown = capsys.readouterr()
    assert "split" not in shown.out.replace("random splits", "")
    assert shown.err.endswith("split 3 of 3\n")
    assert "#" * 30 in shown.err
