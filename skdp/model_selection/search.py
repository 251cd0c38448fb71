"""A search over hyper-parameters with a private choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._estimators import Documented, with_bar
from skdp.domain.tables import Frame, in_memory, read_target
from skdp.linear_model.validation import (
    check_labels,
    check_ledger,
    check_table,
    check_target,
    columns_kept,
    is_auto,
    read_weights,
    refuse_unsupported,
    spent_note,
    units_of,
    warn_before_charge,
    without_spent_notes,
)
from skdp.model_selection._candidates import (
    Candidates,
    Data,
    PlannedFit,
    SearchTask,
    declared_labels,
    fit_to,
    greatest_weight,
    parts,
    private_step,
    refuse_several,
    warn_of_steps,
)
from skdp.model_selection._scores import RecordScore, as_score
from skdp.model_selection._selection import (
    dry_run,
    gaussian_parts,
    guarantee_of_search,
    restate,
    split,
)
from skdp.model_selection._theorem import SearchChoice
from skdp.privacy.ledger import Budget, Ledger
from skdp.trusted.arrays import Array
from skdp.trusted.checks import check_epsilon, check_interval, check_jobs, fail
from skdp.trusted.randomness import RandomStateLike, as_generator, is_cryptographic

Method = TypeVar("Method", bound=Callable[..., object])


def _if_best_has(name: str) -> Callable[[Method], Method]:
    """Offer a method if the chosen model has it, or, before a fit, if the estimator has it."""

    def has(search: PrivateSearchCV) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)  # names what is missing
        return True

    return cast("Callable[[Method], Method]", available_if(has))


class PrivateSearchCV(Documented, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search for hyper-parameters with one privacy budget for fits, scores and choice.

    Scikit-learn's searches choose by scores that no guarantee covers. This search holds some
    records out, and fits each candidate to a separate part of the others. One record changes the
    score of a candidate on the held-out records by at most a public bound, to which the randomness
    of the choice, by permute-and-flip, is calibrated (after Chaudhuri, Monteleoni & Sarwate 2011).
    The chosen candidate is then fitted to all records. So candidates are compared with fewer
    records and a smaller budget than the last fit has. Statements and proofs:
    ``docs/proofs/private_selection.md``, Theorems 1 to 6.

    Parameters
    ----------
    estimator : private estimator, or a Pipeline that ends in one
        The search sets its parameters ``epsilon``, ``delta`` and ``random_state``. Steps before it
        must learn nothing from data: ``domain.encoder()``, a transformer that needs no fit, or a
        ``FrozenEstimator`` of a transformer that was fitted to public data. Steps from outside this
        package raise a warning, because what they print, warn about or refuse (such as a part
        without rows) may depend on the data. Columns of a ColumnTransformer must be selected by
        names or positions, not by a function. A pipeline must have no ``memory``, because a cache
        writes private rows to disk. The estimator must not contain another search.
    param_grid : dict or list of dict
        As in scikit-learn; it can also replace entire steps. ``epsilon``, ``delta``, ``ledger``,
        ``random_state``, ``neighbors``, ``n_public``, ``max_weight``, ``classes`` and ``domain``
        must be the same for all candidates: they must not be in the grid, or differ between steps
        in the grid.
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``: all fits, the choice and the last fit.
    delta : float in [0, 1), default=0.0
        Delta of the entire search. Candidates with pure-DP noise do not spend their share of it.
    scoring : None, str or RecordScore, default=None
        None is "accuracy" for classifiers and "neg_mean_squared_error" for regressors, but
        "neg_mean_pinball_loss" for models of a quantile, with their level, and
        "neg_mean_poisson_deviance" for models of counts and costs.

        - "accuracy".
        - "balanced_accuracy", the mean recall of all labels, and "roc_auc", the area under the
          ROC curve of two labels. Their order of the candidates is used, and not their values,
          whose denominators are private.
        - "neg_log_loss", with probabilities clipped to [p, 1 - p]; p is 0.04 divided by the
          number of labels, and "neg_brier_score".
        - "neg_mean_squared_error" and "neg_mean_absolute_error", with targets and predictions
          clipped to the domain's bounds. So are those of the two other losses; a deviance raises
          predictions below a hundredth of the upper bound to it.
        - "r2" chooses as "neg_mean_squared_error" does, because all candidates have the same
          held-out targets.

        For other scores of single records, pass a :class:`RecordScore`. Records are scored one at a
        time if the model or the score is not from this package, and for the log loss of more than
        two labels. This takes up to a second per 10,000 records and candidate.
    held_out : float in (0, 1), default=0.2
        Share of the records on which candidates are scored. No candidate is fitted to them.
    refit_share : float in [0, 1) or "auto", default="auto"
        Share of epsilon and delta for the last fit, of the chosen candidate to all records; "auto"
        is 0.75. 0 returns the model that was scored. If delta > 0 and all fits have Gaussian noise,
        it is a share of the squared mu of Gaussian DP: the fits then need less noise, and the
        choice is made by the exponential mechanism.
    n_jobs : int, default=None
        Number of processes. None means 1.
    random_state : None, int or Generator, default=None
        None uses the entropy of the operating system. Other values are for tests only and void the
        guarantee.
    ledger : Ledger, default=None
        A ledger that is charged once for the entire search, before any noise is drawn. If None, the
        ledger of the estimator is used, if it has one. Single fits of the search are not charged.
        Later fits of ``best_estimator_`` are charged to the same ledger.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen model. All guarantees in it, such as ``guarantee_`` and the guarantee of
        ``noise_``, are replaced by the guarantee of the search. Noise from outside the package
        whose guarantee cannot be replaced is set to None. The parameters are those of the last fit.
    best_params_ : dict
    best_index_ : int
        Position of the chosen candidate in ``cv_results_["params"]``.
    cv_results_ : dict
        Contains ``params``, ``param_...`` and ``rank_test_score``, which is 1 for the chosen
        candidate and 2 for all others. No scores are released.
    guarantee_ : Guarantee
        The guarantee of the entire search.
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
        estimator: BaseEstimator,
        param_grid: object,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        scoring: object = None,
        held_out: float = 0.2,
        refit_share: float | str = "auto",
        n_jobs: int | None = None,
        random_state: RandomStateLike = None,
        ledger: Ledger | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.held_out = held_out
        self.refit_share = refit_share
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    # As in the estimators.
    __metadata_request__fit: ClassVar = {"sample_weight": None}

    def fit(
        self, X: object, y: object = None, *, groups: object = None, **others: object
    ) -> PrivateSearchCV:
        """Search once, with the budget ``epsilon`` and ``delta``.

        Parameters
        ----------
        X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_features)
            A table in memory, because the search divides it into parts.
        y : array-like of shape (n,)
        groups : array-like of shape (n,), default=None
            The person of each row, as for the estimators. If given, the guarantee protects all rows
            of a person together. These rows are in one part, and a score is a sum over persons of
            means of their rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows, as for the estimators, in fits and scores. ``scoring`` must then
            be a sum over records: not "balanced_accuracy" or "roc_auc".

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the budget does not fit the ledger. Then no noise was drawn and nothing was spent.
        ValueError
            If a parameter, a column or a label violates a rule of the search or of a candidate. All
            candidates are checked in a dry run before the budget is spent. A note of each error
            states whether the budget was spent.
        """
        with columns_kept(self), spent_note() as spent, without_spent_notes():
            sample_weight = others.pop("sample_weight", None)
            if "target" in others:
                raise TypeError("A search does not support target: pass y, and X without it.")
            refuse_unsupported(others)
            whole = self._check_parameters()
            candidates, X, y = self._read(X, y)
            warn_of_steps(candidates.models)
            n, persons = units_of(groups, len(y))
            weights = read_weights(sample_weight, len(y), greatest_weight(candidates.private))
            warn_before_charge(self, n if candidates.neighbors == "replace_one" else None)
            share = 0.75 if is_auto(self.refit_share) else float(self.refit_share)
            budget, last = (whole, None) if share == 0 else split(whole, share)
            task = self._task(budget, candidates, (X, y, persons, weights), n)
            # Squares of mu add up, or else epsilons do.
            is_squared = last is not None and whole.delta > 0
            squared = gaussian_parts(task, whole, share) if is_squared else None
            if squared is None:
                dry_run(task, last or budget)
                choice = SearchChoice(budget.epsilon)
            else:
                task, choice, last = squared
            guarantee = guarantee_of_search(task, choice, last, whole)
            ledger = getattr(candidates.private, "ledger", None)
            if ledger is not None and self.ledger not in (None, ledger):
                remedy = "A search is charged once: give the ledger to the search only."
                raise fail("ledger", "be the estimator's if both have one", None, remedy)
            ledger = ledger if self.ledger is None else self.ledger
            if ledger is not None:
                ledger.spend(guarantee, note=f"{type(self).__name__}.fit")
            spent.append(guarantee)
            fitted = with_bar(task.fit_and_score(), len(task.fits), "candidate", self.verbose)
            models, totals = zip(*fitted, strict=True)
            chosen = choice.draw(totals, task.sensitivity, task.rng)
            model = models[chosen]
            if last is not None:
                fit = PlannedFit(chosen, last, np.arange(len(y)), 1.0)
                model = fit_to(task.model(fit), X, y, persons, weights)
        # The model is often used without the search, so it carries the guarantee of the search.
        private = private_step(model)
        if "ledger" in private.get_params(deep=False):  # for later fits of the model
            private.set_params(ledger=ledger)
        self.guarantee_ = restate(private, guarantee)
        self.best_estimator_, self.best_index_ = model, chosen
        self.best_params_ = dict(candidates.settings[chosen])
        self.cv_results_ = candidates.cv_results(chosen)
        return self

    def _check_parameters(self) -> Budget:
        epsilon = check_epsilon(self.epsilon, "Smaller is more private.")
        delta = check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        check_interval("held_out", self.held_out, 0.0, 1.0, closed="neither")
        if not is_auto(self.refit_share):
            check_interval("refit_share", self.refit_share, 0.0, 1.0, closed="left")
        check_jobs(self.n_jobs)
        check_ledger("ledger", self.ledger)
        return Budget(epsilon, delta)

    def _read(self, X: Frame, y: object) -> tuple[Candidates, Frame, Array]:
        """Return the candidates and copies of the data, all checked."""
        candidates = Candidates.from_grid(self.estimator, self.param_grid)
        private = candidates.private
        domain = getattr(private, "domain", None) if private is self.estimator else None
        ledger = self.ledger or getattr(private, "ledger", None)
        names = getattr(getattr(private, "domain", None), "names", None)  # of an array
        check_ledger("ledger", ledger, getattr(in_memory(X), "columns", names))
        # A copy, so that the fits see the data of the dry run.
        X = check_table(self, X, domain, reset=True, neighbors=candidates.neighbors).copy()
        target = check_target(self, y, len(X))
        if not is_classifier(private):
            return candidates, X, read_target(target, "target")
        declared = declared_labels(private)
        labels, places = check_labels(target, declared)
        # A part may lack a label, but all parts must have the same ones.
        classes = labels.tolist() if declared is None else None
        return replace(candidates, labels=labels, classes=classes), X, labels[places]

    def _task(self, budget: Budget, candidates: Candidates, data: Data, n: int) -> SearchTask:
        held_out, n_parts = float(self.held_out), len(candidates)
        share, rng = (1 - held_out) / n_parts, as_generator(self.random_state)
        shares, (X, y, persons, weights) = [share] * n_parts + [held_out], data
        *rows, kept = parts(n, shares, candidates.neighbors, rng, persons)
        labels, bounds = candidates.labels, candidates.target_bounds
        if not isinstance(self.scoring, RecordScore):
            refuse_several(candidates.models)
        score = as_score(self.scoring, labels, bounds, candidates.models)
        if weights is not None and not isinstance(score, RecordScore):
            remedy = 'Use "accuracy", "neg_log_loss" or a RecordScore.'
            raise fail("scoring", "be a sum over records with weights", self.scoring, remedy)
        # The whole budget for each, because no record is in two parts.
        fits = tuple(PlannedFit(k, budget, part, share) for k, part in enumerate(rows))
        seeded = not is_cryptographic(self.random_state)
        facts = candidates, score, fits, kept, rng, seeded, self.n_jobs, persons, weights
        return SearchTask(X, y, *facts)

    # The chosen model

    @_if_best_has("predict")
    def predict(self, X: object) -> Any:
        """Return the chosen model's predictions, for the same tables as the model."""
        return self._best().predict(X)

    @_if_best_has("predict_proba")
    def predict_proba(self, X: object) -> Any:
        """Return the chosen model's probabilities of the labels."""
        return self._best().predict_proba(X)

    @_if_best_has("predict_log_proba")
    def predict_log_proba(self, X: object) -> Any:
        """Return the logarithms of :meth:`predict_proba`."""
        return self._best().predict_log_proba(X)

    @_if_best_has("decision_function")
    def decision_function(self, X: object) -> Any:
        """Return the chosen model's log-odds."""
        return self._best().decision_function(X)

    @_if_best_has("score")
    def score(self, X: object, y: object) -> float:
        """Return the chosen model's accuracy or R^2. On private data this is a release."""
        return float(self._best().score(X, y))

    @property
    def classes_(self) -> Array:
        """Labels of the chosen model, if it is a classifier."""
        return np.asarray(self._best().classes_)

    def _best(self) -> BaseEstimator:
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        parts = "classifier_tags", "regressor_tags", "input_tags", "target_tags"
        for name in ("estimator_type", *parts):
            setattr(tags, name, getattr(inner, name))
        tags.input_tags.sparse = False  # a pipeline may accept it, the search does not
        tags.target_tags.required = True
        return tags
