"""What the scripts of the peers share. Imports nothing of skdp: peers have their own environments.

    python x_peer.py arrays.npz '{"task": ..., "bounds": ..., "target": ..., "splits": [...], ...}'

reads rows, either the array ``X`` or the columns ``X0``, ``X1``, ..., and a target, and writes a
line of JSON for each split.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from examples.benchmarks.shared.measures import class_scores, number_scores

# Returns an estimator from what is asked for, epsilon, and a seed.
Maker = Callable[[dict[str, Any], float, int], Any]


def is_classes(asked: dict[str, Any]) -> bool:
    """Whether labels are predicted; or else a number."""
    return bool(asked["task"] == "classification")


def serve(model_of: Maker) -> None:
    """Read the two arguments of the command and print."""
    path, asked = sys.argv[1], json.loads(sys.argv[2])
    with np.load(path) as file:
        arrays = dict(file)
    if "X" not in arrays:
        names = [f"X{k}" for k in range(len(asked["bounds"]))]
        arrays["X"] = pd.DataFrame({name: arrays[name] for name in names})
    for split in asked["splits"]:
        print(json.dumps(run(model_of, asked, arrays, split)), flush=True)


def run(
    model_of: Maker, asked: dict[str, Any], arrays: dict[str, Any], split: dict[str, Any]
) -> dict[str, Any]:
    """Fit and score at every epsilon that is asked for."""
    X, y, began = arrays["X"], arrays["y"], time.perf_counter()
    is_test = np.zeros(len(y), dtype=bool)
    is_test[arrays[f"test{split['repetition']}"]] = True
    seen = y[~is_test] if is_classes(asked) else y[~is_test].clip(*asked["target"])
    measure, scores = class_scores if is_classes(asked) else number_scores, []
    for epsilon in split["epsilons"]:
        model = model_of(asked, epsilon, split["seed"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Bounds that are read off the data would be an error here.
            warnings.filterwarnings("error", ".*[Pp]rivacy.*")
            warnings.filterwarnings("ignore", ".*random_state.*")
            model.fit(X[~is_test], seen)
            scores.append((epsilon, measure(model, X[is_test], y[is_test])))
    return {
        "repetition": split["repetition"],
        "scores": scores,
        "seconds": time.perf_counter() - began,
    }
