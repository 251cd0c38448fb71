"""Mistakes in parts from outside the package: refused at their first use, before anything is spent.

One case for each check; `skdp.testing` has them, and tests/testing has twins of laws and balls.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import skdp
from skdp import Domain, DPCoordinateDescentRegressor, DPHuberRegressor, DPLogisticRegression
from skdp.geometry import LpBall, MappedBall
from skdp.linear_model.losses import LogisticLoss, PseudoHuber
from skdp.mechanisms import Auto, Independent, KNorm, Sensitivity, calibrate
from skdp.mechanisms.independent import calibrate_releases
from skdp.noise import CanonicalNoise, Gaussian, Laplace, Staircase, Tulap
from skdp.privacy import Guarantee, ShiftLoss
from skdp.privacy.tradeoff import gaussian
from skdp.trusted.noise import is_round

DOMAIN = Domain.unit_box(2, target=(-1.0, 1.0))
LABELS = Domain.unit_box(2, target=[0, 1])


def changed(parent, **members):
    """Return a subclass with other members, which is no part of the package."""
    return type("Changed", (parent,), {"__module__": __name__, **members})


def refused(model, match):
    """A fit is refused with a clear error, and costs nothing."""
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    labels = isinstance(model, DPLogisticRegression)
    ledger = skdp.Ledger(epsilon=1.0, delta=1e-3)
    model.set_params(ledger=ledger, domain=LABELS if labels else DOMAIN, epsilon=1.0)
    with pytest.raises(ValueError, match=match) as told:
        model.fit(X, (X[:, 0] > 0).astype(int) if labels else X[:, 0])
    assert any("No budget was spent" in note for note in told.value.__notes__)
    assert ledger.remaining.epsilon == 1.0
    assert not hasattr(model, "coef_")


# Losses


def flat(self, z, y):
    return PseudoHuber.curvature(self, z, y) * 0.1


LOSSES = [
    (DPHuberRegressor, LogisticLoss(), 'for target = "number"'),
    (DPLogisticRegression, PseudoHuber(0.5), 'for target = "labels"'),
    (DPHuberRegressor, PseudoHuber, "have the members of a Loss"),
    (DPHuberRegressor, 3.0, "have the members of a Loss"),
    (DPHuberRegressor, changed(PseudoHuber, target="numbers")(0.5), "have a target, one of"),
    *(
        (DPHuberRegressor, changed(PseudoHuber, **members)(0.5), match)
        for members, match in [
            ({"slope_bound": 0.4}, "slope must be at most slope_bound"),
            ({"slope_bound": math.inf}, "slope_bound must be a finite number > 0"),
            (
                {"slope": lambda self, z, y: 0.5 * (z - y) * np.exp(-np.square(z - y))},
                "the loss must be convex",
            ),
            (
                {"curvature_bound": lambda self, low, high: np.full(np.shape(low), np.nan)},
                "curvature_bound must give a finite number >= 0",
            ),
            (
                {"curvature": flat, "curvature_bound": lambda self, low, high: 0.1 + 0 * low},
                "curvature_bound must be no less than the curvature",
            ),
            (
                {"slope": lambda self, z, y: PseudoHuber.slope(self, z, y) / np.size(z)},
                "slope must depend on each record alone",
            ),
            ({"value": lambda self, z, y: np.square(z - y)}, "value must have the derivative"),
            ({"one_sided": True}, "slope must never change its sign"),
        ]
    ),
]


@pytest.mark.parametrize(("estimator", "loss", "match"), LOSSES, ids=range(len(LOSSES)))
def test_a_loss_is_refused(estimator, loss, match):
    refused(estimator(loss=loss), match)


# Laws


def law(parent=Laplace, **members):
    return changed(parent, **members)()


LAWS = [
    (law(logpdf=lambda self, x: Laplace(0.5).logpdf(x)), "logpdf must integrate"),
    (law(isf=lambda self, q: Laplace(0.5).isf(q)), "must"),
    (law(scaled=lambda self, s: self), "scaled must"),
    (law(rvs=lambda self, size, rng: Laplace(0.9).rvs(size, rng)), "rvs must draw from the law"),
    (law(crossing=lambda self, shift, epsilon: shift + 0 * epsilon), "crossing must"),
    (law(greatest_slope=lambda self: 0.3), "greatest_slope must be"),
    (law(greatest_slope=lambda self: np.nan), "greatest_slope must be"),
    (law(__hash__=None), "be hashable"),
    (law(Gaussian), "delta must be > 0"),
    (Laplace, "have the members of a law"),
]


@pytest.mark.parametrize(("wrong", "match"), LAWS, ids=range(len(LAWS)))
def test_a_law_is_refused(wrong, match):
    """By the mechanism, by releases one after the other, and by an estimator before it spends."""
    with pytest.raises(ValueError, match=match):
        calibrate(Independent(wrong), Sensitivity(LpBall(1)), epsilon=1.0)
    with pytest.raises(ValueError, match=match):
        calibrate_releases(wrong, [(1.0, 3)], neighbors="replace_one", epsilon=1.0)
    refused(DPCoordinateDescentRegressor(mechanism=wrong, n_passes=1), match)


@dataclass(frozen=True)
class Quiet(Laplace):
    """A law that is scaled right but for some scales."""

    def scaled(self, s):
        return Quiet((s / 4 if 3 < s < 300 else s) * self.scale)


def test_a_law_is_checked_at_the_scale_that_is_used():
    with pytest.raises(ValueError, match="scaled\\(s\\) that is the law of s X"):
        calibrate_releases(Quiet(), [(1.0, 9)], neighbors="replace_one", epsilon=1.0, delta=1e-6)


NOT_LOG_CONCAVE = [Staircase(1.0), Tulap(1.0), CanonicalNoise(gaussian(1.0))]
ONE = {"neighbors": "replace_one", "epsilon": 1.0}


@pytest.mark.parametrize("law", NOT_LOG_CONCAVE, ids=lambda law: type(law).__name__)
def test_a_law_of_the_package_that_is_not_log_concave_is_refused(law):
    """Thresholds are not its optimal tests: scales and bounds would be too small."""
    for use in (
        lambda: Independent(law),
        lambda: ShiftLoss(law, 1.0),
        lambda: calibrate_releases(law, [(1.0, 2)], **ONE, delta=0.001),
    ):
        with pytest.raises(ValueError, match="must have a log-concave density"):
            use()


# Balls


@dataclass(frozen=True)
class Cube:
    """A ball of somebody else's: the cube, in three dimensions like the rows of two columns."""

    dim: int = 3
    exact: ClassVar[bool] = True

    def gauge(self, v):
        return np.abs(np.asarray(v, dtype=float)).max(axis=-1)

    def sample(self, n, rng):
        return rng.uniform(-1, 1, (n, self.dim))


def cube(**members):
    return changed(Cube, **members)()


def half(self, n, rng):
    return Cube.sample(self, n, rng) / 2


BALLS = [
    (cube(gauge=lambda self, v: Cube.gauge(self, v) ** 2), "gauge must be homogeneous"),
    (cube(gauge=lambda self, v: np.sqrt(np.abs(v)).sum(axis=-1) ** 2), "triangle inequality"),
    (cube(gauge=lambda self, v: np.abs(v)[..., :2].max(axis=-1)), "gauge must be > 0"),
    (cube(sample=half), "sample must draw from the whole ball"),
    (cube(sample=lambda self, n, rng: Cube.sample(self, n, rng).T), "sample must draw finite"),
    (cube(bounding_box=lambda self: np.full(3, 0.5)), "bounding_box must contain the ball"),
    (cube(support=lambda self, w: np.abs(w).max(axis=-1)), "support must be at least"),
    (cube(extreme_points=lambda self: np.eye(3)), "extreme_points must have the ball"),
    (cube(facets=lambda self: np.eye(3) / 2), "facets must agree with the gauge"),
    (MappedBall(cube(sample=half), [2.0] * cube().dim), "sample must draw from the whole ball"),
    (cube(exact=False), "be sampled exactly"),
    (Cube(2), "ball of 3 dimensions"),
    (Cube(0), "ball's dim must be an integer >= 1"),
    (Cube, "be a known name, a norm ball"),
]


@pytest.mark.parametrize(("ball", "match"), BALLS, ids=range(len(BALLS)))
def test_a_ball_is_refused(ball, match):
    refused(DPLogisticRegression(mechanism=ball), match)


def test_closed_forms_are_for_the_exact_class():
    """A subclass has the bound that holds in any norm."""
    diamond = changed(LpBall, gauge=lambda self, v: np.abs(v).sum(axis=-1))
    assert is_round(LpBall(3))
    assert not is_round(diamond(3))


# Mechanisms, and the noise that they make


@dataclass(frozen=True)
class Made:
    """Noise of somebody else's, right in all it says."""

    scale: float
    dim: int
    guarantee: object

    def rvs(self, rng):
        return rng.laplace(scale=self.scale, size=self.dim)

    def covariance(self):
        return 2 * self.scale**2 * np.eye(self.dim)


@dataclass(frozen=True)
class Maker:
    """A mechanism that makes one kind of noise, its promise changed."""

    kind: type = Made
    more: int = 0
    change: object = None
    ball: object = None

    def calibrate(self, sensitivity, *, epsilon, delta=0.0):
        promise = Guarantee(epsilon, delta, neighbors=sensitivity.neighbors)
        promise = self.change(promise) if self.change else promise
        dim = sensitivity.ball.dim + self.more
        return self.kind(100 * sensitivity.radius * dim / epsilon, dim, promise)


def other_relation(promise):
    other = {"replace_one": "add_remove", "add_remove": "replace_one"}[promise.neighbors]
    return replace(promise, neighbors=other)


NOISE = Sensitivity(LpBall(3))
UNKNOWN = "be one of|be a known name, a norm ball"
MECHANISMS = [
    (Maker(change=lambda p: replace(p, epsilon=p.epsilon * (1 + 1e-12))), "with epsilon <= "),
    (Maker(change=lambda p: replace(p, delta=1e-9)), "with epsilon <= "),
    (Maker(change=other_relation), "under the sensitivity's neighbors"),
    (Maker(change=lambda p: replace(p, void_because=("it is seeded",))), "guarantee that holds"),
    (Maker(change=lambda p: None), "whose guarantee is a Guarantee"),
    (Maker(lambda *parts: None), "make noise with guarantee, rvs, covariance"),
    (Maker(more=1), "returns [0-9]+ finite floats"),
    (Maker(changed(Made, rvs=lambda self, rng: np.full(3, np.nan))), "returns [0-9]+ finite"),
    (Maker(changed(Made, rvs=lambda self, rng: np.ones(self.dim))), "from it alone"),
    (Maker(changed(Made, rvs=lambda self, rng: np.random.default_rng().laplace(size=self.dim))),
     "from it alone"),
    (Maker, UNKNOWN),
    (KNorm("l2").calibrate(NOISE, epsilon=1.0), UNKNOWN),
    (Laplace(), UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize("estimator", [DPLogisticRegression, skdp.DPLinearRegression])
@pytest.mark.parametrize(("mechanism", "match"), MECHANISMS, ids=range(len(MECHANISMS)))
def test_a_mechanism_is_refused(mechanism, match, estimator):
    refused(estimator(mechanism=mechanism), match)


def test_a_mechanism_is_no_candidate():
    for mechanism, match in MECHANISMS[:9]:
        with pytest.raises(ValueError, match=match):
            Auto(candidates=[mechanism]).calibrate(NOISE, epsilon=1.0)


def test_a_mechanism_without_a_ball_or_with_its_own():
    """Noise with a delta must be log-concave; with a ball it is still asked for its own noise."""
    refused(DPLogisticRegression(mechanism=Maker(), delta=1e-5), "make log-concave noise")
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    model = DPLogisticRegression(mechanism=Maker(ball=LpBall(3)), domain=LABELS)
    assert type(model.fit(X, (X[:, 0] > 0).astype(int)).noise_) is Made


# Domains, ledgers and callbacks


WRONG = [
    {"domain": changed(Domain)({"a": (-1, 1), "b": (-1, 1)}, target=(-1.0, 1.0))},
    {"domain": {"a": (-1, 1)}},
    {"ledger": changed(skdp.Ledger)(epsilon=1.0)},
    {"ledger": 1.0},
]


@pytest.mark.parametrize("estimator", [DPHuberRegressor, DPCoordinateDescentRegressor])
@pytest.mark.parametrize("wrong", WRONG, ids=["a subclass", "a dict", "another", "a number"])
def test_a_domain_or_a_ledger_is_refused(estimator, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be a {name.title()} or None") as told:
        estimator(**wrong).fit(np.zeros((20, 2)), np.zeros(20))
    assert any("No budget was spent" in note for note in told.value.__notes__)


def descent(callback):
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    settings = {"domain": DOMAIN, "n_passes": 3, "random_state": 0, "scaling_share": 0}
    return DPCoordinateDescentRegressor(callback=callback, **settings).fit(X, X[:, 0])


def test_a_callback_is_a_function_and_changes_nothing():
    refused(DPCoordinateDescentRegressor(callback="print"), "callback must be None or a function")

    def scribble(progress):
        if progress.coef.flags.writeable:
            progress.coef[:] = 1e6

    assert np.array_equal(descent(scribble).coef_, descent(None).coef_)


def test_a_callback_that_raises_says_that_the_budget_is_spent():
    def stop(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError) as told:
        descent(stop)
    assert any("The budget was spent" in note for note in told.value.__notes__)
