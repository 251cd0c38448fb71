"""The theorem of a private search: its choice, its budgets, and its guarantee.

Theorems 1 and 6 of private_selection.md are sampled exactly. Scores are integers, rates are
fractions, and every draw is made of fair bits. Nothing is rounded, so the computer draws from
exactly the distributions of the theorems. A dry run finds errors of fits and scores before the
budget is spent.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skdp.domain import Domain
from skdp.linear_model.proof import CHOSEN
from skdp.linear_model.validation import (
    INFERRED,
    RECORDS,
    UNSEEN,
    WEIGHTED,
    chosen_publicly,
    numbered,
)
from skdp.model_selection._candidates import (
    PlannedFit,
    SearchTask,
    declared_labels,
    fit_to,
    private_step,
)
from skdp.model_selection._scores import RecordScore, is_built_in
from skdp.model_selection._theorem import PrivateFits, SearchChoice
from skdp.privacy import BudgetExceeded, Guarantee, Ledger
from skdp.privacy.conversions import gaussian_epsilon, gaussian_mu, pure_of_mu
from skdp.privacy.guarantee import guarantee_of
from skdp.privacy.ledger import Budget
from skdp.privacy.profile import equivalents
from skdp.trusted.arrays import as_decimal, float_below, subtract
from skdp.trusted.checks import fail, is_ours
from skdp.trusted.statement import Public

# A ceiling below every budget.
_NOTHING = 5e-324
_N_RECORDS = 10
# Dry runs for one plan, and the factor by which the mu of a fit may exceed its goal at first.
_TRIES, _MOST_EXCESS = 3, 1.2
_PUBLIC = (
    "scores, steps and other parts from outside skdp treat records separately and store nothing",
    UNSEEN,
)
_STEPS = (
    "the steps before the model learn nothing from the data; the types of columns, on which they"
    " may depend, are declared and not inferred from cells"
)
SEEDED = "the noise came from random_state and not from the operating system"


# The choice


def split(whole: Budget, share: float) -> tuple[Budget, Budget]:
    """Return the rest and the share of a budget; as decimals they sum to at most the whole."""
    first = Budget((1 - share) * whole.epsilon, (1 - share) * whole.delta)
    epsilon = float_below(subtract(whole.epsilon, as_decimal(first.epsilon)))
    return first, Budget(epsilon, float_below(subtract(whole.delta, as_decimal(first.delta))))


# The budgets, and a dry run


def gaussian_parts(
    task: SearchTask, whole: Budget, share: float
) -> tuple[SearchTask, SearchChoice, Budget] | None:
    """Return fits, choice and last budget whose squared mu add up, or None if one is too great.

    The search is then private by Gaussian DP (private_selection.md, Theorem 6). A fit has about
    its goal's mu if its noise is Gaussian and calibrated to the epsilon of that mu at all of delta.
    If it has a little more, it is asked for less.
    """
    mu = gaussian_mu(whole.epsilon, whole.delta) * (1 - 1e-9)
    goals = np.array([math.sqrt(1 - share), math.sqrt(share)]) * mu
    mus = goals
    for _ in range(_TRIES):
        trial, last = (Budget(gaussian_epsilon(x, whole.delta), whole.delta) for x in mus.tolist())
        if not min(trial.epsilon, last.epsilon) > 0:
            return None
        planned = replace(task, fits=tuple(replace(fit, budget=trial) for fit in task.fits))
        needed = np.array(dry_run(planned, last))
        if (needed <= goals).all():
            width = 2 * pure_of_mu(float(goals[0]))
            return planned, SearchChoice(width, (float(goals[0]), float(goals[1]))), last
        if not (needed <= _MOST_EXCESS * goals).all():
            return None
        mus = mus * np.minimum(1.0, goals / needed * (1 - 1e-3))
    return None


def dry_run(task: SearchTask, last: Budget) -> tuple[float, float]:
    """Raise the errors of all fits, and of the score, without drawing noise.

    Returns the greatest mu of the fits, and of the last fits, inf if one is not known.

    Each candidate is fitted to its own records, and to all records with the budget ``last`` of
    the last fit. A candidate without a ledger is not fitted; the guarantee lists its privacy as an
    assumption.
    """
    rows = np.arange(len(task.y))
    lasts = [PlannedFit(fit.candidate, last, rows, 1.0) for fit in task.fits]
    mus = [_try_fit(task, fit) for both in zip(task.fits, lasts, strict=True) for fit in both]
    _try_score(task, last)
    return max(mus[::2]), max(mus[1::2])


def _has_ledger(model: BaseEstimator) -> bool:
    return "ledger" in private_step(model).get_params()


def _try_fit(task: SearchTask, fit: PlannedFit) -> float:
    """Fit a model with an empty ledger, which stops it after its checks and before any noise.

    Returns the mu of the guarantee that it asks for, inf if none is known.
    """
    model = task.model(fit)
    if not _has_ledger(model):
        return math.inf
    private_step(model).set_params(ledger=Ledger(_NOTHING))
    try:
        fit_to(model, *task.records(fit.rows))
    except BudgetExceeded as error:
        asked = error.asked
    else:
        raise fail("estimator", "charge its ledger before it draws noise", type(model))
    if asked is None:
        return math.inf
    neighbors, budget = task.candidates.neighbors, fit.budget
    is_within = asked.epsilon <= budget.epsilon and asked.delta <= budget.delta
    is_alike = (asked.neighbors, asked.unit) == (neighbors, task.unit)
    if not (is_within and is_alike and (task.is_seeded or asked.holds)):
        rule = f"ask for a guarantee that holds, of at most {budget}, for one {task.unit}"
        raise fail("every candidate", f"{rule} under {neighbors!r}", str(asked))
    # What other estimators claim beyond epsilon and delta is not used.
    square = equivalents(asked.epsilon, asked.delta, asked.losses).square
    return math.sqrt(square) if is_ours(private_step(model)) else math.inf


def _try_score(task: SearchTask, budget: Budget) -> None:
    """Try a user's score on a model of the first candidate.

    No private data are used: the model is fitted to artificial records that are drawn from the
    declared domain, with noise from a fixed seed. Nothing is tried if no domain declares the
    input, if the model has no ledger, since it may charge another one, or if it cannot be fitted
    to these records.
    """
    model, candidates = task.candidates.model(0, budget, 1.0, 0), task.candidates
    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    domain, score = getattr(first, "domain", None), task.score
    is_users = isinstance(score, RecordScore) and not is_built_in(score.function)
    if not is_users or domain is None or not _has_ledger(model):
        return
    y = np.linspace(*(candidates.target_bounds or (-1.0, 1.0)), _N_RECORDS)
    if candidates.labels is not None:
        y = np.resize(candidates.labels, max(_N_RECORDS, 2 * len(candidates.labels)))
    X = domain.sample(len(y), 0)
    if hasattr(task.X, "iloc"):
        columns = list(task.X.columns)
        X = X[columns] if hasattr(X, "iloc") else type(task.X)(X, columns=columns)
    X = X if hasattr(task.X, "iloc") else np.asarray(X)
    if "callback" in private_step(model).get_params():
        private_step(model).set_params(callback=None)
    try:
        weights = None if task.weights is None else np.ones(len(y), np.int64)
        fit_to(model, X, y, None if task.persons is None else np.arange(len(y)), weights)
    except Exception:
        return
    try:
        score.total(model, X, y)
    except Exception as error:
        error.add_note("The score was tried on artificial records, drawn from the domain.")
        raise


# The guarantee


def guarantee_of_search(
    task: SearchTask, choice: SearchChoice, last: Budget | None, whole: Budget
) -> Guarantee:
    candidates = task.candidates
    tried = [private_step(model) for model in candidates.models]
    chosen = "the labels, the candidates and all parameters"
    domains = [chosen_publicly(_domain_of(model), chosen) for model in candidates.models]
    # Without repetitions, in the order of the candidates.
    assumptions = [*dict.fromkeys(domains), RECORDS[task.unit], *_PUBLIC]
    assumptions += [WEIGHTED] * (task.weights is not None)
    if isinstance(candidates.estimator, Pipeline):
        assumptions.append(_STEPS)
    if candidates.classes is not None:
        assumptions.append(INFERRED)
    elif candidates.labels is not None:
        assumptions += numbered(declared_labels(candidates.private), candidates.labels)
    others = sorted({type(one).__name__ for one in tried if not is_ours(one)})
    assumptions += [
        f"the fits of {name} are private at the budget they are given" for name in others
    ]
    about, mus = (candidates.neighbors, task.unit), choice.mus or (None, None)
    releases = [PrivateFits("fits and choice", task.fits[0].budget, *about, mus[0], choice)]
    if last is not None:
        releases.append(PrivateFits("last fit", last, *about, mus[1]))
    void = (SEEDED,) if task.is_seeded else ()
    public = Public(
        whole.epsilon, whole.delta, *about, assumptions=tuple(assumptions), void_because=void
    )
    names = " or ".join(sorted({type(one).__name__ for one in tried}))
    mechanism = (
        f"private search over {len(candidates)} candidates of {names}: fits to disjoint parts of"
        f" the records, {choice.name}"
    )
    return guarantee_of(releases, public, mechanism)


def _domain_of(model: BaseEstimator) -> Domain | None:
    """Return the domain of a candidate, or that of an encoder before it if it was estimated."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    domains = [getattr(step, "domain", None) for step in (private_step(model), *steps)]
    estimated = (one for one in domains if getattr(one, "estimated", None) is not None)
    return next(estimated, domains[0])


def restate(model: BaseEstimator, whole: Guarantee) -> Guarantee:
    """Replace, in place, the guarantees of a chosen model by that of the search; return it.

    Its own guarantees are those of a single fit. This is less than the cost of the model, which
    was found by the search. Its attributes ``releases_`` and ``public_`` stay those of this fit,
    and the guarantee names these releases.
    """
    if is_ours(model):
        whole = replace(whole, mechanism=whole.mechanism + CHOSEN + model.guarantee_.mechanism)
    model.guarantee_ = whole
    if hasattr(model, "noise_"):  # that of another package cannot be restated
        model.noise_ = replace(model.noise_, guarantee=whole) if is_ours(model.noise_) else None
    if hasattr(model, "moments_"):
        model.moments_ = replace(model.moments_, noise=model.noise_)
    return whole
