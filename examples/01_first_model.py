"""A first private model in five minutes: declare, fit, read the guarantee, count the budget.

This example shows four things. Bounds and labels are declared with a reason for each, and are never
computed from the rows. The guarantee states in words what every patient can rely on. Coefficients
have the units of the columns. One ledger is charged for all fits, and refuses a fit that exceeds
its total.

What it does not show: the cost of privacy, which is in the next notebook. 569 patients are few, and
the score below varies by some points from run to run because the noise is new in every run. The
data are public, so their scores may be shown.

    python 01_first_model.py --full --pictures folder
"""

# %% [markdown]
# ## A table and its public facts
# `skdp.datasets` has tables and the bounds of their columns, with the reason for each bound. For a
# table of your own you declare the bounds yourself; the last part shows how.

# %%
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPLogisticRegression, Ledger
from skdp.datasets import fetch_adult, load_breast_cancer
from skdp.privacy import BudgetExceeded


def read_settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="on UCI Adult, from SKDP_DATA")
    parser.add_argument("--pictures", type=Path, help="folder for pictures; none are drawn without")
    # A notebook's kernel has arguments of its own.
    return parser.parse_known_args()[0]


def show(thing: Any) -> None:
    """Display a thing in a notebook, print it elsewhere."""
    if "ipykernel" in sys.modules:
        from IPython.display import display

        display(thing)
    else:
        print(thing)


SETTINGS = read_settings()

# %%
DATA = fetch_adult() if SETTINGS.full else load_breast_cancer()
print(DATA)
for column, reason in list(DATA.reasons.items())[:4]:
    print(f"  {column}: {reason}")
X, X_test, y, y_test = train_test_split(DATA.X, DATA.y, test_size=0.25, random_state=0)

# %% [markdown]
# ## Fit
# `fit`, `predict` and `score` work as in scikit-learn. `epsilon` is the budget of one fit. The
# ledger holds the budget of all fits together.

# %%
LEDGER = Ledger(epsilon=5.0)
MODEL = DPLogisticRegression(epsilon=2.0, domain=DATA.domain, ledger=LEDGER).fit(X, y)
print(f"private: {MODEL.score(X_test, y_test):.3f} of the test rows are labelled rightly")
FREE = make_pipeline(DATA.domain.encoder(), LogisticRegression(max_iter=1000)).fit(X, y)
print(f"without privacy: {FREE.score(X_test, y_test):.3f}")

# %% [markdown]
# ## The guarantee
# The guarantee holds for what the computer did, including rounding errors and the inexactness of
# the solver. Publish it with the model.

# %%
show(MODEL.guarantee_)

# %% [markdown]
# ## In a pipeline
# The diagram is scikit-learn's own. The encoder learns nothing from the rows.

# %%
PIPELINE = make_pipeline(
    DATA.domain.encoder(),
    DPLogisticRegression(epsilon=2.0, domain=DATA.domain.encoded, ledger=LEDGER),
).fit(X, y)
show(PIPELINE)
print(f"left of the budget: {LEDGER.remaining}")

# %% [markdown]
# ## A fit that exceeds the budget
# It is refused before any noise is drawn.

# %%
try:
    MODEL.fit(X, y)
except BudgetExceeded as error:
    print(f"refused: {error}")

# %% [markdown]
# ## Your own table
# A tuple declares a bounded number, a list declares levels. Take both from a form, a code book or
# common sense. `sample` draws artificial rows from a domain. They cost no privacy, and are enough
# to try a program.

# %%
OWN = Domain(
    {"age": (18, 68), "hours": (0, 60), "job": ["office", "trade", "care"]},
    target=["no", "yes"],
)
ROWS, ANSWERS = OWN.sample(1000, random_state=0, with_target=True)
print(ROWS.head(3).to_string())
TRIED = DPLogisticRegression(epsilon=1.0, domain=OWN).fit(ROWS, ANSWERS)
for name, value in zip(OWN.encoded_names(), TRIED.coef_[0], strict=True):
    print(f"  {name:<10}{value:8.3f}")

# %% [markdown]
# ## Pictures
# The change of the log-odds over the whole declared range of a column, for the 15 columns with the
# greatest change.


# %%
def draw() -> dict[str, Any]:
    """Return the figure of the coefficients."""
    from skdp.inspection import CoefficientDisplay

    shown = CoefficientDisplay.from_estimator(MODEL, unit="range", most=15)
    shown.ax_.set_title(f"Log-odds of {MODEL.classes_[1]}, epsilon = {MODEL.epsilon:g}")
    return {"first_model": shown.figure_}


if SETTINGS.pictures:
    SETTINGS.pictures.mkdir(parents=True, exist_ok=True)
    for name, figure in draw().items():
        figure.savefig(SETTINGS.pictures / f"{name}.png", dpi=120)
elif "ipykernel" in sys.modules:  # a notebook shows them
    draw()
