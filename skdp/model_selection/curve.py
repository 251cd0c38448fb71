"""What privacy costs: scores against epsilon, between a trivial and a non-private model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import _safe_indexing

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_positive, fail
from skdp.domain import Domain
from skdp.domain.cells import as_cells, has_foreign, kinds_of
from skdp.domain.tables import read_target
from skdp.linear_model.validation import check_labels
from skdp.model_selection._candidates.candidates import Candidates
from skdp.model_selection._candidates.ownership import prefix_of, private_step
from skdp.model_selection._progress import Bar
from skdp.privacy import BudgetExceeded, Ledger
from skdp.privacy.decimals import add, as_decimal

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_FOLDS = 5


@dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class EpsilonCurve:
    """Scores of a private model at several epsilons, and of two models to compare with.

    Made by `epsilon_curve`. Scores are computed from the records without noise, and so are those
    of the models to compare with. Whoever looks at curves of private data, and then chooses
    epsilon or an estimator, has used the data in a way that no guarantee covers and no ledger
    counts. So draw curves of public data, of an earlier survey that is public, or of rows drawn
    from the domain: these cost nothing, and show how many records a budget needs.

    Attributes
    ----------
    epsilons : ndarray of shape (n_epsilons,), increasing
    scores : ndarray of shape (n_epsilons, n_runs)
        On the test part of each run; all epsilons see the same parts.
    trivial : ndarray of shape (n_runs,)
        Of the most common label, or the mean target.
    without_privacy : ndarray of shape (n_runs,)
        Of logistic or least-squares regression on the same encoded columns.
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
        """Return quantiles over the runs.

        Parameters
        ----------
        q : float or array of shape (n,), entries in [0, 1]

        Returns
        -------
        ndarray of shape (n_epsilons,) or (n, n_epsilons)
        """
        return np.asarray(np.quantile(self.scores, q, axis=1))

    def __repr__(self) -> str:
        pairs = zip(self.epsilons, self.quantile(0.5), strict=True)
        shown = ", ".join(f"{epsilon:g}: {score:.3g}" for epsilon, score in pairs)
        ends = f"trivial {np.median(self.trivial):.3g}"
        ends += f", without privacy {np.median(self.without_privacy):.3g}"
        return f"EpsilonCurve({self.estimator_name}, median {self.score_name} {shown}; {ends})"


def epsilon_curve(
    estimator: Any,
    X: Any,
    y: Any,
    epsilons: Sequence[float],
    *,
    repeats: int = 10,
    cv: Any = None,
    scoring: Any = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
    verbose: int = 0,
) -> EpsilonCurve:
    """Fit at several epsilons, again and again, and score on other records.

    **A curve of private data is a release that no guarantee covers**, and a ledger is charged for
    the fits alone: see `EpsilonCurve` for what to do instead.

    Parameters
    ----------
    estimator : private estimator, or a Pipeline that ends in one
    X : DataFrame or array-like of shape (n, n_features)
    y : array-like of shape (n,)
    epsilons : sequence of float > 0
    repeats : int >= 1, default=10
        How often the data are split anew.
    cv : None, int or splitter, default=None
        Folds, 5 if None. A number is shuffled for every repeat; a splitter is used as it is.
    scoring : None, str or callable, default=None
        As in scikit-learn; None takes accuracy or R^2.
    n_jobs : int, default=None
        Processes; None is one.
    random_state : None or int, default=None
        Seeds splits and noise. None draws noise from the operating system.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Returns
    -------
    EpsilonCurve

    Raises
    ------
    BudgetExceeded
        If the estimator's ledger has too little left. Where its ceiling has no delta this is
        raised before the first fit.
    """
    plan = _Plan.of(estimator, epsilons, random_state)
    X, y, score = *_data(X, y), check_scoring(estimator, scoring)
    splits = list(plan.splits(X, y, check_count("repeats", repeats), cv))
    plan.refuse_early(len(splits))
    references = _references(estimator, X, y)
    calls = [
        delayed(_scores)([*references, *plan.models(k)], X, y, split, score)
        for k, split in enumerate(splits)
    ]
    with Bar(len(calls), "split", verbose) as bar:
        found = np.array([*map(bar.passed, Parallel(n_jobs=n_jobs, return_as="generator")(calls))])
    names = type(private_step(estimator)).__name__, _score_name(estimator, scoring)
    return EpsilonCurve(plan.epsilons, found.T[2:], found.T[0], found.T[1], *names)


def _data(X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Return the data, arrays in numpy's own class; raise for what no estimator takes."""
    target = as_cells(y, "y", one_type=True)
    if target.dtype.kind == "O" and has_foreign(kinds_of(target.flat)):
        raise fail("y", "hold numbers or strings")
    return as_cells(X) if isinstance(X, np.ndarray | list) else X, target


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which models are fitted to which records."""

    estimator: Any
    epsilons: FloatArray
    seed: int | None

    @classmethod
    def of(cls, estimator: Any, epsilons: Sequence[float], seed: int | None) -> _Plan:
        """Check an estimator and epsilons, and put these in order."""
        grid = np.sort([check_positive("epsilons", value) for value in epsilons])
        if not len(grid):
            raise fail("epsilons", "hold at least one epsilon")
        if f"{prefix_of(estimator)}epsilon" not in estimator.get_params():
            raise fail("estimator", "have a parameter epsilon", type(private_step(estimator)))
        return cls(estimator, grid, seed)

    def models(self, run: int) -> list[Any]:
        """Return the models of one run, not fitted."""
        prefix, settings = prefix_of(self.estimator), {}
        if self.seed is not None:
            # The same bits for all epsilons of a run sharpen the differences between them.
            number = np.random.default_rng([self.seed, 1, run]).integers(2**31)
            settings[f"{prefix}random_state"] = int(number)
        budgets = [{f"{prefix}epsilon": float(epsilon)} for epsilon in self.epsilons]
        return [clone(self.estimator).set_params(**settings, **one) for one in budgets]

    def splits(self, X: Any, y: NDArray[Any], repeats: int, cv: Any) -> Iterator[Split]:
        """Yield training and test positions, all folds of all repeats."""
        classifier = is_classifier(private_step(self.estimator))
        for number in np.random.default_rng(self.seed).integers(2**31, size=repeats):
            folds = check_cv(cv, y, classifier=classifier)
            if cv is None or isinstance(cv, int):
                kind = StratifiedKFold if isinstance(folds, StratifiedKFold) else KFold
                folds = kind(cv or _FOLDS, shuffle=True, random_state=int(number))
            yield from folds.split(X, y)

    def refuse_early(self, runs: int) -> None:
        """Raise if not all fits can be paid for; where there is a delta nobody knows before."""
        ledger = getattr(private_step(self.estimator), "ledger", None)
        if not isinstance(ledger, Ledger) or ledger.delta > 0:
            return
        total = runs * add(map(float, self.epsilons))
        if total > as_decimal(ledger.remaining.epsilon):
            raise BudgetExceeded(
                f"{runs} fits at each epsilon ask for epsilon={float(total):g} together; left"
                f" epsilon={ledger.remaining.epsilon:g}. Take fewer repeats, folds or epsilons, or"
                " draw the curve of public data, without a ledger."
            )


def _scores(models: list[Any], X: Any, y: Any, split: Split, score: Any) -> list[float]:
    train, test = split
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    # Copies: all runs share the models to compare with, and threads would share their fits.
    fitted = [clone(model).fit(X_train, y[train]) for model in models]
    return [float(score(model, X_test, y[test])) for model in fitted]


def _read_all(estimator: Any, reference: Any, X: Any, y: NDArray[Any]) -> None:
    """Raise now what a record would raise in a later split, after fits that were charged for."""
    reference[:-1].fit_transform(X, y)
    if not is_classifier(private_step(estimator)):
        read_target(y, "target")
    elif (declared := Candidates(estimator, (), "").declared_labels) is not None:
        check_labels(y, declared)


def _references(estimator: Any, X: Any, y: NDArray[Any]) -> tuple[Any, Any]:
    """Return a trivial model, and one without privacy that sees what the private one sees."""
    private = private_step(estimator)
    classifier = is_classifier(private)
    free = LogisticRegression(max_iter=1000) if classifier else LinearRegression()
    before = estimator.steps[:-1] if isinstance(estimator, Pipeline) else []
    domain = getattr(private, "domain", None)
    if domain is None and not before:
        domain = Domain.unit_box(np.shape(X)[1])
    steps = [step for _, step in before] + ([domain.encoder()] if domain is not None else [])
    trivial = DummyClassifier() if classifier else DummyRegressor()
    reference = clone(make_pipeline(*steps, free))
    _read_all(estimator, reference, X, y)
    return trivial, reference


def _score_name(estimator: Any, scoring: Any) -> str:
    if isinstance(scoring, str):
        return scoring
    if scoring is not None:
        return str(getattr(scoring, "__name__", "score"))
    return "accuracy" if is_classifier(private_step(estimator)) else "R^2"
