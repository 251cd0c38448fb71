"""The cost of privacy on scikit-learn's breast cancer data: `make demo`.

It fits private logistic regressions at several epsilon, prints their accuracy on test rows and the
guarantee of one fit, and draws the curve.

What it does not show: private data. The budgets of fits to the same patients add up, and no
guarantee covers scores on private rows.

    python demo.py --repeats 40 --output epsilon_curve.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from skdp import DPLogisticRegression
from skdp.datasets import domain_of, load_breast_cancer
from skdp.inspection import EpsilonCurveDisplay
from skdp.model_selection import EpsilonCurve, epsilon_curve

# Declared in the package, with a reason for each bound, and not computed from the rows.
DOMAIN = domain_of("breast_cancer")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CARD_EPSILON = 1.0


def main(argv: list[str] | None = None) -> None:
    """Print scores on a fifth of the rows after fits to the others, a card, and draw the curve."""
    arguments = parse(argv)
    X, y, _ = load_breast_cancer(as_frame=False)
    rows, seeds = np.arange(len(y)), range(arguments.repeats)
    splits = [train_test_split(rows, test_size=0.2, random_state=seed) for seed in seeds]
    model = private_model(CARD_EPSILON)
    curve = epsilon_curve(model, X, y, EPSILONS, repeats=1, cv=splits, verbose=1)
    print(table(curve))
    print(f"\nGuarantee of one fit at epsilon = {CARD_EPSILON:g} for each of the {len(y)} patients")
    print("(budgets of fits to the same patients add up, so draw such curves of public data):\n")
    print(model.fit(X, y).guarantee_)
    draw(curve, arguments.output)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40, help="splits per epsilon (default 40)")
    parser.add_argument("--output", type=Path, default=Path("epsilon_curve.png"))
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error(f"--repeats must be an integer >= 1, got {arguments.repeats}.")
    return arguments


def private_model(epsilon: float) -> DPLogisticRegression:
    """Return an estimator that uses epsilon and the public domain only."""
    return DPLogisticRegression(epsilon=epsilon, domain=DOMAIN)


def table(curve: EpsilonCurve) -> str:
    """Return epsilon, the quartiles and the two reference scores as text."""
    lines = [
        f"Test accuracy on {curve.scores.shape[1]} random splits of the UCI breast-cancer data",
        "",
        " epsilon   median   quartiles",
    ]
    quartiles = curve.quantile([0.25, 0.5, 0.75]).T
    for epsilon, (low, middle, high) in zip(curve.epsilons, quartiles, strict=True):
        lines.append(f"{epsilon:8g}   {middle:6.3f}   {low:.3f} to {high:.3f}")
    plain, trivial = np.median(curve.without_privacy), np.median(curve.trivial)
    lines += ["", f"{plain:17.3f}   without privacy", f"{trivial:17.3f}   most common label"]
    return "\n".join(lines)


def draw(curve: EpsilonCurve, path: Path) -> None:
    """Save the curve as a picture; without matplotlib, print how to install it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("\nNo picture: it needs matplotlib. Install it by: pip install 'skdp[plot]'")
        return
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    EpsilonCurveDisplay(curve, label="private: median and quartiles").plot(axes)
    axes.set_title("Logistic regression on the UCI breast-cancer data", loc="left")
    figure.savefig(path)
    print(f"\nSaved {path}.")


if __name__ == "__main__":
    main()
