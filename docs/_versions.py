"""The site of every release and of the head: ``python docs/_versions.py``, or `make docs-versions`.

Each version is built from its own files into a folder of its name. ``stable`` is the newest
release, and the first page leads there; ``dev`` is the head. A page of several versions has a list
of them, and a note if it is not of the stable one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).resolve().parent
RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")  # and no candidates
FIRST = (
    '<!doctype html><meta http-equiv="refresh" content="0; url={0}/index.html"><title>skdp</title>'
)
FIRST += '<a href="{0}/index.html">Documentation of skdp</a>\n'


def context() -> dict[str, object]:
    """Return what the templates show: the version that is built, the stable one, and all."""
    names = os.environ.get("SKDP_DOCS_VERSIONS", "").split()
    shown = os.environ.get("SKDP_DOCS_VERSION", "")
    return {"versions": names, "shown": shown, "stable": next(iter(names[:-1]), "")}


def notes() -> dict[str, str]:
    """Return the theme's option that shows the note, which is in ``_templates/page.html``."""
    shown = context()
    note = shown["stable"] and shown["shown"] != shown["stable"]
    return {"announcement": "version"} if note else {}


def releases(root: Path) -> list[str]:
    """Return the tags of releases, the newest first."""
    tags = run("git", "tag", cwd=root).decode().split()
    found = {tag: tuple(map(int, m.groups())) for tag in tags if (m := RELEASE.fullmatch(tag))}
    return sorted(found, key=found.__getitem__, reverse=True)


def build(root: Path, out: Path) -> None:
    """Build all versions of the repository into folders of ``out``."""
    tags = releases(root)
    refs = {tag.removeprefix("v"): tag for tag in tags} | {"dev": "HEAD"}
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name, ref in refs.items():
        with TemporaryDirectory() as place:
            archive = run("git", "archive", ref, cwd=root)
            run("tar", "-x", cwd=place, given=archive)
            env = {"SKDP_DOCS_VERSION": name, "SKDP_DOCS_VERSIONS": " ".join(refs)}
            # What extensions leave beside the pages stays there, too.
            folders = ("-d", f"{place}/doctrees", "docs", f"{place}/site/pages")
            # The package is read where the pages are: a path given from outside would win.
            env = os.environ | env | {"PYTHONPATH": place}
            run(sys.executable, "-m", "sphinx", "-q", "-b", "html", *folders, cwd=place, env=env)
            shutil.move(f"{place}/site/pages", out / name)
    first = next(iter(refs))
    if first != "dev":
        shutil.copytree(out / first, out / "stable")
    (out / "index.html").write_text(FIRST.format("dev" if first == "dev" else "stable"))


def run(*command, cwd, given=None, env=None) -> bytes:
    """Run a command, which must succeed; return what it printed."""
    return subprocess.run(
        command, cwd=cwd, input=given, env=env, check=True, stdout=subprocess.PIPE
    ).stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS / "_build" / "versions")
    build(DOCS.parent, parser.parse_args().out.resolve())
