"""Pictures of the benchmark of everything: a panel for each set, score against epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.benchmarks.peers.contenders import (
    ADASSP,
    BOOSTED,
    CURVES,
    DESCENT,
    DIFFPRIVLIB,
    EPSILONS,
    HUBER,
    LINEAR,
    LOGISTIC,
    NO_EPSILON,
    NONE,
    PLAIN,
    TRIVIAL,
)
from examples.benchmarks.peers.verdicts import Cell, Scores
from examples.benchmarks.shared.data import names_of

COLOURS = {
    LOGISTIC: "#1f5fa8",
    LINEAR: "#1f5fa8",
    HUBER: "#2e8b57",
    DESCENT["classification"]: "#7b4fa3",
    DESCENT["regression"]: "#7b4fa3",
    DIFFPRIVLIB: "#c8502d",
    ADASSP: "#c79a1b",
    BOOSTED: "#8a5a2b",
    **dict.fromkeys(CURVES.values(), "#22a5a5"),
    PLAIN: "#3b3b3b",
    TRIVIAL: "#9a9a9a",
}
MARKS = {DIFFPRIVLIB: "s", ADASSP: "D", BOOSTED: "v"}
# Colour is not all that tells ours from the peers. Ours with delta > 0 are dashed.
STYLES = {DIFFPRIVLIB: (0, (3, 1.5)), ADASSP: (0, (1, 1)), BOOSTED: (0, (1, 1))}
# Panels of R^2 end here, or predictions without bounds would be all that is seen.
LEAST_R2 = -0.25
WIDTH = 4


def draw(scores: Scores, task: str, columns: Sequence[tuple[str, str]], path: Path) -> None:
    """Save a picture of all sets of a task that were run."""
    from matplotlib.figure import Figure

    run = {cell.set for cell in scores.by_cell}
    sets = [name for name in names_of(task) if name in run]
    if not sets:
        return
    n_lines = math.ceil(len(sets) / WIDTH)
    figure = Figure(figsize=(12, 2.5 * n_lines + 1), dpi=90, layout="constrained")
    grid = figure.subplots(n_lines, WIDTH, squeeze=False)
    panels = list(grid.flat)
    for axes, name in zip(panels, sets, strict=False):
        _panel(axes, scores, name, columns)
        if task == "regression":
            axes.set_ylim(LEAST_R2, _top(scores, name))
    for axes in panels[len(sets) :]:
        axes.set_visible(False)
    score = "test accuracy" if task == "classification" else "test R² (panels end at -0.25)"
    figure.supylabel(f"{score}, median and middle half of the splits", fontsize=11)
    figure.supxlabel("epsilon (smaller is more private; log scale)", fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=10, frameon=False)
    figure.savefig(path)


def _top(scores: Scores, name: str) -> float:
    """Return the greatest score of a set and a little more: autoscaling counts what is cut off."""
    quartiles = (scores.figure(cell).upper for cell in scores.by_cell if cell.set == name)
    return max(0.1, *quartiles) + 0.05


def _panel(axes: Any, scores: Scores, name: str, columns: Sequence[tuple[str, str]]) -> None:
    for method in (PLAIN, TRIVIAL):
        height = scores.median(name, method, NONE, NO_EPSILON)
        if height is not None:
            style = {"color": COLOURS[method], "linewidth": 1, "linestyle": (0, (6, 3))}
            axes.axhline(height, label=method, **style)
    for method, delta in columns:
        cells = [scores.best(name, method, delta, epsilon) for epsilon in EPSILONS]
        label = method if delta == NONE else f"{method}, delta = {delta.replace('^2', '²')}"
        style = STYLES.get(method, "-" if delta == NONE else "--")
        look = {"color": COLOURS[method], "linestyle": style}
        _curve(axes, scores, [cell for cell in cells if cell], method, label, look)
    axes.set_title(name, fontsize=10, loc="left")
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.tick_params(labelsize=9)
    axes.grid(axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)


def _curve(
    axes: Any,
    scores: Scores,
    cells: Sequence[Cell],
    method: str,
    label: str,
    look: dict[str, Any],
) -> None:
    epsilons, figures = [cell.epsilon for cell in cells], [scores.figure(cell) for cell in cells]
    medians = [figure.median for figure in figures]
    mark = MARKS.get(method, "o")
    axes.plot(epsilons, medians, marker=mark, markersize=4, linewidth=1.6, label=label, **look)
    low, high = [f.lower for f in figures], [f.upper for f in figures]
    axes.fill_between(epsilons, low, high, color=COLOURS[method], alpha=0.12, linewidth=0)
