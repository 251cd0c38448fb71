"""The candidates of a search, and its task: fits of each to a part of the records of its own.

A grid can set parameters, or replace whole steps of a pipeline by models with settings of their
own. The checks are therefore made on the models, and not on the grid.

Under "replace_one" the number of records is public, and a random order is cut into parts of
public sizes. Under "add_remove" a part is drawn for each record independently, so that an
additional record changes one part and leaves all others as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from skdp.domain.tables import Frame
from skdp.linear_model.validation import GRID, Weights, check_ledger, is_composition, learners
from skdp.model_selection._scores import Persons, SearchScore
from skdp.privacy import PrivacyLeakWarning
from skdp.privacy.ledger import Budget
from skdp.trusted.arrays import Array
from skdp.trusted.checks import fail, is_ours
from skdp.trusted.randomness import source_of

Rows = NDArray[np.intp]
# The table, the target, and the persons and the weights, or None. Weights are those of
# `weight_steps`.
Data = tuple[Frame, Array, Persons, Weights]
# The search sets these, or the proof needs them to be the same for all candidates.
OWNED = (
    *("epsilon", "delta", "ledger", "random_state", "neighbors", "n_public", "max_weight"),
    *("classes", "domain"),
)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The models to choose from: one dict of settings and one unfitted model per candidate."""

    estimator: BaseEstimator
    settings: tuple[dict[str, Any], ...]
    models: tuple[BaseEstimator, ...]
    labels: Array | None = None  # of classifiers, checked
    classes: list[object] | None = None  # the labels again, if they are not declared but found in y

    @classmethod
    def from_grid(cls, estimator: BaseEstimator, grid: object) -> Candidates:
        """Check an estimator and a grid, and return the candidates."""
        private = private_step(estimator)
        _check_private(private)
        check_ledger("the estimator's ledger", getattr(private, "ledger", None))
        candidates = cls(estimator, tuple(dict(one) for one in ParameterGrid(grid)), ())
        if not len(candidates):
            raise fail("param_grid", "contain at least one candidate")
        prefix = _prefix_of(estimator)
        if refused := [name for name in candidates.names if name.removeprefix(prefix) in OWNED]:
            remedy = "Set them on the estimator or on the search, for all candidates."
            raise fail("param_grid", f"leave out {list(OWNED)}", refused, remedy)
        models = tuple(_built(estimator, one) for one in candidates.settings)
        for model in models:
            _check_candidate(model)
        return replace(candidates, models=models)

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def names(self) -> list[str]:
        return sorted({name for one in self.settings for name in one})

    @property
    def private(self) -> BaseEstimator:
        """The private model of the estimator, with the parameters that all candidates share."""
        return private_step(self.estimator)

    @property
    def neighbors(self) -> str:
        return str(getattr(self.private, "neighbors", "replace_one"))

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        domain = getattr(self.private, "domain", None)
        bounds: tuple[float, float] | None = getattr(domain, "target_bounds", None)
        return bounds

    def model(self, which: int, budget: Budget, share: float, seed: object) -> BaseEstimator:
        """Return an unfitted model for a share of the records, under a budget."""
        model = clone(self.models[which])
        settings = {"epsilon": budget.epsilon, "delta": budget.delta, "random_state": seed}
        settings["ledger"] = None
        if self.classes is not None:
            settings["classes"] = self.classes
        if (n := getattr(self.private, "n_public", None)) is not None:
            settings["n_public"] = max(1, round(share * n))
        private = private_step(model)
        names = private.get_params(deep=False)
        private.set_params(**{name: value for name, value in settings.items() if name in names})
        return model

    def cv_results(self, chosen: int) -> dict[str, object]:
        """Return the candidates in the columns of scikit-learn, without scores."""
        columns: dict[str, object] = {}
        for name in self.names:
            values = np.empty(len(self), dtype=object)
            values[:] = [one.get(name) for one in self.settings]
            is_unset = [name not in one for one in self.settings]
            columns[f"param_{name}"] = np.ma.MaskedArray(values, mask=is_unset)
        columns["params"] = [dict(one) for one in self.settings]
        columns["rank_test_score"] = np.where(np.arange(len(self)) == chosen, 1, 2)
        return columns


def private_step(estimator: BaseEstimator) -> BaseEstimator:
    """Return the private model: the last step of a pipeline, or the estimator itself."""
    return private_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def fit_to(
    model: BaseEstimator, X: object, y: object, groups: object = None, weights: Weights = None
) -> BaseEstimator:
    """Fit a private model, or a pipeline that ends in one, to rows or to persons."""
    prefix = _prefix_of(model)
    options = {} if groups is None else {f"{prefix}groups": groups}
    if weights is not None:
        options[f"{prefix}sample_weight"] = weights * (greatest_weight(model) or 1.0) / GRID
    # The search routes the identifiers and the weights itself.
    with config_context(enable_metadata_routing=False):
        return model.fit(X, y, **options)


def greatest_weight(model: BaseEstimator) -> float | None:
    return getattr(private_step(model), "max_weight", None)


def refuse_several(models: Iterable[BaseEstimator]) -> None:
    """Raise an error if a model predicts several quantiles for a row, which no score compares."""
    for quantile in (getattr(private_step(model), "quantile", 0.0) for model in models):
        if np.ndim(quantile):
            rule = "be one number for scores of one prediction for each row"
            raise fail("quantile", rule, quantile, "Score one model for each quantile.")


def declared_labels(model: BaseEstimator) -> Sequence[object] | None:
    labels = getattr(model, "classes", None)
    domain = getattr(model, "domain", None)
    return getattr(domain, "target_labels", None) if labels is None else labels


def _prefix_of(estimator: BaseEstimator) -> str:
    """Return the prefix of the private model's parameters: "", or step names and "__"."""
    if not isinstance(estimator, Pipeline):
        return ""
    name, last = estimator.steps[-1]
    return f"{name}__{_prefix_of(last)}"


def _built(estimator: BaseEstimator, settings: Mapping[str, object]) -> BaseEstimator:
    """Return a copy of the estimator with copies of the settings.

    A private model from the settings must have the estimator's values of all owned parameters.
    """
    model = clone(estimator)
    before = private_step(model)
    model.set_params(**{name: clone(value, safe=False) for name, value in settings.items()})
    private, usual = private_step(model), private_step(estimator)
    if private is before:
        return model
    _check_private(private)
    remedy = "The search owns it: set it on the estimator or on the search, for all candidates."
    for name in OWNED:
        value: Any = getattr(private, name, None)
        other: Any = getattr(usual, name, None)
        if not (value is other or np.array_equal(value, other)):
            raise fail("param_grid", f"leave {name} as it is in the estimator", value, remedy)
    if is_classifier(private) != is_classifier(usual):
        raise fail("param_grid", "contain classifiers only, or regressors only", type(private))
    return model


def _check_private(model: BaseEstimator) -> None:
    names = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    if missing := [name for name in ("epsilon", "delta", "random_state") if name not in names]:
        rule = f"be a private estimator with parameters {missing}"
        raise fail("estimator", rule, type(model), "Use an estimator of skdp.linear_model.")


def _check_candidate(model: BaseEstimator) -> None:
    """Raise for steps that learn from data, caches on disk, and searches."""
    private = private_step(model)
    for step in learners(model, private):
        remedy = (
            "Use domain.encoder(), a FunctionTransformer that treats rows one by one, or"
            " FrozenEstimator(step) of a step that was fitted to public data, in scikit-learn's"
            " own Pipeline. Select columns by a list of names, and not by a function or by types."
        )
        raise fail("steps before the model", "learn nothing from data", type(step), remedy)
    for name, value in model.get_params(deep=True).items():
        if name.rpartition("__")[2] == "memory" and value is not None:
            raise fail(name, "be None in a search: a cache writes private rows to disk", value)
    if "param_grid" in private.get_params(deep=False):
        remedy = "Add its candidates to the grid of this search."
        raise fail("estimator", "not be a search", type(private), remedy)


def warn_of_steps(models: Iterable[BaseEstimator]) -> None:
    """Warn of steps from outside this package; nothing depends on the data."""
    parts = [part for model in models for part in model.get_params(deep=True).values()]
    kinds = {type(part) for part in parts if hasattr(part, "transform") and not is_ours(part)}
    if names := sorted(kind.__name__ for kind in kinds if not is_composition(kind)):
        text = (
            f"Steps of the classes {names} may print or warn of what is in the data. The guarantee"
            " does not cover this. Keep it private, or use domain.encoder()."
        )
        warnings.warn(text, PrivacyLeakWarning, stacklevel=3)


# The task


@dataclass(frozen=True, eq=False)
class PlannedFit:
    """A fit that may be made: of which candidate, at which budget, to which records."""

    candidate: int
    budget: Budget
    rows: Rows
    share: float  # of all records, in expectation


@dataclass(frozen=True, eq=False)
class SearchTask:
    """The data of a search, and the planned fits: one for each candidate."""

    X: Frame
    y: Array
    candidates: Candidates
    score: SearchScore
    fits: tuple[PlannedFit, ...]
    held_out: Rows  # for the scores: no candidate is fitted to these records
    rng: np.random.Generator  # of the choice, and of the seeds of the fits
    is_seeded: bool  # whether the fits have seeds, as the search has a random_state
    n_jobs: int | None
    persons: Persons = None
    weights: Weights = None

    @property
    def unit(self) -> str:
        return "row" if self.persons is None else "person"

    @property
    def sensitivity(self) -> int:
        """The greatest change of the total score of a candidate if one record changes."""
        return self.score.sensitivity(self.candidates.neighbors)

    def records(self, rows: Rows) -> Data:
        persons = None if self.persons is None else self.persons[rows]
        weights = None if self.weights is None else self.weights[rows]
        return _safe_indexing(self.X, rows), _safe_indexing(self.y, rows), persons, weights

    def model(self, fit: PlannedFit) -> BaseEstimator:
        """Return the unfitted model of a fit; its seed is drawn here."""
        seed = source_of(self.rng) if self.is_seeded else None
        return self.candidates.model(fit.candidate, fit.budget, fit.share, seed)

    def fit_and_score(self) -> Iterator[tuple[BaseEstimator, int]]:
        """Make all fits; yield each model with its total score on the held-out records."""
        held_out = self.records(self.held_out)
        # All seeds are drawn before the first fit: the order in which workers run is not fixed.
        models = [self.model(fit) for fit in self.fits]
        calls = (
            delayed(_fit_and_score)(model, self.records(fit.rows), self.score, held_out)
            for model, fit in zip(models, self.fits, strict=True)
        )
        yield from Parallel(n_jobs=self.n_jobs, return_as="generator")(calls)


def _fit_and_score(
    model: BaseEstimator, train: Data, score: SearchScore, held_out: Data
) -> tuple[BaseEstimator, int]:
    fit_to(model, *train)
    *records, weights = held_out
    given = {} if weights is None else {"weights": weights}  # then it is a RecordScore
    # An empty part, which may occur under "add_remove", has the score 0.
    return model, score.total(model, *records, **given) if len(held_out[1]) else 0


def parts(
    n: int,
    shares: Sequence[float],
    neighbors: str,
    rng: np.random.Generator,
    persons: Persons = None,
) -> list[Rows]:
    """Return the positions of the rows of each part; the shares are positive and sum to 1.

    There are n records. All rows of a person are in one part.
    """
    if persons is not None:
        part_of = np.empty(n, dtype=np.intp)
        for number, records in enumerate(parts(n, shares, neighbors, rng)):
            part_of[records] = number
        return [np.flatnonzero(part_of[persons] == number) for number in range(len(shares))]
    if neighbors == "add_remove":
        drawn = rng.choice(len(shares), size=n, p=np.asarray(shares) / np.sum(shares))
        return [np.flatnonzero(drawn == part) for part in range(len(shares))]
    return np.split(rng.permutation(n), np.cumsum(sizes(n, shares))[:-1])


def sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Return sizes near ``n`` times the shares, each at least 1."""
    if n < len(shares):
        rule = f"have at least {len(shares)} records, one for each part: found {n} sample(s)"
        raise fail("X", rule, None, "Pass fewer candidates, or more records.")
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int)
    # Each part has at least one record, and leaves one for each part after it.
    index = np.arange(len(shares))
    ends = np.maximum.accumulate(np.maximum(ends - index, 1)) + index
    ends = np.minimum(ends, n - index[::-1])
    return [int(size) for size in np.diff(ends, prepend=0)]
