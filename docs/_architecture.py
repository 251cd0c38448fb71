"""The drawing of the page on the architecture, made from the import statements of the package.

``python docs/_architecture.py`` writes ``docs/development/architecture.svg``. A box is a folder
directly below ``skdp`` with its own folders; an arrow says that the upper folder imports the lower
one. Arrows that follow from others are left out. Each folder stands one row above the highest that
it imports, those that nothing imports in the top row.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent / "skdp"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 190, 74, 24, 52, 16
Graph = dict[str, set[str]]


def folder_of(module: str) -> str:
    """Return the folder directly below skdp; single modules there belong to the ground."""
    part = (module.split(".") + [""])[1]
    return part if (ROOT / part).is_dir() and part else "skdp"


def imports() -> Graph:
    """Return which folders each folder imports; the modules beside them are left out."""
    graph: Graph = {path.name: set() for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if len(parts) < 2:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skdp"):
                graph[parts[0]].add(folder_of(node.module or ""))
    return {name: used - {name, "skdp"} for name, used in graph.items()}


def reduced(graph: Graph) -> Graph:
    """Return the graph without the arrows that follow from others."""

    def below(name: str) -> set[str]:
        return set().union(*({used} | below(used) for used in graph[name]))

    return {
        name: {used for used in direct if not any(used in below(o) for o in direct - {used})}
        for name, direct in graph.items()
    }


def rows_of(graph: Graph) -> list[list[str]]:
    """Return the folders from the bottom row to the top row."""

    def row(name: str) -> int:
        return 1 + max((row(used) for used in graph[name]), default=-1)

    ranks = {name: row(name) for name in graph}
    used = set().union(*graph.values())
    ranks |= dict.fromkeys(graph.keys() - used, max(ranks.values()))
    return [sorted(n for n in ranks if ranks[n] == k) for k in range(max(ranks.values()) + 1)]


def places(graph: Graph) -> dict[str, tuple[float, float]]:
    """Return the upper left corner of each box: above what it imports, where there is room."""
    rows, short = rows_of(graph), reduced(graph)
    left: dict[str, float] = {}
    for names in rows:
        evenly = {name: k * (WIDTH + GAP_X) for k, name in enumerate(names)}
        wanted = {
            name: sum(left[used] for used in short[name]) / len(short[name])
            if short[name]
            else evenly[name]
            for name in names
        }
        end = -math.inf
        for name in sorted(names, key=lambda n: (wanted[n], n)):
            left[name] = end = max(wanted[name], end + WIDTH + GAP_X)
    down = {name: len(rows) - 1 - k for k, names in enumerate(rows) for name in names}
    return {name: (MARGIN + x, MARGIN + down[name] * (HEIGHT + GAP_Y)) for name, x in left.items()}


def drawing(graph: Graph) -> str:
    """Return the drawing as SVG."""
    rows, place = rows_of(graph), places(graph)
    total = max(x for x, _ in place.values()) + WIDTH + MARGIN
    height = MARGIN * 2 + len(rows) * (HEIGHT + GAP_Y) - GAP_Y
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}"'
        ' font-family="sans-serif" role="img" aria-label="Folders of skdp and their imports">',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>',
        f'<rect width="{total}" height="{height}" fill="#fff"/>',
    ]
    for name in sorted(graph):
        for used in sorted(reduced(graph)[name]):
            (x1, y1), (x2, y2) = place[name], place[used]
            # An arrow ends as near to its start as the box is wide.
            start = x1 + WIDTH / 2 + max(-60, min(60, x2 - x1))
            end = x2 + WIDTH / 2 + max(-85, min(85, x1 - x2))
            lines.append(
                f'<line x1="{start:g}" y1="{y1 + HEIGHT:g}" x2="{end:g}" y2="{y2 - 2:g}"'
                ' stroke="#667" stroke-width="1.3" marker-end="url(#end)"/>'
            )
    for name, (x, y) in place.items():
        lines += box(name, x, y)
    return "\n".join([*lines, "</svg>", ""])


def box(name: str, x: float, y: float) -> list[str]:
    """Return the box of a folder, with its files and folders counted."""
    inner = sorted(p.name for p in (ROOT / name).iterdir() if (p / "__init__.py").exists())
    half = (len(inner) + 1) // 2 if len(" ".join(inner)) > 28 else len(inner)
    files = len(list((ROOT / name).rglob("*.py")))
    texts = [f"{files} files", ", ".join(inner[:half]), ", ".join(inner[half:])]
    found = [
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#eef2f8"'
        ' stroke="#345"/>',
        f'<text x="{x + 10:g}" y="{y + 20:g}" font-size="15" font-weight="bold">{name}</text>',
    ]
    for k, text in enumerate(filter(None, texts)):
        found.append(
            f'<text x="{x + 10:g}" y="{y + 38 + 14 * k:g}" font-size="11" fill="#333">{text}</text>'
        )
    return found


if __name__ == "__main__":
    (DOCS / "development" / "architecture.svg").write_text(drawing(imports()), encoding="utf-8")
