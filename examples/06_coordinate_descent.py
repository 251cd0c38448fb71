"""Private coordinate descent: many noisy steps at the price of few.

This example shows four things. With a small delta the number of passes costs nearly nothing.
Privately estimated means and scales of the columns gain more than they cost. After a few steps the
law of the noise hardly matters. Steps that choose their coordinate privately find a sparse model.

What it does not show: that this is always the best model. With delta = 0 the passes do cost, and
`DPLogisticRegression` needs none. The data are scikit-learn's own, and public: curves like these,
drawn on private data, would be releases of their own.

    python 06_coordinate_descent.py --full --pictures folder
"""

# %% [markdown]
# ## Set up
# Breast cancer with bounds from common sense, 569 records. The noise comes from seeds so that
# the figures can be repeated: such noise protects nobody.

# %%
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from skdp import DPCoordinateDescentClassifier, DPLogisticRegression
from skdp.datasets import load_breast_cancer
from skdp.mechanisms import calibrate_releases


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="more runs behind each figure")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with figures to three digits."""
    print(f"\n{title}")
    cells = [[cell if isinstance(cell, str) else f"{cell:.3g}" for cell in row] for row in rows]
    lines = [list(head), *cells]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        print("  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))


SETTINGS = read_settings()
RUNS = 20 if SETTINGS.full else 8
DATA = load_breast_cancer()


def accuracy(kind: Any = DPCoordinateDescentClassifier, **parameters: Any) -> float:
    """Return the median test accuracy over some splits."""
    found = []
    for seed in range(RUNS):
        X, X_test, y, y_test = train_test_split(DATA.X, DATA.y, test_size=0.2, random_state=seed)
        settings = {"epsilon": 1.0, "delta": 1e-5, "domain": DATA.domain, "random_state": seed}
        model = kind(**settings | parameters).fit(X, y)
        found.append(model.score(X_test, y_test))
    return float(np.median(found))


# %% [markdown]
# ## A first model
# The card says what was released: a scaling stage, if there are enough records for one, and noisy
# gradients, all with noise of one scale. `history_` holds the model after every pass. It is
# computed from the released gradients only.

# %%
MODEL = DPCoordinateDescentClassifier(
    epsilon=1.0, delta=1e-5, domain=DATA.domain, random_state=0
).fit(DATA.X, DATA.y)
print(MODEL.guarantee_)
LAST = MODEL.history_[-1]
print(f"\npasses: {MODEL.n_iter_}; after the last the intercept was {LAST.intercept:.3g}")

# %% [markdown]
# ## Passes
# Twice as many passes need noise that is sqrt(2) times as large in each, and their average has it
# sqrt(2) times smaller again: with a delta passes are nearly free. Without one the noise in each
# grows with their number, and few are best.

# %%
PASSES = (1, 3, 10, 30) if not SETTINGS.full else (1, 2, 3, 5, 10, 20, 30, 50)
CURVES = {
    f"delta = {delta:g}": [accuracy(n_passes=n, delta=delta) for n in PASSES]
    for delta in (1e-5, 0.0)
}
show(
    "Accuracy at epsilon = 1 after so many passes",
    ["passes", *(f"{n}" for n in PASSES)],
    [(name, *curve) for name, curve in CURVES.items()],
)

# %% [markdown]
# ## Which law
# The variance that noise of each law needs for so many releases, over that of Gaussian noise, at
# epsilon = 1. Flipped Huber noise wins where there are one or a few releases and delta is not tiny;
# after a hundred its best shape is the Gaussian, up to a thousandth, and Laplace noise is worse
# wherever delta matters.

# %%
LAWS = ("laplace", "logistic", "flipped_huber", "offset_gaussian")


def ratios(count: int, delta: float) -> list[float]:
    """Return variances over the Gaussian's."""
    asked = {"neighbors": "replace_one", "epsilon": 1.0, "delta": delta}
    noises = [calibrate_releases(law, [(2.0, count)], **asked) for law in ("gaussian", *LAWS)]
    return [noise.var() / noises[0].var() for noise in noises[1:]]


show(
    "Variance over that of Gaussian noise",
    ["releases", "delta", *(law.replace("_", " ") for law in LAWS)],
    [(f"{n}", delta, *ratios(n, delta)) for delta in (0.01, 1e-6) for n in (1, 8, 100)],
)

# %% [markdown]
# ## What clipping and shaping are worth
# "As published" clips every record's share in every coordinate (Muthukrishnan & Kalyani 2023), with
# the thresholds' shape from the domain and not from the data. "One by one" has the package's
# geometry for any law: each column pays for itself. The default bounds the length of whole rows,
# which only Gaussian noise can make use of. Objective perturbation is beside it.

# %%
show(
    "Accuracy at (1, 1e-5)",
    ["as published, C = 1", "one by one", "default", "objective perturbation"],
    [
        (
            accuracy(clip=1.0, scaling_share=0, average=False),
            accuracy(mechanism="offset_gaussian"),
            accuracy(),
            accuracy(DPLogisticRegression),
        )
    ],
)

# %% [markdown]
# ## Pictures


# %%
def draw() -> dict[str, Any]:
    """Return the figure of accuracy against passes."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for (name, curve), style in zip(CURVES.items(), ("o-", "s--"), strict=True):
        axes.plot(PASSES, curve, style, label=name)
    axes.set(xscale="log", xlabel="passes over the coordinates", ylabel="test accuracy")
    axes.set_xticks(PASSES, [f"{n}" for n in PASSES])
    axes.minorticks_off()
    axes.set_title("Breast cancer, epsilon = 1")
    axes.legend()
    return {"passes": figure}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
