"""Maps of the least variance: right at every point, and drawn as they are."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skdp.geometry import LpBall
from skdp.inspection import LawMapDisplay
from skdp.inspection.law_map import LAW_COLORS
from skdp.mechanisms import Sensitivity, calibrate
from skdp.mechanisms.law_map import LawMap, law_map

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

EPSILONS, DELTAS = [0.1, 0.3, 1.0, 3.0], [1e-6, 1e-3, 0.01, 0.05]
NORMS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


@pytest.fixture(scope="module")
def one() -> LawMap:
    return law_map(EPSILONS, DELTAS)


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


@pytest.mark.slow("calibrations at every point of a map")
def test_variances_are_those_of_the_calibrated_noise(one: LawMap) -> None:
    """At every point, by closed forms where there are any; Laplace's a permille off is seen."""
    epsilon, delta = np.meshgrid(EPSILONS, DELTAS, indexing="ij")
    laplace = 2 / (epsilon - 2 * np.log1p(-delta)) ** 2
    found = one.variances[one.laws.index("laplace")]
    np.testing.assert_allclose(found, laplace, rtol=1e-9)
    assert not np.allclose(found, 1.001 * laplace, rtol=1e-9)
    for law in ("gaussian", "flipped_huber"):
        noise = calibrate(law, Sensitivity(LpBall(1)), epsilon=0.3, delta=0.01)
        at = one.laws.index(law), EPSILONS.index(0.3), DELTAS.index(0.01)
        assert one.variances[at] == noise.covariance()[0, 0]
    assert one.variances.shape == (len(one.laws), 4, 4)


def test_variances_fall_with_epsilon_and_delta(one: LawMap) -> None:
    """More budget never needs more noise, up to how well a shape is found."""
    for axis in (1, 2):
        fall = np.diff(np.log(one.variances), axis=axis)
        assert (fall < 1e-4).all()


def test_flipped_huber_gains_where_delta_is_not_tiny(one: LawMap) -> None:
    """0.72 at (0.3, 0.01), 0.76 at (1, 0.05), and nothing at delta = 1e-6."""
    at = {pair: (EPSILONS.index(pair[0]), DELTAS.index(pair[1])) for pair in
          ((0.3, 0.01), (1.0, 0.05))}  # fmt: skip
    own = one.variances[one.laws.index("flipped_huber")] / one.baseline
    assert own[at[0.3, 0.01]] == pytest.approx(0.7186, abs=5e-4)
    assert own[at[1.0, 0.05]] == pytest.approx(0.7633, abs=5e-4)
    assert (own[:, DELTAS.index(1e-6)] > 0.999).sum() == 3  # from epsilon = 0.3 on
    assert (one.winners[:, DELTAS.index(1e-6)][1:] == "laplace").all()


def test_the_winner_has_the_least_variance(one: LawMap) -> None:
    """Up to a thousandth, the first of those; a map with its laws in disorder is seen."""
    best = np.take_along_axis(one.variances, one.places[None], 0)[0]
    assert (best <= one.variances.min(axis=0) * 1.001).all()
    np.testing.assert_array_equal(np.asarray(one.laws)[one.places], one.winners)
    np.testing.assert_allclose(one.ratios * one.baseline, best)
    assert one.ratios.max() <= 1.001
    shuffled = one.variances[::-1]
    assert (np.take_along_axis(shuffled, one.places[None], 0)[0] > best).any()


def test_without_some_laws(one: LawMap) -> None:
    """The rest is as it was, gains are still against Laplace and Gaussian noise."""
    rest = one.without("truncated_laplace", "laplace")
    assert "laplace" not in rest.laws
    np.testing.assert_array_equal(rest.baseline, one.baseline)
    assert (rest.ratios >= one.ratios * 0.999).all()
    for laws in (one.laws, ("l3",)):
        with pytest.raises(ValueError, match="laws must be some, but not all"):
            one.without(*laws)


@pytest.mark.parametrize("norm", NORMS)
def test_several_dimensions(norm: str) -> None:
    """Means over the coordinates of what calibrate gives; K-norm noise of the norm is there."""
    found = law_map([0.5, 2.0], [1e-6, 0.01], dim=5, norm=norm)
    task = Sensitivity(LpBall(5, NORMS[norm]))
    for i, law in enumerate(found.laws):
        noise = calibrate(law, task, epsilon=0.5, delta=0.01)
        assert found.variances[i, 0, 1] == pytest.approx(np.trace(noise.covariance()) / 5)
    assert {"laplace" if norm == "l1" else "l1", "l2", "linf", "gaussian"} <= set(found.laws)
    assert ("flipped_huber" in found.laws) == (norm == "l1")
    assert found.winners[1, 0] == {"l1": "laplace"}.get(norm, norm)
    assert (found.dim, found.norm) == (5, norm)


def test_a_law_that_must_be_composed_is_there_when_named() -> None:
    found = law_map([1.0], [1e-3], dim=2, laws=["logistic", "linf"])
    assert found.laws == ("logistic", "linf")
    assert found.winners.tolist() == [["linf"]]
    assert np.isfinite(found.variances).all()


def test_delta_zero() -> None:
    """What has no noise there is infinite, and does not win."""
    found = law_map([1.0], [0.0, 0.01], laws=["gaussian", "laplace"])
    assert found.variances[0, 0, 0] == math.inf
    assert found.winners[0, 0] == "laplace"
    assert found.ratios[0, 0] == 1


def test_grids_are_sorted_and_kept(one: LawMap) -> None:
    found = law_map([1.0, 0.1, 1.0], (0.1,), laws=["laplace"])
    np.testing.assert_array_equal(found.epsilons, [0.1, 1.0])
    assert found.variances.shape == (1, 2, 1)
    with pytest.raises(ValueError, match="read-only"):
        one.variances[0] = 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilons": [0.0]}, "epsilons must be a finite number > 0"),
        ({"epsilons": []}, "epsilons must have shape"),
        ({"epsilons": 1.0}, "epsilons must have shape"),
        ({"deltas": [1.0]}, "deltas must be a number in"),
        ({"deltas": [math.nan]}, "deltas must be"),
        ({"dim": 0}, "dim must be a whole number"),
        ({"norm": "hull"}, "norm must be one of"),
        ({"laws": "laplace"}, "laws must be a sequence"),
        ({"laws": []}, "laws must be a sequence"),
        ({"laws": ["auto"]}, "laws must be one of"),
    ],
)
def test_refuses(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        law_map(**{"epsilons": [1.0], "deltas": [0.1], **arguments})


# The picture.


def test_cells_have_the_colours_of_the_winners(one: LawMap) -> None:
    """Around the points of the grid, in the legend's colours; another winner is another colour."""
    shown = LawMapDisplay.from_map(one)
    legend: Any = shown.ax_.get_legend()
    names = [text.get_text().replace(" ", "_") for text in legend.get_texts()]
    assert tuple(names) == shown.shown_
    colors = {
        name: patch.get_facecolor() for name, patch in zip(names, legend.get_patches(), strict=True)
    }
    assert len(set(colors.values())) == len(names) >= 3
    shown.figure_.canvas.draw()
    cells = shown.mesh_.get_facecolors().reshape(4, 4, 4)
    for i in range(4):
        for j in range(4):
            np.testing.assert_allclose(cells[j, i], colors[one.winners[i, j]], atol=0.005)
    corners = shown.mesh_.get_coordinates()
    assert (corners[0, :-1, 0] < one.epsilons).all()
    assert (corners[0, 1:, 0] > one.epsilons).all()
    assert (corners[:-1, 0, 1] < one.deltas).all()


def test_lines_are_where_the_ratio_is(one: LawMap) -> None:
    """At points of the grid the surface is that of the ratios; nothing gained, no line."""
    shown = LawMapDisplay.from_map(one, levels=(0.9,))
    above = one.ratios > 0.9
    assert above.any()
    assert not above.all()
    assert shown.contour_.levels.tolist() == [0.9]
    path = np.concatenate(shown.contour_.allsegs[0])
    assert path[:, 0].min() >= 0.1 - 1e-9
    assert path[:, 0].max() <= 3 + 1e-9
    only = one.without(*(law for law in one.laws if law not in ("laplace", "gaussian")))
    assert LawMapDisplay.from_map(only).contour_ is None


def test_one_colour_for_each_law() -> None:
    """All that may win in one map are told apart, also laws that have no colour of their own."""
    assert len(set(LAW_COLORS.values())) == len(LAW_COLORS)
    values = np.full((3, 2, 2), 2.0)
    values[0, 0, 0] = values[1, 1, 1] = values[2, 0, 1] = 1.0
    grid = np.array([0.1, 0.2])
    laws = ("hull", "elliptic", "laplace")
    shown = LawMapDisplay.from_map(LawMap(laws, grid, grid, values, np.ones((2, 2))))
    legend: Any = shown.ax_.get_legend()
    assert len({patch.get_facecolor() for patch in legend.get_patches()}) == 3


def test_it_is_drawn_where_it_is_told(one: LawMap, tmp_path: Path) -> None:
    ax = plt.figure().subplots()
    shown = LawMapDisplay.from_map(one, ax=ax)
    assert shown.ax_ is ax
    assert shown.plot() is shown
    assert shown.ax_ is not ax
    assert (shown.ax_.get_xscale(), shown.ax_.get_yscale()) == ("log", "log")
    shown.figure_.savefig(tmp_path / "map.png", dpi=50)
    assert plt.imread(tmp_path / "map.png")[..., :3].std() > 0.05


def test_the_picture_needs_a_grid() -> None:
    for deltas in ([0.1], [0.0, 0.1]):
        found = law_map([0.1, 1.0], deltas, laws=["laplace"])
        with pytest.raises(ValueError, match="law_map must have two epsilons"):
            LawMapDisplay.from_map(found)


def test_without_matplotlib(one: LawMap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib must be installed.*skdp\[plot\]"):
        LawMapDisplay.from_map(one)
