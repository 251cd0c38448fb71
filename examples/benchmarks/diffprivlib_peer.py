"""The runs of diffprivlib 0.6: reads encoded arrays, writes a line of JSON for each split.

It runs under scikit-learn 1.7 and skdp under 1.8 or newer, so that this script has an environment
of its own and imports nothing of skdp. ``make benchmark`` makes one, as these do:

    python3 -m venv .venv-diffprivlib
    .venv-diffprivlib/bin/pip install diffprivlib 'scikit-learn<1.8' pandas

    python diffprivlib_peer.py arrays.npz '{"task": ..., "C": ..., "norm": ..., "splits": [...]}'

Bounds are the public ones of the domain: reading them off the data would be an error here.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from diffprivlib.utils import PrivacyLeakWarning
from measures import class_scores, number_scores


def is_classes(asked: dict[str, Any]) -> bool:
    """Whether labels are predicted; or else a target, whose public bounds are -1 and 1."""
    return bool(asked["task"] == "classification")


def model_of(asked: dict[str, Any], lower: Any, epsilon: float, seed: int) -> Any:
    """Return an estimator with public bounds, C, steps enough to converge, and its defaults."""
    if is_classes(asked):
        return LogisticRegression(
            epsilon=epsilon, data_norm=asked["norm"], C=asked["C"], max_iter=2000, random_state=seed
        )
    bounds = (lower, np.ones(len(lower)))
    return LinearRegression(
        epsilon=epsilon, bounds_X=bounds, bounds_y=(-1.0, 1.0), random_state=seed
    )


def run(asked: dict[str, Any], arrays: Any, split: dict[str, Any]) -> dict[str, Any]:
    """Fit and score at every epsilon that is asked for."""
    X, y, began = arrays["X"], arrays["y"], time.perf_counter()
    is_train = np.ones(len(y), dtype=bool)
    test = arrays[f"test{split['repetition']}"]
    is_train[test] = False
    scores = []
    for epsilon in split["epsilons"]:
        model = model_of(asked, arrays["lower"], epsilon, split["seed"])
        seen = y[is_train] if is_classes(asked) else y[is_train].clip(-1.0, 1.0)
        model.fit(X[is_train], seen)
        measure = class_scores if is_classes(asked) else number_scores
        scores.append((epsilon, measure(model, X[test], y[test])))
    return {
        "repetition": split["repetition"],
        "scores": scores,
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    """Read the two arguments and print."""
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", PrivacyLeakWarning)
    path, asked = sys.argv[1], json.loads(sys.argv[2])
    with np.load(path) as file:
        arrays = dict(file)
    for split in asked["splits"]:
        print(json.dumps(run(asked, arrays, split)), flush=True)


if __name__ == "__main__":
    main()
