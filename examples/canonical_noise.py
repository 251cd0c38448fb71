"""Canonical noise, and how its roots become the normal law (Awan & Dong 2022, Figure 1).

Canonical noise has exactly the given trade-off function, but its density has corners. For a
Gaussian trade-off function the noise of the 2^n-th root, scaled to 2^n shares, is canonical for the
same function. With every halving it is eight times closer to the normal law, which is the only one
that is also log-concave. (epsilon, 0) has no roots. If (epsilon / 2^n, 0) is used in place of them,
the limit is Laplace noise, and its guarantee is stronger than (epsilon, 0): the last column would
be 0 if they were roots.

What it does not show: the noise with the least error. For (epsilon, 0) that is the staircase law,
which is not canonical.

    python canonical_noise.py --out pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import laplace, norm

from skdp.noise.canonical import CanonicalNoise, Tulap
from skdp.noise.steps import Staircase
from skdp.privacy import tradeoff

HALVINGS = range(4)
GRID = np.linspace(-3.5, 3.5, 7001)


def divided(root, n):
    """Return the canonical noise of the 2^n-th root of root(1), at scale 2^-n."""
    return CanonicalNoise(root(2.0**-n), 2.0**-n)


def table(title, root, limit):
    """Print how close each root's noise is to the limit, and how exactly it is canonical."""
    print(title)
    print("   n   variance   distance to the limit   |f(a) - F(F^-1(1 - a) - 1)|")
    f, alpha = root(1.0), np.linspace(0.01, 0.99, 99)
    for n in HALVINGS:
        noise = divided(root, n)
        distance = np.abs(noise.cdf(GRID) - limit.cdf(GRID)).max()
        spent = np.abs(f(alpha) - noise.cdf(noise.isf(alpha) - 1)).max()
        print(f"  {n:2d}   {noise.var():.6f}        {distance:.1e}                 {spent:.1e}")
    print()


def draw(folder):
    """Save the four densities beside the normal one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True, layout="constrained")
    for n, axis in zip(HALVINGS, axes, strict=True):
        noise = divided(tradeoff.gaussian, n)
        axis.plot(GRID, norm.pdf(GRID), color="0.65", lw=3, label="normal")
        axis.plot(GRID, noise.pdf(GRID), color="#b2182b", lw=1.3, label="canonical")
        axis.set_title(f"n = {n}", fontsize=11)
        axis.set_xlabel("t")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("density")
    axes[0].set_ylim(0, 0.42)
    axes[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle("Canonical noise of the $2^n$-th root of a Gaussian trade-off function")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "canonical_noise.png", dpi=150)
    print(f"Saved {folder / 'canonical_noise.png'}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the picture; without it, none")
    folder = parser.parse_args().out
    table("Roots of a Gaussian trade-off function, mu = 1:", tradeoff.gaussian, norm)
    table("(epsilon / 2^n, 0), epsilon = 1, which are no roots:", tradeoff.approximate, laplace)
    print("Variance at (1, 0):")
    print(f"  Tulap {Tulap(1.0).var():.4f}, staircase {Staircase(1.0).var():.4f}, Laplace 2")
    if folder:
        draw(folder)


if __name__ == "__main__":
    main()
