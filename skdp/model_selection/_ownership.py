"""What a search takes charge of, and what no candidate may do: checked on the models it builds.

A grid can set parameters, or replace whole steps of a pipeline with models that carry settings of
their own. The checks are therefore made on every candidate as it is built, and not on the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _BaseComposition

from skdp._checks import fail

# The search sets these itself, or the proof needs them to be the same for all candidates.
OWNED = ("epsilon", "delta", "ledger", "random_state", "neighbors", "n_public", "classes", "domain")
_CALLBACKS = ("callback", "callbacks")


def prefix_of(estimator: Any) -> str:
    """Return what leads to the private model's parameters."""
    if not isinstance(estimator, Pipeline):
        return ""
    name, last = estimator.steps[-1]
    return f"{name}__{prefix_of(last)}"


def private_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself."""
    return private_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def check_private(model: Any) -> None:
    """Raise unless a model has the parameters that a search sets."""
    known = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    missing = [name for name in ("epsilon", "delta", "random_state") if name not in known]
    if missing:
        rule = f"be a private estimator with parameters {missing}"
        raise fail("estimator", rule, type(model), "Take one of skdp.linear_model.")


def check_same(model: Any, other: Any) -> None:
    """Raise unless a private model from the grid agrees with the estimator's in what is owned."""
    check_private(model)
    remedy = "The search owns it: set it on the estimator or on the search, for all candidates."
    for name in OWNED:
        value: Any = getattr(model, name, None)
        usual: Any = getattr(other, name, None)
        if not (value is usual or np.array_equal(value, usual)):
            raise fail("param_grid", f"leave {name} as it is in the estimator", value, remedy)
    if is_classifier(model) != is_classifier(other):
        raise fail("param_grid", "hold classifiers only, or regressors only", type(model))


def check_built(model: Any, neighbors: str) -> None:
    """Raise for a candidate with parts that the guarantee would not cover.

    These are steps that learn from data, caches on disk, and, inside the private model, another
    model with a ledger, a seed or a neighbouring relation of its own.
    """
    for step in _learners(model, private_step(model)):
        remedy = (
            "Take domain.encoder(), a FunctionTransformer that treats rows one by one, or"
            " FrozenEstimator(step) of a step that was fitted to public data."
        )
        raise fail("steps before the model", "learn nothing from data", type(step), remedy)
    for name, value in model.get_params(deep=True).items():
        if name.rpartition("__")[2] == "memory" and value is not None:
            rule = "be None in a search: it writes private rows to disk"
            raise fail(name, rule, value)
    for name, value in private_step(model).get_params(deep=True).items():
        inner, _, last = name.rpartition("__")
        if inner and last in ("ledger", "random_state") and value is not None:
            raise fail(name, "be None: the search takes charge of it", type(value))
        if inner and last == "neighbors" and value != neighbors:
            raise fail(name, f"be {neighbors!r}, as in the estimator", value)


def check_unwatched(model: Any) -> None:
    """Raise for a candidate that shows its fits to a function, where no run may be seen."""
    for name, value in model.get_params(deep=True).items():
        if name.rpartition("__")[2] in _CALLBACKS and value is not None:
            rule = "be None for random stopping: it would see runs that no guarantee counts"
            raise fail(name, rule, type(value), 'Or take strategy="disjoint".')


def _learners(step: Any, private: Any) -> Iterator[Any]:
    """Yield the estimators inside a step, the private model apart, that learn from data."""
    if step is private or isinstance(step, FrozenEstimator):
        return
    if isinstance(step, list | tuple):
        for part in step:
            yield from _learners(part, private)
    elif isinstance(step, _BaseComposition):
        for part in step.get_params(deep=False).values():
            yield from _learners(part, private)
    elif hasattr(step, "fit") and not _is_stateless(step):
        yield step


def _is_stateless(step: Any) -> bool:
    return hasattr(step, "__sklearn_tags__") and not get_tags(step).requires_fit
