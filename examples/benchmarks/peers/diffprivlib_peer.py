# needs: diffprivlib==0.6.6 scikit-learn==1.7.2 pandas==2.3.3
"""The runs of diffprivlib 0.6, which runs under scikit-learn 1.7 and skdp under 1.8 or newer."""

from __future__ import annotations

from typing import Any

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

from examples.benchmarks.peers.peer_protocol import is_classes, serve


def model_of(asked: dict[str, Any], epsilon: float, seed: int) -> Any:
    """Return an estimator with public bounds, C, steps enough to converge, and its defaults."""
    common = {"epsilon": epsilon, "random_state": seed}
    if is_classes(asked):
        return LogisticRegression(data_norm=asked["norm"], C=asked["C"], max_iter=2000, **common)
    bounds = tuple(np.array(asked["bounds"]).T)
    return LinearRegression(bounds_X=bounds, bounds_y=tuple(asked["target"]), **common)


if __name__ == "__main__":
    serve(model_of)
