"""A first private model: who has a high income, and how high, from a table of people.

This example shows that bounds and levels are declared, and never computed from the table; that
coefficients have the units of the columns; that the guarantee states in words what each person can
rely on; and that one ledger is charged for every fit, reports the rest, and would refuse a third
fit.

What it does not show: real data. The people are artificial, their incomes follow the model, and
20,000 rows are many for three columns. With fewer rows or a smaller epsilon the noise is greater
relative to the coefficients.
"""

import numpy as np
import pandas as pd

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Ledger

JOBS = ["office", "trade", "care"]
# Known before any row was seen: who was asked, the hours on the form, and its list of jobs.
COLUMNS = {"age": (18, 68), "hours": (0, 60), "job": JOBS}
EARNS_MUCH = Domain(COLUMNS, target=["no", "yes"])
INCOME = Domain(COLUMNS, target=(0, 100_000))


def make_people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of people and their yearly incomes."""
    rng = np.random.default_rng(seed)
    job = rng.integers(len(JOBS), size=n)
    age = rng.integers(18, 69, size=n)
    hours = rng.normal(36, 9, size=n).clip(0, 60).round()
    income = 400 * age + 800 * hours + np.array([0, 4_000, -5_000])[job] - 6_000
    people = pd.DataFrame({"age": age, "hours": hours, "job": np.array(JOBS)[job]})
    return people, income + rng.normal(0, 6_000, size=n)


def show_coefficients(names: tuple[str, ...], coef: np.ndarray, intercept: float) -> None:
    """Print a line for each; the first job has none, the others are in comparison to it."""
    for name, value in zip((*names, "intercept"), (*coef, intercept), strict=True):
        print(f"  {name:<10}{value:12,.2f}")


def main() -> None:
    """Fit a classifier and a regression on one budget."""
    people, income = make_people(20_000, seed=0)
    earns_much = np.where(income > 40_000, "yes", "no")
    ledger = Ledger(epsilon=2.0)

    classifier = DPLogisticRegression(epsilon=1.0, domain=EARNS_MUCH, ledger=ledger)
    classifier.fit(people, earns_much)
    print(f"Log-odds of {classifier.classes_[1]} to an income above 40,000 (jobs against office):")
    names = EARNS_MUCH.encoded_names()
    show_coefficients(names, classifier.coef_[0], classifier.intercept_[0])
    print(f"\n{classifier.guarantee_}\n")
    print(f"Left of the budget after one fit: {ledger.remaining}\n")

    regressor = DPHuberRegressor(epsilon=1.0, domain=INCOME, ledger=ledger)
    regressor.fit(people, income)
    print("Yearly income (made from 400, 800, 4,000, -5,000 and -6,000, and chance):")
    show_coefficients(INCOME.encoded_names(), regressor.coef_, regressor.intercept_)

    # This figure is a release about the other people, which no ledger counts: they are made up.
    others, their_income = make_people(2_000, seed=1)
    error = np.median(np.abs(regressor.predict(others) - their_income))
    print(f"\nMedian error for other people: {error:,.0f} (from chance alone: 4,047)")
    print(f"Left of the budget after two fits: {ledger.remaining}")


if __name__ == "__main__":
    main()
