"""The candidates of a search: the models of a grid, checked before the budget is spent.

A grid can set parameters, or replace whole steps of a pipeline by models with settings of their
own. The checks are therefore made on the models, and not on the grid.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp._checks import fail
from skdp._identity import is_ours
from skdp.linear_model.validation import check_ledger
from skdp.privacy import PrivacyLeakWarning
from skdp.privacy.ledger import Budget

# The search sets these, or the proof needs them to be the same for all candidates.
OWNED = ("epsilon", "delta", "ledger", "random_state", "neighbors", "n_public", "classes", "domain")
CALLBACKS = ("callback", "callbacks")
_GRIDS = ("param_grid", "param_distributions")
# These are known to fit only the estimators in them; a subclass may do anything.
_COMPOSITIONS = (Pipeline, FeatureUnion, ColumnTransformer)
_COLLECTIONS = (Mapping, list, tuple, set)
_FITS = ("fit", "fit_transform")


@dataclass(frozen=True, eq=False)
class Candidates:
    """The models to choose from: one dict of settings and one unfitted model per candidate."""

    estimator: Any
    settings: tuple[dict[str, Any], ...]
    models: tuple[Any, ...]
    labels: Any = None  # of classifiers, checked
    classes: Any = None  # the labels again, if they are not declared but found in y

    @classmethod
    def from_grid(cls, estimator: Any, grid: Any) -> Candidates:
        """Check an estimator and a grid, and return the candidates."""
        private = private_step(estimator)
        _check_private(private)
        check_ledger("the estimator's ledger", getattr(private, "ledger", None))
        settings = tuple(dict(one) for one in ParameterGrid(grid))
        if not settings:
            raise fail("param_grid", "hold at least one candidate")
        prefix = _prefix_of(estimator)
        names = sorted({name for one in settings for name in one})
        if refused := [name for name in names if name.removeprefix(prefix) in OWNED]:
            remedy = "Set them on the estimator or on the search, for all candidates."
            raise fail("param_grid", f"leave out {list(OWNED)}", refused, remedy)
        candidates = cls(estimator, settings, tuple(_built(estimator, one) for one in settings))
        for model in candidates.models:
            check_candidate(model, candidates.neighbors)
        return candidates

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def private(self) -> Any:
        """The private model of the estimator, with the parameters that all candidates share."""
        return private_step(self.estimator)

    @property
    def neighbors(self) -> str:
        """The neighbouring relation."""
        return str(getattr(self.private, "neighbors", "replace_one"))

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """Bounds of the target, if the domain declares them."""
        domain = getattr(self.private, "domain", None)
        bounds: tuple[float, float] | None = getattr(domain, "target_bounds", None)
        return bounds

    def model(self, which: int, budget: Budget, share: float, seed: int | None) -> Any:
        """Return an unfitted model for a share of the records, under a budget."""
        model = clone(self.models[which])
        settings = {"epsilon": budget.epsilon, "delta": budget.delta, "random_state": seed}
        settings["ledger"] = None
        if self.classes is not None:
            settings["classes"] = self.classes
        if (n := getattr(self.private, "n_public", None)) is not None:
            settings["n_public"] = max(1, round(share * n))
        private = private_step(model)
        known = private.get_params(deep=False)
        private.set_params(**{name: value for name, value in settings.items() if name in known})
        return model

    def cv_results(self, chosen: int) -> dict[str, Any]:
        """Return the candidates in the columns of scikit-learn, without scores."""
        names = sorted({name for one in self.settings for name in one})
        columns: dict[str, Any] = {}
        for name in names:
            values = np.empty(len(self), dtype=object)
            values[:] = [one.get(name) for one in self.settings]
            is_unset = [name not in one for one in self.settings]
            columns[f"param_{name}"] = np.ma.MaskedArray(values, mask=is_unset)
        columns["params"] = [dict(one) for one in self.settings]
        columns["rank_test_score"] = np.where(np.arange(len(self)) == chosen, 1, 2)
        return columns


def private_step(estimator: Any) -> Any:
    """Return the private model: the last step of a pipeline, or the estimator itself."""
    return private_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def fit_parameters(estimator: Any, groups: Any) -> dict[str, Any]:
    """Return the parameters of a fit that give identifiers of persons to the private model."""
    return {} if groups is None else {f"{_prefix_of(estimator)}groups": groups}


def fit_to(model: Any, X: Any, y: Any, groups: Any = None) -> Any:
    """Fit a private model, or a pipeline that ends in one, to rows or to persons."""
    # The search routes the identifiers itself.
    with config_context(enable_metadata_routing=False):
        return model.fit(X, y, **fit_parameters(model, groups))


def declared_labels(model: Any) -> Any:
    """Return the labels that a private model or its domain declares, or None."""
    labels = getattr(model, "classes", None)
    domain = getattr(model, "domain", None)
    return getattr(domain, "target_labels", None) if labels is None else labels


def _prefix_of(estimator: Any) -> str:
    """Return the prefix of the private model's parameters: "", or step names and "__"."""
    if not isinstance(estimator, Pipeline):
        return ""
    name, last = estimator.steps[-1]
    return f"{name}__{_prefix_of(last)}"


def _built(estimator: Any, settings: Mapping[str, Any]) -> Any:
    """Return a copy of the estimator with copies of the settings.

    A private model from the settings must have the estimator's values of all owned parameters.
    """
    model = clone(estimator)
    replaced = private_step(model)
    model.set_params(**{name: clone(value, safe=False) for name, value in settings.items()})
    private, given = private_step(model), private_step(estimator)
    if private is replaced:
        return model
    _check_private(private)
    remedy = "The search owns it: set it on the estimator or on the search, for all candidates."
    for name in OWNED:
        value: Any = getattr(private, name, None)
        usual: Any = getattr(given, name, None)
        if not (value is usual or np.array_equal(value, usual)):
            raise fail("param_grid", f"leave {name} as it is in the estimator", value, remedy)
    if is_classifier(private) != is_classifier(given):
        raise fail("param_grid", "hold classifiers only, or regressors only", type(private))
    return model


def _check_private(model: Any) -> None:
    """Raise unless a model has the parameters that a search sets."""
    known = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    missing = [name for name in ("epsilon", "delta", "random_state") if name not in known]
    if missing:
        rule = f"be a private estimator with parameters {missing}"
        raise fail("estimator", rule, type(model), "Use an estimator of skdp.linear_model.")


def check_candidate(model: Any, neighbors: str) -> None:
    """Raise for a candidate with parts that the guarantee would not cover.

    These are steps that learn from data, caches on disk, searches, and models inside the private
    model with a ledger, a seed or a neighbouring relation of their own.
    """
    for step in _learners(model, private_step(model)):
        remedy = (
            "Use domain.encoder(), a FunctionTransformer that treats rows one by one, or"
            " FrozenEstimator(step) of a step that was fitted to public data, in scikit-learn's"
            " own Pipeline. Select columns by a list of names, and not by a function or by types."
        )
        raise fail("steps before the model", "learn nothing from data", type(step), remedy)
    for name, value in _parameters(model):
        if name.rpartition("__")[2] == "memory" and value is not None:
            raise fail(name, "be None in a search: a cache writes private rows to disk", value)
    for name, value in _parameters(private_step(model)):
        inner, _, last = name.rpartition("__")
        if last in _GRIDS:
            remedy = "Add its candidates to the grid of this search."
            raise fail("estimator", "not be a search and not contain one", name, remedy)
        if inner and last in ("ledger", "random_state") and value is not None:
            raise fail(name, "be None: the search sets it", type(value))
        if inner and last == "neighbors" and value != neighbors:
            raise fail(name, f"be {neighbors!r}, as in the estimator", value)


def warn_of_steps(models: Iterable[Any]) -> None:
    """Warn of steps from outside this package; nothing depends on the data."""
    parts = [one for model in models for _, one in _parameters(model)]
    kinds = {type(one) for one in parts if hasattr(one, "transform") and not is_ours(one)}
    if names := sorted(kind.__name__ for kind in kinds.difference(_COMPOSITIONS)):
        text = (
            f"Steps of the classes {names} may print or warn of what is in the data. The guarantee"
            " does not cover this. Keep it private, or use domain.encoder()."
        )
        warnings.warn(text, PrivacyLeakWarning, stacklevel=3)


def _parameters(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parameters of an estimator and of those inside it, also inside collections."""
    prefix = f"{name}__" if name else ""
    if hasattr(value, "get_params") and not isinstance(value, type):
        found = [(prefix + inner, one) for inner, one in value.get_params(deep=True).items()]
        yield from found  # by their usual names first
        for inner, one in found:
            yield from _parameters(one, inner) if isinstance(one, _COLLECTIONS) else ()
    elif isinstance(value, _COLLECTIONS):
        for part, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield f"{prefix}{part}", one
            yield from _parameters(one, f"{prefix}{part}")


def _learners(step: Any, private: Any) -> Iterator[Any]:
    """Yield the parts of a step that learn from data, except the private model."""
    if step is private or type(step) is FrozenEstimator:
        return
    if isinstance(step, list | tuple):
        for part in step:
            yield from _learners(part, private)
    elif type(step) in _COMPOSITIONS:
        for *_, columns in getattr(step, "transformers", ()):
            if callable(columns):  # one cell may change the type of a column, and so what is read
                yield columns
        for part in step.get_params(deep=False).values():
            yield from _learners(part, private)
    elif any(hasattr(step, name) for name in _FITS) and not _is_stateless(step):
        yield step


def _is_stateless(step: Any) -> bool:
    """Return whether the class that defines the methods of a step declares that it needs no fit."""
    line = type(step).__mro__
    places = {name: k for k, kind in reversed([*enumerate(line)]) for name in vars(kind)}
    methods = [places[name] for name in (*_FITS, "transform") if name in places]
    declared = places.get("__sklearn_tags__", len(line)) <= min(methods)
    return declared and not get_tags(step).requires_fit
