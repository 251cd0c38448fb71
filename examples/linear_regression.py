"""Many regressions from one private release: wages, hours and age.

One fit spends the whole budget on noisy sums of products. After it, regressions of any column on
any others, means and correlations cost nothing, and each has a standard deviation that is due to
the noise. With a tenth of the budget the noise is several times as large, and the standard
deviations show it. With a thousandth of the budget no regression would be possible, and only the
mean of the target is released.

What it does not show: real data. The people are artificial, and 50,000 of them are many for three
columns. If only predictions of one target are needed, DPHuberRegressor has better ones for the same
epsilon.
"""

import numpy as np
import pandas as pd

from skdp import Domain, DPLinearRegression, Ledger

# Known before any row was seen: who was asked, the hours on the form, and its list of jobs.
DOMAIN = Domain(
    {"age": (18, 68), "hours": (0, 60), "job": ["office", "trade", "care"]}, target=(0, 60)
)


def make_people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of people and their wages per hour."""
    rng = np.random.default_rng(seed)
    job = rng.integers(3, size=n)
    age = rng.integers(18, 69, size=n)
    hours = (44 - 0.2 * age + rng.normal(0, 8, size=n)).clip(0, 60)
    wage = 6 + 0.3 * age + 0.1 * hours + np.array([0.0, 4.0, -5.0])[job] + rng.normal(0, 5, size=n)
    people = pd.DataFrame({"age": age, "hours": hours})
    people["job"] = np.array(["office", "trade", "care"])[job]
    return people, wage


def show(title: str, model: DPLinearRegression, names: tuple[str, ...]) -> None:
    """Print each coefficient with the standard deviation that the noise gives it."""
    print(title)
    coef, deviation = (*model.coef_, model.intercept_), (*model.coef_std_, model.intercept_std_)
    for name, value, noise in zip((*names, "intercept"), coef, deviation, strict=True):
        print(f"  {name:<10}{value:9.3f}  noise {noise:.4f}")


def main() -> None:
    """Fit once, and ask three questions; then fit with less."""
    people, wage = make_people(50_000, seed=0)
    ledger = Ledger(epsilon=1.2)
    names = DOMAIN.encoded_names()

    model = DPLinearRegression(epsilon=1.0, domain=DOMAIN, ledger=ledger).fit(people, wage)
    show("Wage (made from 0.3, 0.1, 4, -5 and 6, and chance):", model, names)
    show("Wage by age alone:", model.from_moments(["age"]), ("age",))
    hours = model.from_moments(["age"], target="hours")
    show("Hours by age (made from -0.2 and 44):", hours, ("age",))
    print(f"Left of the budget after three regressions: {ledger.remaining}\n")

    small = DPLinearRegression(epsilon=0.1, domain=DOMAIN, ledger=ledger).fit(people, wage)
    show("Wage with a tenth of the budget:", small, names)
    tiny = DPLinearRegression(epsilon=0.001, domain=DOMAIN, ledger=ledger).fit(people, wage)
    print(f"\nWith epsilon = 0.001: {tiny.moments_.names[1:]} and nothing else was released.")
    print(f"\n{model.guarantee_}")


if __name__ == "__main__":
    main()
