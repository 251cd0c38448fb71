"""Publish a regression table: standard errors, intervals and tests that contain the noise.

This example is for readers of regression tables. It shows how to fit a private model with a table
of coefficients, how to read the table, how it compares with the table without privacy, and what to
write below it in a paper. The first table is simulated, so that the true coefficients are known.
The second has 442 patients, which is few: at epsilon = 1 most intervals are unbounded. `--full` has
Adult (48,842 persons) and California housing (20,640 block groups).

What it does not show: how to choose columns by the data. Intervals do not account for this choice,
with or without privacy. The data are simulated or public, so the results without privacy may be
shown beside the private ones. Nothing was tuned on them: bounds are those of the package's
declarations, parameters are the defaults.

    SKDP_DATA=path/to/datasets python 10_publish_a_regression_table.py --full --pictures folder
"""

# %% [markdown]
# ## A survey of wages
# A row is a person in a year. The wage per week depends on schooling, age and sector. Wages of
# persons with more schooling differ more, so errors do not have one variance. Rows of a person have
# a part of the error in common.

# %%
from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from skdp import BudgetExceeded, Domain, DPLinearRegression, DPLogisticRegression, Ledger
from skdp.datasets import fetch_adult, fetch_california_housing, load_diabetes
from skdp.privacy import compose


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="UCI sets, from SKDP_DATA")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


SETTINGS = read_settings()
SECTORS = ["private", "public", "self-employed"]
TRUE = {"schooling": 60, "age": 5, "sector_public": 40, "sector_self-employed": -80}


def survey(persons: int, years: int, seed: int) -> pd.DataFrame:
    """Return rows of persons; schooling and sector do not change."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), years)
    schooling = rng.choice([10, 12, 13, 16, 18], persons, p=[0.2, 0.4, 0.2, 0.15, 0.05])[person]
    age = rng.integers(20, 55, persons)[person] + np.tile(np.arange(years), persons)
    sector = rng.choice(SECTORS, persons, p=[0.7, 0.2, 0.1])[person]
    wage = 60.0 * schooling + 5 * age + 40 * (sector == SECTORS[1]) - 80 * (sector == SECTORS[2])
    error = 0.8 * rng.normal(size=persons)[person] + 0.6 * rng.normal(size=len(person))
    columns = {"person": person, "schooling": schooling, "age": age, "sector": sector}
    return pd.DataFrame(columns | {"wage": wage + 15 * schooling * error})


PEOPLE = survey(persons=20_000, years=1, seed=0)

# %% [markdown]
# ## Fit
# Declare what everybody may know: bounds from the questionnaire, and the levels of its boxes. The
# first level is the reference level.
#
# A table is a second release, at a model that is public. So .2 of epsilon is spent on a model, and
# .8 on the table. At the model `infer` releases noisy sums: of scores, of curvatures and of squared
# influences. From these follow an estimate that is not shrunk, and its errors. The model itself
# does not change. All estimators have `infer`. Both calls charge one ledger.

# %%
COLUMNS = {"schooling": (8, 20), "age": (18, 65), "sector": SECTORS}
DOMAIN = Domain(COLUMNS, target=(0, 3000))
LEDGER = Ledger(epsilon=1.0)
SURVEY = PEOPLE[[*COLUMNS, "wage"]]
MODEL = DPLinearRegression(epsilon=0.2, domain=DOMAIN, ledger=LEDGER).fit(SURVEY, target="wage")
WAGES = MODEL.infer(SURVEY, target="wage", epsilon=0.8, ledger=LEDGER)
print(WAGES.summary())

# %% [markdown]
# ## Read the table
# - `coef`: the estimate. It is not shrunk. `coef_` of the model is, and has more noise: take the
#   model for predictions, and the table for statements about the population.
# - `std err`: its standard error. It is the root of the sum of the squares of the next two columns.
# - `sampling`: the part that you know. Another sample of the population would give another
#   estimate. It is robust (HC0): errors may have different variances.
# - `privacy`: the part that the noise causes. The law of the noise is public. If this part is small
#   beside `sampling`, privacy cost little.
# - `z`, `P>|z|`: the test that the coefficient is 0. The test uses the noise *under the null*, so
#   `z` is not exactly `coef / std err`. Where the noise is small the difference is small. Where it
#   is not, believe the interval: `std err` is to first order in the noise. `P>|z|` is greater than
#   in a table of the normal law: the noise has longer tails, and `sampling` is a noisy estimate.
# - The last two columns: the 95 % confidence interval. It holds 0 if and only if `P>|z|` is at
#   least .05. It need not be symmetric about `coef`.
#
# Notes below the table say what is assumed, and which share of the records, with noise, is at the
# declared bounds. An end may be `-inf` or `inf`: the noise is in the products of the columns, too,
# and it may be that every value is compatible with what was released. This is a result, and not an
# error.
#
# This table has fresh noise, so yours differs. Those below have seeds (`random_state`). Then
# results are repeatable, and the guarantee does not hold.

# %% [markdown]
# ## The numbers of the table
# All of this is computed from released numbers and costs nothing. `coef`, `conf_int` and `p_values`
# have the order of `names`, the intercept first. `combine` gives differences of coefficients, such
# as that of two levels.

# %%
SLOPES = WAGES.conf_int(level=0.95)[1:]
for name, (low, high), true in zip(TRUE, SLOPES, TRUE.values(), strict=True):
    print(f"  {name:<22}{low:8.1f} to {high:6.1f}    true: {true:g}")
TEST = WAGES.wald_test("sector")
print(f"no effect of the sector: statistic {TEST.statistic:.1f}, p = {TEST.p_value:.2g}")
print("order of the weights below:", ", ".join(WAGES.names))
(ESTIMATE,), ((LOW, HIGH),) = WAGES.combine([[0, 0, 0, 1, -1]])
print(f"public less self-employed: {ESTIMATE:.0f}, from {LOW:.0f} to {HIGH:.0f} (true: 120)")
WAGES.summary(level=0.9).to_frame()[["coef", "std_error", "lower", "upper"]].round(1)

# %% [markdown]
# ## Beside the table without privacy
# `plain` is a regression without privacy, with errors as `fit(cov_type="HC0")` in statsmodels.
#
# Two questions for each coefficient: in how many fits does the private interval hold the estimate
# without privacy, and how many times as long is it as the interval without privacy (`length`, the
# median)? A private interval is for the value of the population. It holds the estimate *of the same
# sample* in more than 95 % of the fits, if both methods estimate the same thing.


# %%
def design(columns: dict[str, Any], X: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Return the columns of a regression, the ones first, and their names."""
    found = {"intercept": np.ones(len(X))}
    for name, own in columns.items():
        if isinstance(own, tuple):
            found[name] = X[name].to_numpy(float).clip(*own)
        else:
            found |= {f"{name}_{level}": (X[name] == level).to_numpy(float) for level in own[1:]}
    return np.column_stack([*found.values()]), list(found)


def plain(A: Any, y: Any, is_label: bool, clusters: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and robust standard errors without privacy."""
    theta = np.zeros(A.shape[1])
    for _ in range(25):  # Newton's method; least squares need one step
        mean = expit(A @ theta) if is_label else A @ theta
        weight = mean * (1 - mean) if is_label else np.ones(len(y))
        inverse = np.linalg.inv(A.T @ (weight[:, None] * A))
        theta = theta + inverse @ (A.T @ (y - mean))
    scores = A * (y - mean)[:, None]
    if clusters is not None:
        scores = pd.DataFrame(scores).groupby(np.asarray(clusters)).sum().to_numpy()
    return theta, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))


def private(columns: dict[str, Any], target: Any, X: Any, y: Any, epsilon: float, seed: int) -> Any:
    """Return a private table; the fit and the table together spend epsilon."""
    cls = DPLogisticRegression if isinstance(target, list) else DPLinearRegression
    domain = Domain(columns, target=target)
    rows, rng = X[list(columns)], np.random.default_rng(seed)  # a seed each would repeat the noise
    model = cls(epsilon=0.2 * epsilon, domain=domain, random_state=rng).fit(rows, y)
    with warnings.catch_warnings(action="ignore"):  # the tables show what is unbounded
        return model.infer(rows, y, epsilon=0.8 * epsilon, random_state=rng)


RUNS = 20


def compare(title: str, columns: dict[str, Any], target: Any, X: Any, y: Any, at: Any) -> Any:
    """Print the comparison over many draws of the noise; return the intervals of the first."""
    A, names = design(columns, X)
    is_label = isinstance(target, list)
    numbers = (np.asarray(y) == target[1]) * 1.0 if is_label else np.asarray(y, float)
    theta, error = plain(A, numbers, is_label)
    shown = {"no privacy": np.column_stack([theta - 1.96 * error, theta + 1.96 * error])}
    print(f"\n{title}: {len(X):,} rows, {RUNS} draws of the noise")
    print(f"  {'no privacy':>38}" + "".join(f"{f'epsilon = {e:g}':>16}" for e in at))
    print(f"  {'coef':>29}{'std err':>9}" + f"{'holds':>9}{'length':>7}" * len(at))
    found = {}
    for epsilon in at:
        tables = [private(columns, target, X, y, epsilon, seed) for seed in range(RUNS)]
        found[epsilon] = np.array([table.conf_int() for table in tables])
        shown[f"epsilon = {epsilon:g}"] = found[epsilon][0]
    for j, name in enumerate(names):
        cells = ""
        for ends in found.values():
            holds = int(np.sum((ends[:, j, 0] <= theta[j]) & (theta[j] <= ends[:, j, 1])))
            ratio = np.median(ends[:, j, 1] - ends[:, j, 0]) / (3.92 * error[j])
            cells += f"{f'{holds}/{RUNS}':>9}{ratio:7.2g}"
        print(f"  {name:<18}{theta[j]:11.4g}{error[j]:9.2g}{cells}")
    return {"title": title, "names": names, "shown": shown}


# %% [markdown]
# ## 442 patients
# The progression of diabetes after a year, by age, sex, body mass index and blood pressure. The
# bounds are those of `load_diabetes`. That of the progression is *informed*: its scale came from
# the data.
#
# `inf` means that at least half of the draws have an unbounded interval.


# %%
def declared(domain: Domain, names: list[str]) -> dict[str, Any]:
    """Return bounds and levels of some columns of a domain."""
    found = {own["name"]: own for own in domain.to_dict()["columns"]}
    return {
        name: own["levels"] if own["kind"] == "Levels" else (own["lower"], own["upper"])
        for name, own in ((name, found[name]) for name in names)
    }


PATIENTS = load_diabetes()
MEASURES = declared(PATIENTS.domain, ["age", "sex", "bmi", "bp"])
TABLE = (PATIENTS.X, PATIENTS.y)
COMPARED = [compare("diabetes", MEASURES, (0, 350), *TABLE, at=[1.0, 3.0, 10.0])]

# %% [markdown]
# At epsilon = 1 nothing can be said: 442 patients are too few for these four columns. At 3 the
# intervals are five to eight times as long as those without privacy. At 10 they are 1.5 to 2 times
# as long, but 10 is a weak guarantee.
#
# A table at epsilon = 1 looks like this. The sentence below it names the column that the noise
# hides most, and says what would help.

# %%
print(private(MEASURES, (0, 350), *TABLE, epsilon=1.0, seed=0).summary())

# %% [markdown]
# Fewer columns need fewer records. A table of the body mass index alone has bounded intervals at
# epsilon = 1, but they are long. At 3 it is useful. It answers another question: the other columns
# are not held constant. Decide before the fit. To look at both tables costs both epsilons.

# %%
_ = compare("diabetes, one column", {"bmi": MEASURES["bmi"]}, (0, 350), *TABLE, at=[1.0, 3.0])

# %% [markdown]
# ## More records (`--full`)
# Adult: a yearly income above 50,000 dollars. Its code book has seven marital statuses. Some of
# them must be rare, such as a spouse in the armed forces. The noise hides a rare level, and makes
# the intervals of others longer. So the statuses are merged by what they mean: never, now and
# formerly married. The second table has all seven.
#
# California: the median value of the houses of a block group. The unit of privacy is a block group.


# %%
def compare_adult() -> None:
    """Compare the tables on Adult, and print that with all marital statuses."""
    X, y, domain = fetch_adult()
    former = dict.fromkeys(["Divorced", "Separated", "Widowed"], "formerly")
    merged = X.marital_status.map(former | {"Never-married": "never"}).fillna("married")
    columns = declared(domain, ["age", "education_num", "hours_per_week", "sex"])
    three, labels = columns | {"marital": ["never", "married", "formerly"]}, ["<=50K", ">50K"]
    data = (X.assign(marital=merged), y)
    COMPARED.append(compare("Adult", three, labels, *data, at=[0.3, 1.0, 4.0]))
    seven = columns | declared(domain, ["marital_status"])
    print(private(seven, labels, X, y, epsilon=1.0, seed=0).summary())


def compare_california() -> None:
    """Compare the tables on California housing."""
    X, y, domain = fetch_california_housing()
    columns = declared(domain, ["median_income", "housing_median_age", "latitude", "longitude"])
    data = (X, y)
    COMPARED.append(compare("California", columns, domain.target, *data, at=[0.3, 1.0, 4.0]))
    A, _ = design(columns, X)
    scaled = (A[:, 1:] - A[:, 1:].mean(axis=0)) / A[:, 1:].std(axis=0)
    root = np.sqrt(np.minimum(1, 10 / (1 + (scaled**2).sum(axis=1))))
    theta, _ = plain(A * root[:, None], y * root, is_label=False)
    print(f"  median_income, no privacy, smaller weights far from the centre: {theta[1]:.4g}")


if SETTINGS.full:
    compare_adult()
    compare_california()

# %% [markdown]
# On Adult the private intervals at epsilon = 1 are 3.6 to 4.9 times as long as those without
# privacy, and at epsilon = 4 1.4 to 2.1 times. With all seven statuses those of the rare ones, and
# of the intercept, are unbounded; the others are two to four times as long as with three.
#
# Some intervals do not hold the estimate without privacy as often as they should: those of the
# hours at epsilon = 4, and those of the income in California at 1. The reason is not the noise.
# Rows far from the centre have smaller weights, the smaller the more noise. If the model is true,
# this changes nothing. But house values above 500,000 dollars were recorded as 500,001, so no line
# fits all incomes, and the private line is closer to the effect of the middle ones. Least squares
# with such weights has nearly the same coefficient (last line). A note below each table names the
# weights.

# %% [markdown]
# ## A checklist
# **1. Choose the columns before you look.** Intervals and p-values do not account for a choice by
# the data. Choosing by a table that was not released is not covered by the guarantee, either. Try
# the program on rows drawn from the domain, `DOMAIN.sample(20_000, with_target=True)`.
#
# **2. One table, one budget.** Another level of the intervals, other tests and other differences of
# coefficients cost nothing. Another set of columns is another fit and another table. Give all of
# a paper one ledger: it refuses what exceeds the budget.

# %%
try:
    MODEL.infer(SURVEY, target="wage", epsilon=0.8, ledger=LEDGER)
except BudgetExceeded as error:
    print(f"refused: {error}")

# %% [markdown]
# **3. Say what was done.** A footnote states the guarantee, its unit, the bounds, and that errors
# contain the noise. The guarantee is that of the fit and the table together. `print(GUARANTEE)` has
# the facts, and an appendix may contain all of it. From a file with `WAGES.to_json()` a reader can
# compute the table again, and prove its guarantee with `python -m skdp certify`.

# %%
GUARANTEE = compose(MODEL.guarantee_, WAGES.guarantee)
print(
    f"Standard errors (robust) and intervals contain the sampling error and the privacy noise."
    f" The table satisfies ({GUARANTEE.epsilon:g}, {GUARANTEE.delta:g})-differential privacy for"
    f" one {GUARANTEE.unit} ({GUARANTEE.neighbors}). Bounds were declared: {COLUMNS}.\n"
)
print(GUARANTEE)

# %% [markdown]
# **4. Persons with several rows: `groups`.** Here are 4,000 persons with five years each. With
# `groups` the guarantee protects a person with all rows, and the standard errors are clustered by
# person. Errors that take rows for independent are too small for what does not change within a
# person, such as schooling. Each person counts once, however many rows there are.

# %%
PANEL = survey(persons=4_000, years=5, seed=1)
GIVEN: dict[str, Any] = {"target": "wage", "groups": "person"}
RNG = np.random.default_rng(0)
CLUSTERED = DPLinearRegression(epsilon=0.4, domain=DOMAIN, random_state=RNG).fit(PANEL, **GIVEN)
A, NAMES = design(COLUMNS, PANEL)
_, NAIVE = plain(A, PANEL.wage.to_numpy(), is_label=False)
_, ROBUST = plain(A, PANEL.wage.to_numpy(), is_label=False, clusters=PANEL.person)
OWN = CLUSTERED.infer(PANEL, **GIVEN, epsilon=1.6, random_state=RNG)
print(f"standard errors{'no privacy':>22}{'':>13}private, epsilon = 2")
print(f"{'':<20}{'HC0':>9}{'clustered':>11}    {'sampling':>10}{'privacy':>10}")
for name, *errors in zip(NAMES, NAIVE, ROBUST, OWN.sampling_error, OWN.privacy_error, strict=True):
    naive, robust, sampling, privacy = errors
    print(f"{name:<20}{naive:9.2f}{robust:11.2f}    {sampling:10.2f}{privacy:10.2f}")

# %% [markdown]
# **5. Report unbounded intervals.** They are results: the data cannot tell at this epsilon. Do not
# report such an estimate without its interval. If you fit another model because of them, such as
# one without the column that the table names, say so. Both fits count.

# %% [markdown]
# ## Pictures
# `CoefficientDisplay` draws the intervals of a table, here for the declared range of each column.
# The others have a panel for each coefficient, with the intervals without privacy and those of the
# first draw at each epsilon. An arrow means that the interval goes on.


# %%
def draw_panel(ax: Any, shown: dict[str, np.ndarray], j: int, name: str) -> None:
    """Draw the intervals of one coefficient; those that are much longer are cut."""
    low, high = shown["no privacy"][j]
    middle, most = (low + high) / 2, 6 * (high - low)
    ends = np.array([own[j] for own in shown.values()])
    edges = middle - most, middle + most
    for place, (a, b) in enumerate(ends):
        color = "0.3" if place == 0 else "C0"
        ax.hlines(place, max(a, edges[0]), min(b, edges[1]), color=color, lw=4)
        for end, edge, marker in ((-a, edges[0], "<"), (b, edges[1], ">")):
            if end > (-edge if marker == "<" else edge):
                ax.plot(edge, place, marker, color=color, clip_on=False)
    ax.axvline(middle, color="0.3", lw=0.8, ls=":")
    ax.axvline(0, color="0.6", lw=0.8)
    ax.set(title=name, xlim=edges, ylim=(len(ends) - 0.5, -0.5))
    ax.set_yticks(range(len(shown)), list(shown))


def draw_compared(found: dict[str, Any]) -> Any:
    """Return a figure with a panel for each slope."""
    import matplotlib.pyplot as plt

    slopes = list(enumerate(found["names"]))[1:]
    wide = -(-len(slopes) // 2)
    size = (2.2 + 2.4 * wide, 1.2 + 1.7 * 2)
    figure, axes = plt.subplots(2, wide, figsize=size, sharey=True, layout="constrained")
    for ax in axes.flat[len(slopes) :]:
        ax.set_axis_off()
    for ax, (j, name) in zip(axes.flat, slopes, strict=False):
        draw_panel(ax, found["shown"], j, name)
    figure.suptitle(f"{found['title']}: 95 % confidence intervals")
    return figure


def draw() -> dict[str, Any]:
    """Return the figures by name."""
    from skdp.inspection import CoefficientDisplay

    wages = CoefficientDisplay.from_estimator(MODEL, unit="range", inference=WAGES)
    shown = {"table": wages.figure_}
    names = [f"compared_{own['title'].lower()}" for own in COMPARED]
    return shown | dict(zip(names, map(draw_compared, COMPARED), strict=True))


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
