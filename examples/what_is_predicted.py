"""The picture of "Which estimator?": what each of them predicts for visits to a doctor.

Visits are simulated. Their mean increases with age, and a few people have many visits: the mean,
the median and a robust centre differ.

    python examples/what_is_predicted.py --out docs/guide/what_is_predicted.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from skdp import Domain, DPHuberRegressor, DPPoissonRegressor, DPQuantileRegressor


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the file of the picture")
    out = parser.parse_args().out
    rng, domain = np.random.default_rng(0), Domain({"age": (20, 90)}, target=(0, 60))
    age = rng.uniform(20, 90, 20_000)
    mean = np.exp(age / 50)
    visits = np.clip(rng.negative_binomial(1, 1 / (1 + mean)), 0, 60)
    X, grid = age[:, None], np.linspace(20, 90, 71)[:, None]
    facts = {"domain": domain, "random_state": 0}
    models = {
        "DPPoissonRegressor: the mean, effects multiply": DPPoissonRegressor(**facts),
        "DPHuberRegressor: the mean, effects add up": DPHuberRegressor(**facts),
        "DPHuberRegressor(mean_share=0): a robust centre": DPHuberRegressor(mean_share=0, **facts),
        "DPQuantileRegressor: the median": DPQuantileRegressor(**facts),
        "DPQuantileRegressor(quantile=0.9)": DPQuantileRegressor(quantile=0.9, **facts),
    }
    figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
    shown = rng.choice(len(age), 1500, replace=False)
    ax.plot(age[shown], visits[shown] + rng.uniform(-0.3, 0.3, 1500), ".", color="0.8", ms=3)
    ax.plot(grid, np.exp(grid / 50), color="0.4", lw=4, alpha=0.5, label="the true mean")
    colors = ("#0072B2", "#D55E00", "#E69F00", "#009E73", "#CC79A7")
    for (name, model), color in zip(models.items(), colors, strict=True):
        predicted = model.fit(X, visits).predict(grid)
        ax.plot(grid, predicted, color=color, label=name)
        print(f"{name:50} mean prediction {model.predict(X).mean():.2f}")
    print(f"{'visits':50} mean            {visits.mean():.2f}")
    ax.set(xlabel="age", ylabel="visits in a year", ylim=(-0.5, 14.5))
    ax.legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
