# needs: interpret-core==0.7.8 scikit-learn==1.9.1 pandas==3.1.1
"""The runs of DP-EBM (Nori et al. 2021), the additive models of the package interpret.

Defaults but for delta. Numbers have the bounds of the domain, levels are nominal.
"""

from __future__ import annotations

from typing import Any

from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

from examples.benchmarks.peers.peer_protocol import is_classes, serve


def model_of(asked: dict[str, Any], epsilon: float, seed: int) -> Any:
    """Return an estimator with public bounds and its defaults."""
    common = {
        "feature_types": ["continuous" if own else "nominal" for own in asked["bounds"]],
        "privacy_bounds": {k: own for k, own in enumerate(asked["bounds"]) if own},
        "epsilon": epsilon,
        "delta": asked["delta"],
        "random_state": seed,
        "n_jobs": 1,
    }
    if is_classes(asked):
        return DPExplainableBoostingClassifier(**common)
    lower, upper = asked["target"]
    return DPExplainableBoostingRegressor(
        privacy_target_min=lower, privacy_target_max=upper, **common
    )


if __name__ == "__main__":
    serve(model_of)
