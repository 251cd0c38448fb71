"""The notebooks in the examples are the tested scripts, cell by cell."""

import json
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

notebooks = pytest.importorskip("notebooks")


@pytest.mark.parametrize("name", notebooks.SCRIPTS)
def test_a_notebook_has_the_cells_of_its_script(name):
    """So what runs in the script's test runs in the notebook; its results were kept."""
    made = notebooks.notebook_of((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    kept = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    for new, old in zip(made["cells"], kept["cells"], strict=True):
        assert (new["cell_type"], "".join(new["source"])) == (
            old["cell_type"],
            "".join(old["source"]),
        )
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in code)
    assert str(Path.home()) not in json.dumps(kept)


def test_prose_and_code_are_told_apart():
    cells = notebooks.cells_of(
        '"""Title."""\n\n# %% [markdown]\n# ## Head\n# text\n\n# %%\nx = 1\n'
    )
    assert cells == [("markdown", "Title."), ("markdown", "## Head\ntext"), ("code", "x = 1")]
