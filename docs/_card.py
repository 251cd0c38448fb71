"""The picture that is shown where a link to the site is shared: ``python docs/_card.py``."""

import tomllib
from pathlib import Path
from textwrap import fill

from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parent
FACTS = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLUE, RED = "#1f4e79", "#c0504d"  # of icon.svg


def card() -> Figure:
    """Return the drawing of the icon, the name and the description, 1200 x 630 pixels."""
    figure = Figure(figsize=(12, 6.3), dpi=100, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 1200), ylim=(0, 630))
    axes.axis("off")
    axes.fill([0, 1200, 1200, 0], [0, 0, 18, 18], color=BLUE)
    x, y, r = 250, 325, 150
    corners = [x, x + r, x, x - r], [y + r, y, y - r, y]
    axes.fill(*corners, fill=False, edgecolor=BLUE, lw=24, joinstyle="miter")
    axes.plot([x], [y], "o", color=RED, ms=66)
    axes.text(480, 420, FACTS["name"], color=BLUE, fontsize=88, weight="bold", va="center")
    words = fill(FACTS["description"], 34)
    axes.text(485, 320, words, color="#333", fontsize=27, va="top", linespacing=1.4)
    return figure


if __name__ == "__main__":
    card().savefig(DOCS / "_static" / "card.png")
