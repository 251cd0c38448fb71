"""Pictures of norm balls: what is drawn is the boundary, at the right size, in the right plane."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, NormBall, SimplexBall
from skdp.inspection import COLORS, NormBallDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
INF = math.inf
THIN = LpBall(2, p=INF, weights=(0.01, 1.0))
BALLS: dict[str, NormBall] = {
    "l1": LpBall(2, p=1),
    "turned": MappedBall(LpBall(2), [[1.0, 0.4], [0.0, 2.0]]),
}


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


@pytest.mark.parametrize("ball", [*BALLS.values(), THIN, SimplexBall(2)], ids=repr)
def test_outlines_are_closed_lines_on_the_boundary(ball: Any) -> None:
    """They turn once around 0, and no two neighbours are far apart, corners being points."""
    outline = NormBallDisplay.from_balls({"ball": ball}, n_points=100).outlines["ball"]
    np.testing.assert_allclose(ball.gauge(outline), 1, rtol=1e-12)
    np.testing.assert_array_equal(outline[0], outline[-1])
    x, y = (outline / ball.bounding_box()).T
    assert np.unwrap(np.arctan2(y, x))[-1] - np.arctan2(y[0], x[0]) == pytest.approx(2 * math.pi)
    steps = np.hypot(np.diff(x), np.diff(y))
    assert steps.max() < 0.15
    # The area of the polygon is that of the ball, for corners to the last digit.
    area = 0.5 * abs(np.sum(outline[:-1, 0] * outline[1:, 1] - outline[1:, 0] * outline[:-1, 1]))
    polygon = hasattr(ball, "extreme_points") and not isinstance(ball, MappedBall)
    assert area == pytest.approx(math.exp(ball.log_volume()), rel=1e-12 if polygon else 2e-3)


def test_balls_are_drawn_at_the_size_the_release_needs() -> None:
    """A body, or an object with radius_in, gives each its sensitivity."""
    body = LpBall(2, p=INF, radius=2.0)
    shown = NormBallDisplay.from_balls({"l1": LpBall(2, p=1), "box": body}, sensitivity=body)
    assert np.abs(shown.outlines["l1"]).max() == pytest.approx(4)
    assert np.abs(shown.outlines["box"]).max() == pytest.approx(2)
    assert [line.get_label() for line in shown.lines_] == ["l1", "box"]
    np.testing.assert_array_equal(shown.lines_[0].get_xydata(), shown.outlines["l1"])


def test_a_section_is_the_part_in_the_plane() -> None:
    """By coordinates and by directions; the shadow of this ball would be larger."""
    ball = EncodedRowsBall(1, (2,))  # u_0, one number, two indicators
    shown = NormBallDisplay.from_balls({"rows": ball}, section=(3, 2))
    outline = shown.outlines["rows"]
    points = np.zeros((len(outline), 4))
    points[:, [3, 2]] = outline
    np.testing.assert_allclose(ball.gauge(points), 1, rtol=1e-12)
    assert np.abs(outline).max() == pytest.approx(0.5)  # at u_0 = 0 a level has half its weight
    assert shown.ax_.get_xlabel() == "$u_{4}$"
    plane = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    oblique = NormBallDisplay.from_balls({"rows": ball}, section=plane).outlines["rows"]
    np.testing.assert_allclose(ball.gauge(oblique @ plane), 1, rtol=1e-12)
    assert np.abs(oblique).max() == pytest.approx(1)


def test_the_sensitivity_space_is_points_or_a_body() -> None:
    points = np.array([[0.5, 0.5], [-0.5, 0.0]])
    scattered = NormBallDisplay.from_balls(BALLS, sensitivity_space=points)
    np.testing.assert_array_equal(scattered.ax_.collections[0].get_offsets(), points)
    filled = NormBallDisplay.from_balls(BALLS, sensitivity_space=LpBall(2, radius=0.5))
    corners = filled.ax_.patches[0].get_path().vertices
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 0.5)
    for shown in (scattered, filled):
        legend: Any = shown.ax_.get_legend()
        texts = [text.get_text() for text in legend.get_texts()]
        assert texts == ["sensitivity space", *BALLS]


def test_scikit_learn_conventions() -> None:
    """plot returns the display, draws where it is told, and can be called again."""
    ax = plt.figure().subplots()
    shown = NormBallDisplay.from_balls(BALLS, ax=ax)
    assert shown.ax_ is ax
    assert shown.figure_ is ax.figure
    assert ax.get_aspect() == 1.0
    again = shown.plot(aspect="auto")
    assert again is shown
    assert shown.ax_ is not ax
    assert shown.ax_.get_aspect() == "auto"
    direct = NormBallDisplay({"triangle": np.eye(3)[:, :2]}).plot()
    assert len(direct.lines_) == 1


def test_many_balls_are_told_apart() -> None:
    """By colour, and where colours come round again, still drawn."""
    many = {f"p = {p}": LpBall(2, p=p) for p in np.linspace(1, 5, 9)}
    shown = NormBallDisplay.from_balls(many)
    assert len({line.get_color() for line in shown.lines_}) == len(COLORS)
    assert len(shown.lines_) == 9


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    """Into a file that is an image, with no warning."""
    NormBallDisplay.from_balls(BALLS, sensitivity_space=[[0.1, 0.2]])
    plt.savefig(tmp_path / "balls.png", dpi=50)
    image = plt.imread(tmp_path / "balls.png")
    assert image.shape[2] == 4
    assert image[..., :3].std() > 0.05


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"balls": [LpBall(3)]}, "section must be given to draw balls of dimension 3"),
        ({"balls": [LpBall(3)], "section": (0, 3)}, "section must be two of the coordinates"),
        ({"balls": [LpBall(3)], "section": (1, 1)}, "section must be two of the coordinates"),
        ({"balls": [LpBall(3)], "section": np.ones((2, 3))}, "section must be two"),
        ({"balls": [LpBall(2)], "n_points": 3}, "n_points must be a whole number >= 8"),
        ({"balls": [LpBall(2)], "aspect": "round"}, "aspect must be one of"),
        ({"balls": [LpBall(2)], "sensitivity_space": [1.0, 2.0]}, "sensitivity_space must be"),
        ({"balls": [LpBall(2)], "sensitivity_space": LpBall(3)}, "have dimension 2"),
        ({"balls": {}}, "balls must hold at least one ball"),
    ],
)
def test_refuses(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NormBallDisplay.from_balls(**arguments)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is imported all the same, and the error names the extra."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib must be installed.*skdp\[plot\]"):
        NormBallDisplay.from_balls(BALLS)


@pytest.mark.slow("a whole script, as a user runs it")
def test_the_example_prints_the_tables_and_saves_the_pictures(tmp_path: Path) -> None:
    """Run as a user runs it: areas, the paradox, two image files and nothing else."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"}
    command = [sys.executable, str(ROOT / "examples" / "compare_norm_balls.py"), "--out", "new"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[2] for row in rows if row[:1] in (["l1"], ["l2"], ["linf"], ["hull"])] == [
        *("19.53", "16.16", "16", "13.33"),
        *("32", "25.13", "16"),
    ]
    assert "K is inside H: True" in done.stdout
    numbers = {
        row[0]: [float(x) for x in row[1:]]
        for row in rows
        if row[:1] in (["K"], ["H"]) and len(row) == 7 and row[1] != "is"
    }
    assert numbers["K"] == [150.00, 150.03, 151.50, 40000.00, 4.00, 60000.00]
    assert numbers["H"] == [111.00, 112.38, 121.00, 24200.00, 242.00, 72600.00]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "paradox.png",
        "sensitivity_space.png",
    ]
