"""The dry run of a search: errors of fits and scores are found before the budget is spent."""

from __future__ import annotations

import math
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skdp._checks import fail
from skdp._identity import is_ours
from skdp.domain import Domain
from skdp.model_selection._candidates import CALLBACKS, Candidates, fit_to, private_step
from skdp.model_selection._choice import Choice
from skdp.model_selection._task import PlannedFit, SearchTask
from skdp.privacy import BudgetExceeded, Ledger
from skdp.privacy.conversions import gaussian_epsilon, gaussian_mu, pure_of_mu
from skdp.privacy.ledger import Budget
from skdp.privacy.profile import equivalents

# A ceiling below every budget.
_NOTHING = 5e-324
_N_RECORDS = 10
# Dry runs for one plan, and the factor by which the mu of a fit may exceed its goal at first.
_TRIES, _MOST_EXCESS = 3, 1.2


def gaussian_parts(
    task: SearchTask, whole: Budget, share: float
) -> tuple[SearchTask, Choice, Budget] | None:
    """Return fits, choice and last budget whose squared mu add up, or None if one is too great.

    The search is then private by Gaussian DP (private_selection.md, Theorem 6). A fit has about
    its goal's mu if its noise is Gaussian and calibrated to the epsilon of that mu at all of delta.
    If it has a little more, it is asked for less.
    """
    mu = gaussian_mu(whole.epsilon, whole.delta) * (1 - 1e-9)
    goals = np.array([math.sqrt(1 - share), math.sqrt(share)]) * mu
    asked = goals
    for _ in range(_TRIES):
        own, last = (
            Budget(gaussian_epsilon(float(one), whole.delta), whole.delta) for one in asked
        )
        if not min(own.epsilon, last.epsilon) > 0:
            return None
        fits = tuple(replace(fit, budget=own) for fit in task.fits)
        planned = replace(task, fits=fits)
        found = np.array(dry_run(planned, last))
        if (found <= goals).all():
            width = 2 * pure_of_mu(float(goals[0]))
            return planned, Choice(width, math.hypot(*goals)), last
        if not (found <= _MOST_EXCESS * goals).all():
            return None
        asked = asked * np.minimum(1.0, goals / found * (1 - 1e-3))
    return None


def dry_run(task: SearchTask, last: Budget) -> tuple[float, float]:
    """Raise the errors of all fits, and of the score, without drawing noise.

    Returns the greatest mu of the fits, and of the last fits, inf if one is not known.

    Each candidate is fitted to its own records, and to all records with the budget ``last`` of
    the last fit. A candidate without a ledger is not fitted; the guarantee lists its privacy as an
    assumption.
    """
    rows = np.arange(len(task.y))
    with tempfile.TemporaryDirectory(prefix="skdp-dry-run-") as folder:
        empty = Ledger(_NOTHING, path=f"{folder}/ledger.sqlite3")
        found = []
        for planned in task.fits:
            for fit in (planned, PlannedFit(planned.candidate, last, rows, 1.0)):
                model, mu = task.model(fit), math.inf
                if _has_ledger(model):
                    private_step(model).set_params(ledger=empty)
                    mu = _try_fit(task, fit, model)
                found.append(mu)
    _try_score(task, last)
    return max(found[::2]), max(found[1::2])


def _has_ledger(model: Any) -> bool:
    return "ledger" in private_step(model).get_params()


def _try_fit(task: SearchTask, fit: PlannedFit, model: Any) -> float:
    """Fit a model with an empty ledger, which stops it after its checks and before any noise.

    Returns the mu of the guarantee that it asks for, inf if none is known.

    The guarantee that it asks for must fit the budget and the neighbouring relation of the search.
    """
    try:
        fit_to(model, *task.records(fit.rows))
    except BudgetExceeded as error:
        asked = error.asked
    else:
        raise fail("estimator", "charge its ledger before it draws noise", type(model))
    if asked is None:
        return math.inf
    if asked.neighbors != (neighbors := task.candidates.neighbors):
        rule = f"claim a guarantee under neighbors={neighbors!r}"
        raise fail("every candidate", rule, asked.neighbors)
    if asked.unit != task.unit:
        raise fail("every candidate", f"claim a guarantee for the unit {task.unit!r}", asked.unit)
    if asked.epsilon > fit.budget.epsilon or asked.delta > fit.budget.delta:
        rule = f"charge at most the {fit.budget} that it is given"
        raise fail("every candidate", rule, str(Budget(asked.epsilon, asked.delta)))
    if not (task.is_seeded or asked.holds):
        rule = "claim a guarantee that holds if the search has no random_state"
        raise fail("every candidate", rule)
    # What other estimators claim beyond epsilon and delta is not used.
    known = equivalents(asked.epsilon, asked.delta, asked.losses).square
    return math.sqrt(known) if is_ours(private_step(model)) else math.inf


def _try_score(task: SearchTask, budget: Budget) -> None:
    """Try a user's score on a model of every candidate.

    No private data are used: the models are fitted to artificial records that are drawn from the
    declared domain, with noise from a fixed seed. A candidate is left out if no domain declares
    its input, if it has no ledger, since it may charge another one, or if it cannot be fitted to
    these records.
    """
    if task.score.is_built_in:
        return
    for which, built in enumerate(task.candidates.models):
        domain = _input_domain(built)
        model = task.candidates.model(which, budget, 1.0, 0)
        if type(domain) is not Domain or not _has_ledger(model):
            continue
        y = _artificial_target(task.candidates)
        X = _like(domain.sample(len(y), 0), task.X)
        callbacks = [name for name in model.get_params() if name.rpartition("__")[2] in CALLBACKS]
        try:
            model.set_params(**dict.fromkeys(callbacks))
            fit_to(model, X, y, None if task.persons is None else np.arange(len(y)))
        except Exception:
            continue
        try:
            task.score.total(model, X, y)
        except Exception as error:
            error.add_note("The score was tried on artificial records, drawn from the domain.")
            raise


def _input_domain(model: Any) -> Any:
    """Return the domain that the first step declares, or None."""
    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    return getattr(first, "domain", None)


def _artificial_target(candidates: Candidates) -> NDArray[Any]:
    """Return all labels in turn, or numbers between the bounds."""
    if not is_classifier(candidates.private):
        return np.linspace(*(candidates.target_bounds or (-1.0, 1.0)), _N_RECORDS)
    return np.resize(candidates.labels, max(_N_RECORDS, 2 * len(candidates.labels)))


def _like(rows: Any, table: Any) -> Any:
    """Return rows as an array or a frame, as the table is, with its columns and types."""
    if not hasattr(table, "iloc"):
        return np.asarray(rows)
    if not hasattr(rows, "iloc"):
        return type(table)(rows, columns=table.columns)
    with suppress(KeyError, TypeError, ValueError):
        rows = rows[list(table.columns)]
        # By the names of types: a categorical type holds the categories that occur.
        rows = rows.astype({name: str(kind) for name, kind in table.dtypes.items()})
    return rows
