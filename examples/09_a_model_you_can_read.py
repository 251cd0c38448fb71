"""A model you can read: private curves for numbers, and pictures of them.

This example shows how to declare curves, what they gain and what they cost, and how to read the
picture of a fitted model. The first table is simulated, so that the true effects are known. On the
second, with 442 patients, curves are worse than lines unless epsilon is large: each record must
speak for more coefficients. `--full` has larger sets, on which curves are better.

What it does not show: sampling errors, which no band below includes, and effects of two columns
together, which a sum of curves does not have. The data are simulated or public, so their scores may
be shown.

    SKDP_DATA=path/to/datasets python 09_a_model_you_can_read.py --full --pictures folder
"""

# %% [markdown]
# ## A table
# Rentals of bicycles per hour. They have two peaks in a day, and are most frequent when it is
# neither cold nor hot. The bounds are those that anybody would write down.

# %%
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression
from skdp.datasets import (
    Dataset,
    fetch_adult,
    fetch_bike_sharing,
    fetch_california_housing,
    fetch_magic,
    load_diabetes,
)


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="UCI sets, from SKDP_DATA")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


SETTINGS = read_settings()
SKIES = ["clear", "cloudy", "rain"]
COLUMNS = {"hour": (0, 24), "celsius": (-10, 40), "sky": SKIES}
DOMAIN = Domain(COLUMNS, target=(0, 1000))


def by_hour(hour: Any) -> Any:
    """Return the true effect of the hour."""
    return 200 * np.exp(-(((hour - 8) / 2) ** 2)) + 300 * np.exp(-(((hour - 17.5) / 3) ** 2))


def by_celsius(celsius: Any) -> Any:
    """Return the true effect of the temperature."""
    return 250 * np.exp(-(((celsius - 22) / 14) ** 2))


def simulate(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of hours and the rentals in each."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "hour": rng.integers(0, 24, n) + 0.0,
            "celsius": rng.normal(14, 9, n),
            "sky": rng.choice(SKIES, n, p=[0.6, 0.3, 0.1]),
        }
    )
    y = 50 + by_hour(X.hour) + by_celsius(X.celsius) - 80 * (X.sky == "rain")
    return X, np.clip(y + 60 * rng.normal(size=n), 0, None).to_numpy()


X, Y = simulate(20_000, seed=0)

# %% [markdown]
# ## Declare curves
# `additive` puts a `Spline` in the place of each number. Its knots are equally spaced between the
# bounds, so they are public. A curve with 8 knots and degree 3 has 11 coefficients. Columns of
# levels stay as they are.

# %%
CURVES = DOMAIN.additive()
print(CURVES)
print(f"coefficients: {DOMAIN.n_encoded} with lines, {CURVES.n_encoded} with curves")

# %% [markdown]
# The estimators for predictions can choose: `additive="auto"` uses curves where there are enough
# records for them, with knots between privately estimated bounds. After the fit `domain_` says
# which curves these are.

# %% [markdown]
# ## What they gain
# The share of the variance that is explained in rows that were not used, at each epsilon. It is the
# median over splits. The last column repeats the score of curves without privacy.

# %%
RUNS = 10 if SETTINGS.full else 3
EPSILONS = [0.3, 1.0, 3.0, 10.0]


def scores(model: Any, X: Any, y: Any) -> list[float]:
    """Return the median test score at each epsilon."""
    splits = ShuffleSplit(RUNS, test_size=0.25, random_state=0)
    fits = [clone(model).set_params(epsilon=epsilon, random_state=0) for epsilon in EPSILONS]
    return [float(np.median(cross_val_score(fit, X, y, cv=splits))) for fit in fits]


def compare(name: str, model: Any, domain: Domain, X: Any, y: Any) -> None:
    """Print the scores with lines and with curves, and of the latter without privacy."""
    is_number = domain.target_bounds is not None
    plain = Ridge(1.0) if is_number else LogisticRegression(max_iter=1000)
    limit = make_pipeline(domain.additive(knots=20).encoder(), plain)
    splits = ShuffleSplit(RUNS, test_size=0.25, random_state=0)
    without = np.median(cross_val_score(limit, X, y, cv=splits))
    print(f"\n{name}: {'R^2' if is_number else 'accuracy'}")
    names = "".join(f"{epsilon:8g}" for epsilon in EPSILONS)
    print(f"  {'data':<23}{'rows':<8}{'effects':<8} {names}  curves without privacy")
    lines = clone(model).set_params(domain=domain)
    fits = {
        "lines": lines,
        "curves": clone(model).set_params(domain=domain.additive()),
        '"auto"': clone(lines).set_params(additive="auto"),
    }
    for effects, fit in fits.items():
        found = "".join(f"{score:8.3f}" for score in scores(fit, X, y))
        print(f"  {name:<23}{len(y):<8,}{effects:<8} {found}  {without:22.3f}")


compare("simulated", DPHuberRegressor(), DOMAIN, X, Y)

# %% [markdown]
# ## What they cost
# More coefficients have more noise. With few records that costs more than the curves gain.


# %%
def compare_set(data: Dataset) -> None:
    """Print the comparison on a data set."""
    is_number = data.domain.target_bounds is not None
    model = DPHuberRegressor() if is_number else DPLogisticRegression()
    compare(data.name, model, data.domain, data.X, data.y)


FETCHED = [fetch_bike_sharing, fetch_california_housing, fetch_magic, fetch_adult]
for load in [load_diabetes, *(FETCHED if SETTINGS.full else [])]:
    compare_set(load())

# %% [markdown]
# ## An effect is a difference of predictions
# The model is a sum: what a column adds to the prediction does not depend on the other columns. It
# is its *effect*, here in rentals, less the mean over the declared range. Only a simulation knows
# the true one.

# %%
MODEL = DPHuberRegressor(epsilon=1.0, domain=CURVES, random_state=0).fit(X, Y)
GRID = np.linspace(0, 24, 97)
DAY = pd.DataFrame({"hour": GRID, "celsius": 15.0, "sky": "clear"})
FOUND, TRUE = MODEL.predict(DAY), by_hour(GRID)
ERROR = (FOUND - FOUND.mean()) - (TRUE - TRUE.mean())
print(f"the true effect of the hour goes over {np.ptp(TRUE):.0f} rentals")
print(f"the curve is {np.sqrt(np.mean(ERROR**2)):.0f} off, root mean square")

# %% [markdown]
# ## Bands
# `DPLinearRegression` has the standard deviations of the noise in its coefficients, and their
# correlations, from which the picture has bands. A bend that is smaller than its band may be noise.
# It releases the moments of all pairs of B-splines and is therefore less accurate.

# %%
LINEAR = DPLinearRegression(epsilon=1.0, domain=CURVES, random_state=0).fit(X, Y)
X_NEW, Y_NEW = simulate(20_000, seed=1)
for model in (MODEL, LINEAR):
    print(f"{type(model).__name__}: R^2 of {model.score(X_NEW, Y_NEW):.3f}")

# %% [markdown]
# ## Several labels
# A classifier of three labels has three curves for a column. Where the curve of a label is higher
# than that of another one, the column makes it more probable, compared with that one.

# %%
SORTS = ["calm", "usual", "busy"]
LABELS = np.array(SORTS)[np.digitize(Y, [200, 350])]
SORTED = DPLogisticRegression(
    epsilon=1.0, domain=Domain(COLUMNS, target=SORTS).additive(), random_state=0
).fit(X, LABELS)
for hour in (3, 8, 17):
    chances = SORTED.predict_proba(DAY[DAY.hour == hour])[0]
    words = ", ".join(f"{name} {p:.2f}" for name, p in zip(SORTED.classes_, chances, strict=True))
    print(f"  at {hour:2d}:00, 15 degrees, clear: {words}")

# %% [markdown]
# ## Pictures
# The first picture has the effects of the model that predicts, with the true ones as grey lines. At
# low and high temperatures there are few records, and the curves are less certain. The second has
# bands of the noise. The third has a curve for each label.


# %%
def draw_true(shown: Any) -> None:
    """Add the true effects, less their means, to the first two panels."""
    for ax, shape, true in zip(shown.axes_[0], shown.shapes, (by_hour, by_celsius), strict=False):
        effects = true(shape.values)
        ax.plot(shape.values, effects - effects.mean(), color="0.5", ls="--", zorder=1)


def draw() -> dict[str, Any]:
    """Return the figures by name."""
    from skdp.inspection import ShapeDisplay

    shown = {
        "effects": ShapeDisplay.from_estimator(MODEL),
        "bands": ShapeDisplay.from_estimator(LINEAR),
        "labels": ShapeDisplay.from_estimator(SORTED),
    }
    draw_true(shown["effects"])
    if SETTINGS.full:
        bikes = fetch_bike_sharing()
        model = DPHuberRegressor(domain=bikes.domain.additive(), random_state=0)
        columns = ["hr", "temp", "atemp", "hum", "weathersit", "yr"]
        model.fit(bikes.X, bikes.y)
        shown["bike_sharing"] = ShapeDisplay.from_estimator(model, columns=columns)
    return {name: own.figure_ for name, own in shown.items()}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
