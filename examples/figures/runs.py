"""Runs of the commands: each is kept when it has ended, and is not run again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.figures.outputs import Output, outputs
from examples.figures.pages import ROOT

RESULTS = ROOT / "results" / "figures"
PACKAGES = ("numpy", "scipy", "scikit-learn", "randomgen", "cvxpy", "skdp")


@dataclass(frozen=True)
class Run:
    """A command that has ended: its tables, its picture, and what it was run with."""

    command: str
    tables: list[Output]
    seconds: float
    facts: dict[str, Any]


def place_of(command: str) -> Path:
    """Return the file of a run; its picture has the same name."""
    return RESULTS / f"{hashlib.sha256(command.encode()).hexdigest()[:16]}.json"


def kept(command: str) -> Run | None:
    """Return the run of a command that has ended before."""
    if not place_of(command).exists():
        return None
    found = json.loads(place_of(command).read_text(encoding="utf-8"))
    tables = [Output(**table) for table in found.pop("tables")]
    return Run(tables=tables, **found)


def run(command: str) -> Run:
    """Run a command, keep what it prints, and return it."""
    place = place_of(command)
    place.parent.mkdir(parents=True, exist_ok=True)
    out, folder = place.with_suffix(".png"), place.with_suffix("")
    words = [word.format(out=out, folder=folder) for word in shlex.split(command)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=environment, stdout=printed, stderr=errors
        )
        printed.seek(0)
        errors.seek(0)
        texts = printed.read(), errors.read()
    if done.returncode:
        raise SystemExit(f"python {command}\nended with {done.returncode}:\n{texts[1][-2000:]}")
    seconds = round(time.perf_counter() - began, 1)
    found = Run(command, outputs(*texts), seconds, facts())
    text = json.dumps(asdict(found), indent=1) + "\n"
    place.with_suffix(".txt").write_text(texts[0], encoding="utf-8")
    place.write_text(text, encoding="utf-8")  # last: a run that was stopped is not kept
    return found


def facts() -> dict[str, Any]:
    """Return the date, the commit and the versions."""
    git = ["git", "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": done.stdout.strip() or "unknown",
        "versions": {"python": platform.python_version(), **versions},
    }
