"""python -m skdp: check the proof of a model's file, or write a report on it.

Without a command it fits scikit-learn's breast cancer data at several epsilon, prints the accuracy
of a private logistic regression and a guarantee, and draws the curve.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from skdp import DPLogisticRegression
from skdp.datasets import domain_of, load_breast_cancer
from skdp.inspection import EpsilonCurveDisplay
from skdp.inspection.report import digest, report
from skdp.linear_model import check_proof, load_model
from skdp.model_selection import EpsilonCurve, epsilon_curve
from skdp.trusted import NotPrivate

# Declared in the package, with a reason for each bound, and not computed from the rows.
DOMAIN = domain_of("breast_cancer")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CARD_EPSILON = 1.0
COMMANDS = {
    "certify": "Check every release of a model again, and print guarantee, releases, assumptions.",
    "report": "Write one HTML page about a model, for an ethics board.",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command, and return its exit code.

    It is 1 for a file whose guarantee does not follow from its releases, and 2 for one that cannot
    be read.
    """
    arguments = parse(argv)
    if arguments.command is None:
        show_accuracy(arguments)
        return 0
    try:
        model = load_model(arguments.file)
    except (OSError, ValueError) as error:
        print(f"{arguments.file} cannot be read: {error}", file=sys.stderr)
        return 2
    try:
        proof = check_proof(model)
    except NotPrivate as error:
        print(f"{arguments.file}: NOT PROVED. {error}", file=sys.stderr)
        return 1
    if arguments.command == "report":
        content = report(model, proof, arguments.file)
        arguments.output.write_text(content, encoding="utf-8")
        print(f"Saved {arguments.output}.")
        return 0
    # A file cannot move the cursor or hide a line.
    shown = (c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(proof))
    print(f"{arguments.file}\nSHA-256 {digest(arguments.file)}\n\n{''.join(shown)}")
    if not proof.guarantee.holds:
        print(f"\n{arguments.file}: THE GUARANTEE DOES NOT HOLD, see VOID.", file=sys.stderr)
        return 1
    return 0


def show_accuracy(arguments: argparse.Namespace) -> None:
    """Print scores on a fifth of the rows after fits to the others, a card, and draw the curve."""
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
    parser = argparse.ArgumentParser(prog="python -m skdp", description=__doc__)
    parser.add_argument("--repeats", type=int, default=40, help="splits per epsilon (default 40)")
    parser.add_argument("--output", type=Path, default=Path("epsilon_curve.png"))
    commands = parser.add_subparsers(dest="command")
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("file", type=Path, help="the JSON file of a model")
        if name == "report":
            command.add_argument("-o", "--output", type=Path, default=Path("report.html"))
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
    sys.exit(main())
