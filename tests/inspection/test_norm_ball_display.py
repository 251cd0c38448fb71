"""Pictures of norm balls: what is drawn is the boundary, at the right size, in the right plane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, NormBall, SimplexBall
from skdp.inspection import NormBallDisplay

pytest.importorskip("matplotlib")

INF = math.inf
THIN = LpBall(2, p=INF, weights=(0.01, 1.0))
BALLS: dict[str, NormBall] = {
    "l1": LpBall(2, p=1),
    "turned": MappedBall(LpBall(2), [[1.0, 0.4], [0.0, 2.0]]),
}


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"balls": [LpBall(3)]}, "section must be given to draw balls of dimension 3"),
        ({"balls": [LpBall(3)], "section": (0, 3)}, "section must be two of the coordinates"),
        ({"balls": [LpBall(3)], "section": (1, 1)}, "section must be two of the coordinates"),
        ({"balls": [LpBall(3)], "section": np.ones((2, 3))}, "section must be two"),
        ({"balls": [LpBall(2)], "n_points": 3}, "n_points must be an integer >= 8"),
        ({"balls": [LpBall(2)], "aspect": "round"}, "aspect must be one of"),
        ({"balls": [LpBall(2)], "sensitivity_space": [1.0, 2.0]}, "sensitivity_space must be"),
        ({"balls": [LpBall(2)], "sensitivity_space": LpBall(3)}, "have dimension 2"),
        ({"balls": {}}, "balls must contain at least one ball"),
    ],
)
def test_refuses(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NormBallDisplay.from_balls(**arguments)
