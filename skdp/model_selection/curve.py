"""Scores of a private model against epsilon, with a trivial and a non-private model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import _safe_indexing

from skdp._estimators import with_bar
from skdp.domain import Domain
from skdp.domain.columns import has_foreign, kinds_of
from skdp.domain.tables import Frame, as_cells, in_memory, read_target
from skdp.linear_model.validation import check_labels, units_of
from skdp.model_selection._candidates import (
    Data,
    declared_labels,
    fit_to,
    parts,
    private_step,
    refuse_several,
)
from skdp.model_selection._scores import own_loss
from skdp.privacy import BudgetExceeded, Ledger
from skdp.trusted.arrays import Array, FloatArray, add, as_decimal
from skdp.trusted.checks import check_count, check_jobs, check_positives, fail
from skdp.trusted.randomness import as_generator

_Split = tuple[NDArray[np.intp], NDArray[np.intp]]
_Score = Callable[[object, Frame, object], float]


@dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class EpsilonCurve:
    """Scores of a private model at several epsilons, and of two reference models.

    Made by `epsilon_curve`. All scores are computed from the records without noise. If epsilon or
    an estimator is chosen by a curve of private data, the choice uses the data, but no guarantee
    covers it and no ledger counts it. Warnings of scikit-learn's scores and models may tell what
    is in the records. Draw curves of public data, such as an earlier public survey, or of rows
    drawn from the domain. These cost nothing, and show how many records a budget needs.

    Attributes
    ----------
    epsilons : ndarray of shape (n_epsilons,), increasing
    scores : ndarray of shape (n_epsilons, n_runs)
        Scores on the test part of each run, nan where it has none. All epsilons have the same
        parts.
    trivial : ndarray of shape (n_runs,)
        Scores of a model that predicts the most common label, or the mean target.
    without_privacy : ndarray of shape (n_runs,)
        Scores of logistic or least-squares regression on the same encoded columns.
    estimator_name, score_name : str

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X = domain.sample(2000, random_state=0)
    >>> y = ["yes" if age > 40 else "no" for age in X["age"]]
    >>> model = DPLogisticRegression(domain=domain)
    >>> curve = epsilon_curve(model, X, y, [0.01, 10.0], repeats=1, random_state=0)
    >>> curve.scores.shape
    (2, 5)
    >>> low, high = curve.quantile(0.5)
    >>> bool(low < high)
    True
    """

    epsilons: FloatArray
    scores: FloatArray
    trivial: FloatArray
    without_privacy: FloatArray
    estimator_name: str
    score_name: str

    def quantile(self, q: float | Sequence[float]) -> FloatArray:
        """Return quantiles over the runs that have a score; nan where none has one.

        Parameters
        ----------
        q : float or array of shape (n,), entries in [0, 1]

        Returns
        -------
        ndarray of shape (n_epsilons,) or (n, n_epsilons)
        """
        return _quantile(self.scores, q)

    @property
    def reference_medians(self) -> tuple[float, float]:
        """The median scores of the trivial model and of that without privacy."""
        trivial, free = _quantile(np.array([self.trivial, self.without_privacy]), 0.5)
        return float(trivial), float(free)

    def __repr__(self) -> str:
        pairs = zip(self.epsilons, self.quantile(0.5), strict=True)
        shown = ", ".join(f"{epsilon:g}: {score:.3g}" for epsilon, score in pairs)
        trivial, free = self.reference_medians
        ends = f"trivial {trivial:.3g}, without privacy {free:.3g}"
        return f"EpsilonCurve({self.estimator_name}, median {self.score_name} {shown}; {ends})"


def _quantile(scores: FloatArray, q: float | Sequence[float]) -> FloatArray:
    """Return quantiles along the second axis, without those that are nan."""
    lost: Array = np.all(np.isnan(scores), axis=1, keepdims=True)
    found = np.nanquantile(np.where(lost, 0.0, scores), q, axis=1)
    return np.where(lost[:, 0], np.nan, found)


def epsilon_curve(
    estimator: BaseEstimator,
    X: object,
    y: object,
    epsilons: Sequence[float],
    *,
    repeats: int = 10,
    cv: object = None,
    scoring: object = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
    verbose: int = 0,
    groups: object = None,
) -> EpsilonCurve:
    """Fit a private model at several epsilons on repeated splits, and score it on test records.

    **No guarantee covers a curve of private data**: see `EpsilonCurve`. A ledger counts the fits.

    Parameters
    ----------
    estimator : private estimator, or a Pipeline that ends in one
    X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_features)
    y : array-like of shape (n,)
    epsilons : sequence of float > 0
    repeats : int in [1, 1e4], default=10
        Number of times that the data are split.
    cv : None, int or splitter, default=None
        Folds; None is 5. With a number they are drawn anew for every repeat, without labels.
    scoring : None, str or callable, default=None
        As in scikit-learn; None is the score of the estimator. One that raises ValueError is nan.
    n_jobs : int, default=None
    random_state : None or int, default=None
        Seed of the splits and the noise. None draws both from the operating system's entropy.
    verbose : int, default=0
        1 shows a progress bar on standard error.
    groups : array-like of shape (n,), default=None
        As in the estimators. All rows of a person are in one fold, unless ``cv`` is a splitter.

    Returns
    -------
    EpsilonCurve

    Raises
    ------
    BudgetExceeded
        If the estimator's ledger has too little left; before the first fit if its delta is 0.

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> domain = Domain({"age": (17, 90)}, target=["no", "yes"])
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> epsilon_curve(DPLogisticRegression(domain=domain), X, y, [0.1, 1.0], repeats=1).epsilons
    array([0.1, 1. ])
    """
    grid = np.sort(np.array(check_positives("epsilons", epsilons)))
    if not len(grid):
        raise fail("epsilons", "contain at least one number", epsilons)
    private = private_step(estimator)
    if "epsilon" not in private.get_params():
        raise fail("estimator", "have a parameter epsilon", type(private))
    score, target = _checked_score(estimator, scoring), as_cells(y, "y", one_type=True)
    # Arrays are in numpy's own class. No estimator accepts other cells.
    if target.dtype.kind == "O" and has_foreign(kinds_of(target.flat)):
        raise fail("y", "contain numbers or strings")
    table = as_cells(X) if isinstance(X, np.ndarray | list) else in_memory(X)
    data = table, target, units_of(groups, len(target))[1], None
    splits = list(_splits(estimator, data, repeats, cv, random_state))
    check_jobs(n_jobs)
    ledger = getattr(private, "ledger", None)
    if isinstance(ledger, Ledger) and ledger.delta == 0:  # with a delta this is not known before
        _check_left(ledger, len(splits), grid)
    references = _references(estimator, table, target)

    def models(run: int) -> Iterator[BaseEstimator]:
        for epsilon in grid:
            model = clone(estimator)
            private_step(model).set_params(epsilon=float(epsilon))
            if random_state is not None:
                # All epsilons of a run have the same random bits, so that differences vary less.
                seed = np.random.default_rng([random_state, 1, run]).integers(2**31)
                private_step(model).set_params(random_state=int(seed))
            yield model

    calls = (
        delayed(_scores)(references, data, score, [*models(run)], split)
        for run, split in enumerate(splits)
    )
    runs = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    trivial, free, *scores = np.array([*with_bar(runs, len(splits), "split", verbose)]).T
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
    if scoring is None:
        name = getattr(type(private).score, "metric", "score")
    return EpsilonCurve(grid, np.array(scores), trivial, free, type(private).__name__, str(name))


def _checked_score(estimator: BaseEstimator, scoring: object) -> _Score:
    """Return the scorer; raise if a named one cannot score the declared labels at all."""
    private = private_step(estimator)
    if scoring is None and not is_classifier(private):
        refuse_several([private])
        return partial(_own_score, private)
    score: _Score = check_scoring(estimator, scoring)
    labels = declared_labels(private) if is_classifier(private) else [0.0, 1.0]
    model: BaseEstimator = DummyClassifier() if is_classifier(private) else DummyRegressor()
    if labels is None or not isinstance(scoring, str):
        return score
    try:
        rows = np.zeros((len(labels), 1))
        model.fit(rows, labels)
    except (TypeError, ValueError):  # labels that a fit refuses, with an error of its own
        return score
    if math.isnan(_score(score, model, rows, labels)):
        remedy = "Scores of one label need its name, as in make_scorer(f1_score, pos_label='yes')."
        raise fail("scoring", "be a score of the declared labels, or of numbers", scoring, remedy)
    return score


def _own_score(private: BaseEstimator, model: BaseEstimator, X: Frame, y: object) -> float:
    """Return the private model's score of the predictions of another one."""
    scored: Any = copy(private)
    scored.predict = model.predict
    return float(scored.score(X, y))


def _splits(
    estimator: BaseEstimator, data: Data, repeats: int, cv: object, seed: int | None
) -> Iterator[_Split]:
    X, y, persons, _ = data
    repeats = check_count("repeats", repeats, most=10**4)
    if len(X) != len(y):
        raise fail("y", "have as many entries as X has rows")
    if not (cv is None or isinstance(cv, Integral)):
        for _ in range(repeats):
            yield from check_cv(cv).split(X, y, persons)
        return
    # Folds that look at labels move other records if one label changes. Then a sum over the fits
    # would not bound what the fits tell of this record. See docs/guide/inside_scikit_learn.md.
    n_folds, rng = check_count("cv", 5 if cv is None else cv, least=2), as_generator(seed)
    n, neighbors = len(y), getattr(private_step(estimator), "neighbors", "replace_one")
    units = n if persons is None else int(persons.max()) + 1
    if units < n_folds:
        raise fail("cv", "be at most the number of records, or of persons", n_folds)
    for _ in range(repeats):
        tests = parts(units, [1.0] * n_folds, neighbors, rng, persons)
        if not all(map(len, tests)):
            raise fail("cv", "leave records in every fold", n_folds, "Pass a smaller number.")
        for test in tests:
            yield np.setdiff1d(np.arange(n), test), np.sort(test)


def _check_left(ledger: Ledger, runs: int, epsilons: FloatArray) -> None:
    total = runs * add(map(float, epsilons))
    if total > as_decimal(ledger.remaining.epsilon):
        raise BudgetExceeded(
            f"{runs} fits at each epsilon ask for epsilon={float(total):g} together; left"
            f" epsilon={ledger.remaining.epsilon:g}. Take fewer repeats, folds or epsilons, or"
            " draw the curve of public data, without a ledger."
        )


def _references(
    estimator: BaseEstimator, X: Frame, y: Array
) -> tuple[BaseEstimator, BaseEstimator]:
    """Return a trivial model, and one without privacy on the columns that the private one has."""
    private = private_step(estimator)
    classifier, domain = is_classifier(private), getattr(private, "domain", None)
    free = LogisticRegression(max_iter=1000) if classifier else LinearRegression()
    trivial = DummyClassifier() if classifier else DummyRegressor()
    if (own := own_loss(private)) is not None:
        _, level = own
        free = PoissonRegressor(alpha=0, max_iter=1000)
        if level is not None:
            free = QuantileRegressor(quantile=level, alpha=0)
            trivial = DummyRegressor(strategy="quantile", quantile=level)
    steps = [step for _, step in estimator.steps[:-1]] if isinstance(estimator, Pipeline) else []
    if domain is None and not steps:
        domain = Domain.unit_box(np.shape(X)[1])
    if domain is not None:
        steps.append(domain.encoder())
    reference = clone(make_pipeline(*steps, free))
    # Errors of any record are raised here, and not in a later split, after fits were charged.
    reference[:-1].fit_transform(X, y)
    if classifier:
        check_labels(y, declared_labels(private))
    else:
        read_target(y, "target")
    return trivial, reference


def _scores(
    references: tuple[BaseEstimator, BaseEstimator],
    data: Data,
    score: _Score,
    models: list[BaseEstimator],
    split: _Split,
) -> list[float]:
    X, y, persons, _ = data
    train, test = split
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    trivial, free = references
    if is_classifier(trivial) and len(np.unique(y[train])) == 1:
        free = trivial  # scikit-learn's error would tell the label
    # The runs share the reference models, and threads must not share their fits.
    fitted = [clone(model).fit(X_train, y[train]) for model in (trivial, free)]
    groups = None if persons is None else persons[train]
    fitted += [fit_to(model, X_train, y[train], groups) for model in models]
    return [_score(score, model, X_test, y[test]) for model in fitted]


def _score(score: _Score, model: object, X: Frame, y: object) -> float:
    """Return a score, or nan. The errors of scikit-learn's scores name labels."""
    try:
        return float(score(model, X, y))
    except ValueError as error:
        if hasattr(error, "shows_no_cell"):  # of a score of this package
            raise
        return math.nan
    except Exception as error:
        kind = type(error)
    raise fail("scoring", f"return a number for every fold; it raised {kind.__name__}")
