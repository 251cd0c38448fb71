"""The public checks of laws and balls: good ones pass, and each check catches its twin."""

import inspect
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from skdp.geometry import LpBall, ScaledBall
from skdp.noise import Gaussian, Laplace
from skdp.testing import check_ball, check_law, examples
from skdp.testing.ball import BATTERY, check_norm_at
from skdp.testing.examples import BoxNoise, Cylinder, HyperbolicSecant, LaplaceInTheBox
from skdp.testing.law import View

# Laws


@pytest.mark.parametrize("law", [HyperbolicSecant(), HyperbolicSecant(1e-3), Laplace()], ids=repr)
def test_a_law_with_six_members_passes(law):
    """False alarms: 2e-9 a law, as derived in skdp/testing/law.py."""
    check_law(law, draws=20_000)


@dataclass(frozen=True)
class Own(HyperbolicSecant):
    """Somebody's law; each twin below changes one thing about it."""


@dataclass(frozen=True)
class Skewed(Own):
    def logpdf(self, x):
        return super().logpdf(np.asarray(x) - 0.01)


@dataclass(frozen=True)
class Wavy(Own):
    def logpdf(self, x):
        return super().logpdf(x) + 0.1 * np.cos(5 * np.asarray(x))


@dataclass(frozen=True)
class NotNormed(Own):
    def logpdf(self, x):
        return super().logpdf(x) + 1e-6


@dataclass(frozen=True)
class LostTail(Own):
    def logsf(self, x):
        with np.errstate(divide="ignore"):
            return np.log1p(-np.exp(super().logsf(-np.asarray(x))))


@dataclass(frozen=True)
class WrongInverse(Own):
    def isf(self, q):
        return super().isf(q) * (1 + 1e-11)


@dataclass(frozen=True)
class WrongScale(Own):
    def scaled(self, s):
        return type(self)(self.scale * s * (1 + 1e-9))


@dataclass(frozen=True)
class WrongVariance(Own):
    def var(self):
        return 1.05 * super().var()


@dataclass(frozen=True)
class NarrowDraws(Own):
    def rvs(self, size, rng):
        return 0.95 * super().rvs(size, rng)


@dataclass(frozen=True)
class OneSided(Own):
    def rvs(self, size, rng):
        return np.abs(super().rvs(size, rng))


@dataclass(frozen=True)
class OwnBits(Own):
    def rvs(self, size, rng):
        return super().rvs(size, np.random.default_rng())


@dataclass(frozen=True)
class NoShape(Own):
    def rvs(self, size, rng):
        return super().rvs(size, rng).ravel() if isinstance(size, tuple) else super().rvs(size, rng)


@dataclass(frozen=True)
class NotBroadcast(Own):
    def logpdf(self, x):
        return np.sum(super().logpdf(x))


@dataclass(frozen=True)
class Unhashable(Own):
    def __hash__(self):
        raise TypeError("unhashable")


@dataclass(frozen=True)
class WrongDensity(Own):
    def pdf(self, x):
        return 2 * np.exp(self.logpdf(x))


@dataclass(frozen=True)
class WrongRatio(Own):
    def log_ratio(self, x, shift):
        return 1.01 * (self.logpdf(x) - self.logpdf(np.asarray(x) + shift))


BAD_LAWS = {
    Skewed: "logpdf must be even",
    Wavy: "logpdf must (not grow|be concave)",
    NotNormed: "logpdf must integrate",
    LostTail: "log(pdf|sf) must",
    WrongInverse: "logsf must be the inverse of isf|isf must",
    WrongScale: "scaled must",
    WrongVariance: "rvs must draw with the variance",
    NarrowDraws: "rvs must draw from the law",
    OneSided: "rvs must",
    OwnBits: "rvs must draw from the bits of rng alone",
    NoShape: "rvs must give the shape",
    NotBroadcast: "logpdf must",
    Unhashable: "must be hashable",
    WrongDensity: "pdf must follow",
    WrongRatio: "log_ratio must",
}


@pytest.mark.parametrize("kind", BAD_LAWS, ids=lambda kind: kind.__name__)
def test_a_law_that_is_none_is_caught(kind):
    """400,000 draws miss what is 5 % off with a chance below 1e-6 (skdp/testing/law.py)."""
    with pytest.raises(AssertionError, match=BAD_LAWS[kind]) as error:
        check_law(kind(), draws=400_000 if kind in (NarrowDraws, WrongVariance) else 50_000)
    assert kind.__name__ in str(error.value)


def test_slack_lets_rounding_pass_and_nothing_else():
    """A law of nine digits passes with a slack of 1e4, and a wrong one does not."""
    with pytest.raises(AssertionError):
        check_law(WrongInverse(), draws=5_000)
    check_law(WrongInverse(), draws=5_000, slack=1e4)
    with pytest.raises(AssertionError):
        check_law(Skewed(), draws=5_000, slack=1e4)


def test_what_a_law_lacks_follows_from_what_it_has():
    """Against a law that has everything."""
    full, x = Gaussian(2.0), np.linspace(-5, 5, 11)

    class Bare:
        logpdf, logsf, isf = full.logpdf, full.logsf, full.isf
        var = full.var

    view = View(Bare())
    assert view.std() == pytest.approx(full.std())
    assert view.support() == math.inf
    np.testing.assert_allclose(view.cdf(x), full.cdf(x), rtol=1e-13)
    np.testing.assert_allclose(view.log_ratio(x, 0.5), full.log_ratio(x, 0.5), rtol=1e-12)


# Balls


@pytest.mark.parametrize("ball", [Cylinder(), Cylinder(0.1), LpBall(3, p=1)], ids=repr)
def test_a_ball_of_somebody_elses_passes(ball):
    check_ball(ball)


@dataclass(frozen=True)
class FlatDisc(Cylinder):
    """The distance from the axis is drawn, not its square."""

    def sample(self, n, rng):
        return super().sample(n, rng) * np.column_stack([*[np.sqrt(rng.random(n))] * 2, np.ones(n)])


@dataclass(frozen=True)
class WrongVolume(Cylinder):
    def log_volume(self):
        return super().log_volume() + 0.1


@dataclass(frozen=True)
class NoTriangle(Cylinder):
    def gauge(self, v):
        return (np.abs(v) ** 0.9).sum(axis=-1) ** (1 / 0.9)


@dataclass(frozen=True)
class FlatGauge(Cylinder):
    def gauge(self, v):
        return np.maximum(
            np.abs(np.asarray(v)[..., 0]), np.abs(np.asarray(v)[..., 2]) / self.height
        )


@dataclass(frozen=True)
class OddGauge(Cylinder):
    def gauge(self, v):
        return super().gauge(np.clip(v, -0.5, None))


@dataclass(frozen=True)
class Cut(Cylinder):
    def support(self, w):
        return 0.95 * super().support(w)


@dataclass(frozen=True)
class NarrowBox(Cylinder):
    def bounding_box(self):
        return 0.9 * super().bounding_box()


@dataclass(frozen=True)
class WrongCovariance(Cylinder):
    def covariance(self):
        return np.diag([0.25, 0.25, 0.4])


@dataclass(frozen=True)
class OwnSeed(Cylinder):
    def sample(self, n, rng):
        return super().sample(n, np.random.default_rng())


@dataclass(frozen=True)
class Corners(LpBall):
    def extreme_points(self):
        return super().extreme_points()[1:]


BAD_BALLS = {
    FlatDisc(): "sample must draw",
    WrongVolume(): "log_volume must (agree with the share|be that of the hull)",
    NoTriangle(): "gauge must satisfy the triangle inequality",
    FlatGauge(): "gauge must be > 0 except at 0",
    OddGauge(): "gauge must be symmetric",
    Cut(): "support must be at least",
    NarrowBox(): "must",
    WrongCovariance(): "covariance must be that of the draws",
    OwnSeed(): "sample must draw from the bits of rng alone",
    Corners(2, p=1.0): "extreme_points must come in pairs",
}


@pytest.mark.parametrize("ball", BAD_BALLS, ids=lambda ball: type(ball).__name__)
def test_a_ball_that_is_none_is_caught(ball):
    with pytest.raises(AssertionError, match=BAD_BALLS[ball]):
        check_ball(ball)


def test_draws_that_are_said_not_to_be_exact_are_not_held_to_it():
    """But the rest is."""
    check_ball(FlatDisc(exact=False))
    with pytest.raises(AssertionError, match="support"):
        check_ball(Cut(exact=False))


def test_a_norm_is_checked_at_points_of_ones_own():
    """What a search for a counter-example calls."""
    check_norm_at(LpBall(2), np.array([[1.0, 2.0], [0.0, -1.0]]), 3.0)
    with pytest.raises(AssertionError, match="triangle"):
        check_norm_at(NoTriangle(), np.eye(3)[:2], 3.0)
    assert len(BATTERY) == 10


def test_the_checks_need_no_test_framework():
    """Neither pytest nor hypothesis is imported, nor what draws or reads tables."""
    code = "import sys, skdp.testing, skdp.testing.examples; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pytest", "hypothesis", "mpmath", "matplotlib", "cvxpy"}


def test_a_scaled_ball_passes_like_the_ball():
    check_ball(ScaledBall(Cylinder(), 3.0))


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("add_a_law", [HyperbolicSecant]),
        ("add_a_ball", [Cylinder]),
        ("add_a_mechanism", [BoxNoise, LaplaceInTheBox]),
    ],
)
def test_the_pages_show_the_classes_as_they_are(page, kinds):
    """Line by line; whoever changes one changes the other."""
    path = Path(inspect.getfile(examples)).parents[2] / "docs" / "development" / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    for kind in kinds:
        assert f"```python\n{inspect.getsource(kind)}```" in text
