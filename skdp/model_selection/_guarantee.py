"""The guarantee of a search, and the guarantees that its chosen model claims."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skdp._identity import is_ours
from skdp.linear_model import Stage
from skdp.linear_model.validation import RECORDS, UNSEEN, chosen_publicly, numbered
from skdp.model_selection._candidates import declared_labels, private_step
from skdp.model_selection._choice import Choice
from skdp.model_selection._task import SearchTask
from skdp.privacy import Guarantee
from skdp.privacy.ledger import Budget
from skdp.privacy.losses import GaussianLoss

_PUBLIC = (
    "scores, steps and other parts from outside skdp treat records separately and store nothing",
    UNSEEN,
)
_STEPS = (
    "the steps before the model learn nothing from the data; the types of columns, on which they"
    " may depend, are declared and not inferred from cells"
)
_LABELS = "which labels occur in y is public: it was read off y, because no labels were declared"
_SEEDED = "the noise came from random_state and not from the operating system"


def guarantee_of(task: SearchTask, choice: Choice, whole: Budget) -> Guarantee:
    """Return the guarantee of a whole search."""
    candidates = task.candidates
    tried = [private_step(model) for model in candidates.models]
    chosen = "the labels, the candidates and all parameters"
    domains = [chosen_publicly(_domain_of(model), chosen) for model in candidates.models]
    # Without repetitions, in the order of the candidates.
    assumptions = [*dict.fromkeys(domains), RECORDS[task.unit], *_PUBLIC]
    if isinstance(candidates.estimator, Pipeline):
        assumptions.append(_STEPS)
    if candidates.classes is not None:
        assumptions.append(_LABELS)
    elif candidates.labels is not None:
        assumptions += numbered(declared_labels(candidates.private), candidates.labels)
    others = sorted({type(one).__name__ for one in tried if not is_ours(one)})
    assumptions += [
        f"the fits of {name} are private at the budget they are given" for name in others
    ]
    names = " or ".join(sorted({type(one).__name__ for one in tried}))
    mechanism = f"private search over {len(candidates)} candidates of {names}"
    return Guarantee(
        whole.epsilon,
        whole.delta,
        neighbors=candidates.neighbors,
        mechanism=f"{mechanism}: fits to disjoint parts of the records, {choice.name}",
        assumptions=tuple(assumptions),
        void_because=(_SEEDED,) if task.is_seeded else (),
        losses=() if choice.mu is None else ((GaussianLoss(choice.mu), 1),),
        unit=task.unit,
    )


def _domain_of(model: Any) -> Any:
    """Return the domain of a candidate, or that of an encoder before it if it was estimated."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    domains = [getattr(step, "domain", None) for step in (private_step(model), *steps)]
    estimated = (own for own in domains if getattr(own, "estimated", None) is not None)
    return next(estimated, domains[0])


def restate(model: BaseEstimator, whole: Guarantee) -> None:
    """Replace, in place, every guarantee that a chosen model claims by that of the search.

    A fitted attribute, such as the noise, has the guarantee of a single fit. This is less than
    the cost of the model, which was found by the search. Parameters are left as they are, except
    for models in them.
    """
    parameters = model.get_params(deep=False)
    for name, value in list(vars(model).items()):
        if name not in parameters:
            setattr(model, name, _restated(value, whole))
    for value in model.get_params(deep=True).values():
        if isinstance(value, BaseEstimator):
            restate(value, whole)


def _restated(value: Any, whole: Guarantee) -> Any:
    """Return a value whose guarantees are all that of the search; None if that is impossible."""
    if isinstance(value, Guarantee):
        return whole
    if isinstance(value, Stage):  # its parts of the budget are those of a single fit
        return replace(value, epsilon=None, delta=None)
    if isinstance(value, BaseEstimator):
        restate(value, whole)
        return value
    if type(value) in (list, tuple):
        return type(value)(_restated(part, whole) for part in value)
    if type(value) is dict:
        return {name: _restated(part, whole) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        value = _restated_fields(value, whole)
    if getattr(value, "guarantee", whole) in (None, whole):
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
        found["losses"] = whole.losses  # those of the single fit would contradict the guarantee
    changed = {name: part for name, part in found.items() if part is not parts[name]}
    return replace(value, **changed) if changed else value
