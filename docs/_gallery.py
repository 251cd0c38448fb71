"""The notebooks as pages, and a gallery of them.

A page is made of each stored ``examples/NN_name.ipynb``: nothing is run. The pages and their
pictures are written to ``docs/examples`` when a build begins, and git ignores them there.
"""

from __future__ import annotations

import ast
import io
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
PAGES = DOCS / "examples"
MAKER = "notebooks.py"  # no example
WIDTH = 480  # pixels of a card's picture

# What is right beside the script is not so in the site: names of pages become links, and links of
# pages to the notebooks lead to their pages.
NAMED_PAGE = re.compile(r"`?\bdocs/([\w/]+\.md)\b`?")
NOTEBOOK_LINK = re.compile(r"\]\((?:\.\./)+examples/(\d\d_\w+\.ipynb)")


class Lines(NamedTuple):
    """What the first lines of an example say."""

    title: str
    sentence: str
    rest: str


def lines_of(docstring: str) -> Lines:
    """Return the title, a sentence about it, and what follows the first paragraph.

    The sentence follows the colon in the first paragraph or, where there is none, is the first of
    the second paragraph.
    """
    first, _, rest = docstring.strip().partition("\n\n")
    title, _, sentence = " ".join(first.split()).removesuffix(".").partition(": ")
    if not sentence:
        sentence = " ".join(rest.split()).partition(". ")[0].removesuffix(".")
    return Lines(title, f"{sentence[:1].upper()}{sentence[1:]}.", rest)


def downloads(name: str) -> str:
    """Return links to an example's notebook and script."""
    files = {"notebook": "ipynb", "script": "py"}
    links = (f"{{download}}`{word} <../../examples/{name}.{end}>`" for word, end in files.items())
    return "Download: " + " · ".join(links)


def picture_of(notebook: dict[str, Any]) -> bytes | None:
    """Return the first picture among the results, as PNG."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                return b64decode("".join(output["data"]["image/png"]))
    return None


def page_of(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the notebook with a title, links, and words for its pictures."""
    said = ""
    for number, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            # Words for those who cannot see a picture: the prose above its cell.
            cell["metadata"]["mystnb"] = {"image": {"alt": said}}
            if "argparse" in text:  # of the script; a reader need not see them
                cell["metadata"]["tags"] = ["hide-input"]
            continue
        said = " ".join(line for line in text.splitlines() if not line.startswith("#"))
        if number == 0:
            lines = lines_of(text)
            about = "" if lines.rest.startswith(lines.sentence) else lines.sentence
            text = f"# {lines.title}\n\n{about}\n\n{lines.rest}\n\n{downloads(name)}"
        cell["source"] = NAMED_PAGE.sub(r"[docs/\1](../\1)", text)
    return notebook


def write(path: Path, content: bytes) -> None:
    """Write a file unless it is so: a page that stays the same is not read again."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def write_pages(app: Sphinx) -> None:
    """Write the page and the picture of each notebook."""
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if (picture := picture_of(notebook)) is not None:
            small = Image.open(io.BytesIO(picture)).convert("RGB")
            small.thumbnail((WIDTH, WIDTH))
            small.quantize(64).save(out := io.BytesIO(), "png", optimize=True)
            write(PAGES / f"{path.stem}.png", out.getvalue())
        page = json.dumps(page_of(notebook, path.stem), ensure_ascii=False)
        write(PAGES / path.name, page.encode())


class Gallery(SphinxDirective):
    """A card for each notebook."""

    def run(self) -> list[nodes.Node]:
        """Return the list of cards."""
        cards = nodes.container(classes=["gallery"])
        for path in sorted(PAGES.glob("*.ipynb")):
            title, sentence, _ = lines_of(docstring_of(path.stem))
            picture = path.with_suffix(".png")
            uri = picture.name if picture.exists() else "/_static/icon.svg"
            card = nodes.container(classes=["card"])
            card += nodes.image(uri=uri, alt="")
            card += self.parse_text_to_nodes(
                f"[{title}]({path.name})\n\n{sentence}\n\n{downloads(path.stem)}"
            )
            cards += card
        return [cards]


class Scripts(SphinxDirective):
    """A line for each other script."""

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        names = [path.stem for path in sorted(EXAMPLES.glob("[a-z]*.py")) if path.name != MAKER]
        lines = []
        for name in names:
            if not (EXAMPLES / f"{name}.ipynb").exists():
                title, sentence, _ = lines_of(docstring_of(name))
                lines.append(f"* [{name}.py](../../examples/{name}.py): {title}. {sentence}")
        return self.parse_text_to_nodes("\n".join(lines))


def docstring_of(name: str) -> str:
    """Return the first words of a script."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def lead_to_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Lead from a page to the page of a notebook, and not to its file."""
    if not page.startswith("examples/"):
        source[0] = NOTEBOOK_LINK.sub(r"](/examples/\1", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the directives ``gallery`` and ``scripts``."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", lead_to_pages)
    app.add_directive("gallery", Gallery)
    app.add_directive("scripts", Scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
