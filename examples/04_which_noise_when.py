"""Which noise when: the least variance over epsilon and delta.

This example compares noise laws by variance. For one number and a delta that is not tiny, flipped
Huber noise has as little as seven tenths of the variance of the better of Laplace and Gaussian
noise. With delta = 1e-6 its gain is nearly zero. For several numbers, noise with the shape of the
differences, or Gaussian noise, is as good or better. Truncated Laplace noise has even less
variance, but at a cost that only a privacy profile shows.

What it does not show: data, or the effect of noise on a model. Everything here is public.

    python 04_which_noise_when.py --full --pictures folder
"""

# %% [markdown]
# ## Set up
# Differences have length at most 1, and every law is calibrated to the same (epsilon, delta), so
# the laws can be compared by variance. Nothing is random.

# %%
from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="finer grids, more rows: some minutes")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with figures to four digits."""
    print(f"\n{title}")
    cells = [[cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row] for row in rows]
    lines = [list(head), *cells]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        print("  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))


def numbers(dim: int, p: float = math.inf) -> Sensitivity:
    """Return the sensitivity of so many numbers, each of which may move by 1 if p = inf."""
    return Sensitivity(LpBall(dim, p=p))


def variance(name: str, dim: int, epsilon: float, delta: float) -> float:
    """Return the mean squared error of a coordinate."""
    noise = calibrate(name, numbers(dim), epsilon=epsilon, delta=delta)
    return float(np.mean(np.diag(noise.covariance())))


SETTINGS = read_settings()

# %% [markdown]
# ## One number
# The last column is the variance of flipped Huber noise over the lesser one of Laplace and Gaussian
# noise. The ratio is least if these two have about the same variance: at about epsilon = 0.3 with
# delta = 0.01, or epsilon = 0.03 with delta = 0.001. With such a delta one record in a hundred, or
# in a thousand, may have no protection at all. With delta = 1e-6 the gain is below a thousandth for
# all epsilon from 0.15 on.

# %%
ASKED = [(0.03, 1e-3), (0.1, 0.05), (0.3, 0.01), (0.3, 1e-3), (0.3, 1e-6)]
ASKED += [(1.0, 0.05), (1.0, 0.01), (1.0, 1e-3), (1.0, 1e-6), (3.0, 0.01)]
ONE = ["laplace", "gaussian", "flipped_huber", "offset_gaussian", "truncated_laplace"]


def one_row(epsilon: float, delta: float) -> list[float]:
    found = [variance(name, 1, epsilon, delta) for name in ONE]
    return [epsilon, delta, *found, found[2] / min(found[:2])]


show(
    "One number: variance of each law",
    ["epsilon", "delta", *(name.replace("_", " ") for name in ONE), "ratio"],
    [one_row(*asked) for asked in ASKED],
)

# %% [markdown]
# ## The same over a grid
# The share of the grid on which each law has the least variance, and its least ratio to the better
# of Laplace and Gaussian noise; with and without truncated Laplace noise.

# %%
if SETTINGS.full:
    EPSILONS, DELTAS = np.geomspace(0.03, 10, 31), np.geomspace(1e-8, 0.2, 27)
else:
    EPSILONS, DELTAS = np.geomspace(0.03, 10, 5), np.array([1e-8, 1e-4, 0.01, 0.1])
Map = dict[str, Any]


def law_map(names: Sequence[str], sensitivity: Sensitivity) -> Map:
    """Return the mean variance of a number at each epsilon and delta; inf if there is none."""

    def at(name: str, epsilon: float, delta: float) -> float:
        try:
            noise = calibrate(name, sensitivity, epsilon=epsilon, delta=delta)
        except ValueError:
            return math.inf
        return float(np.mean(noise.variance()))

    return {name: np.array([[at(name, e, d) for d in DELTAS] for e in EPSILONS]) for name in names}


def shares(found: Map) -> list[tuple[str, float, float]]:
    """Return how often each law has the least variance, and its least ratio there.

    The first law within a thousandth of the least wins. The ratio is that to the better of Laplace
    noise (in the shape "l1", if there are several numbers) and Gaussian noise.
    """
    variances = np.array(list(found.values()))
    best = variances.min(axis=0)
    winners = np.argmax(variances <= 1.001 * best, axis=0)
    ratios = variances / np.minimum(variances[0], found["gaussian"])
    rows = [(name, winners == k, ratios[k]) for k, name in enumerate(found)]
    return [
        (name.replace("_", " "), float(won.mean()), float(ratio[won].min()))
        for name, won, ratio in rows
        if won.any()
    ]


HEAD = ["law", "share of the grid", "least ratio"]
CANDIDATES = ["laplace", "gaussian", "logistic", "flipped_huber", "offset_gaussian"]
ALL = law_map([*CANDIDATES, "truncated_laplace"], numbers(1))
show("One number: who wins", HEAD, shares(ALL))
WITHOUT_TRUNCATED = {name: ALL[name] for name in CANDIDATES}
show("One number: who wins without truncated Laplace", HEAD, shares(WITHOUT_TRUNCATED))

# %% [markdown]
# ## Several numbers
# Each of five numbers may change by 1. The differences now have a shape. Noise of the same shape
# (K-norm noise in l_inf) has the least variance for most epsilon and delta, and Gaussian noise for
# great delta. Flipped Huber noise on each number is best at no point of the table. With two numbers
# it has more variance than noise of the right shape; with five its best shape is as good as the
# Gaussian.

# %%
NORMS = ["l1", "l2", "linf", "gaussian"]
FIVE = law_map(NORMS, numbers(5))
show("Five numbers in a box: who wins", HEAD, shares(FIVE))
ROUND = law_map(NORMS, numbers(20, 2.0))
show("Twenty numbers in a Euclidean ball: who wins", HEAD, shares(ROUND))

SEVERAL = [(2, 1.0, 0.05), (5, 1.0, 0.05)]
if SETTINGS.full:
    SEVERAL += [(d, e, delta) for d in (2, 3, 5) for e, delta in ((0.3, 0.01), (1.0, 1e-3))]
NAMES = ["laplace", "gaussian", "l2", "linf", "flipped_huber"]
show(
    "Several numbers in a box: variance of each",
    ["numbers", "epsilon", "delta", *(name.replace("_", " ") for name in NAMES)],
    [
        (f"{d}", e, delta, *(variance(name, d, e, delta) for name in NAMES))
        for d, e, delta in SEVERAL
    ],
)

# %% [markdown]
# ## Automatic choice
# "auto" compares the mechanisms that are quick to calibrate, and states its choice in the
# guarantee.

# %%
for title, sensitivity, epsilon, delta in (
    ("one count", numbers(1), 1.0, 1e-6),
    ("one count, great delta", numbers(1), 0.3, 0.01),
    ("five numbers in a box", numbers(5), 1.0, 1e-6),
    ("twenty numbers of length 1", numbers(20, 2.0), 1.0, 1e-6),
    ("the same, great delta", numbers(20, 2.0), 0.3, 0.01),
):
    noise = calibrate("auto", sensitivity, epsilon=epsilon, delta=delta)
    print(f"\n{title}, ({epsilon:g}, {delta:g}):\n  {noise.guarantee.mechanism}")

# %% [markdown]
# ## Differences that one pair of epsilon and delta does not show
# All of these have the guarantee (0.3, 0.01), and differ at other epsilons. Laplace noise has a
# bounded privacy loss, so its delta is 0 from a slightly greater epsilon on. The delta of Gaussian
# noise decreases gradually. The delta of truncated Laplace noise does not decrease: with
# probability 0.01 it reveals the record, for every epsilon. Flipped Huber noise lies between these.

# %%
PROMISE = {"epsilon": 0.3, "delta": 0.01}
COMPARED = {
    name.replace("_", " "): calibrate(name, numbers(1), **PROMISE)
    for name in ("laplace", "gaussian", "flipped_huber", "truncated_laplace")
}
COMPARED["l2, 20 numbers"] = calibrate("l2", numbers(20, 2.0), **PROMISE)


def deltas(noise: Any, epsilons: Sequence[float]) -> list[float]:
    """Return the least delta known at each epsilon."""
    return [noise.guarantee.delta_at(epsilon) for epsilon in epsilons]


LOOKED_AT = [0.0, 0.15, 0.3, 0.4, 0.5, 0.6]
show(
    "delta at other epsilons, of noise for (0.3, 0.01)",
    ["noise", *(f"{epsilon:g}" for epsilon in LOOKED_AT)],
    [(name, *deltas(noise, LOOKED_AT)) for name, noise in COMPARED.items()],
)

# %% [markdown]
# ## Picture


# %%
def draw() -> dict[str, Any]:
    """Return the profiles beside their trade-off functions."""
    from matplotlib import pyplot as plt

    from skdp.inspection import PrivacyProfileDisplay

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    PrivacyProfileDisplay.from_guarantee(COMPARED, ax=left, max_epsilon=0.8)
    PrivacyProfileDisplay.from_guarantee(COMPARED, kind="tradeoff", ax=right)
    return {"profiles": figure}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=150)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
