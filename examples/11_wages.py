"""The wage equation with differential privacy: the return to education from 54,875 workers.

This example is for economists. It estimates the regression of the logarithm of the wage on
schooling, experience, its square and sex, with private intervals beside those of least squares. It
shows what `effects=` and `without` are for, and how many records a question needs.

The data are those of the Current Population Survey (ASEC 2024), read from the folder SKDP_DATA.
Without them the script simulates workers with about the same equation. The data are public, so
least squares may be shown beside the private tables. The seeds (`random_state`) make the results
repeatable, and void the guarantee: leave them out for private data.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from skdp import Domain, DPLinearRegression, Ledger
from skdp.datasets import DataNotFound, fetch_cps_wages
from skdp.privacy.conversions import gaussian_epsilon

SLOPES = [0.098, 0.035, -0.00054, -0.32]


def simulated(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return workers with about the wage equation of the survey."""
    rng = np.random.default_rng(0)
    educ = rng.choice([8, 10, 12, 14, 16, 18, 20], n, p=[0.04, 0.06, 0.3, 0.25, 0.2, 0.1, 0.05])
    years = rng.gamma(3, 7, n).round().clip(max=55)
    columns = {"educ_years": educ, "experience": years, "experience_sq": years**2}
    X = pd.DataFrame(columns | {"female": rng.integers(0, 2, n)}).astype(float)
    return X, 8.7 + X.to_numpy() @ SLOPES + 0.8 * rng.standard_t(5, n)


try:
    X, y, _ = fetch_cps_wages()
except DataNotFound:
    X, y = simulated(54_875)
print(X.describe().loc[["mean", "std", "min", "max"]].round(2))


# %% [markdown]
# ## Least squares
# Standard errors are robust to unequal variances (HC1).


# %%
def least_squares(X: pd.DataFrame, y: np.ndarray) -> pd.DataFrame:
    """Return slopes and robust standard errors."""
    Z = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(Z.T @ Z)
    theta = inverse @ Z.T @ y
    scores = Z * (y - Z @ theta)[:, None]
    variances = np.diag(inverse @ scores.T @ scores @ inverse) * len(Z) / (len(Z) - len(theta))
    found = {"slope": theta[1:], "std error": np.sqrt(variances)[1:]}
    return pd.DataFrame(found, index=X.columns)


PLAIN = least_squares(X, y)
print(PLAIN)

# %% [markdown]
# ## Declare, fit, infer
# Bounds are what everybody knows about such a survey: no worker has more than 22 years of
# schooling, and wages are from 55 to 1.2 million dollars a year. The square of the experience has
# the square of its bound.
#
# The budget is epsilon = 1: .2 for a model, and .8 for the table. The coefficients are those of
# least squares (`estimand="ols"`, the default).

# %%
BOUNDS = {
    "educ_years": (0, 22),
    "experience": (0, 60),
    "experience_sq": (0, 3600),
    "female": (0, 1),
}
DOMAIN = Domain(BOUNDS, target=(4, 14))
LEDGER = Ledger(epsilon=1.0)
MODEL = DPLinearRegression(epsilon=0.2, domain=DOMAIN, ledger=LEDGER, random_state=0).fit(X, y)
TABLE = MODEL.infer(X, y, epsilon=0.8, random_state=0)
print(TABLE.summary())

# %%
BESIDE = TABLE.summary().to_frame().loc[X.columns, ["coef", "std_error", "lower", "upper"]]
print(PLAIN.join(BESIDE).round(5).to_string())

# %% [markdown]
# The parts of the standard error are those of the sample and of the noise. The first one is a
# noisy estimate of the robust standard error without privacy.
#
# ## One effect
# A paper is often about one coefficient, and the others are controls. `effects` names it. The
# controls are still in the equation, but no budget is spent on their estimates.

# %%
MODEL = DPLinearRegression(epsilon=0.2, domain=DOMAIN, random_state=0).fit(X, y)
EDUCATION = MODEL.infer(X, y, epsilon=0.8, effects=["educ_years"], random_state=0)
print(EDUCATION.summary())


# %%
def lengths(epsilon: float, n: int, effects: list[str] | None) -> np.ndarray:
    """Return lengths over those of least squares on n records: medians of three draws of noise."""
    chosen = np.random.default_rng(0).permutation(len(X))[:n]
    rows, target = X.iloc[chosen], y[chosen]
    usual = least_squares(rows, target)["std error"][effects or list(X.columns)]
    found = []
    for seed in range(3):
        model = DPLinearRegression(epsilon=0.2 * epsilon, domain=DOMAIN, random_state=seed)
        own = model.fit(rows, target).infer(
            rows, target, epsilon=0.8 * epsilon, effects=effects, random_state=seed
        )
        found.append(np.ptp(own.conf_int()[-len(usual) :], axis=1) / (2 * 1.96 * usual))
    return np.median(found, axis=0)


QUESTIONS = [*([name] for name in X.columns), None]


def show(label: str, epsilon: float, n: int) -> None:
    """Print the lengths of one effect each, and the greatest one of the whole table."""
    found = [lengths(epsilon, n, effects).max() for effects in QUESTIONS]
    print(f"{label:>8}" + "".join(f"{own:14.2f}" for own in found))


print(f"{'epsilon':>8}" + "".join(f"{own[0] if own else 'all four':>14}" for own in QUESTIONS))
for epsilon in (0.5, 1.0, 4.0):
    show(f"{epsilon:g}", epsilon, len(X))

# %% [markdown]
# These are lengths of 95 % intervals over those of least squares, of one effect in each column, and
# of the longest interval of the whole table in the last one.
#
# ## Another equation at no cost
# `without` has the table of the equation without a column. It follows from the released sums, so it
# needs no budget. Experience and its square are correlated (.97), so each of them has a much larger
# standard error beside the other one.

# %%
LINE = TABLE.without("experience_sq")
print(LINE.summary().to_frame()[["coef", "std_error", "lower", "upper"]].round(5).to_string())
print("\nleast squares")
print(least_squares(X.drop(columns="experience_sq"), y))

# %% [markdown]
# Differences and tests are free, too: here that the wage does not depend on the experience at all,
# and the experience at which the wage is greatest, from the estimates.

# %%
TEST = TABLE.wald_test(["experience", "experience_sq"])
COEF = dict(zip(TABLE.names, TABLE.coef, strict=True))
print(f"no effect of experience: statistic {TEST.statistic:.0f}, p = {TEST.p_value:.2g}")
print(f"greatest wage after {-COEF['experience'] / (2 * COEF['experience_sq']):.0f} years")

# %% [markdown]
# ## How many records
# The same lengths at epsilon = 1 for random records of the table. "inf" is an unbounded interval:
# the noise hides the effect.

# %%
for n in (2500, 5000, 10_000, 20_000, len(X)):
    show(str(n), 1.0, n)

# %% [markdown]
# - With few records, ask for one effect. Its interval is short before that of the whole table.
# - Intervals are valid at any size. They only become longer.
# - Before you spend anything, try the size of your own question on rows drawn from the domain,
#   `DOMAIN.sample(10_000, with_target=True)`.

# %% [markdown]
# ## A published figure on other data
# BinAgg (Lin, Slavković & Bhoomireddy 2026) predicts carbon monoxide from 12 columns of 9357 hours
# of Air Quality, with Gaussian differential privacy of mu = 1. Its mean squared error over the mean
# square of the target is .463, and that of least squares is .441. As there, the code -200 of
# missing values stays a number, and the bounds are the least and the greatest values, which are not
# private.

# %%
try:
    HOURS = pd.read_csv(Path(os.environ.get("SKDP_DATA", "")) / "air_quality_uci.csv.gz")
except FileNotFoundError:
    print("SKDP_DATA has no file of Air Quality")
else:
    RANGES = {str(name): (own.min(), own.max()) for name, own in HOURS.items()}
    CO, TARGET = HOURS.pop("co").to_numpy(), RANGES.pop("co")
    MODEL = DPLinearRegression(
        epsilon=gaussian_epsilon(1.0, 1e-6),
        delta=1e-6,
        mechanism="gaussian",
        neighbors="add_remove",
        n_public=9000,
        domain=Domain(RANGES, target=TARGET),
        random_state=0,
    )
    ERRORS = CO - MODEL.fit(HOURS, CO).predict(HOURS)
    print(f"mu = {MODEL.guarantee_.mu:.2f}, relative error {ERRORS @ ERRORS / (CO @ CO):.3f}")
