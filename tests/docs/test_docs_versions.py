"""Sites of several versions beside each other, made of a small repository with two releases."""

import re
import shutil
import subprocess
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("builds sites")

DOCS = Path(__file__).parents[2] / "docs"
CONF = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
from _versions import context, notes
project, extensions, templates_path = "x", [], ["_templates"]
html_theme, html_context, html_theme_options = "furo", context(), notes()
html_sidebars = {"**": ["versions.html"]}
"""


def versions():
    spec = spec_from_file_location("_versions", DOCS / "_versions.py")
    spec.loader.exec_module(module := module_from_spec(spec))
    return module


def git(root, *words):
    who = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def commit(root, text):
    (root / "docs" / "index.rst").write_text(f"x\n=\n\n{text}\n\n.. toctree::\n\n   deep/page\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", text)


@pytest.fixture
def repository(tmp_path):
    """Return a repository with docs and one commit."""
    if find_spec("furo") is None or shutil.which("git") is None:
        pytest.skip("the group `docs` is not installed, or there is no git")
    root = tmp_path / "repository"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "docs" / "conf.py").write_text(CONF)
    (root / "docs" / "deep" / "page.rst").write_text("Deep\n====\n")
    shutil.copy(DOCS / "_versions.py", root / "docs")
    shutil.copytree(DOCS / "_templates", root / "docs" / "_templates")
    git(root, "init", "-q")
    commit(root, "the first")
    return root


def links(path):
    """Return the list of versions of a page: words by the page they lead to."""
    part = path.read_text().split('class="versions"')[1].split("</nav>")[0]
    found = re.findall(r'href="([^"]*)"[^>]*>([^<]*)', part)
    return {(path.parent / to).resolve(): name for to, name in found}


def test_releases_and_the_head_are_built(repository, tmp_path):
    """Each from its own files, with a list that leads to all, and a note where it is not stable."""
    git(repository, "tag", "v0.9.0")
    commit(repository, "the second")
    git(repository, "tag", "v0.10.0")
    git(repository, "tag", "v0.11.0rc1")
    commit(repository, "the third")
    out = tmp_path / "out"
    versions().build(repository, out)
    said = {"0.10.0": "second", "0.9.0": "first", "dev": "third", "stable": "second"}
    assert {path.name for path in out.iterdir()} == {*said, "index.html"}
    assert "url=stable/index.html" in (out / "index.html").read_text()
    for name, word in said.items():
        assert f"the {word}" in (out / name / "index.html").read_text()
        for page in ("index.html", "deep/page.html"):
            path = out / name / page
            to = {out / other / "index.html": other for other in ("0.10.0", "0.9.0", "dev")}
            assert links(path) == to
            assert ("These pages are of version" in path.read_text()) == (word != "second")
    note = (out / "dev" / "deep" / "page.html").read_text().split("These pages are of")[1]
    assert 'href="../../stable/index.html"' in note
