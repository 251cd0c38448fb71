"""The public checks of laws and balls: good ones pass, and each check catches its twin."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from exact_gradient import LOSSES
from own_parts import Cylinder, HyperbolicSecant
from programs import output_of

from skdp.geometry import LpBall, MappedBall
from skdp.linear_model.losses import SharpLogistic
from skdp.noise import Laplace
from skdp.testing import check_ball, check_law, check_loss, examples
from skdp.testing.examples import BoxNoise, LaplaceInTheBox

# Laws


def twin(parent, name, **members):
    """Return a subclass with other members, which can be pickled."""
    kind = type(name, (parent,), {"__module__": __name__, **members})
    globals()[name] = kind
    return kind


def own(member):
    return getattr(HyperbolicSecant, member)


def without_shape(self, size, rng):
    drawn = own("rvs")(self, size, rng)
    return drawn.ravel() if isinstance(size, tuple) else drawn


LAWS = {
    "Skewed": (
        {"logpdf": lambda s, x: own("logpdf")(s, np.asarray(x) - 0.01)},
        "logpdf must be even",
    ),
    "Wavy": (
        {"logpdf": lambda s, x: own("logpdf")(s, x) + 0.1 * np.cos(5 * np.asarray(x))},
        "logpdf must (not grow|be concave)",
    ),
    "WrongInverse": (
        {"isf": lambda s, q: own("isf")(s, q) * (1 + 1e-11)},
        "logsf must be the inverse of isf|isf must",
    ),
    "WrongVariance": ({"var": lambda s: 1.05 * own("var")(s)}, "rvs must draw with the variance"),
    "OneSided": ({"rvs": lambda s, size, rng: np.abs(own("rvs")(s, size, rng))}, "rvs must"),
    "OwnBits": (
        {"rvs": lambda s, size, rng: own("rvs")(s, size, np.random.default_rng())},
        "rvs must draw from the bits of rng alone",
    ),
    "NoShape": ({"rvs": without_shape}, "rvs must give the shape"),
    "NotBroadcast": ({"logpdf": lambda s, x: np.sum(own("logpdf")(s, x))}, "logpdf must"),
    "WrongDensity": ({"pdf": lambda s, x: 2 * np.exp(s.logpdf(x))}, "pdf must follow"),
    "WrongRatio": (
        {"log_ratio": lambda s, x, v: 1.01 * (s.logpdf(x) - s.logpdf(np.asarray(x) + v))},
        "log_ratio must",
    ),
}
BAD_LAWS = {twin(HyperbolicSecant, name, **m): text for name, (m, text) in LAWS.items()}


@pytest.mark.parametrize("kind", BAD_LAWS, ids=lambda kind: kind.__name__)
def test_a_law_that_is_none_is_caught(kind):
    """One rule each; tests/package/test_wrong_parts.py and tests/noise have further ones."""
    with pytest.raises(AssertionError, match=BAD_LAWS[kind]) as error:
        check_law(kind(), draws=400_000 if kind.__name__ == "WrongVariance" else 50_000)
    assert kind.__name__ in str(error.value)


def test_slack_lets_rounding_pass_and_nothing_else():
    """A law of nine digits passes with a slack of 1e4, and a wrong one does not."""
    kinds = {kind.__name__: kind() for kind in BAD_LAWS}
    with pytest.raises(AssertionError):
        check_law(kinds["WrongInverse"], draws=5_000)
    check_law(kinds["WrongInverse"], draws=5_000, slack=1e4)
    with pytest.raises(AssertionError):
        check_law(kinds["Skewed"], draws=5_000, slack=1e4)


# Balls


def flat_disc(self, n, rng):
    """The distance from the axis is drawn, not its square."""
    flat = np.column_stack([*[np.sqrt(rng.random(n))] * 2, np.ones(n)])
    return Cylinder.sample(self, n, rng) * flat


FlatDisc = twin(Cylinder, "FlatDisc", sample=flat_disc)
Cut = twin(Cylinder, "Cut", support=lambda s, w: 0.95 * Cylinder.support(s, w))
OwnSeed = twin(
    Cylinder, "OwnSeed", sample=lambda s, n, rng: Cylinder.sample(s, n, np.random.default_rng())
)


@pytest.mark.parametrize(
    ("ball", "rule"),
    [
        (FlatDisc(), "sample must draw"),
        (OwnSeed(), "sample must draw from the bits of rng alone"),
        (Cut(exact=False), "support must be at least"),
    ],
    ids=repr,
)
def test_a_ball_that_is_none_is_caught(ball, rule):
    """tests/geometry/test_geometry_battery.py has twins for each check."""
    with pytest.raises(AssertionError, match=rule):
        check_ball(ball)


GOOD = {
    partial(check_law, draws=20_000): [HyperbolicSecant(), HyperbolicSecant(1e-3), Laplace()],
    check_loss: [*LOSSES, SharpLogistic(0.6)],
    # Draws that are said not to be exact are not held to it.
    check_ball: [Cylinder(), Cylinder(0.1), LpBall(3, p=1), MappedBall(Cylinder(), [3.0] * 3)]
    + [FlatDisc(exact=False)],
}
PARTS = [pytest.param(check, part, id=repr(part)) for check in GOOD for part in GOOD[check]]


@pytest.mark.parametrize(("check", "part"), PARTS)
def test_good_parts_pass(check, part):
    """False alarms: 2e-9 a law, as derived in skdp/testing/law.py."""
    check(part)


def test_the_checks_need_no_test_framework():
    """Neither pytest nor hypothesis is imported, nor what draws or reads tables."""
    said = output_of("import sys, skdp.testing, skdp.testing.examples; print(*sys.modules)")
    loaded = {name.partition(".")[0] for name in said.split()}
    assert not loaded & {"pytest", "hypothesis", "mpmath", "matplotlib", "cvxpy"}


@pytest.mark.parametrize("kind", [BoxNoise, LaplaceInTheBox])
def test_the_page_shows_the_mechanism_as_it_is(kind):
    """Line by line; whoever changes one changes the other. Others are read off their pages."""
    root = Path(inspect.getfile(examples)).parents[2]
    text = (root / "docs" / "development" / "add_a_mechanism.md").read_text(encoding="utf-8")
    assert f"```python\n{inspect.getsource(kind)}```" in text
