"""Maps of the least variance: right at every point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate
from skdp.mechanisms.independent import LEAST_GAIN
from skdp.mechanisms.law_map import LawMap, law_map

EPSILONS, DELTAS = [0.1, 0.3, 1.0, 3.0], [1e-6, 1e-3, 0.01, 0.05]
NORMS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


@pytest.fixture(scope="module")
def one() -> LawMap:
    return law_map(EPSILONS, DELTAS)


@pytest.mark.slow("calibrations at every point of a map")
def test_variances_are_those_of_the_calibrated_noise(one: LawMap) -> None:
    """At every point, by closed forms where there are any; Laplace's a permille off is seen."""
    epsilon, delta = np.meshgrid(EPSILONS, DELTAS, indexing="ij")
    # A delta that gains less than a thousandth of the scale is not spent.
    pure, exact = 1 / epsilon, 1 / (epsilon - 2 * np.log1p(-delta))
    laplace = 2 * np.where(pure <= exact * (1 + LEAST_GAIN), pure, exact) ** 2
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
