"""The picture of the benchmark of everything: the mean share of each method against epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from examples.benchmarks.peers.contenders import CURVES, DESCENT, EPSILONS, HUBER, LINEAR, LOGISTIC

Curves = Mapping[str, Sequence[float]]
# Ours are solid in these colours; peers are grey, with these marks and dashes.
COLOURS = dict.fromkeys((LOGISTIC, HUBER), "#1f5fa8") | {LINEAR: "#7b4fa3"}
COLOURS |= dict.fromkeys(CURVES.values(), "#2e8b57") | dict.fromkeys(DESCENT.values(), "#c8502d")
MARKS = "sDv^PX<>dp"
DASHES = ((0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
# Panels end here: a model far below the trivial one would be all that is seen.
LEAST = -0.25


def draw(curves: Mapping[str, Curves], path: Path) -> None:
    """Save a panel for each task that has curves: shares by method, one for each epsilon."""
    from matplotlib.figure import Figure

    drawn = {task: found for task, found in curves.items() if found}
    if not drawn:
        return
    figure = Figure(figsize=(11, 6), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(drawn), squeeze=False)[0]
    for axes, (task, found) in zip(panels, drawn.items(), strict=True):
        # Ours come last, on top of the others.
        for k, method in enumerate([m for m in found if m not in COLOURS]):
            look = {"marker": MARKS[k % len(MARKS)], "linestyle": DASHES[k % len(DASHES)]}
            shade = f"{0.35 + 0.3 * (k % 3) / 2:.2f}"
            axes.plot(EPSILONS, found[method], label=method, color=shade, linewidth=1.1, **look)
        for method in [m for m in found if m in COLOURS]:
            mark = "o" if method in CURVES.values() else "."
            axes.plot(
                EPSILONS,
                found[method],
                mark + "-",
                label=method,
                color=COLOURS[method],
                linewidth=2,
            )
        axes.axhline(1, color="0.2", linewidth=0.8, linestyle=(0, (6, 3)))
        axes.set_title(f"{task}: 0 is the trivial model, 1 is without privacy", fontsize=10)
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set_ylim(max(LEAST, axes.get_ylim()[0]), None)
        axes.set_xlabel("epsilon (smaller is more private; log scale)")
        axes.grid(axis="y", color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17), "ncols": 2}
        axes.legend(fontsize=8.5, frameon=False, **place)
    figure.supylabel("mean share", fontsize=10)
    figure.savefig(path)
