"""What calls a fit, which the fit finds on the stack: pipelines and searches of scikit-learn."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp.privacy import PrivacyLeakWarning
from skdp.trusted.checks import is_ours

# These fit only the estimators in them.
COMPOSITIONS = (Pipeline, FeatureUnion, ColumnTransformer)
# Errors are at most a tenth below those of the trivial model if there are fewer records per
# coefficient, in units of 1 / epsilon: `examples/benchmarks/rules/few_records.py`.
FEWEST = 5
# From here on a guess between two values of a record may be right in all but 2e-9 of the cases.
GREATEST_EPSILON = 20.0
# Where the number of records is private; a public one is its own bound.
GREATEST_DELTA = 1e-3
# The parallel calls of searches of which a fit has warned.
_SEEN: WeakSet[Any] = WeakSet()
_REMEDY = (
    "Use domain.encoder(), rules for missing cells in the domain, a FunctionTransformer with public"
    " constants, or FrozenEstimator(step) of a step that was fitted to public data."
)


def learners(step: Any, private: BaseEstimator) -> Iterator[object]:
    """Yield the parts of a step that learn from data, except the private model.

    A subclass of scikit-learn's classes may do anything in its own ``fit``.
    """
    if step is private or type(step) is FrozenEstimator:
        return
    if isinstance(step, list | tuple):
        for part in step:
            yield from learners(part, private)
    elif type(step) in COMPOSITIONS:
        for *_, columns in getattr(step, "transformers", ()):
            if callable(columns):  # one cell may change the type of a column, and so what is read
                yield columns
        for part in step.get_params(deep=False).values():
            yield from learners(part, private)
    elif (hasattr(step, "fit") or hasattr(step, "fit_transform")) and not _is_stateless(step):
        yield step


def _is_stateless(step: BaseEstimator) -> bool:
    """Return whether the class that defines the methods of a step says that it needs no fit."""
    line = type(step).__mro__
    place = {name: k for k, kind in reversed([*enumerate(line)]) for name in vars(kind)}
    methods = [place[name] for name in ("fit", "fit_transform", "transform") if name in place]
    says_so = place.get("__sklearn_tags__", len(line)) <= min(methods)
    return says_so and not get_tags(step).requires_fit


def warn_before_charge(model: Any, n: int | None, n_columns: int = 0) -> None:
    """Warn of what a curator may have overlooked; it depends on public facts only.

    Parameters
    ----------
    model : private estimator
        With ``epsilon``, ``delta``, ``ledger`` and ``neighbors``.
    n : int or None
        The number of records if it is public, or its public order of magnitude.
    n_columns : int
        The number of declared columns.

    Notes
    -----
    Frames are only read. A fit that another method of this package calls is not looked at.
    """
    found = _of_budget(model, n, n_columns)
    callers, searches, frame, level, depth = [model], [], sys._getframe(1), 0, 1
    while frame is not None:
        depth += 1
        module, names = str(frame.f_globals.get("__name__")), frame.f_code.co_varnames[:1]
        is_search = module.startswith("sklearn.model_selection")
        facts = frame.f_locals if is_search or names == ("self",) else {}
        if is_search and "parallel" in facts and facts["parallel"] not in _SEEN:
            searches.append(facts["parallel"])
            found += _of_search(model, facts, type(facts.get("self", model)).__name__)
        level = level or depth * (module.partition(".")[0] not in ("skdp", "sklearn", "joblib"))
        caller, frame = facts.get("self"), frame.f_back
        if caller is None or any(caller is own for own in callers):
            continue
        if is_ours(caller):
            return
        steps = getattr(caller, "steps", None) if isinstance(caller, Pipeline) else None
        if steps and any(steps[-1][1] is own for own in callers):
            parts = [(name, part) for name, own in steps[:-1] for part in learners(own, model)]
        elif isinstance(caller, TransformedTargetRegressor):
            parts = [("transformer", own) for own in learners(caller.transformer, model)]
        else:
            parts = []
        if parts:
            named = ", ".join(f"{name!r} ({type(own).__name__})" for name, own in parts)
            text = f"The {type(caller).__name__} fits {named} to the private rows before the model."
            text += f" So the guarantee of the model does not hold for them. {_REMEDY}"
            found.append((text, PrivacyLeakWarning))
        callers.append(caller)
    for text, category in found:
        warnings.warn(text, category, stacklevel=level or 2)
    _SEEN.update(searches)  # not if a warning is an error: then no fit of the search is charged


def _of_search(model: Any, facts: Mapping[str, Any], name: str) -> Iterator[tuple[str, type]]:
    """Yield warnings of a search or a cross-validation with these local variables."""
    cv, candidates = facts.get("cv"), facts.get("candidate_params") or [{}]
    name = name if "self" in facts else "cross-validation"
    kind = type(cv).__name__
    by_position = getattr(model, "neighbors", "") == "add_remove" and kind in (
        "KFold",
        "ShuffleSplit",
    )
    if by_position or "Stratified" in kind or kind in ("GroupKFold", "GroupShuffleSplit"):
        text = (
            f"The folds of {kind} depend on other records: one record may change several fits, and"
            " the total of the ledger does not hold for the table. Use PrivateSearchCV, or"
            ' cv=KFold(5) with neighbors="replace_one".'
        )
        yield text, PrivacyLeakWarning
    values = [
        [value for key, value in one.items() if key.rpartition("__")[2] == "epsilon"]
        for one in candidates
    ]
    if any(values):
        text = (
            f"{name} chooses epsilon by scores on the private records, which no guarantee covers,"
            " and the greatest epsilon usually wins. Choose it before: the method plan and"
            " epsilon_curve on public records show what it buys."
        )
        yield text, PrivacyLeakWarning
    with suppress(Exception):  # of a splitter that needs data, or of a budget that a fit refuses
        epsilons = [float((own or [model.epsilon])[0]) for own in values]
        splits = facts.get("n_splits") or cv.get_n_splits()
        last = bool(getattr(facts.get("self"), "refit", False))
        fits, total = splits * len(epsilons) + last, splits * sum(epsilons) + last * max(epsilons)
        left = fits if model.ledger is None else model.ledger.fits_left(total / fits, model.delta)
        if left < min(fits, 10_000):
            text = (
                f"{name} makes {fits} fits with epsilon={total:.4g} in total, and the ledger may be"
                f" too small: fits_left({total / fits:.4g}, {model.delta:g}) is {left}. All clones"
                " of a model share its ledger. PrivateSearchCV is charged once for a whole search."
            )
            yield text, UserWarning


def _of_budget(model: Any, n: int | None, n_columns: int) -> list[tuple[str, type]]:
    """Return warnings of budgets that protect little, or buy little."""
    epsilon, delta, texts = model.epsilon, model.delta, []
    if epsilon > GREATEST_EPSILON:
        texts += [f"epsilon={epsilon:g} hardly protects anybody: usual values are at most 10."]
    if delta > (1 / n if n else GREATEST_DELTA):
        bound = f"1 / n for n={n} records" if n else f"{GREATEST_DELTA:g}"
        texts += [
            f"delta={delta:g} is above {bound}: a release that discloses a random record could have"
            " this guarantee. Choose 1e-6 or less."
        ]
    if n and n * epsilon < FEWEST * (n_columns + 1):
        texts += [
            f"Expect a model that is hardly better than a trivial one: n={n} is few for {n_columns}"
            f" columns at epsilon={epsilon:g}. More than {100 * (n_columns + 1) / epsilon:.2g}"
            " records are usual. The method plan shows what a budget buys."
        ]
    return [(text, UserWarning) for text in texts]
