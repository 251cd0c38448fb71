"""A search over hyper-parameters whose choice is private too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._checks import (
    check_choice,
    check_count,
    check_epsilon,
    check_interval,
    fail,
)
from skdp.domain.tables import read_target
from skdp.linear_model.validation import (
    check_labels,
    check_ledger,
    check_table,
    check_target,
    is_auto,
    spent_note,
    without_spent_notes,
)
from skdp.model_selection._candidates.candidates import Candidates, candidates_of
from skdp.model_selection._candidates.dry_run import DryRun
from skdp.model_selection._candidates.ownership import check_unwatched, private_step
from skdp.model_selection._candidates.promise import guarantee_of, restate, results_of
from skdp.model_selection._candidates.trial import try_score
from skdp.model_selection._material import Fit, Found, Material
from skdp.model_selection._rows import own_copy, parts
from skdp.model_selection._scoring import as_record_score
from skdp.model_selection._stopping import StoppingLaw
from skdp.model_selection._strategies import Disjoint, RandomStopping, Strategy, split
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.ledger import Budget
from skdp.randomness import as_generator, is_cryptographic

Method = TypeVar("Method", bound=Callable[..., Any])

STRATEGIES = ("auto", "disjoint", "random_stopping")
# Runs per candidate, where they are "auto": a candidate is tried with a chance of 4 in 5.
RUNS_PER_CANDIDATE = 4
# "auto" takes parts where records times epsilon of a trial are this many: below, candidates are
# told apart by luck, or by what is right for less data than the last fit has.
ENOUGH = 1000.0


def _if_best_has(name: str) -> Callable[[Method], Method]:
    """Offer a method if the chosen model has it, or before there is one the estimator given."""

    def has(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)  # says what is missing
        return True

    return cast(Callable[[Method], Method], available_if(has))


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search for hyper-parameters where fits, scores and choice share one privacy budget.

    Scikit-learn's searches choose by scores that no guarantee covers. This one keeps some
    records aside, lets each candidate's score there be a sum over records in a public range,
    and chooses by noise that is calibrated to it. Statements and proofs:
    ``docs/proofs/private_selection.md``, Theorems 1 to 6.

    Parameters
    ----------
    estimator : private estimator, or a Pipeline that ends in one
        With parameters ``epsilon``, ``delta`` and ``random_state``, which the search sets. Steps
        before it must learn nothing from data: ``domain.encoder()``, a transformer that
        needs no fit, or a ``FrozenEstimator`` of one that was fitted to public data. A pipeline
        must have no ``memory``, which would write private rows to disk. No part of it may be a
        search.
    param_grid : dict or list of dict
        As in scikit-learn; it may replace whole steps. ``epsilon``, ``delta``, ``ledger``,
        ``random_state``, ``neighbors``, ``n_public``, ``classes`` and ``domain`` are the same
        for all candidates: they may not be in it, nor differ in the steps that it brings.
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``: all fits, the choice and the last fit.
    delta : float in [0, 1), default=0.0
        Allowed failure probability, for those candidates that make use of one.
    strategy : {"auto", "disjoint", "random_stopping"}, default="auto"
        "disjoint" fits each candidate to a part of the records of its own, and chooses by
        permute-and-flip (after Chaudhuri, Monteleoni & Sarwate 2011). It then fits the chosen
        candidate to all records. Candidates are tried with fewer records, and less budget, than
        that fit has.
        "random_stopping" makes a random number of fits of random candidates and returns the best
        (Liu & Talwar 2019; Papernot & Steinke 2022), under the circumstances of the model that
        is returned. "auto" takes "disjoint", which is faster and whose running time tells nothing,
        where records times epsilon of each trial are at least 1000, and else random stopping.
        Under random stopping a candidate may have no ``callback``, and its ``verbose``, warnings
        and log records are not shown: they would tell of runs that the guarantee does not count.
    scoring : None, str or RecordScore, default=None
        "accuracy" for classifiers; "neg_mean_squared_error" or "neg_mean_absolute_error" for
        regressors, with targets clipped to the domain's bounds; or any other score of single
        records with public bounds, as a :class:`RecordScore`. None takes the first. Records are
        scored one at a time, which takes about a second for 10,000 records and each candidate
        where the model or the score is not of this package.
    held_out : float in (0, 1), default=0.2
        Share of the records on which candidates are scored, and which no candidate is fitted to.
    refit_share : float in [0, 1) or "auto", default="auto"
        Share of the budget for a last fit of the chosen candidate to all records. 0 returns the
        model that was scored. "auto" is 0.75, and 0 for random stopping.
    mean_runs : float > 1 or "auto", default="auto"
        Average number of fits of random stopping; "auto" is four for each candidate. A candidate
        is then tried at all with a probability of 4 in 5. More runs cost time and, beyond a few,
        little of the budget.
    stopping_shape : int >= 1, default=1
        Shape of the law of this number, negative binomial; 1 is geometric. A run's budget is
        more than 1 / (2 + shape) of the whole. Greater shapes have fewer of the short searches.
    n_jobs : int, default=None
        Processes; None is one.
    random_state : None, int or Generator, default=None
        None draws from the operating system's entropy. Anything else is for tests, and the
        guarantee then says that it does not hold.
    ledger : Ledger, default=None
        Charged once for the whole search, before any noise is drawn. None takes the
        estimator's, if it has one; the fits of the search charge none of their own.
    verbose : int, default=0
        1 shows a progress bar on standard error, but none for random stopping: the number of
        fits must not be told, and neither must the running time, which is nearly the same.

    Attributes
    ----------
    best_estimator_ : estimator
        Its ``guarantee_``, and the guarantee of its ``noise_`` and of whatever else it has, are
        that of the search, without which there would be no such model. Noise from elsewhere
        that cannot be told so is replaced by None. Its parameters are those of its own fit.
    best_params_ : dict
    best_index_ : int
        Position of the chosen candidate in ``cv_results_["params"]``.
    best_score_ : float
        Only after random stopping under "replace_one", the one case in which a score is
        released: with noise, and the best of several, hence too good.
    cv_results_ : dict
        ``params``, ``param_...`` and ``rank_test_score``: 1 for the chosen candidate and 2 for
        all others, of which nothing is released. ``mean_test_score`` where ``best_score_`` is.
    strategy_ : str
        The strategy taken.
    guarantee_ : Guarantee
        Of everything together.
    classes_, n_features_in_, feature_names_in_
        As in the estimator.

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(5000, random_state=0, with_target=True)
    >>> grid = {"mechanism": ["l1", "l2", "hull"]}
    >>> model = DPLogisticRegression(domain=domain)
    >>> search = PrivateSearchCV(model, grid, epsilon=2.0, random_state=0).fit(X, y)
    >>> sorted(search.best_params_), search.guarantee_.epsilon
    (['mechanism'], 2.0)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        strategy: str = "auto",
        scoring: Any = None,
        held_out: float = 0.2,
        refit_share: float | str = "auto",
        mean_runs: float | str = "auto",
        stopping_shape: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        ledger: Ledger | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.strategy = strategy
        self.scoring = scoring
        self.held_out = held_out
        self.refit_share = refit_share
        self.mean_runs = mean_runs
        self.stopping_shape = stopping_shape
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> PrivateSearchCV:
        """Search, once, for ``epsilon``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the ledger has less than epsilon left; nothing was drawn or spent.
        ValueError
            If parameters, columns or labels break a rule, of the search or of any candidate:
            a dry run of all comes before anything is spent. The note of every error says whether
            the budget was spent.
        RuntimeError
            If a run of random stopping fails: its own error may tell of the run.
        """
        with spent_note() as spent, without_spent_notes():
            whole = self._check_parameters()
            candidates, X, y = self._candidates(X, y)
            strategy, name = self._strategy(candidates, len(y))
            trial, last = self._shares(strategy, whole)
            if strategy.hides_runs:
                for which in range(len(candidates)):
                    check_unwatched(candidates.built(which))
            material = self._material(strategy, trial, candidates, X, y)
            self._dry_run(material, last or trial)
            guarantee = guarantee_of(candidates, strategy, whole, self._secret)
            self._charge(candidates, guarantee)
            spent.append(guarantee)
            found = strategy.search(material, trial, self.verbose)
            if last is not None:
                model = candidates.model(found.which, last, 1.0, material.seed())
                found = replace(found, model=model.fit(X, y))
        self.strategy_, self.guarantee_ = name, guarantee
        self._keep(candidates, found)
        return self

    # Before anything is spent

    def _check_parameters(self) -> Budget:
        epsilon = check_epsilon(self.epsilon, "Smaller is more private.")
        delta = check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        check_choice("strategy", self.strategy, STRATEGIES)
        check_interval("held_out", self.held_out, 0.0, 1.0, closed="neither")
        if not is_auto(self.refit_share):
            check_interval("refit_share", self.refit_share, 0.0, 1.0, closed="left")
        if not is_auto(self.mean_runs):
            check_interval("mean_runs", self.mean_runs, 1.0, math.inf, closed="neither")
        check_count("stopping_shape", self.stopping_shape)
        check_ledger("ledger", self.ledger)
        return Budget(epsilon, delta)

    def _candidates(self, X: Any, y: Any) -> tuple[Candidates, Any, NDArray[Any]]:
        """Return the candidates and the data, checked and such that rows can be taken."""
        found = candidates_of(self.estimator, self.param_grid)
        domain = None if found.prefix else found.public("domain")
        X = own_copy(check_table(self, X, domain, reset=True))
        target = check_target(self, y, len(X))
        if not found.classifier:
            target = read_target(target, "target")
        else:
            labels, places = check_labels(target, found.declared_labels)
            target = labels[places]
            if found.declared_labels is None:
                # A part may lack a label; all parts are to know the same ones.
                found = replace(found, labels=labels.tolist())
        return found, X, target

    def _strategy(self, candidates: Candidates, n: int) -> tuple[Strategy, str]:
        name, m = self.strategy, len(candidates)
        if name == "auto":
            name = "disjoint" if self._trials_are_rich(candidates, n) else "random_stopping"
        if name == "random_stopping":
            mean = max(RUNS_PER_CANDIDATE * m, 2) if is_auto(self.mean_runs) else self.mean_runs
            return RandomStopping(StoppingLaw.of_mean(float(mean), self.stopping_shape)), name
        return Disjoint(), name

    def _trials_are_rich(self, candidates: Candidates, n: int) -> bool:
        """Return whether disjoint parts tell candidates apart, by public facts alone."""
        public = n if candidates.neighbors == "replace_one" else candidates.public("n_public") or 0
        trial, _ = self._shares(Disjoint(), Budget(float(self.epsilon), 0.0))
        return (1 - self.held_out) * public / len(candidates) * trial.epsilon >= ENOUGH

    def _shares(self, strategy: Strategy, whole: Budget) -> tuple[Budget, Budget | None]:
        """Return the budgets of the search and, if there is one, of the last fit."""
        share = strategy.refit_share if is_auto(self.refit_share) else float(self.refit_share)
        return (whole, None) if share == 0 else split(whole, share)

    def _material(
        self, strategy: Strategy, trial: Budget, candidates: Candidates, X: Any, y: Any
    ) -> Material:
        """Cut the data, and say what is to be fitted where."""
        held, n_parts = float(self.held_out), strategy.n_parts(len(candidates))
        share, rng = (1 - held) / n_parts, as_generator(self.random_state)
        *rows, kept = parts(len(y), [share] * n_parts + [held], candidates.neighbors, rng)
        budget = strategy.of_each(trial)
        return Material(
            X,
            y,
            candidates,
            as_record_score(self.scoring, candidates.classifier, candidates.bounds),
            tuple(Fit(k, budget, rows[k % n_parts], share) for k in range(len(candidates))),
            kept,
            candidates.neighbors,
            rng,
            (lambda: None) if self._secret else (lambda: int(rng.integers(2**31))),
            self.n_jobs,
        )

    def _dry_run(self, material: Material, last: Budget) -> None:
        """Raise now what fits would raise; together they look at all the data."""
        whole = np.arange(len(material.y))
        with DryRun(material.neighbors, self._secret) as dry_run:
            for fit in material.fits:
                for one in (fit, Fit(fit.which, last, whole, 1.0)):
                    dry_run(material.model(one), *material.records(one.rows), one.budget)
        try_score(material, last)

    @property
    def _secret(self) -> bool:
        return is_cryptographic(self.random_state)

    def _charge(self, candidates: Candidates, guarantee: Guarantee) -> None:
        own, other = self.ledger, candidates.public("ledger")
        if own is not None and other is not None and own != other:
            remedy = "A search is charged once: give the ledger to the search alone."
            raise fail("ledger", "be the estimator's if both have one", None, remedy)
        ledger = other if own is None else own
        if ledger is not None:
            ledger.spend(guarantee, note=f"{type(self).__name__}.fit")

    # The chosen model

    def _keep(self, candidates: Candidates, found: Found) -> None:
        # Whoever takes the model alone takes what it cost to find it.
        private_step(found.model).guarantee_ = self.guarantee_
        restate(found.model, self.guarantee_)
        self.best_estimator_, self.best_index_ = found.model, found.which
        self.best_params_ = dict(candidates.settings[found.which])
        self.cv_results_ = results_of(candidates, found)
        self.__dict__.pop("best_score_", None)
        if found.score is not None:
            self.best_score_ = found.score

    @_if_best_has("predict")
    def predict(self, X: Any) -> Any:
        """Return the chosen model's predictions."""
        return self._best().predict(X)

    @_if_best_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Return the chosen model's probabilities of the labels."""
        return self._best().predict_proba(X)

    @_if_best_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of :meth:`predict_proba`."""
        return self._best().predict_log_proba(X)

    @_if_best_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Return the chosen model's log-odds."""
        return self._best().decision_function(X)

    @_if_best_has("score")
    def score(self, X: Any, y: Any) -> float:
        """Return the chosen model's accuracy or R^2; of private data this is a release."""
        return float(self._best().score(X, y))

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of the chosen model, if it is a classifier."""
        return np.asarray(self._best().classes_)

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.non_deterministic = self.random_state is None
        tags.input_tags.sparse = False
        tags.target_tags.required = True
        return tags
