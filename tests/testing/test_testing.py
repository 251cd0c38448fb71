"""The public checks of laws and balls: good ones pass, and each check catches its twin."""

import inspect
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skdp.geometry import LpBall, ScaledBall
from skdp.linear_model.losses import Logistic, PseudoHuber, SharpLogistic
from skdp.noise import Gaussian, Laplace
from skdp.testing import check_ball, check_law, check_loss, examples
from skdp.testing.ball import BATTERY, check_norm_at
from skdp.testing.examples import BoxNoise, Cylinder, HyperbolicSecant, LaplaceInTheBox


# Laws


@pytest.mark.parametrize("law", [HyperbolicSecant(), HyperbolicSecant(1e-3), Laplace()], ids=repr)
def test_a_law_with_six_members_passes(law):
    """False alarms: 2e-9 a law, as derived in skdp/testing/law.py."""
    check_law(law, draws=20_000)


def twin(parent, name, **members):
    """Return a subclass with other members, which can be pickled."""
    kind = type(name, (parent,), {"__module__": __name__, **members})
    globals()[name] = kind
    return kind


def own(member):
    """Return a member of the right law."""
    return getattr(HyperbolicSecant, member)


def lost(self, x):
    with np.errstate(divide="ignore"):
        return np.log1p(-np.exp(own("logsf")(self, -np.asarray(x))))


def without_shape(self, size, rng):
    drawn = own("rvs")(self, size, rng)
    return drawn.ravel() if isinstance(size, tuple) else drawn


def unhashable(self):
    raise TypeError("unhashable")


LAWS = {
    "Skewed": (
        {"logpdf": lambda s, x: own("logpdf")(s, np.asarray(x) - 0.01)},
        "logpdf must be even",
    ),
    "Wavy": (
        {"logpdf": lambda s, x: own("logpdf")(s, x) + 0.1 * np.cos(5 * np.asarray(x))},
        "logpdf must (not grow|be concave)",
    ),
    "NotNormed": ({"logpdf": lambda s, x: own("logpdf")(s, x) + 1e-6}, "logpdf must integrate"),
    "LostTail": ({"logsf": lost}, "log(pdf|sf) must"),
    "WrongInverse": (
        {"isf": lambda s, q: own("isf")(s, q) * (1 + 1e-11)},
        "logsf must be the inverse of isf|isf must",
    ),
    "WrongScale": ({"scaled": lambda s, t: type(s)(s.scale * t * (1 + 1e-9))}, "scaled must"),
    "WrongVariance": (
        {"var": lambda s: 1.05 * own("var")(s)},
        "rvs must draw with the variance",
    ),
    "NarrowDraws": (
        {"rvs": lambda s, size, rng: 0.95 * own("rvs")(s, size, rng)},
        "rvs must draw from the law",
    ),
    "OneSided": ({"rvs": lambda s, size, rng: np.abs(own("rvs")(s, size, rng))}, "rvs must"),
    "OwnBits": (
        {"rvs": lambda s, size, rng: own("rvs")(s, size, np.random.default_rng())},
        "rvs must draw from the bits of rng alone",
    ),
    "NoShape": ({"rvs": without_shape}, "rvs must give the shape"),
    "NotBroadcast": ({"logpdf": lambda s, x: np.sum(own("logpdf")(s, x))}, "logpdf must"),
    "Unhashable": ({"__hash__": unhashable}, "must be hashable"),
    "WrongDensity": ({"pdf": lambda s, x: 2 * np.exp(s.logpdf(x))}, "pdf must follow"),
    "WrongRatio": (
        {"log_ratio": lambda s, x, v: 1.01 * (s.logpdf(x) - s.logpdf(np.asarray(x) + v))},
        "log_ratio must",
    ),
}
BAD_LAWS = {twin(HyperbolicSecant, name, **m): text for name, (m, text) in LAWS.items()}
FINE = ("NarrowDraws", "WrongVariance")


@pytest.mark.parametrize("kind", BAD_LAWS, ids=lambda kind: kind.__name__)
def test_a_law_that_is_none_is_caught(kind):
    """400,000 draws miss what is 5 % off with a chance below 1e-6 (skdp/testing/law.py)."""
    with pytest.raises(AssertionError, match=BAD_LAWS[kind]) as error:
        check_law(kind(), draws=400_000 if kind.__name__ in FINE else 50_000)
    assert kind.__name__ in str(error.value)


def test_slack_lets_rounding_pass_and_nothing_else():
    """A law of nine digits passes with a slack of 1e4, and a wrong one does not."""
    kinds = {kind.__name__: kind() for kind in BAD_LAWS}
    with pytest.raises(AssertionError):
        check_law(kinds["WrongInverse"], draws=5_000)
    check_law(kinds["WrongInverse"], draws=5_000, slack=1e4)
    with pytest.raises(AssertionError):
        check_law(kinds["Skewed"], draws=5_000, slack=1e4)


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


# Losses


@pytest.mark.parametrize("loss", [Logistic(), SharpLogistic(0.6), PseudoHuber(0.3)], ids=repr)
def test_a_loss_passes(loss):
    check_loss(loss)


def test_a_loss_that_is_none_is_caught():
    """One rule; tests/package/test_wrong_parts.py has all of them."""
    steep = twin(PseudoHuber, "Steep", slope=lambda s, z, y: 1.1 * PseudoHuber.slope(s, z, y))
    with pytest.raises(AssertionError, match="slope must be at most slope_bound"):
        check_loss(steep(0.3))


# Balls


@pytest.mark.parametrize("ball", [Cylinder(), Cylinder(0.1), LpBall(3, p=1)], ids=repr)
def test_a_ball_of_somebody_elses_passes(ball):
    check_ball(ball)


def flat_disc(self, n, rng):
    """The distance from the axis is drawn, not its square."""
    flat = np.column_stack([*[np.sqrt(rng.random(n))] * 2, np.ones(n)])
    return Cylinder.sample(self, n, rng) * flat


def flat_gauge(self, v):
    v = np.abs(np.asarray(v))
    return np.maximum(v[..., 0], v[..., 2] / self.height)


FlatDisc = twin(Cylinder, "FlatDisc", sample=flat_disc)
Cut = twin(Cylinder, "Cut", support=lambda s, w: 0.95 * Cylinder.support(s, w))
NoTriangle = twin(
    Cylinder, "NoTriangle", gauge=lambda s, v: (np.abs(v) ** 0.9).sum(axis=-1) ** (1 / 0.9)
)
BALLS = {
    "WrongVolume": (
        {"log_volume": lambda s: Cylinder.log_volume(s) + 0.1},
        "log_volume must (agree with the share|be that of the hull)",
    ),
    "FlatGauge": ({"gauge": flat_gauge}, "gauge must be > 0 except at 0"),
    "OddGauge": (
        {"gauge": lambda s, v: Cylinder.gauge(s, np.clip(v, -0.5, None))},
        "gauge must be symmetric",
    ),
    "NarrowBox": ({"bounding_box": lambda s: 0.9 * Cylinder.bounding_box(s)}, "must"),
    "WrongCovariance": (
        {"covariance": lambda s: np.diag([0.25, 0.25, 0.4])},
        "covariance must be that of the draws",
    ),
    "OwnSeed": (
        {"sample": lambda s, n, rng: Cylinder.sample(s, n, np.random.default_rng())},
        "sample must draw from the bits of rng alone",
    ),
}
BAD_BALLS = {
    FlatDisc(): "sample must draw",
    NoTriangle(): "gauge must satisfy the triangle inequality",
    Cut(): "support must be at least",
    **{twin(Cylinder, name, **m)(): text for name, (m, text) in BALLS.items()},
    twin(LpBall, "Corners", extreme_points=lambda s: LpBall.extreme_points(s)[1:])(2, p=1.0): (
        "extreme_points must come in pairs"
    ),
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
