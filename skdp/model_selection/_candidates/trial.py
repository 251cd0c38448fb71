"""A score tried on made-up records: what it would raise is raised before anything is spent."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from skdp.domain import Domain
from skdp.linear_model.validation import check_labels
from skdp.model_selection._candidates.candidates import Candidates
from skdp.model_selection._candidates.ownership import CALLBACKS, prefix_of
from skdp.model_selection._candidates.silence import silence
from skdp.model_selection._material import Material
from skdp.privacy.ledger import Budget

_RECORDS = 10


def try_score(material: Material, budget: Budget) -> None:
    """Try a score that is not of this package on a model of every candidate.

    Nothing private goes in: the models are fitted to rows that are drawn from the declared
    domain, with noise from a fixed seed. A candidate is left out if nothing declares its input,
    if it has no ledger, since it may charge elsewhere, or if it cannot be fitted to these rows.
    """
    if material.score.is_ours:
        return
    for which in range(len(material.candidates)):
        domain = _input_domain(material.candidates.built(which))
        model = material.candidates.model(which, budget, 1.0, 0)
        if type(domain) is not Domain or prefix_of(model) + "ledger" not in model.get_params():
            continue
        y = _made_up_target(material.candidates, material.y)
        X = _like(domain.sample(len(y), 0), material.X)
        with silence():
            if _fits(model, X, y):
                _score(material, model, X, y)


def _input_domain(model: Any) -> Any:
    """Return the domain that the first step declares, None if it declares none."""
    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    return getattr(first, "domain", None)


def _made_up_target(candidates: Candidates, y: NDArray[Any]) -> NDArray[Any]:
    """Return all labels in turn, or numbers between the bounds; no value of ``y`` is used."""
    if not candidates.classifier:
        return np.linspace(*(candidates.bounds or (-1.0, 1.0)), _RECORDS)
    labels = candidates.labels
    if labels is None:
        labels, _ = check_labels(y, candidates.declared_labels)
    return np.resize(labels, max(_RECORDS, 2 * len(labels)))


def _like(rows: Any, table: Any) -> Any:
    """Return rows as an array or a frame, whichever the table is, with its columns and types."""
    if not hasattr(table, "iloc"):
        return np.asarray(rows)
    if not hasattr(rows, "iloc"):
        return type(table)(rows, columns=table.columns)
    with suppress(KeyError, TypeError, ValueError):
        rows = rows[list(table.columns)]
        # By the names of types: a type of categories holds those that occur.
        rows = rows.astype({name: str(kind) for name, kind in table.dtypes.items()})
    return rows


def _fits(model: Any, X: Any, y: NDArray[Any]) -> bool:
    """Fit a model that shows itself to nobody; return whether it could be fitted."""
    watched = [name for name in model.get_params() if name.rpartition("__")[2] in CALLBACKS]
    with suppress(Exception):
        model.set_params(**dict.fromkeys(watched)).fit(X, y)
        return True
    return False


def _score(material: Material, model: Any, X: Any, y: NDArray[Any]) -> None:
    try:
        material.score.total(model, X, y)
    except Exception as error:
        error.add_note("The score was tried on made-up records, drawn from the domain.")
        raise
