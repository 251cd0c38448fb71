"""The reference: every public name is in a summary, and has an example in its docstring."""

import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import skdp

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs" / "reference").glob("*.md") if path.stem != "index")
SUMMARY = re.compile(
    r"\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)*\n((?:   \w+\n)+)"
)
DESCRIBED = re.compile(r"\.\. (?:auto|py:)module:: (\S+)")


def modules_of(page):
    """Return the modules that a page describes."""
    return DESCRIBED.findall(page.read_text(encoding="utf-8"))


def public_names(module):
    """Return the classes and functions that a module exports, or else defines, as on the page."""
    there = import_module(module)
    own = (
        name for name, found in vars(there).items() if getattr(found, "__module__", "") == module
    )
    names = getattr(there, "__all__", None) or [name for name in own if name[0] != "_"]
    return {name for name in names if callable(getattr(there, name))}


def has_example(documented):
    """Return whether a docstring has a section of examples with a line of code."""
    text = inspect.cleandoc(documented.__doc__ or "")
    _, found, examples = text.partition("\nExamples\n--------\n")
    return bool(found) and ">>> " in examples


MODULES = ["skdp", *(module for page in PAGES for module in modules_of(page))]
DOCUMENTED = {
    f"{module}.{name}": getattr(import_module(module), name)
    for module in MODULES
    for name in sorted(public_names(module))
}


def test_every_public_part_has_a_page():
    """A public folder or file of the package is a page of the reference."""
    parts = {found.name for found in iter_modules(skdp.__path__)}
    pages = {page.stem for page in PAGES} - {"model_file"}  # which describes a format
    assert pages == {name for name in parts if name[0] != "_"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_summaries_of_a_page_have_every_name(page):
    """The tables at the top list each public name once, and nothing else."""
    text = page.read_text(encoding="utf-8")
    listed = [
        f"{module}.{name}" for module, names in SUMMARY.findall(text) for name in names.split()
    ]
    there = {f"{module}.{name}" for module in modules_of(page) for name in public_names(module)}
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_class_and_function_has_an_example(name):
    """The examples themselves are run as doctests."""
    assert has_example(DOCUMENTED[name])


DOCS = ROOT / "docs"
LISTS = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def listed(page):
    """The pages below a page of the menu."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    names = [line for part in LISTS.findall(text) for line in part.splitlines()]
    folder = DOCS / page
    return [
        (folder.parent / name).resolve().relative_to(DOCS).as_posix()
        for name in names
        if name and not name.startswith((":", "*", "["))
    ]


def test_the_page_on_installing_has_every_extra():
    """Names, and the least versions of what is always installed."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Python {project['requires-python'].removeprefix('>=')} " in text
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in text, extra
    for requirement in project["dependencies"]:
        name, version = requirement.split(">=")
        assert re.search(rf"\b{name} {re.escape(version)}\b", text), requirement
