"""The demonstration runs from the command line, tells true figures and saves its picture."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from skdp import __main__ as demo
from skdp._progress import with_bar


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
    curve = demo.Curve(np.ones((2, len(demo.EPSILONS))), np.ones(2), np.ones(2))
    demo.draw(curve, tmp_path / "none.png")
    assert "pip install 'skdp[plot]'" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_rejects_no_repeats(capsys):
    """A count below one is refused with the rule and the value."""
    with pytest.raises(SystemExit):
        demo.main(["--repeats", "0"])
    assert "--repeats must be a whole number >= 1, got 0." in capsys.readouterr().err


def test_progress_counts_to_the_end_on_standard_error(capsys):
    """The bar is drawn apart from the results, which can be piped on."""
    assert list(with_bar(range(3), 3, "split")) == [0, 1, 2]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("split 3 of 3\n")
    assert "#" * 30 in shown.err
