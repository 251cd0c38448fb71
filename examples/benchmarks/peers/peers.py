"""Peers that run in an environment of their own: what they are given, and their scores.

A peer named ``x`` is the script ``x_peer.py``, whose first lines say which packages it needs;
``make benchmark`` makes the environment ``.venv/x`` with them. Nothing of skdp is imported there.
All bounds are the public ones of the domain.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import DataSet
from examples.benchmarks.shared.measures import LEAST_SCORE
from examples.benchmarks.shared.report import FloatArray
from skdp.domain.columns import Number

SEED = 0
Scored = tuple[int, dict[float, dict[str, float]], float]
Wanted = Sequence[tuple[int, tuple[float, ...]]]


@dataclass(frozen=True)
class Peer:
    """A peer: its environment, and whether it is given the raw columns, not the encoded ones."""

    environment: str
    is_raw: bool = False

    @property
    def script(self) -> Path:
        """Its script, in this folder."""
        return Path(__file__).with_name(f"{self.environment}_peer.py")

    def python(self, folder: Path) -> Path:
        """Return the Python of its environment."""
        return folder / self.environment / "bin" / "python"

    def runs(
        self, data: DataSet, wanted: Wanted, facts: dict[str, Any], folder: Path
    ) -> Iterator[Scored]:
        """Hand arrays over in a file and read scores, a line of JSON for each split."""
        columns, bounds, target = (raw if self.is_raw else encoded)(data)
        is_class = data.task == "classification"
        y = np.unique(data.y, return_inverse=True)[1] if is_class else in_units(data, target)
        tests = {f"test{r}": report.split(len(y), SEED, r)[1] for r, _ in wanted}
        asked = {**facts, "task": data.task, "bounds": bounds, "target": target}
        asked["splits"] = [
            {"repetition": r, "epsilons": list(e), "seed": report.noise_seed(SEED, r)}
            for r, e in wanted
        ]
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "arrays.npz"
            np.savez(path, y=y, **columns, **tests)
            command = [str(self.python(folder)), str(self.script), str(path), json.dumps(asked)]
            # The root alone: nothing that this process was given belongs into that environment.
            environment = os.environ | {"PYTHONPATH": str(report.RESULTS.parent)}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
        if done.returncode:
            raise SystemExit(f"{self.script.name} failed in {command[0]}:\n{done.stderr}")
        yield from map(scores_of, done.stdout.splitlines())


def scores_of(line: str) -> Scored:
    """Return the repetition, its scores by epsilon, and the seconds."""
    found = json.loads(line)
    scores = {
        float(epsilon): {name: max(LEAST_SCORE, score) for name, score in own.items()}
        for epsilon, own in found["scores"]
    }
    return found["repetition"], scores, found["seconds"]


Handed = tuple[dict[str, Any], list[Any], tuple[float, float]]


def encoded(data: DataSet) -> Handed:
    """Return the encoded rows, their bounds, and bounds of the target."""
    domain = data.domain.encoded
    bounds = [[-1.0, 1.0]] * domain.n_encoded
    for block in domain.blocks:
        bounds[block] = [[0.0, 1.0]] * (block.stop - block.start)
    return {"X": data.encoded}, bounds, (-1.0, 1.0)


def raw(data: DataSet) -> Handed:
    """Return the columns, numbers within their bounds, with bounds, or none for levels.

    The target is counted from the value within its bounds that is nearest to 0: boosting starts
    there, so that no first residual is longer than the bounds are wide.
    """
    declared = data.domain._columns
    bounds = [[c.lower, c.upper] if isinstance(c, Number) else None for c in declared]
    columns = {}
    for k, (name, own) in enumerate(zip(data.X, bounds, strict=True)):
        cells = data.X[name]
        cells = cells.astype(float).clip(*own) if own else cells.astype(str)
        columns[f"X{k}"] = np.array(cells.to_list())
    lower, upper = data.domain.target_bounds or (-1.0, 1.0)
    start = min(max(0.0, lower), upper)
    return columns, bounds, (lower - start, upper - start)


def in_units(data: DataSet, target: tuple[float, float]) -> FloatArray:
    """Return the target in units in which it has the bounds, and not clipped to them."""
    lower, upper = data.domain.target_bounds or target
    share = (data.y - lower) / (upper - lower)
    return np.asarray(target[0] + share * (target[1] - target[0]))
