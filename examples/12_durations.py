"""Time to readmission with differential privacy: survival curves of hospital stays.

This example is for hospitals and insurers. Durations until an event, some of them censored, become
rows of persons and periods. A private classifier fits the hazards, and survival curves with bands
follow from it at no further cost.

The 50,000 stays are simulated: there is no public table of this size that can be shared. So the
true curves are known, and the Kaplan-Meier estimate may be shown beside the private ones. The seeds
(`random_state`) make the results repeatable, and void the guarantee: leave them out for private
data.
"""

# %%
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import Domain, DPLogisticRegression, Ledger, Spline
from skdp.durations import PersonPeriods

RNG = np.random.default_rng(0)
N = 50_000
STAYS = pd.DataFrame(
    {
        "age": RNG.beta(4, 2, N) * 80 + 18,
        "ward": RNG.choice(["surgery", "medicine"], N, p=[0.6, 0.4]),
        "earlier_stays": RNG.poisson(0.8, N),
    }
)


def risk(people: pd.DataFrame) -> np.ndarray:
    """Return the log of the risk of readmission, which rises with age beyond 60."""
    older = 2.0 * np.clip((people["age"] - 60) / 40, 0, None)
    ward = 0.4 * (people["ward"] == "medicine")
    return (older + ward + 0.3 * people["earlier_stays"].clip(upper=5)).to_numpy()


SCALE = 250 * np.exp(-risk(STAYS))  # days; the hazard falls with time: a Weibull law
READMITTED, OBSERVED = SCALE * RNG.weibull(0.8, N), RNG.uniform(20, 300, N)
STAYS["days"] = np.minimum(READMITTED, OBSERVED)
STAYS["readmitted"] = READMITTED <= OBSERVED
print(STAYS.head().round(1))

# %% [markdown]
# ## Rows of persons and periods
# Bounds and edges are public: 30 and 90 days are usual in such reports. A person has one row for
# each period at risk. The column `readmitted` says whether the duration ends with the event, or is
# censored. It is public knowledge here that the risk does not fall with age, so the curve of age is
# declared as monotone.

# %%
COLUMNS = Domain(
    {
        "age": Spline(18, 100, knots=5, degree=1, monotone="increasing"),
        "ward": ["surgery", "medicine"],
        "earlier_stays": (0, 5),
    }
)
PERIODS = PersonPeriods(COLUMNS, edges=[0, 7, 14, 30, 60, 90, 180])
ROWS, LABELS, IDS = PERIODS.encode(STAYS, time="days", event="readmitted")
print(ROWS.assign(label=LABELS, person=IDS).head(8).round(1))

# %% [markdown]
# ## Fit
# All rows of a person are protected together (`groups`). With `rows_per_person` all rows have the
# same weight. The default would give persons with early readmissions a greater weight, and bias the
# hazards.

# %%
LEDGER = Ledger(epsilon=3.0)
MODEL = DPLogisticRegression(
    epsilon=1.0,
    domain=PERIODS.domain,
    rows_per_person=PERIODS.n_periods,
    neighbors="add_remove",
    n_public=50_000,
    ledger=LEDGER,
    random_state=0,
).fit(ROWS, LABELS, groups=IDS)

# %% [markdown]
# ## Curves and bands
# Three persons. The bands are pointwise intervals of 95 %, and need a second release.

# %%
PEOPLE = pd.DataFrame(
    {
        "age": [45, 75, 90],
        "ward": ["surgery", "surgery", "medicine"],
        "earlier_stays": [0, 1, 2],
    }
)
SURVIVAL = PERIODS.survival(MODEL, PEOPLE)
INFERENCE = MODEL.infer(ROWS, LABELS, groups=IDS, epsilon=2.0, random_state=0)
ESTIMATES, BANDS = PERIODS.survival_band(INFERENCE, PEOPLE)
print(pd.DataFrame(SURVIVAL, columns=PERIODS.edges[1:]).round(3))
print("median days", PERIODS.median(SURVIVAL).round())
print("mean of 180 days", PERIODS.restricted_mean(SURVIVAL).round())

# %% [markdown]
# The dashed lines are the true curves, which only a simulation knows. The private ones are points
# at the edges with their bands.

# %%
fig, ax = plt.subplots(figsize=(7, 4))
DAYS, EDGES = np.linspace(0, 180, 200), np.array(PERIODS.edges)
TRUTH = np.exp(-((DAYS / (250 * np.exp(-risk(PEOPLE)))[:, None]) ** 0.8))
for k, name in enumerate(["45, surgery", "75, surgery", "90, medicine"]):
    color = f"C{k}"
    ax.plot(DAYS, TRUTH[k], "--", color=color, lw=1)
    ax.plot(EDGES, np.append(1.0, SURVIVAL[k]), "o-", color=color, label=name)
    ax.fill_between(EDGES[1:], *BANDS[k].T, color=color, alpha=0.2)
ax.set(xlabel="days", ylabel="not readmitted", ylim=(0, 1))
ax.legend()
plt.show()

# %% [markdown]
# ## Beside Kaplan and Meier
# The Kaplan-Meier estimate has no privacy and no columns. It is that of all stays, so it is
# compared with the mean of the private curves of the first 5,000 of them.


# %%
def kaplan_meier(time: np.ndarray, event: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the product of 1 - 1 / (number at risk) over the events up to some times."""
    order = np.argsort(time)
    left = 1 - event[order] / np.arange(len(time), 0, -1)
    return np.cumprod(left)[np.searchsorted(time[order], at, side="right") - 1]


MEAN = PERIODS.survival(MODEL, STAYS[list(COLUMNS.names)].head(5000)).mean(axis=0)
USUAL = kaplan_meier(STAYS["days"].to_numpy(), STAYS["readmitted"].to_numpy(), EDGES[1:])
print(pd.DataFrame({"Kaplan-Meier": USUAL, "private": MEAN}, index=EDGES[1:]).round(3))

# %% [markdown]
# ## What the default weights would do
# The same fit without `rows_per_person`. A person who is readmitted in the first period has one row
# with the weight 1, and a person who is not has six rows with the weight 1/6 each.

# %%
BIASED = DPLogisticRegression(
    epsilon=1.0,
    domain=PERIODS.domain,
    neighbors="add_remove",
    n_public=50_000,
    random_state=0,
).fit(ROWS, LABELS, groups=IDS)
BIASED_MEAN = PERIODS.survival(BIASED, STAYS[list(COLUMNS.names)].head(5000)).mean(axis=0)
print(pd.DataFrame({"Kaplan-Meier": USUAL, "biased": BIASED_MEAN}, index=EDGES[1:]).round(3))
