"""Norm balls and hulls: the shape of K-norm noise.

This example compares norm balls. The hull of all differences that one record can make lies inside
every other ball, has the least volume, and gives the least noise in the first example. The package
finds the hull of a statistic that is written as a function. In the last example the hull has a
greater error, by every measure shown, than a ball that contains it.

What it does not show: a ball that is best for every error. There is none: "optimal" refers to
concentration, volume and conditional variance (docs/mathematics/comparing_norm_balls.md). No data
are used.

    python 05_norm_balls.py --full --pictures folder
"""

# %% [markdown]
# ## Set up
# The example of Awan & Slavkovic (2020): the sums of x and of 2 x^2 over records in [-1, 1]. The
# balls of the tables are defined in compare_norm_balls.py.

# %%
from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from compare_norm_balls import BOX, DIAMOND, PLAIN, RECTANGLE, CurvedBall, differences

from skdp import Domain
from skdp.geometry import Hull, compare
from skdp.geometry.containment import contains
from skdp.mechanisms import KNorm, Sensitivity, calibrate


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="more draws and finer polytopes")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


SETTINGS = read_settings()
DRAWS = 1_000_000 if SETTINGS.full else 100_000

# %% [markdown]
# ## The order of the balls
# Each ball has the radius that the release needs. The square is better than the circle by volume,
# and worse by squared error. The hull is the best by both.

# %%
CURVED = CurvedBall()
print(compare({**PLAIN, "hull": CURVED}, sensitivity=CURVED))

# %% [markdown]
# The same comparison, with the sensitivity bounded separately for each coordinate, which is common.
# Each of the plain balls now lies inside the one before it, and all have more noise than they need.

# %%
print(compare(PLAIN, sensitivity=BOX))

# %% [markdown]
# ## Find the hull of a statistic
# Write the statistic as a function of one record. The result is a polytope that contains the hull
# of all differences, and from which the package draws exactly. With more directions it is closer to
# the hull.

# %%
UNIT = Domain.unit_box(1)


def found_with(directions: int) -> Sensitivity:
    """Return the sensitivity of the sums of x and 2 x^2."""
    return Sensitivity.of(lambda x: [x[0], 2 * x[0] ** 2], UNIT, directions=directions)


COUNTS = (4, 8, 16, 64, 256) if SETTINGS.full else (4, 8, 16, 64)
EXACT = float(np.trace(calibrate(KNorm(CURVED), Sensitivity(CURVED), epsilon=1.0).covariance()))
print(f"mean squared error of the hull itself: {EXACT:.3f}")
for count in COUNTS:
    noise = calibrate("hull", found_with(count), epsilon=1.0)
    print(f"  polytope from {count:3d} directions: {np.trace(noise.covariance()):.3f}")

# %% [markdown]
# ## Hulls from known facts
# A hull can be defined by corners, by half-spaces or by constraints of cvxpy. Here each record has
# one of three levels, and the levels are counted. A replaced record decreases one count by 1 and
# increases another one by 1. The hull is a hexagon in the plane of the first two counts.

# %%
LEVELS = Hull.difference_of([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
COUNTED = Sensitivity(LEVELS)
for name in ("hull", "linf", "l2", "l1"):
    noise = calibrate(name, COUNTED, epsilon=1.0)
    print(f"  {name:>5}: mean squared error {np.trace(noise.covariance()):.2f}")

# %% [markdown]
# ## The law of the draws
# A K-norm draw is a uniform point of the ball times a Gamma variable. Its gauge is a Gamma variable
# too, with mean d / epsilon.

# %%
NOISE = calibrate(KNorm(CURVED), Sensitivity(CURVED), epsilon=1.0)
RNG = np.random.default_rng(0)
POINTS = np.array([NOISE.rvs(RNG) for _ in range(DRAWS // 10)])
GAUGES = CURVED.gauge(POINTS)
print(f"mean gauge of {len(POINTS):,} draws: {GAUGES.mean():.3f}, by the law: 2")
SQUARES = (POINTS**2).sum(axis=1)
print(f"mean squared error of the draws: {SQUARES.mean():.2f}, by the law: {EXACT:.2f}")

# %% [markdown]
# ## What "optimal" does not mean
# The rectangle K = [-100, 100] x [-1, 1] is the hull of all differences, and lies inside the
# diamond H. On every line the conditional variance of its noise is less. But in the first
# coordinate its noise has 1.65 times the variance of noise from H.

# %%
PARADOX = {"K, rectangle": RECTANGLE, "H, diamond": DIAMOND}
print(f"K is inside H: {contains(DIAMOND, RECTANGLE)}")
print(compare(PARADOX, sensitivity=RECTANGLE))
for name, ball in PARADOX.items():
    # In two dimensions the Gamma variable has d + 1 = 3 for its shape.
    sizes = np.abs(ball.sample(DRAWS, RNG) * RNG.gamma(3.0, size=(DRAWS, 1)))
    worst, length = sizes.max(axis=1).mean(), np.hypot(*sizes.T).mean()
    print(f"  {name}: mean of the greatest entry {worst:.1f}, of the length {length:.1f}")

# %% [markdown]
# ## Pictures
# The first picture shows the differences in grey, and the least copy of each ball that contains
# them. The second shows the rectangle and the diamond. The third shows draws of noise with the
# hull's shape, with lines that contain half and nine tenths of the draws.


# %%
def draw() -> dict[str, Any]:
    """Return the figures."""
    import matplotlib.pyplot as plt
    from scipy.stats import gamma

    from skdp.inspection import NormBallDisplay

    space = differences()
    figure, axes = plt.subplots(
        1, 2, figsize=(11, 4), sharex=True, sharey=True, layout="constrained"
    )
    balls = {**PLAIN, "hull": CURVED}
    NormBallDisplay.from_balls(balls, sensitivity=CURVED, sensitivity_space=space, ax=axes[0])
    NormBallDisplay.from_balls(PLAIN, sensitivity=BOX, sensitivity_space=space, ax=axes[1])
    axes[0].set_title("exact sensitivities")
    axes[1].set(title="bounded coordinate by coordinate", ylabel="")
    paradox = NormBallDisplay.from_balls(PARADOX, sensitivity_space=RECTANGLE, aspect="auto")
    paradox.ax_.set_title("K lies inside H, and loses to it")

    cloud, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    axis.plot(*POINTS[:1000].T, ".", color="0.65", ms=3, label="draws")
    turn = np.linspace(0, 2 * math.pi, 400)
    outline = np.column_stack([np.cos(turn), np.sin(turn)])
    outline /= CURVED.gauge(outline)[:, None]
    for share, dashes in ((0.5, "-"), (0.9, "--")):
        line = gamma.ppf(share, 2) * outline
        axis.plot(*line.T, color="black", ls=dashes, label=f"holds {share:.0%}")
    axis.set(aspect="equal", xlabel="$u_1$", ylabel="$u_2$", xlim=(-12, 12), ylim=(-12, 12))
    axis.set_title("Noise of the hull's shape, epsilon = 1")
    axis.legend(loc="upper right", framealpha=1)
    return {"balls": figure, "paradox": paradox.figure_, "noise": cloud}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
