"""The cost of privacy in regression: every estimator over epsilon, compared with AdaSSP.

This example shows the share of the variance that is explained at each epsilon, between the mean and
least squares. It shows how much the noise of one release changes each coefficient. It also shows
that a model which only predicts needs less epsilon than a model which releases its moments.

What it does not show: results for other data. The only set for regression that comes with
scikit-learn has 442 rows, which are few for privacy; `--full` has larger ones. AdaSSP has the same
declared bounds here, and its outputs are counted as one release. With its author's preprocessing,
which reads the data, it is compared in examples/benchmarks/accuracy/adassp.py. The data are public.
Curves like these of private data would be releases of their own.

    SKDP_DATA=path/to/datasets python 03_cost_regression.py --full --pictures folder
"""

# %% [markdown]
# ## Set up
# All models have the same splits. Each has noise from a seed, so that the figures can be repeated.
# Neighbouring data sets differ in one replaced record.

# %%
from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import ShuffleSplit

from skdp import DPCoordinateDescentRegressor, DPHuberRegressor, DPLinearRegression
from skdp.datasets import Dataset, fetch, load_diabetes
from skdp.mechanisms.knorm import gaussian_scale
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
RUNS = 20 if SETTINGS.full else 3
FULL = ["california_housing", "protein_casp", "bike_sharing_hour", "airfoil_self_noise"]
SETS: list[Dataset] = [fetch(name) for name in FULL] if SETTINGS.full else [load_diabetes()]
EPSILONS = [0.1, 0.3, 1.0, 3.0, 10.0] if SETTINGS.full else [1.0, 3.0, 10.0]

# %% [markdown]
# ## AdaSSP
# Wang (2018) adds Gaussian noise to the moments X'X and X'y, and to the least eigenvalue of X'X,
# which determines the ridge. If rows have length at most 1 and |y| <= 1, the three are one Gaussian
# release of sensitivity sqrt(4.5 + 1), and the noise is calibrated to it. A column of ones is among
# the features.


# %%
class AdaSSP(RegressorMixin, BaseEstimator):
    """Sufficient statistics with an adaptive ridge, on the rows that a domain encodes."""

    def __init__(self, *, epsilon=1.0, delta=1e-6, domain=None, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.random_state = random_state

    def fit(self, X, y):
        """Release the moments and solve."""
        rows, target = self._rows(X), self.domain.encode_target(y)
        d, rng = rows.shape[1], np.random.default_rng(self.random_state)
        scale = math.sqrt(5.5) * gaussian_scale(self.epsilon, self.delta)
        noise, moments = rng.normal(size=(d, d)), rows.T @ rows
        least = max(0.0, np.linalg.eigvalsh(moments)[0] + scale * rng.normal())
        ridge = max(0.0, scale * math.sqrt(d * math.log(2 * d**2 / 0.05)) - least)
        noisy = moments + scale * (noise + noise.T) / 2 + ridge * np.eye(d)
        self.coef_ = np.linalg.solve(noisy, rows.T @ target + scale * rng.normal(size=d))
        return self

    def predict(self, X):
        """Return predictions, in the target's units."""
        return self.domain.decode_target(self._rows(X) @ self.coef_)

    def _rows(self, X):
        encoded = self.domain.encode(X)
        ones = np.ones((len(encoded), 1))
        return np.hstack([ones, encoded]) / self.domain.row_norm(2, intercept=True)


# %% [markdown]
# ## Estimators
# Median test R^2, with delta = 1 / n^2 if delta is not 0. A value below 0 is worse than predicting
# the mean. If the budget is too small for moments, only the mean of the target is released, and R^2
# is 0.


# %%
def curve(
    data: Dataset, kind: Any, epsilons: Sequence[float] = tuple(EPSILONS), **parameters: Any
) -> EpsilonCurve:
    """Return the test R^2 of one model."""
    cv = ShuffleSplit(RUNS, test_size=0.2, random_state=0)
    options: dict[str, Any] = {"repeats": 1, "cv": cv, "random_state": 0}
    model = kind(domain=data.domain, **parameters)
    return epsilon_curve(model, data.X, data.y, epsilons, **options)


def estimators(data: Dataset) -> dict[str, EpsilonCurve]:
    """Return the curve of each estimator."""
    small = {"delta": len(data.y) ** -2.0}
    return {
        "robust, delta = 0": curve(data, DPHuberRegressor),
        "moments, delta = 0": curve(data, DPLinearRegression),
        "moments, delta = 1/n²": curve(data, DPLinearRegression, **small),
        "descent, delta = 1/n²": curve(data, DPCoordinateDescentRegressor, **small),
        "AdaSSP, delta = 1/n²": curve(data, AdaSSP, **small),
    }


CURVES = {data.title: estimators(data) for data in SETS}
for title, found in CURVES.items():
    first = next(iter(found.values()))
    show(
        f"{title}: median test R^2",
        ["model", *(f"{epsilon:g}" for epsilon in EPSILONS), "trivial", "without privacy"],
        [
            (name, *one.quantile(0.5), np.median(one.trivial), np.median(one.without_privacy))
            for name, one in found.items()
        ],
    )

# %% [markdown]
# ## Mechanisms of the release of moments
# The same estimator, with noise of other shapes. "auto" chooses by public information only, and
# releases moments of scaled columns if there are enough records.

# %%
AT = EPSILONS if SETTINGS.full else [3.0]
for data in SETS:
    rows = []
    for name in ("auto", "matrix", "hull", "linf", "l1"):
        one = curve(data, DPLinearRegression, AT, mechanism=name)
        rows.append((name, *one.quantile(0.5)))
    show(
        f"{data.title}: release of moments, delta = 0",
        ["mechanism", *(f"{epsilon:g}" for epsilon in AT)],
        rows,
    )

# %% [markdown]
# ## The effect of the noise on each coefficient
# `coef_std_` is part of the release, so everyone who has the model has the bands. They describe the
# noise only. They do not include sampling errors: how much another sample of people would change a
# coefficient.

# %%
DATA = SETS[0]
MODEL = DPLinearRegression(epsilon=max(EPSILONS), domain=DATA.domain, random_state=0)
MODEL.fit(DATA.X, DATA.y)
show(
    f"{DATA.title}, epsilon = {MODEL.epsilon:g}",
    ["column", "coefficient", "noise"],
    zip(DATA.domain.encoded_names(), MODEL.coef_, MODEL.coef_std_, strict=True),
)

# %% [markdown]
# ## Pictures


# %%
def draw() -> dict[str, Any]:
    """Return a figure for each data set, and that of the coefficients."""
    import matplotlib.pyplot as plt

    from skdp.inspection import CoefficientDisplay, EpsilonCurveDisplay

    figures = {}
    for data in SETS:
        figure, axes = plt.subplots(figsize=(7.4, 4.4), layout="constrained")
        for i, (name, found) in enumerate(CURVES[data.title].items()):
            EpsilonCurveDisplay.from_curve(found, ax=axes, label=name, references=i == 4)
        # Far below 0 nothing is to be told apart.
        axes.set(title=data.title, ylim=(-0.2, 1) if SETTINGS.full else (-0.1, 0.6))
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        figures[data.name] = figure
    shown = CoefficientDisplay.from_estimator(MODEL, unit="range")
    return figures | {"coefficients": shown.figure_}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
