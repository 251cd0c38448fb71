"""Your own parts: a law, a ball, a mechanism and a statistic that are not in the package.

Each part is one small class, which need not be registered. The checks that the package's own parts
pass are run on it, and a fault is described in a sentence. The part then works in the estimators,
with a guarantee and a ledger as any other.

What it does not show: a proof. Checks find faults. They do not find noise that is five per cent too
small, or a difference that was not tried. The requirements of a part, with reasons, are in
docs/development/add_a_law.md, docs/development/add_a_ball.md and
docs/development/add_a_mechanism.md.

    python 07_your_own_parts.py --full --pictures folder
"""

# %% [markdown]
# ## Set up

# %%
from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split

from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression, Ledger
from skdp.datasets import fetch_adult, load_breast_cancer, load_diabetes
from skdp.mechanisms import Independent, KNorm, Sensitivity, calibrate
from skdp.testing import check_ball, check_law, check_mechanism
from skdp.testing.examples import LaplaceInTheBox

FloatArray = NDArray[np.float64]


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="more draws; UCI Adult from SKDP_DATA")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


def verdict(check: Callable[..., None], part: Any, **options: Any) -> None:
    """Print whether a part passes, or what is wrong with it."""
    try:
        check(part, **options)
    except AssertionError as error:
        print(f"{type(part).__name__}: {error}")
    else:
        print(f"{type(part).__name__}: passed")


SETTINGS = read_settings()
DRAWS = 200_000 if SETTINGS.full else 20_000
DATA = fetch_adult() if SETTINGS.full else load_breast_cancer()
X, X_TEST, Y, Y_TEST = train_test_split(DATA.X, DATA.y, test_size=0.25, random_state=0)

# %% [markdown]
# ## A law
# The hyperbolic secant law has a centre like a Gaussian law and tails like a Laplace law. All
# methods work with logarithms, so that a probability of 1e-300 keeps its digits.


# %%
@dataclass(frozen=True)
class Secant:
    """Density proportional to 1 / cosh(x / scale)."""

    scale: float = 1.0

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the natural log of the density at x."""
        u = np.abs(np.asarray(x, dtype=float)) / self.scale
        return np.asarray(-u - np.log1p(np.exp(-2 * u)) - math.log(math.pi * self.scale / 2))

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return log P(X > x) = log((2 / pi) arctan(e^-u)); beyond 40 the arctangent is e^-u."""
        u = np.asarray(x, dtype=float) / self.scale
        far = np.abs(u)
        near = np.log(np.arctan(np.exp(-np.minimum(far, 40))))
        tail = math.log(2 / math.pi) + np.where(far > 40, -far, near)
        return np.asarray(np.where(u < 0, np.log1p(-np.exp(tail)), tail))

    def isf(self, q: ArrayLike) -> FloatArray:
        """Return the x with P(X > x) = q: three formulas, each where it keeps its digits."""
        p = np.asarray(q, dtype=float)
        less = np.minimum(p, 1 - p)
        with np.errstate(divide="ignore"):
            far = -np.log(less) - math.log(math.pi / 2)
            tail = np.where(less < 1e-9, far, -np.log(np.tan(math.pi / 2 * less)))
        centre = np.arcsinh(np.tan(math.pi * (0.5 - less)))
        u = np.where(less < 0.2, tail, centre)
        return np.asarray(self.scale * np.where(p > 0.5, -u, u))

    def rvs(self, size: Any, rng: Generator) -> FloatArray:
        """Return draws: the log of the ratio of two Gaussian variables reaches every tail."""
        ratio = rng.normal(size=size) / rng.normal(size=size)
        return np.asarray(self.scale * np.log(np.abs(ratio)))

    def var(self) -> float:
        """Return the variance."""
        return (math.pi * self.scale / 2) ** 2

    def scaled(self, s: float) -> Self:
        """Return the law of s X."""
        return type(self)(s * self.scale)


class OffCentre(Secant):
    """The same with a density that is shifted by a hundredth."""

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the log of a density that is not even."""
        return super().logpdf(np.asarray(x, dtype=float) - 0.01)


verdict(check_law, Secant(), draws=DRAWS)
verdict(check_law, OffCentre(), draws=DRAWS)

# %% [markdown]
# The law is calibrated as any other: its shape is kept, and its scale is found. For one number with
# delta = 1e-6 its variance is greater than that of Laplace noise, and less than that of logistic
# noise.

# %%
ONE = Sensitivity.of(lambda x: [x[0]], Domain.unit_box(1))
for mechanism in (Independent(Secant()), "laplace", "logistic", "gaussian"):
    noise = calibrate(mechanism, ONE, epsilon=1.0, delta=1e-6)
    print(f"  {noise.covariance()[0, 0]:8.3f}  {noise.guarantee.mechanism}")

# %% [markdown]
# An estimator uses it in every step.

# %%
LEDGER = Ledger(epsilon=10.0, delta=1e-4)
STEPPED = DPCoordinateDescentClassifier(
    epsilon=5.0, delta=1e-5, domain=DATA.domain, mechanism=Secant(), ledger=LEDGER
).fit(X, Y)
print(f"test accuracy {STEPPED.score(X_TEST, Y_TEST):.3f}, spent {LEDGER.spent}")

# %% [markdown]
# ## A ball
# The change of one record may have a shape of its own. Here it consists of a point in a plane,
# within a given distance of 0, and of a number. This is a cylinder. A common fault is to draw the
# distance from the axis uniformly, instead of its square.


# %%
@dataclass(frozen=True)
class Cylinder:
    """All (x, y, z) with x^2 + y^2 <= 1 and |z| <= height: a point in a disc, and a number."""

    height: float = 1.0
    dim: int = 3
    exact: bool = True

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the greater of the norms of the two parts."""
        x, y, z = np.moveaxis(np.asarray(v, dtype=float), -1, 0)
        return np.asarray(np.maximum(np.hypot(x, y), np.abs(z) / self.height))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return uniform draws: the square of the distance from the axis is uniform."""
        distance, angle = np.sqrt(rng.random(n)), rng.uniform(0, 2 * math.pi, n)
        z = rng.uniform(-self.height, self.height, n)
        return np.column_stack([distance * np.cos(angle), distance * np.sin(angle), z])

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball."""
        x, y, z = np.moveaxis(np.asarray(w, dtype=float), -1, 0)
        return np.asarray(np.hypot(x, y) + self.height * np.abs(z))

    def bounding_box(self) -> FloatArray:
        """Return half-widths."""
        return np.array([1.0, 1.0, self.height])

    def log_volume(self) -> float:
        """Return the log of the volume."""
        return math.log(2 * math.pi * self.height)

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law: 1/4 in a disc, height^2 / 3 along the axis."""
        return np.diag([0.25, 0.25, self.height**2 / 3])


class Crowded(Cylinder):
    """Draws that come too near the axis."""

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return draws that are not uniform."""
        points = super().sample(n, rng)
        points[:, :2] *= np.sqrt(rng.random(n))[:, None]
        return points


verdict(check_ball, Cylinder(height=2.0))
verdict(check_ball, Crowded(height=2.0))
for name, shape in (("cylinder", "hull"), ("sphere", "l2"), ("box", "linf")):
    noise = calibrate(KNorm(shape), Sensitivity(Cylinder(height=2.0)), epsilon=1.0)
    print(f"  noise like a {name}: mean squared error {np.trace(noise.covariance()):.2f}")

# %% [markdown]
# ## A mechanism
# A mechanism is any object with `calibrate(sensitivity, *, epsilon, delta)`. This one draws a
# Laplace variable for each coordinate. An audit finds a mechanism with half of the required noise:
# an attacker could tell two neighbouring values apart better than epsilon allows.


# %%
class Halved(LaplaceInTheBox):
    """Half the noise, the same promise."""

    def calibrate(self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0) -> Any:
        """Return noise that promises too much."""
        from dataclasses import replace

        noise = super().calibrate(sensitivity, epsilon=epsilon, delta=delta)
        return replace(noise, scales=tuple(scale / 2 for scale in noise.scales))


verdict(check_mechanism, LaplaceInTheBox())
verdict(check_mechanism, Halved())
for name, mechanism in (("own", LaplaceInTheBox()), ("auto", "auto")):
    model = DPLogisticRegression(epsilon=5.0, domain=DATA.domain, mechanism=mechanism).fit(X, Y)
    print(f"  {name}: test accuracy {model.score(X_TEST, Y_TEST):.3f}")

# %% [markdown]
# ## A statistic
# The means of the body mass index, of the blood pressure, and of their product, for patients. Only
# bounds are public. The change that one record can make is found from the function. The noise has
# the shape of the hull of these changes.

# %%
PATIENTS = load_diabetes(as_frame=True)
BOUNDS = {"bmi": (10, 50), "bp": (40, 160)}
PAIR = Domain(BOUNDS)


def statistic(x: Any) -> Any:
    """Return what one record adds to the sum; numbers come scaled to [-1, 1]."""
    return [x[0], x[1], x[0] * x[1]]


CHANGE = Sensitivity.of(statistic, PAIR)
# On a grid of 2^-20 the products and their sum are exact: no rounding depends on other records.
ROWS = np.round(PAIR.encode(PATIENTS.X[list(BOUNDS)]) * 2**20) / 2**20
SUM = np.sum([statistic(row) for row in ROWS], axis=0)
for name in ("hull", "linf", "l1"):
    noise = calibrate(name, CHANGE, epsilon=1.0)
    print(f"  {name:>4}: root mean squared error {np.sqrt(np.trace(noise.covariance())):.2f}")
NOISE = calibrate("hull", CHANGE, epsilon=1.0)
PATIENT_LEDGER = Ledger(epsilon=2.0)  # other people, another ledger
PATIENT_LEDGER.spend(NOISE.guarantee, note="bmi and blood pressure")
MEANS = NOISE.release(SUM) / len(PATIENTS.y)  # SUM + NOISE.rvs(rng) would be no release
print(f"released means, scaled: {MEANS.round(2)}")
print(f"left of the budget: {PATIENT_LEDGER.remaining}")
print(NOISE.guarantee)

# %% [markdown]
# ## Pictures
# The new law and the laws of the package, all calibrated to (1, 1e-6). Their guarantees differ at
# other epsilons.


# %%
def draw() -> dict[str, Any]:
    """Return the figure of privacy profiles."""
    import matplotlib.pyplot as plt

    from skdp.inspection import PrivacyProfileDisplay

    laws = {"hyperbolic secant, own": Independent(Secant()), "Laplace": "laplace"}
    laws |= {"logistic": "logistic", "Gaussian": "gaussian"}
    noises = {
        name: calibrate(law, ONE, epsilon=1.0, delta=1e-6).guarantee for name, law in laws.items()
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    PrivacyProfileDisplay.from_guarantee(noises, ax=left)
    PrivacyProfileDisplay.from_guarantee(noises, kind="tradeoff", ax=right)
    return {"own_law": figure}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
