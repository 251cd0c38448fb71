"""python -m skdp: what a true guarantee costs in accuracy, on real data.

Fits a private logistic regression to scikit-learn's bundled breast-cancer data at several
epsilon, prints a table and one guarantee, and draws the curve.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdp import DPLogisticRegression
from skdp._progress import with_bar
from skdp.datasets import domain_of, load_breast_cancer

# Declared in the package, each bound with its reason, and not computed from the rows.
DOMAIN = domain_of("breast_cancer")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CARD_EPSILON = 1.0
PRIVATE, PLAIN, MAJORITY = "#1f5fa8", "#3b3b3b", "#8a6d3b"


@dataclass(frozen=True)
class Curve:
    """Test accuracies: of every private fit, (runs, n_epsilons), and of the references, (runs,)."""

    private: NDArray[np.float64]
    plain: NDArray[np.float64]
    majority: NDArray[np.float64]

    @property
    def quartiles(self) -> NDArray[np.float64]:
        """Lower quartile, median and upper quartile of the private fits, (3, n_epsilons)."""
        return np.quantile(self.private, [0.25, 0.5, 0.75], axis=0)


def main(argv: list[str] | None = None) -> None:
    """Measure, print and draw."""
    arguments = parse(argv)
    X, y = load()
    curve = measure(X, y, arguments.repeats)
    print(table(curve))
    print(f"\nWhat one fit at epsilon = {CARD_EPSILON:g} promises to each of the {len(y)} patients")
    print("(fits to the same patients add up: a curve like this one is for public data):\n")
    print(private_model(CARD_EPSILON).fit(X, y).guarantee_)
    draw(curve, arguments.output)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m skdp", description=__doc__)
    parser.add_argument("--repeats", type=int, default=40, help="splits per epsilon (default 40)")
    parser.add_argument("--output", type=Path, default=Path("epsilon_curve.png"))
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error(f"--repeats must be a whole number >= 1, got {arguments.repeats}.")
    return arguments


def load() -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the 569 rows, columns in the order of the domain, and their labels as words."""
    X, y, _ = load_breast_cancer(as_frame=False)
    return X, y


def private_model(epsilon: float) -> DPLogisticRegression:
    """Return an estimator that knows nothing but epsilon and the public domain."""
    return DPLogisticRegression(epsilon=epsilon, domain=DOMAIN)


def measure(X: NDArray[np.float64], y: NDArray[Any], repeats: int) -> Curve:
    """Fit on four fifths of the rows and score on the others, split after split."""
    private, plain, majority = [], [], []
    for seed in with_bar(range(repeats), repeats, "split"):
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        models = [private_model(epsilon).fit(train, y_train) for epsilon in EPSILONS]
        private.append([model.score(test, y_test) for model in models])
        plain.append(plain_accuracy(train, y_train, test, y_test))
        majority.append(np.mean(y_test == "benign"))
    return Curve(np.array(private), np.array(plain), np.array(majority))


def plain_accuracy(train: Any, y_train: Any, test: Any, y_test: Any) -> float:
    """Return the accuracy of logistic regression without privacy, on the same encoding."""
    model = LogisticRegression(max_iter=1000).fit(DOMAIN.encode(train), y_train)
    return float(model.score(DOMAIN.encode(test), y_test))


def table(curve: Curve) -> str:
    """Return epsilon, the quartiles and the two references as text."""
    plain, majority = np.median(curve.plain), np.median(curve.majority)
    lines = [
        f"Test accuracy on {len(curve.private)} random splits of the UCI breast-cancer data",
        "",
        " epsilon   median   quartiles",
    ]
    for epsilon, (low, middle, high) in zip(EPSILONS, curve.quartiles.T, strict=True):
        lines.append(f"{epsilon:8g}   {middle:6.3f}   {low:.3f} to {high:.3f}")
    lines += ["", f"{plain:17.3f}   without privacy", f"{majority:17.3f}   most common label"]
    return "\n".join(lines)


def draw(curve: Curve, path: Path) -> None:
    """Save accuracy against epsilon as a picture; without matplotlib, say how to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("\nNo picture: it needs matplotlib. Install it by: pip install 'skdp[plot]'")
        return
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    draw_references(axes, curve)
    draw_private(axes, curve)
    decorate(axes)
    figure.savefig(path)
    print(f"\nSaved {path}.")


def draw_references(axes: Any, curve: Curve) -> None:
    """Draw what is reached without privacy and without features, named on the lines."""
    for accuracies, name, colour, x, side in (
        (curve.plain, "without privacy", PLAIN, EPSILONS[0], "left"),
        (curve.majority, "most common label", MAJORITY, EPSILONS[-1], "right"),
    ):
        height = float(np.median(accuracies))
        axes.axhline(height, color=colour, linewidth=1.2, linestyle=(0, (5, 3)))
        write(axes, f"{name}  {height:.3f}", (x, height), 4, colour, ha=side)


def draw_private(axes: Any, curve: Curve) -> None:
    """Draw the median over the splits, and the quartiles as a band."""
    low, middle, high = curve.quartiles
    axes.fill_between(EPSILONS, low, high, color=PRIVATE, alpha=0.18, linewidth=0)
    axes.plot(EPSILONS, middle, "o-", color=PRIVATE, linewidth=2, markersize=5)
    k = len(EPSILONS) - 2
    text = f"private: median and middle half\nof {len(curve.private)} splits"
    write(axes, text, (EPSILONS[k], low[k]), -18, PRIVATE, ha="center", va="top")


def write(
    axes: Any, text: str, at: tuple[float, float], lift: int, colour: str, **align: str
) -> None:
    """Write on the picture, ``lift`` points above a place in the data's units."""
    place = {"xy": at, "xytext": (0, lift), "textcoords": "offset points"}
    axes.annotate(text, **place, color=colour, fontsize=11, **align)


def decorate(axes: Any) -> None:
    """Set scales, ticks, labels and title."""
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.set_ylim(top=1.0)
    axes.set_xlabel("epsilon (smaller is more private; log scale)", fontsize=12)
    axes.set_ylabel("test accuracy", fontsize=12)
    title = "What privacy costs: logistic regression on the UCI breast-cancer data"
    axes.set_title(title, loc="left", fontsize=13, pad=12)
    axes.tick_params(labelsize=11)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
