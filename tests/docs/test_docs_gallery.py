"""The gallery of the documentation: what it takes from the notebooks, and what the site shows."""

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("needs the group docs, hence part of make docs")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PICTURE = "iVBORw0KGgo="


@pytest.fixture
def gallery(monkeypatch):
    """Return the module that makes the pages."""
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    return pytest.importorskip("_gallery")


@pytest.mark.parametrize(
    ("docstring", "title", "sentence", "rest"),
    [
        ("One: two\nthree.\n\nFour. Five.", "One", "Two three.", "Four. Five."),
        ("One.\n\nFour\nfive. Six.\n\nSeven.", "One", "Four five.", "Four\nfive. Six.\n\nSeven."),
    ],
)
def test_the_first_lines_give_title_and_sentence(gallery, docstring, title, sentence, rest):
    assert gallery.lines_of(docstring) == (title, sentence, rest)


def test_a_page_has_a_title_links_and_words_for_pictures(gallery):
    """The stored notebook has none of them; its code and results are left as they are."""
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["One: two.\n", "\n", "Three."]},
        {"cell_type": "markdown", "metadata": {}, "source": "## Four\nSee `docs/proofs/x.md`."},
        {"cell_type": "code", "metadata": {}, "source": "y", "outputs": [{"data": {}}]},
    ]
    first, prose, code = gallery.page_of({"cells": cells}, "01_x")["cells"]
    assert first["source"].startswith("# One\n\nTwo.\n\nThree.\n\nDownload: {download}`notebook")
    assert prose["source"] == "## Four\nSee [docs/proofs/x.md](../proofs/x.md)."
    assert code["metadata"]["mystnb"] == {"image": {"alt": "See `docs/proofs/x.md`."}}
    assert (code["source"], code["outputs"]) == ("y", [{"data": {}}])
    assert "tags" not in code["metadata"]


def test_the_cell_with_the_arguments_of_the_script_is_hidden(gallery):
    """A notebook whose script has arguments has one such cell, and its results are shown."""
    numbers = []
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        tags = [
            c["metadata"].get("tags", []) for c in gallery.page_of(json.loads(text), "x")["cells"]
        ]
        numbers.append(tags.count(["hide-input"]))
        assert numbers[-1] == ("ArgumentParser" in text), path.stem
    assert sum(numbers) > len(numbers) / 2


def test_the_picture_is_the_first_of_the_results(gallery):
    """A notebook may have none: its card has the icon."""
    shown = {"outputs": [{"data": {"text/plain": "x"}}, {"data": {"image/png": PICTURE}}]}
    assert gallery.picture_of({"cells": [{}, shown]}) == b"\x89PNG\r\n\x1a\n"
    assert gallery.picture_of({"cells": [{}, {"outputs": [{"output_type": "stream"}]}]}) is None


def test_links_to_notebooks_lead_to_their_pages(gallery):
    """On other pages; a page of the gallery offers the file."""
    written = "[a](../../examples/01_x.ipynb)"
    for page, read in (("proofs/x", "[a](/examples/01_x.ipynb)"), ("examples/x", written)):
        gallery.lead_to_pages(None, page, source := [written])
        assert source == [read]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_has_a_title_and_a_sentence_of_its_own(gallery, path):
    """Both fit on a card."""
    first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    title, sentence, rest = gallery.lines_of(first)
    assert 0 < len(title) < 80
    assert 10 < len(sentence) < 120
    assert rest
