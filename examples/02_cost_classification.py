"""The cost of privacy in classification: every estimator and mechanism over epsilon.

This example shows the accuracy at each epsilon, between the most common label and a model without
privacy. It shows the cost of noise with an unsuitable shape. It also shows that a single release
needs less epsilon than many noisy steps on a set this small.

What it does not show: results for other data. 569 records are few; with a hundred times as many
records the same accuracy needs about a hundredth of epsilon. Other libraries are compared in
examples/benchmarks, in environments of their own. The data are public. Curves like these of private
data would be releases that no guarantee covers.

    SKDP_DATA=path/to/datasets python 02_cost_classification.py --full --pictures folder
"""

# %% [markdown]
# ## Set up
# All models have the same splits. Each has noise from a seed, so that the figures can be repeated.
# Bounds are declared, and neighbouring data sets differ in one replaced record.

# %%
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import ShuffleSplit

from skdp import DPCoordinateDescentClassifier, DPLogisticRegression
from skdp.datasets import Dataset, fetch, load_breast_cancer
from skdp.model_selection import EpsilonCurve, epsilon_curve


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="UCI sets, from SKDP_DATA")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with figures to three digits."""
    print(f"\n{title}")
    cells = [[cell if isinstance(cell, str) else f"{cell:.3f}" for cell in row] for row in rows]
    lines = [list(head), *cells]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        print("  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))


SETTINGS = read_settings()
EPSILONS = [0.1, 0.3, 1.0, 3.0, 10.0] if SETTINGS.full else [0.3, 1.0, 3.0]
RUNS = 20 if SETTINGS.full else 4
FULL = ["adult", "bank_marketing_full", "credit_default_taiwan", "magic_gamma_telescope"]
FULL += ["spambase", "german_credit"]
SETS: list[Dataset] = [load_breast_cancer()]
if SETTINGS.full:
    SETS += [fetch(name) for name in FULL]


def curve(data: Dataset, kind: Any, epsilons: Sequence[float], **parameters: Any) -> EpsilonCurve:
    """Return test accuracies of one model."""
    cv = ShuffleSplit(RUNS, test_size=0.2, random_state=0)
    options: dict[str, Any] = {"repeats": 1, "cv": cv, "random_state": 0}
    model = kind(domain=data.domain, **parameters)
    return epsilon_curve(model, data.X, data.y, epsilons, **options)


def table(title: str, curves: dict[str, EpsilonCurve]) -> None:
    """Print medians, and the two models to compare with."""
    first = next(iter(curves.values()))
    show(
        title,
        ["model", *(f"{epsilon:g}" for epsilon in first.epsilons), "trivial", "without privacy"],
        [
            (name, *found.quantile(0.5), np.median(found.trivial), np.median(found.without_privacy))
            for name, found in curves.items()
        ],
    )


# %% [markdown]
# ## Estimators
# Objective perturbation makes one release. Coordinate descent makes many noisy steps, and needs a
# delta for that. With delta = 1 / n^2 the probability that the record of anyone is revealed is at
# most 1 / n. Objective perturbation with a delta takes seconds to calibrate, and runs only with
# `--full`.


# %%
def estimators(data: Dataset) -> dict[str, EpsilonCurve]:
    """Return the curve of each estimator, without a delta and with one."""
    kinds = {"objective": DPLogisticRegression, "descent": DPCoordinateDescentClassifier}
    deltas = {"delta = 0": 0.0, "delta = 1/n²": len(data.y) ** -2.0}
    return {
        f"{kind}, {name}": curve(data, kinds[kind], EPSILONS, delta=delta)
        for kind in kinds
        for name, delta in deltas.items()
        if SETTINGS.full or kind == "descent" or delta == 0
    }


CURVES = {data.title: estimators(data) for data in SETS}
for title, found in CURVES.items():
    table(f"{title}: median test accuracy", found)

# %% [markdown]
# ## Mechanisms of objective perturbation
# The same estimator, with noise of other shapes. "auto" chooses by public information only.

# %%
AT = EPSILONS if SETTINGS.full else [1.0]
SHAPES = ("auto", "hull", "linf", "l2", "l1")
MECHANISMS = {
    data.title: {name: curve(data, DPLogisticRegression, AT, mechanism=name) for name in SHAPES}
    for data in SETS
}
for title, found in MECHANISMS.items():
    table(f"{title}: objective perturbation, delta = 0", found)

# %% [markdown]
# ## Noise laws of coordinate descent
# Each law is used in every step, with delta = 1 / n^2. "auto" chooses the Gaussian law. Only this
# law can use a bound on the length of whole rows; the others are charged column by column.

# %%
LAWS = ("auto", "laplace", "flipped_huber")
DESCENTS = {
    data.title: {
        name: curve(
            data, DPCoordinateDescentClassifier, AT, mechanism=name, delta=len(data.y) ** -2.0
        )
        for name in LAWS
    }
    for data in SETS
}
for title, found in DESCENTS.items():
    table(f"{title}: coordinate descent, delta = 1/n²", found)

# %% [markdown]
# ## Pictures
# Medians of the runs, and bands from the first to the third quartile.


# %%
def draw() -> dict[str, Any]:
    """Return a figure for each data set."""
    import matplotlib.pyplot as plt

    from skdp.inspection import EpsilonCurveDisplay

    figures = {}
    for data in SETS:
        figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
        for name, found in reversed(CURVES[data.title].items()):
            last = name == "objective, delta = 0"
            EpsilonCurveDisplay.from_curve(found, ax=axes, label=name, references=last)
        axes.set_title(data.title)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        figures[data.name] = figure
    return figures


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
