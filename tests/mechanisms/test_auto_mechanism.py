"""The automatic choice: it is the least of what it compared, private, and says what it did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from ball_battery import Shy

from skdp import Domain, DPLinearRegression
from skdp.geometry import EncodedRowsBall, LpBall, MappedBall
from skdp.geometry.hull import Hull
from skdp.mechanisms import EllipticGaussian, KNorm, Sensitivity, calibrate
from skdp.mechanisms.calibrate import TIE, Auto, quick_candidates, variances
from skdp.mechanisms.independent import Independent
from skdp.mechanisms.knorm import EllipticKNorm, knorm_is_less
from skdp.privacy import Guarantee
from skdp.trusted.noise import GaussianNoise
from skdp.trusted.radial import RadialLoss

INF = math.inf
CORNERS = np.random.default_rng(3).normal(size=(9, 3)) * [1.0, 3.0, 10.0]
TASKS = {
    "one": Sensitivity(LpBall(1), radius=3.0),
    "l1": Sensitivity(LpBall(4, 1)),
    "weighted l1": Sensitivity(LpBall(4, 1, weights=(1.0, 2.0, 5.0, 9.0))),
    "l2": Sensitivity(LpBall(20), radius=0.5),
    "box": Sensitivity(LpBall(5, INF)),
    "long box": Sensitivity(LpBall(30, INF, weights=tuple(np.geomspace(1, 50, 30)))),
    "hull": Sensitivity(Hull.from_points(CORNERS), radius=2.0, neighbors="add_remove"),
    "rows": Sensitivity(EncodedRowsBall(3, (2, 3))),
}
ASKED = [(1.0, 0.0), (1.0, 1e-6), (0.3, 0.01)]


def total(noise: Any) -> float:
    return float(np.trace(noise.covariance()))


def is_least(noise: Any, errors: list[float]) -> bool:
    return total(noise) <= min(errors) * (1 + TIE) * (1 + 1e-9)


@pytest.mark.parametrize(("name", "asked"), zip(TASKS, cycle(ASKED), strict=False), ids=str)
def test_no_candidate_has_less_error(name: str, asked: tuple[float, float]) -> None:
    """Each is calibrated here again by its own name; the worst of them must be told apart."""
    epsilon, delta = asked
    task = TASKS[name]
    noise = calibrate("auto", task, epsilon=epsilon, delta=delta)
    noises = []
    for candidate in quick_candidates(task.ball, epsilon, delta):
        try:
            noises.append(calibrate(candidate, task, epsilon=epsilon, delta=delta))
        except ValueError:
            assert delta == 0
    errors = [total(other) for other in noises]
    assert len(errors) >= 2
    assert is_least(noise, errors)
    assert not is_least(noises[int(np.argmax(errors))], errors)
    assert f"chosen of {len(errors)} mechanisms for " in noise.guarantee.mechanism
    promise = noise.guarantee
    assert (promise.epsilon, promise.delta) == asked
    assert promise.neighbors == task.neighbors


@pytest.mark.parametrize("name", ["box", "l2", "hull"])
def test_slow_laws_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several dimensions laws that must be composed are not calibrated unless named."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("composed")

    monkeypatch.setattr(Independent, "calibrate", never)
    calibrate("auto", TASKS[name], epsilon=1.0, delta=0.01)
    with pytest.raises(AssertionError, match="composed"):
        Auto(candidates=["logistic"]).calibrate(TASKS[name], epsilon=1.0, delta=0.01)


# Weights.


def test_weights_change_what_is_best() -> None:
    """The error is E v' W v; a matrix and its diagonal agree where the covariance is diagonal."""
    task = Sensitivity(LpBall(2, INF, weights=(1.0, 0.01)))  # [-1, 1] x [-100, 100]
    weights = np.array([1e4, 1.0])
    plain = Auto().calibrate(task, epsilon=0.3, delta=0.05)
    weighted = Auto(weights=weights).calibrate(task, epsilon=0.3, delta=0.05)
    full = Auto(weights=np.diag(weights)).calibrate(task, epsilon=0.3, delta=0.05)
    np.testing.assert_allclose(full.covariance(), weighted.covariance(), rtol=1e-6)
    assert np.sum(weights * variances(weighted)) < np.sum(weights * variances(plain)) / 10
    assert "weighted squared error" in weighted.guarantee.mechanism
    weights[0] = 0.0  # a copy was taken
    assert Auto(weights=[1.0, 1.0]).calibrate(task, epsilon=0.3, delta=0.05)


# K-norm noise on an ellipsoid.


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("name", TASKS)
def test_the_ellipsoid_holds_every_difference(name: str, asked: tuple[float, float]) -> None:
    """No corner or drawn difference is longer than the shift that the noise hides."""
    epsilon, delta = asked
    task = TASKS[name]
    noise = EllipticKNorm().calibrate(task, epsilon=epsilon, delta=delta)
    try:
        points = task.ball.extreme_points()  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        points = task.ball.sample(2000, np.random.default_rng(0))
        points /= task.ball.gauge(points)[:, None]
    lengths = task.radius * noise.ball.gauge(points) / noise.scale
    shift = float(lengths.max())
    if delta == 0:
        assert shift <= epsilon
    elif task.ball.dim > 1:
        assert float(RadialLoss(task.ball.dim, shift).log_delta(epsilon)) <= math.log(delta)
    assert isinstance(noise.ball, MappedBall)
    assert noise.guarantee.delta == delta


def test_a_smaller_ellipsoid_is_caught() -> None:
    """The twin: the check above sees five hundredths too little noise."""
    task = TASKS["hull"]
    noise = EllipticKNorm().calibrate(task, epsilon=1.0, delta=1e-6)
    points = task.ball.extreme_points()  # type: ignore[attr-defined]
    shift = float(task.radius * noise.ball.gauge(points).max() / noise.scale)
    assert float(RadialLoss(3, shift).log_delta(1.0)) == pytest.approx(math.log(1e-6), abs=1e-3)
    assert float(RadialLoss(3, shift / 0.95).log_delta(1.0)) > math.log(1e-6) + 0.1


@pytest.mark.parametrize("asked", [(1.0, 1e-6), (0.3, 0.01), (0.3, 1e-4), (3.0, 0.1)], ids=str)
@pytest.mark.parametrize("name", ["l2", "box", "long box", "hull"])
def test_both_elliptic_noises_have_one_shape(name: str, asked: tuple[float, float]) -> None:
    """Their covariances are multiples of each other, and the rule names the less."""
    epsilon, delta = asked
    task = TASKS[name]
    knorm = EllipticKNorm().calibrate(task, epsilon=epsilon, delta=delta)
    gaussian = EllipticGaussian().calibrate(task, epsilon=epsilon, delta=delta)
    ratio = total(knorm) / total(gaussian)
    np.testing.assert_allclose(
        knorm.covariance(), ratio * gaussian.covariance(), rtol=1e-9, atol=1e-9 * total(knorm)
    )
    assert knorm_is_less(task.ball.dim, epsilon, delta) == (ratio <= 1)


# What cannot be calibrated, and what others bring.


@dataclass(frozen=True)
class Claims:
    """A mechanism of somebody else's, whose noise is tiny and whose promise is its own."""

    epsilon: float
    frozen: bool = True

    def calibrate(self, sensitivity: Any, *, epsilon: float, delta: float = 0.0) -> Any:
        promise = Guarantee(self.epsilon, delta, mechanism="mine")
        noise = GaussianNoise(sensitivity.ball.dim, 1e-3, promise)
        return noise if self.frozen else Plain(noise)


class Plain:
    """Noise that is no dataclass."""

    def __init__(self, noise: GaussianNoise) -> None:
        self.guarantee, self.covariance = noise.guarantee, noise.covariance
        self.rvs = noise.rvs


def test_a_body_of_somebody_elses() -> None:
    """What it cannot do is left out; with a box around it there is noise for it."""
    with pytest.raises(
        ValueError, match="candidates must include one that can be calibrated"
    ) as told:
        calibrate("auto", Sensitivity(Shy(LpBall(3, INF))), epsilon=1.0, delta=1e-6)
    for name in ("l1", "l2", "linf", "hull", "gaussian"):
        assert f"{name}: " in str(told.value)
    assert "be sampled exactly" in str(told.value)

    @dataclass(frozen=True)
    class Boxed(Shy):
        def bounding_box(self) -> Any:
            return np.ones(self.dim)

    noise = calibrate("auto", Sensitivity(Boxed(LpBall(3, INF))), epsilon=1.0, delta=1e-6)
    assert noise.guarantee.mechanism.startswith("K-norm noise on LpBall(dim=3, p=inf")


def test_a_weaker_promise_does_not_win() -> None:
    """Noise that is small because it promises less is left out; one that keeps its word wins."""
    weak = Auto(candidates=["l2", Claims(2.0)]).calibrate(TASKS["box"], epsilon=1.0)
    assert weak.guarantee.mechanism.startswith("K-norm noise")
    assert "chosen of 1 mechanisms" in weak.guarantee.mechanism
    best = Auto(candidates={"l2": "l2", "tiny": Claims(1.0)}).calibrate(TASKS["box"], epsilon=1.0)
    assert best.guarantee.mechanism.startswith("mine, chosen of 2 mechanisms")
    assert "next l2" in best.guarantee.mechanism
    plain = Auto(candidates=[Claims(1.0, frozen=False)]).calibrate(TASKS["box"], epsilon=1.0)
    assert plain.guarantee.mechanism == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"candidates": "l2"}, "candidates must be a sequence of mechanisms"),
        ({"candidates": ["l3"]}, "candidates must be one of"),
        ({"candidates": []}, "candidates must contain at least one"),
        ({"candidates": [KNorm]}, "candidates must be among"),
        ({"candidates": [3.0]}, "candidates must be among"),
        ({"weights": [1.0, -1.0]}, "weights must be finite numbers > 0"),
        ({"weights": [[1.0, 2.0], [2.0, 1.0]]}, "weights must be symmetric"),
        ({"weights": [1.0, 2.0]}, "weights must have 5 entries"),
        ({"candidates": ["gaussian"]}, "gaussian: delta must be > 0"),
    ],
)
def test_refuses(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Auto(**arguments).calibrate(TASKS["box"], epsilon=1.0)


# In an estimator.

DOMAIN = Domain.box([0.0], [1.0], target=(0.0, 1.0))


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (400, 1))
    return x, 0.3 + 0.4 * x[:, 0]


def test_linear_regression_takes_the_automatic_choice_as_an_object() -> None:
    """What was chosen stands in the noise's own guarantee; the name "auto" is its own rule."""
    model = DPLinearRegression(
        epsilon=1.0, domain=DOMAIN, mechanism=Auto(candidates=["l2", "linf"]), random_state=0
    ).fit(*data())
    assert "chosen of 2 mechanisms" in model.releases_[0].noise.guarantee.mechanism
    own = DPLinearRegression(epsilon=1.0, domain=DOMAIN, random_state=0).fit(*data())
    assert all("chosen of" not in str(release.noise) for release in own.releases_)


def test_the_reason_is_all_that_auto_adds() -> None:
    """The noise is the winner's own, and so is everything else in its guarantee."""
    auto = calibrate("auto", TASKS["l2"], epsilon=1.0, delta=1e-6)
    own = calibrate("l2", TASKS["l2"], epsilon=1.0, delta=1e-6)
    assert type(auto) is type(own)
    assert replace(auto.guarantee, mechanism=own.guarantee.mechanism) == own.guarantee
    assert auto.guarantee.mechanism.startswith(own.guarantee.mechanism + ", chosen of ")
    assert auto.scale == own.scale  # type: ignore[attr-defined]
