"""Pictures of guarantees: what is drawn is what the guarantee says, and no more."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from skdp import Domain, DPLinearRegression
from skdp.geometry import LpBall
from skdp.inspection import PrivacyProfileDisplay
from skdp.mechanisms import Sensitivity, calibrate
from skdp.privacy import Guarantee, compose

pytest.importorskip("matplotlib")

ONE = Sensitivity(LpBall(1))
PURE = Guarantee(1.0, mechanism="pure")
GAUSSIAN = calibrate("gaussian", ONE, epsilon=0.5, delta=1e-4).guarantee
show = PrivacyProfileDisplay.from_guarantee


def xy(line: Any) -> tuple[Any, Any]:
    return line.get_xdata(), line.get_ydata()


def texts(shown: PrivacyProfileDisplay) -> list[str]:
    legend: Any = shown.ax_.get_legend()
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize(
    "guarantee",
    [PURE, GAUSSIAN, compose(PURE, GAUSSIAN)],
    ids=lambda g: f"{g.epsilon:g}-{g.delta:g}",
)
def test_a_profile_is_delta_at_every_epsilon(guarantee: Guarantee) -> None:
    """Through the promised point; the curve of another epsilon is told apart."""
    shown = show(guarantee, n_points=16)
    epsilons, deltas = xy(shown.line_)
    np.testing.assert_array_equal(deltas, [guarantee.delta_at(float(e)) for e in epsilons])
    assert epsilons[0] == 0
    assert epsilons[-1] == 1.75 * guarantee.epsilon
    assert deltas[epsilons == guarantee.epsilon] <= guarantee.delta
    other = replace(guarantee, epsilon=2 * guarantee.epsilon, losses=())
    assert not np.allclose(deltas, [other.delta_at(float(e)) for e in epsilons])
    assert shown.ax_.get_yscale() == "log"


def test_a_tradeoff_is_what_no_test_beats() -> None:
    """At every level, with blind guessing above it."""
    shown = show(GAUSSIAN, kind="tradeoff")
    alpha, beta = xy(shown.line_)
    np.testing.assert_array_equal(beta, GAUSSIAN.tradeoff(alpha))
    assert (beta <= 1 - alpha + 1e-12).all()
    assert alpha[[0, -1]].tolist() == [0, 1]
    assert texts(shown)[-1] == "blind guessing"
    assert shown.ax_.get_aspect() == 1.0


def test_the_end_of_a_bounded_loss_is_not_cut_off() -> None:
    """Laplace noise has no delta beyond its own epsilon, and nearly the promised one before."""
    noise = calibrate("l1", ONE, epsilon=1.0, delta=1e-6)
    epsilons, deltas = xy(show(noise).line_)
    end = 1.0 - 2 * math.log1p(-1e-6)
    assert (deltas[epsilons > end * (1 + 1e-9)] == 0).all()
    assert deltas[epsilons <= 1.0][-1] == pytest.approx(1e-6, rel=1e-6)
    assert (deltas[(epsilons > 0.9) & (epsilons < 1.0)] > 1e-6).all()


def test_several_in_one_picture() -> None:
    """A list of lines in order, labels from a list, a mapping or the mechanisms; one is alone."""
    shown = show([PURE, GAUSSIAN], ["a", "b"])
    assert [line.get_label() for line in shown.line_] == ["a", "b"]
    assert texts(shown) == ["a", "b", "claimed"]
    assert [line.get_label() for line in show({"c": PURE, "d": GAUSSIAN}).line_] == ["c", "d"]
    assert show([PURE]).line_.get_label() == "pure"
    named = show(GAUSSIAN).line_.get_label()
    assert named.startswith("Gaussian noise for differences")
    assert len(named) <= 48
    assert show(Guarantee(1.0, 0.1)).line_.get_label() == "(1, 0.1)"
    assert show(PURE, "mine").line_.get_label() == "mine"


def test_a_void_guarantee_is_not_shown_as_if_it_held() -> None:
    void = replace(PURE, void_because=("it was seeded",))
    assert texts(show([PURE, void], ["a", "b"]))[:2] == ["a", "b (void)"]


def test_of_an_estimator() -> None:
    """Its guarantee, with the class's name, and the options of the other door."""
    x = np.linspace(-1, 1, 50)[:, None]
    domain = Domain.unit_box(1, target=(-1.0, 1.0))
    model = DPLinearRegression(epsilon=1.0, domain=domain, random_state=0)
    with pytest.raises(ValueError, match=r"guarantee must be a Guarantee.*Fit the estimator"):
        PrivacyProfileDisplay.from_estimator(model)
    model.fit(x, x[:, 0])
    shown = PrivacyProfileDisplay.from_estimator(model, kind="tradeoff", n_points=9)
    assert shown.line_.get_label() == "DPLinearRegression (void)"
    assert len(shown.line_.get_xdata()) == 9
    np.testing.assert_array_equal(
        shown.line_.get_ydata(), model.guarantee_.tradeoff(xy(shown.line_)[0])
    )
    again = PrivacyProfileDisplay.from_estimator(model, label="mine")
    assert again.line_.get_label() == "mine (void)"
    assert show([model, PURE]).line_[1].get_label() == "pure"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"guarantee": []}, "guarantee must be at least one"),
        ({"guarantee": 1.0}, "guarantee must be a Guarantee, or have one"),
        ({"guarantee": PURE, "labels": ["a", "b"]}, "labels must have 1 entries"),
        ({"guarantee": PURE, "kind": "roc"}, "kind must be one of"),
        ({"guarantee": PURE, "n_points": 3}, "n_points must be an integer >= 8"),
        ({"guarantee": PURE, "max_epsilon": 0.0}, "max_epsilon must be a finite number > 0"),
        ({"guarantee": PURE, "max_epsilon": math.inf}, "max_epsilon must be a finite number > 0"),
    ],
)
def test_refuses(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        show(**arguments)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib must be installed.*skdp\[plot\]"):
        show(PURE)
