"""What a search takes charge of, and what no candidate may do: checked on the models it builds.

A grid can set parameters, or replace whole steps of a pipeline with models that carry settings of
their own. The checks are therefore made on every candidate as it is built, and not on the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp._checks import fail
from skdp._identity import claims

# The search sets these itself, or the proof needs them to be the same for all candidates.
OWNED = ("epsilon", "delta", "ledger", "random_state", "neighbors", "n_public", "classes", "domain")
CALLBACKS = ("callback", "callbacks")
_GRIDS = ("param_grid", "param_distributions")
# What these do with the estimators in them is known; a subclass may do anything.
_COMPOSITIONS = (Pipeline, FeatureUnion, ColumnTransformer)
_COLLECTIONS = (Mapping, list, tuple, set)
_FITS = ("fit", "fit_transform")


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

    These are steps that learn from data, caches on disk, searches, and, inside the private model,
    another model with a ledger, a seed or a neighbouring relation of its own.
    """
    for step in _learners(model, private_step(model)):
        remedy = (
            "Take domain.encoder(), a FunctionTransformer that treats rows one by one, or"
            " FrozenEstimator(step) of a step that was fitted to public data, in a Pipeline of"
            " scikit-learn's own, and name columns instead of giving a function."
        )
        raise fail("steps before the model", "learn nothing from data", type(step), remedy)
    for name, value in _settings(model):
        if name.rpartition("__")[2] == "memory" and value is not None:
            rule = "be None in a search: it writes private rows to disk"
            raise fail(name, rule, value)
    for name, value in _settings(private_step(model)):
        inner, _, last = name.rpartition("__")
        if last in _GRIDS:
            remedy = "Put its candidates into the grid of this search."
            raise fail("estimator", "be no search and hold none", name, remedy)
        if inner and last in ("ledger", "random_state") and value is not None:
            raise fail(name, "be None: the search takes charge of it", type(value))
        if inner and last == "neighbors" and value != neighbors:
            raise fail(name, f"be {neighbors!r}, as in the estimator", value)


def check_unwatched(model: Any) -> None:
    """Raise for a candidate that shows its fits to a function, where no run may be seen."""
    for name, value in _settings(model):
        if name.rpartition("__")[2] in CALLBACKS and value is not None:
            rule = "be None for random stopping: it would see runs that no guarantee counts"
            raise fail(name, rule, type(value), 'Or take strategy="disjoint".')


def _settings(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parameters of an estimator and of those inside it, in collections too."""
    prefix = f"{name}__" if name else ""
    if hasattr(value, "get_params") and not isinstance(value, type):
        found = [(prefix + inner, one) for inner, one in value.get_params(deep=True).items()]
        yield from found  # by their usual names first
        for inner, one in found:
            yield from _settings(one, inner) if isinstance(one, _COLLECTIONS) else ()
    elif isinstance(value, _COLLECTIONS):
        for part, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield f"{prefix}{part}", one
            yield from _settings(one, f"{prefix}{part}")


def _learners(step: Any, private: Any) -> Iterator[Any]:
    """Yield the parts of a step, the private model apart, that learn from data."""
    if step is private or type(step) is FrozenEstimator:
        return
    if isinstance(step, list | tuple):
        for part in step:
            yield from _learners(part, private)
    elif type(step) in _COMPOSITIONS:
        yield from _selectors(step)
        for part in step.get_params(deep=False).values():
            yield from _learners(part, private)
    elif any(hasattr(step, name) for name in _FITS) and not _is_stateless(step):
        yield step


def _selectors(step: Any) -> Iterator[Any]:
    """Yield the functions that choose columns by the data, and not by names and types alone."""
    for *_, columns in getattr(step, "transformers", ()):
        if callable(columns) and type(columns) is not make_column_selector:
            yield columns


def _is_stateless(step: Any) -> bool:
    """Return whether a step says that it needs no fit, where its fits and transform were made."""
    said = claims(step, "__sklearn_tags__", (*_FITS, "transform"))
    return said and not get_tags(step).requires_fit
