"""What a search says of itself: its guarantee, and the results that were released."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skdp._identity import is_ours
from skdp.model_selection._candidates.candidates import Candidates
from skdp.model_selection._candidates.ownership import private_step
from skdp.model_selection._material import Found
from skdp.model_selection._strategies import Strategy
from skdp.privacy import Guarantee
from skdp.privacy.ledger import Budget

_PUBLIC = (
    "the domain, the labels, the candidates and all parameters were chosen without the data",
    "one record is one row of X with its target",
    "scores, steps and the like from elsewhere treat each record by itself and keep nothing",
    "running time, memory and errors are not observed",
)
_STEPS = "the steps before the model learn nothing from the data"
_LABELS = "which labels occur in y is public: it was read off y, as none were declared"
_SEEDED = "the noise came from random_state and not from the operating system"


def guarantee_of(
    candidates: Candidates, strategy: Strategy, whole: Budget, secret: bool
) -> Guarantee:
    """Return the guarantee of a whole search."""
    told = [*_PUBLIC]
    told += [_STEPS] if candidates.prefix else []
    told += [_LABELS] if candidates.labels is not None else []
    tried = [private_step(candidates.built(k)) for k in range(len(candidates))]
    others = sorted({type(one).__name__ for one in tried if not is_ours(one)})
    told += [f"the fits of {name} are private at the budget they are given" for name in others]
    name = " or ".join(sorted({type(one).__name__ for one in tried}))
    return Guarantee(
        whole.epsilon,
        whole.delta,
        neighbors=candidates.neighbors,
        mechanism=f"private search over {len(candidates)} candidates of {name}: {strategy.how}",
        assumptions=tuple(told),
        void_because=() if secret else (_SEEDED,),
    )


def restate(model: BaseEstimator, whole: Guarantee) -> None:
    """Let all that a chosen model says of its privacy be what the search says, in place.

    A fitted attribute, such as the noise, has a guarantee of its own, of one fit: less than what
    it cost to find the model. Parameters are left as they are, but not the models in them.
    """
    parameters = model.get_params(deep=False)
    for name, value in list(vars(model).items()):
        if name not in parameters:
            setattr(model, name, _restated(value, whole))
    for value in model.get_params(deep=True).values():
        if isinstance(value, BaseEstimator):
            restate(value, whole)


def _restated(value: Any, whole: Guarantee) -> Any:
    """Return a value in which every guarantee is that of the whole; None if it has to tell less."""
    if isinstance(value, Guarantee):
        return whole
    if isinstance(value, BaseEstimator):
        restate(value, whole)
        return value
    if type(value) in (list, tuple):
        return type(value)(_restated(part, whole) for part in value)
    if type(value) is dict:
        return {name: _restated(part, whole) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        value = _restated_fields(value, whole)
    if getattr(value, "guarantee", whole) == whole:
        return value
    value = copy.copy(value)
    try:
        value.guarantee = whole
    except AttributeError:  # it is computed, or cannot be changed
        return None
    return value


def _restated_fields(value: Any, whole: Guarantee) -> Any:
    """Return a dataclass with the guarantees in its fields restated."""
    parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    found = {name: _restated(part, whole) for name, part in parts.items()}
    if isinstance(parts.get("guarantee"), Guarantee) and "losses" in parts:
        found["losses"] = whole.losses  # of one fit, like the guarantee beside it
    changed = {name: part for name, part in found.items() if part is not parts[name]}
    return replace(value, **changed) if changed else value


def results_of(candidates: Candidates, found: Found) -> dict[str, Any]:
    """Return the candidates in scikit-learn's columns, and what was released of them."""
    chosen = np.arange(len(candidates)) == found.which
    columns: dict[str, Any] = {
        f"param_{name}": _column(candidates, name) for name in candidates.names
    }
    columns["params"] = [dict(one) for one in candidates.settings]
    columns["rank_test_score"] = np.where(chosen, 1, 2)
    if found.score is not None:
        columns["mean_test_score"] = np.where(chosen, found.score, np.nan)
    return columns


def _column(candidates: Candidates, name: str) -> NDArray[Any]:
    """Return the values of one parameter, masked where a candidate does not set it."""
    values = np.empty(len(candidates), dtype=object)
    values[:] = [one.get(name) for one in candidates.settings]
    return np.ma.MaskedArray(values, mask=[name not in one for one in candidates.settings])
