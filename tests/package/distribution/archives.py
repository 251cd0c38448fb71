"""Check the archives that `make dist` built: python archives.py dist dist/tree."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

NEEDED = (
    "skdp/__init__.py",
    "skdp/py.typed",
    "tests/conftest.py",
    "tests/package/distribution/smoke.py",
    "docs/conf.py",
    "docs/proofs/gaussian.md",
    "conda/recipe.yaml",
    "pyproject.toml",
    "Makefile",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
UNWANTED = ("results", ".hypothesis", "__pycache__", ".venv", "_build", ".pytest_cache", ".ci")


def one(folder: str, pattern: str) -> Path:
    """Return the only file of a pattern."""
    (found,) = Path(folder).glob(pattern)
    return found


def check_source(path: Path) -> None:
    """Raise an error unless the archive has what a packager needs, and nothing else."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in NEEDED if name not in names]
    unwanted = [name for name in names if {*name.split("/")} & {*UNWANTED}]
    if missing or unwanted or not any(name.startswith("examples/") for name in names):
        sys.exit(f"{path}: missing are {missing}, unwanted are {unwanted}.")


def contents(path: Path) -> dict[str, int]:
    """Return the files of a wheel with their checksums, without the list of them."""
    with ZipFile(path) as wheel:
        return {f.filename: f.CRC for f in wheel.infolist() if not f.filename.endswith("/RECORD")}


def check_wheels(first: Path, second: Path) -> None:
    """Raise an error unless both wheels hold the same files of the package only."""
    files, others = contents(first), contents(second)
    if differing := {f for f in {*files, *others} if files.get(f) != others.get(f)}:
        sys.exit(f"{first} and {second} differ: {sorted(differing)}.")
    folders = {name.partition("/")[0] for name in files}
    if not any("py.typed" in f for f in files) or len(folders) != 2 or "skdp" not in folders:
        sys.exit(f"{first} must have skdp, its py.typed and its metadata only: {folders}.")


if __name__ == "__main__":
    dist, tree = sys.argv[1:]
    check_source(one(dist, "*.tar.gz"))
    check_wheels(one(dist, "*.whl"), one(tree, "*.whl"))
    print("Both archives are complete, and the wheels of both have the same files.")
