"""The cost of privacy on UCI Adult: test accuracy against epsilon, as one picture.

With 39,000 records for training, the accuracy of a private model is within a point of that of a
model without privacy from about epsilon = 0.5 on. With delta = 1 / n^2 many noisy steps are more
accurate than one release for epsilon from 0.2 to 2. If the noise is very large or very small, one
release is more accurate.

What it does not show: smaller sets, on which the same epsilon costs more. Adult is public. A curve
like this one of private data would be a release of its own.

    SKDP_DATA=path/to/datasets python adult_curve.py --out adult_curve.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import ShuffleSplit

from skdp import DPCoordinateDescentClassifier, DPLogisticRegression
from skdp.datasets import Dataset, fetch_adult
from skdp.model_selection import EpsilonCurve, epsilon_curve

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TEST_SHARE = 0.2


def models(data: Dataset) -> dict[str, Any]:
    """Return the private models by what the picture calls them."""
    n_train = round((1 - TEST_SHARE) * len(data.y))
    return {
        "many steps, delta = 1/n²": DPCoordinateDescentClassifier(
            domain=data.domain, delta=n_train**-2.0
        ),
        "one release, delta = 0": DPLogisticRegression(domain=data.domain),
    }


def curves(data: Dataset, splits: int, jobs: int) -> dict[str, EpsilonCurve]:
    """Return the accuracies of each model; all see the same splits."""
    cv = ShuffleSplit(splits, test_size=TEST_SHARE, random_state=0)
    options: dict[str, Any] = {"repeats": 1, "cv": cv, "random_state": 0, "n_jobs": jobs}
    return {
        name: epsilon_curve(model, data.X, data.y, EPSILONS, verbose=1, **options)
        for name, model in models(data).items()
    }


def draw(found: dict[str, EpsilonCurve]) -> Any:
    """Return the figure."""
    import matplotlib.pyplot as plt

    from skdp.inspection import EpsilonCurveDisplay

    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for i, (name, curve) in enumerate(found.items()):
        EpsilonCurveDisplay.from_curve(curve, ax=axes, label=name, references=i == len(found) - 1)
    axes.set(ylabel="test accuracy", title="What privacy costs: income on UCI Adult, 14 columns")
    axes.legend(frameon=False, loc="center right")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("adult_curve.png"))
    parser.add_argument("--splits", type=int, default=20, help="random 80/20 splits (default 20)")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    found = curves(fetch_adult(), arguments.splits, arguments.jobs)
    for name, curve in found.items():
        print(name, curve)
        print("  medians " + " ".join(f"{score:.4f}" for score in curve.quantile(0.5)))
        print(f"  without privacy {np.median(curve.without_privacy):.4f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    draw(found).savefig(arguments.out, dpi=110)


if __name__ == "__main__":
    main()
