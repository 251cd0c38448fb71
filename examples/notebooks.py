"""Make the notebooks beside this file from the scripts of the same names.

A script's cells begin with ``# %%``, those of prose with ``# %% [markdown]``. The script is what is
kept and tested; a notebook is for reading and playing. With ``--run`` the cells are run and their
results kept (needs nbclient and ipykernel).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = [
    "01_first_model",
    "02_cost_classification",
    "03_cost_regression",
    "04_which_noise_when",
    "05_norm_balls",
    "06_coordinate_descent",
    "07_your_own_parts",
    "08_what_the_papers_got_wrong",
    "09_a_model_you_can_read",
    "10_publish_a_regression_table",
    "11_wages",
    "12_durations",
    "13_score_in_the_warehouse",
]


def cells_of(source: str) -> list[tuple[str, str]]:
    """Return the cells of a script as (kind, text); the docstring is the first, in prose."""
    first, *rest = source.split("\n# %%")
    cells = [("markdown", first.strip().strip('"').strip())]
    for part in rest:
        head, _, body = part.partition("\n")
        prose = "[markdown]" in head
        lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
        text = "\n".join(lines) if prose else body.strip("\n")
        if text.strip():
            cells.append(("markdown" if prose else "code", text))
    return cells


def notebook_of(source: str) -> dict[str, Any]:
    """Return the notebook (format 4) of a script's text, without results."""
    cells = []
    for number, (kind, text) in enumerate(cells_of(source)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = text.splitlines(keepends=True)
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def run(path: Path) -> None:
    """Run a notebook where it lies, and keep its results."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(HERE)}}).execute()
    nbformat.write(notebook, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=SCRIPTS, metavar="name", help="default: all")
    parser.add_argument("--run", action="store_true", help="run the cells and keep their results")
    arguments = parser.parse_args()
    for name in arguments.names:
        path = HERE / f"{name}.ipynb"
        notebook = notebook_of((HERE / f"{name}.py").read_text(encoding="utf-8"))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if arguments.run:
            run(path)
        print(path.name)


if __name__ == "__main__":
    main()
