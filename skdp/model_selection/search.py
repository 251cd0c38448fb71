"""A search over hyper-parameters in which the choice is private too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from skdp._checks import check_choice, check_count, check_epsilon, check_interval, check_jobs, fail
from skdp.domain.reading import read_target
from skdp.linear_model.validation import (
    check_labels,
    check_ledger,
    check_table,
    check_target,
    columns_kept,
    is_auto,
    spent_note,
    units_of,
    without_spent_notes,
)
from skdp.model_selection._candidates import (
    Candidates,
    check_no_callback,
    declared_labels,
    fit_to,
    private_step,
    warn_of_steps,
)
from skdp.model_selection._chosen import ChosenModel
from skdp.model_selection._dry_run import dry_run, gaussian_parts
from skdp.model_selection._guarantee import guarantee_of, restate
from skdp.model_selection._scoring import as_score
from skdp.model_selection._stopping import StoppingLaw
from skdp.model_selection._strategies import Disjoint, RandomStopping, Selection, Strategy, split
from skdp.model_selection._task import Data, PlannedFit, SearchTask, parts
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.ledger import Budget
from skdp.randomness import as_generator, is_cryptographic

STRATEGIES = ("auto", "disjoint", "random_stopping")
# Runs per candidate, if "auto": a candidate is tried with a probability of 4 in 5.
_RUNS_PER_CANDIDATE = 4
# Each run is a fit. A greater shape means more of them, too.
_MOST_RUNS, _MOST_SHAPE = 1e6, 1000
# "auto" takes disjoint parts if the records of a part times epsilon are at least this. Below, the
# choice is mostly noise, or suits less data than the last fit has.
_ENOUGH = 1000.0


class PrivateSearchCV(ChosenModel):
    """Search for hyper-parameters with one privacy budget for fits, scores and choice.

    Scikit-learn's searches choose by scores that no guarantee covers. This search holds some
    records out. The score of a candidate on these records has a public bound for its change by one
    record, and the choice is made with noise that is calibrated to the bound. Statements and
    proofs: ``docs/proofs/private_selection.md``, Theorems 1 to 9.

    Parameters
    ----------
    estimator : private estimator, or a Pipeline that ends in one
        It has parameters ``epsilon``, ``delta`` and ``random_state``, which the search sets.
        Steps before it must learn nothing from data: ``domain.encoder()``, a transformer that
        needs no fit, or a ``FrozenEstimator`` of one that was fitted to public data. What steps
        from outside this package print or warn of may depend on the data, and the guarantee does
        not cover it; a warning says so. Columns of a ColumnTransformer are selected by names or
        positions, and not by a function. A pipeline must have no ``memory``, because a cache
        writes private rows to disk. The estimator must not contain another search.
    param_grid : dict or list of dict
        As in scikit-learn; it may replace whole steps. ``epsilon``, ``delta``, ``ledger``,
        ``random_state``, ``neighbors``, ``n_public``, ``classes`` and ``domain`` are the same
        for all candidates: they must not be in the grid, nor differ in the steps of the grid.
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``: all fits, the choice and the last fit.
    delta : float in [0, 1), default=0.0
        Delta of the whole search. Candidates with pure-DP noise do not use their part of it.
    strategy : {"auto", "disjoint", "random_stopping"}, default="auto"
        - "disjoint" fits each candidate to its own part of the records, and chooses by
          permute-and-flip (after Chaudhuri, Monteleoni & Sarwate 2011). It then fits the chosen
          candidate to all records. The candidates are compared on fewer records, and with a
          smaller budget, than this last fit has.
        - "random_stopping" fits a random number of randomly drawn candidates to the same records
          and returns the best fit (Liu & Talwar 2019; Papernot & Steinke 2022). The candidates are
          compared on the records and with the budget of the returned model. They must not have a
          ``callback``. Their output, warnings and log records are not shown, because they would
          describe runs that the guarantee does not cover.
        - "auto" is "disjoint" if the records of a part times its epsilon are at least 1000, and
          else "random_stopping". "disjoint" is faster, and its running time reveals nothing.
    scoring : None, str or RecordScore, default=None
        None is the first name of the list for classifiers, or for regressors.

        - "accuracy".
        - "balanced_accuracy", the mean recall of all labels, and "roc_auc", the area under the
          ROC curve of two labels. Their order of the candidates is used, and not their values,
          whose denominators are private.
        - "neg_log_loss", with probabilities clipped to [p, 1 - p]; p is 0.04 divided by the
          number of labels.
        - "neg_mean_squared_error" and "neg_mean_absolute_error", with targets and predictions
          clipped to the domain's bounds.
        - "r2" chooses as "neg_mean_squared_error" does, because all candidates have the same
          held-out targets.

        Any other score of single records is given as a :class:`RecordScore`. Records are scored
        one at a time if the model or the score is not of this package, or for the log loss of
        more than two labels. This takes up to a second for 10,000 records and each candidate.
    held_out : float in (0, 1), default=0.2
        Share of the records on which candidates are scored. No candidate is fitted to them.
    refit_share : float in [0, 1) or "auto", default="auto"
        Share of the budget for a last fit of the chosen candidate to all records. 0 returns the
        model that was scored. "auto" is 0.75 for "disjoint" and 0 for "random_stopping". It is a
        share of epsilon and delta. For "disjoint" with delta > 0 it is a share of the squared mu
        of Gaussian DP, if all fits have Gaussian noise: both parts then have less noise, and the
        choice is made by the exponential mechanism.
    mean_runs : float in (1, 1e6) or "auto", default="auto"
        Average number of fits of random stopping. "auto" is four for each candidate; a candidate
        is then tried with probability 4/5. More runs take more time, but little more of the
        budget.
    stopping_shape : int in [1, 1000], default=1
        Shape of the negative binomial distribution of the number of fits; 1 is geometric. The
        budget of one fit is more than 1 / (2 + shape) of the whole. With a greater shape fewer
        searches are short.
    n_jobs : int, default=None
        Number of processes. None is one.
    random_state : None, int or Generator, default=None
        None draws from the operating system's entropy. All other values are for tests, and the
        guarantee then says that it does not hold.
    ledger : Ledger, default=None
        Charged once for the whole search, before any noise is drawn. None takes the ledger of the
        estimator, if it has one. The fits of the search charge no ledger. A later fit of
        ``best_estimator_`` is charged to it.
    verbose : int, default=0
        1 shows a progress bar on standard error for "disjoint". Random stopping shows none: the
        number of fits must stay secret. The running time is nearly proportional to it, so it must
        stay secret too.

    Attributes
    ----------
    best_estimator_ : estimator
        All guarantees in it are that of the search: ``guarantee_``, that of ``noise_``, and any
        other. Noise from outside the package whose guarantee cannot be replaced is set to None.
        Its parameters are those of its own fit.
    best_params_ : dict
    best_index_ : int
        Position of the chosen candidate in ``cv_results_["params"]``.
    best_score_ : float
        Noisy score of the chosen model. It exists only after random stopping under
        "replace_one", as no other score is released. It is the best of several scores, and hence
        too high on average. "r2" gives minus the squared error. "roc_auc" and "balanced_accuracy"
        give 1/2 + f (score - 1/2). The factor f <= 1 is private: the harmonic mean of the numbers
        of held-out records of the labels, over their arithmetic mean. For two labels it is
        4 pi (1 - pi) with the share pi of one of them, so the score is known if pi is public.
    cv_results_ : dict
        ``params``, ``param_...`` and ``rank_test_score``, which is 1 for the chosen candidate and
        2 for all others, because nothing is released about them. ``mean_test_score`` if there is
        a ``best_score_``.
    strategy_ : {"disjoint", "random_stopping"}
        The strategy that was used.
    guarantee_ : Guarantee
        The guarantee of the whole search.
    classes_ : ndarray of shape (n_classes,)
        The labels of the chosen model, if it is a classifier.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Present only if X had column names.

    Examples
    --------
    >>> from skdp import Domain, DPLogisticRegression
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(5000, random_state=0, with_target=True)
    >>> grid = {"mechanism": ["l1", "l2", "hull"]}
    >>> model = DPLogisticRegression(domain=domain)
    >>> search = PrivateSearchCV(model, grid, epsilon=2.0).fit(X, y)
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

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> PrivateSearchCV:
        """Search once, with the budget ``epsilon`` and ``delta``.

        Parameters
        ----------
        X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_features)
            In memory: the search cuts it into parts.
        y : array-like of shape (n,)
        groups : array-like of shape (n,), default=None
            The person of each row, as in the estimators. Then the guarantee protects persons, all
            rows of a person are in one part, and a score is a sum of means over persons.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the ledger has less than epsilon left. Nothing was drawn or spent.
        ValueError
            If a parameter, a column or a label breaks a rule of the search or of a candidate.
            All candidates are tried in a dry run before the budget is spent. A note on every
            error says whether the budget was spent.
        RuntimeError
            If a run of random stopping fails. Its own error is not shown, as it may describe the
            run.
        """
        with columns_kept(self), spent_note() as spent, without_spent_notes():
            whole = self._check_parameters()
            candidates, X, y = self._read(X, y)
            warn_of_steps(candidates.models)
            n, persons = units_of(groups, len(y))
            strategy = self._choose_strategy(candidates, n)
            budget, last = self._budgets(strategy, whole)
            if strategy.hides_runs:
                for model in candidates.models:
                    check_no_callback(model)
            task = self._task(strategy, budget, candidates, (X, y, persons), n)
            # Squares of mu add up, or else epsilons do.
            is_squared = isinstance(strategy, Disjoint) and last is not None and whole.delta > 0
            squared = gaussian_parts(task, whole, self._share(strategy)) if is_squared else None
            if squared is None:
                dry_run(task, last or budget)
            else:
                task, strategy, last = squared
            guarantee = guarantee_of(task, strategy, whole)
            self._charge(candidates, guarantee)
            spent.append(guarantee)
            chosen = strategy.select(task, budget, self.verbose)
            if last is not None:
                fit = PlannedFit(chosen.candidate, last, np.arange(len(y)), 1.0)
                chosen = replace(chosen, model=fit_to(task.model(fit), X, y, persons))
        self.strategy_, self.guarantee_ = strategy.name, guarantee
        self._keep(candidates, chosen)
        return self

    # Before the budget is spent

    def _check_parameters(self) -> Budget:
        epsilon = check_epsilon(self.epsilon, "Smaller is more private.")
        delta = check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        check_choice("strategy", self.strategy, STRATEGIES)
        check_interval("held_out", self.held_out, 0.0, 1.0, closed="neither")
        if not is_auto(self.refit_share):
            check_interval("refit_share", self.refit_share, 0.0, 1.0, closed="left")
        if not is_auto(self.mean_runs):
            check_interval("mean_runs", self.mean_runs, 1.0, _MOST_RUNS, closed="neither")
        check_count("stopping_shape", self.stopping_shape, most=_MOST_SHAPE)
        check_jobs(self.n_jobs)
        check_ledger("ledger", self.ledger)
        return Budget(epsilon, delta)

    def _read(self, X: Any, y: Any) -> tuple[Candidates, Any, NDArray[Any]]:
        """Return the candidates and copies of the data, all checked."""
        candidates = Candidates.from_grid(self.estimator, self.param_grid)
        private = candidates.private
        domain = getattr(private, "domain", None) if private is self.estimator else None
        # A copy, so that the fits see the data of the dry run.
        X = check_table(self, X, domain, reset=True).copy()
        target = check_target(self, y, len(X))
        if not is_classifier(private):
            return candidates, X, read_target(target, "target")
        declared = declared_labels(private)
        labels, places = check_labels(target, declared)
        # A part may lack a label, but all parts must have the same ones.
        classes = labels.tolist() if declared is None else None
        return replace(candidates, labels=labels, classes=classes), X, labels[places]

    def _choose_strategy(self, candidates: Candidates, n: int) -> Strategy:
        name, m = self.strategy, len(candidates)
        if name == "auto":
            name = "disjoint" if self._parts_are_large(candidates, n) else "random_stopping"
        if name == "disjoint":
            return Disjoint()
        mean = max(_RUNS_PER_CANDIDATE * m, 2) if is_auto(self.mean_runs) else self.mean_runs
        return RandomStopping(StoppingLaw.of_mean(float(mean), self.stopping_shape))

    def _parts_are_large(self, candidates: Candidates, n: int) -> bool:
        """Return whether records times epsilon of each part are enough, from public facts only."""
        is_n_public = candidates.neighbors == "replace_one"
        n_public = n if is_n_public else getattr(candidates.private, "n_public", None) or 0
        budget, _ = self._budgets(Disjoint(), Budget(float(self.epsilon), 0.0))
        return (1 - self.held_out) * n_public / len(candidates) * budget.epsilon >= _ENOUGH

    def _budgets(self, strategy: Strategy, whole: Budget) -> tuple[Budget, Budget | None]:
        """Return the budget of the fits and the choice, and that of the last fit, if any."""
        share = self._share(strategy)
        return (whole, None) if share == 0 else split(whole, share)

    def _share(self, strategy: Strategy) -> float:
        return strategy.refit_share if is_auto(self.refit_share) else float(self.refit_share)

    def _task(
        self, strategy: Strategy, budget: Budget, candidates: Candidates, data: Data, n: int
    ) -> SearchTask:
        """Cut the data into parts, and plan one fit for each candidate."""
        held_out, n_parts = float(self.held_out), strategy.n_parts(len(candidates))
        share, rng = (1 - held_out) / n_parts, as_generator(self.random_state)
        shares, (X, y, persons) = [share] * n_parts + [held_out], data
        *rows, kept = parts(n, shares, candidates.neighbors, rng, persons)
        each = strategy.fit_budget(budget)
        return SearchTask(
            X,
            y,
            candidates,
            as_score(self.scoring, candidates.labels, candidates.target_bounds, candidates.models),
            tuple(PlannedFit(k, each, rows[k % n_parts], share) for k in range(len(candidates))),
            kept,
            rng,
            not is_cryptographic(self.random_state),
            self.n_jobs,
            persons,
        )

    def _charge(self, candidates: Candidates, guarantee: Guarantee) -> None:
        own, other = self.ledger, getattr(candidates.private, "ledger", None)
        if own is not None and other is not None and own != other:
            remedy = "A search is charged once: give the ledger to the search only."
            raise fail("ledger", "be the estimator's if both have one", None, remedy)
        if (ledger := self._ledger(candidates)) is not None:
            ledger.spend(guarantee, note=f"{type(self).__name__}.fit")

    def _ledger(self, candidates: Candidates) -> Ledger | None:
        other = getattr(candidates.private, "ledger", None)
        return other if self.ledger is None else self.ledger

    # The chosen model

    def _keep(self, candidates: Candidates, chosen: Selection) -> None:
        # The model is often used without the search, so it carries the guarantee of the search.
        private = private_step(chosen.model)
        private.guarantee_ = self.guarantee_
        if "ledger" in private.get_params(deep=False):  # for later fits of the model
            private.set_params(ledger=self._ledger(candidates))
        restate(chosen.model, self.guarantee_)
        self.best_estimator_, self.best_index_ = chosen.model, chosen.candidate
        self.best_params_ = dict(candidates.settings[chosen.candidate])
        self.cv_results_ = candidates.cv_results(chosen.candidate, chosen.score)
        self.__dict__.pop("best_score_", None)
        if chosen.score is not None:
            self.best_score_ = chosen.score
