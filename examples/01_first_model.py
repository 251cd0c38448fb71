"""A first private model in five minutes.

What to see: bounds and labels are declared with the reason for each, and never read off the rows;
the guarantee says in words what is promised to every patient; coefficients come in the units of the
columns; one ledger is charged for every fit and refuses the one that would be too many.

What it does not show: that privacy is free. 569 patients are few, and the score below moves by
some points from run to run: the noise is fresh every time. What a budget costs is in the next
notebook. The data are public, so their scores may be looked at.

    python 01_first_model.py --full --pictures folder
"""

# %% [markdown]
# ## A table and what is publicly known about it
# `skdp.datasets` brings both: a table, and the bounds of its columns with the reason for each. For
# a table of your own you write them down yourself; the last part shows how.

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
DATA = fetch_adult() if SETTINGS.full else load_breast_cancer()
print(DATA)
for column, reason in list(DATA.reasons.items())[:4]:
    print(f"  {column}: {reason}")
X, X_test, y, y_test = train_test_split(DATA.X, DATA.y, test_size=0.25, random_state=0)

# %% [markdown]
# ## Fit
# `fit`, `predict`, `score`: all as in scikit-learn. `epsilon` is what one fit spends, the ledger
# what all of them together may spend.

# %%
LEDGER = Ledger(epsilon=5.0)
MODEL = DPLogisticRegression(epsilon=2.0, domain=DATA.domain, ledger=LEDGER).fit(X, y)
print(f"private: {MODEL.score(X_test, y_test):.3f} of the test rows are labelled rightly")
FREE = make_pipeline(DATA.domain.encoder(), LogisticRegression(max_iter=1000)).fit(X, y)
print(f"without privacy: {FREE.score(X_test, y_test):.3f}")

# %% [markdown]
# ## What was promised
# The statement holds for what the computer really did, rounding and the solver's inexactness
# included. Publish it with the model.

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
# ## The fit that would be too many
# It is refused before any noise is drawn, and before the rows are looked at.

# %%
try:
    MODEL.fit(X, y)
except BudgetExceeded as error:
    print(f"refused: {error}")

# %% [markdown]
# ## Your own table
# A tuple is a bounded number, a list is a set of levels. Take both from a form, a code book or
# common sense. `sample` draws rows from a domain: they cost nothing, and are enough to try a
# program on.

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
# What the whole declared range of a column does to the log-odds; the greatest fifteen.


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
