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
_LEARNED = (
    "No guarantee covers what they learn, and that of the model does not hold for the pipeline. Use"
    " domain.encoder(), rules for missing cells in the domain, a FunctionTransformer with public"
    " constants, or FrozenEstimator(step) of a step that was fitted to public data."
)
_FOLDS = (
    "The folds of {} depend on all labels: one record may move others to other folds, and the total"
    " of the ledger does not hold for the table. Use PrivateSearchCV, or pass cv=KFold(5)."
)
_EPSILONS = (
    "A search over epsilon chooses by scores on private records, which no guarantee covers, and"
    " mostly the greatest one. Choose epsilon before: the method plan shows what it buys."
)
_SMALL = (
    "The ledger may be too small: {0} fits need epsilon={1:.4g} in total, and only {2} of"
    " epsilon={3:.4g} fit (fits_left). Clones of a model share its ledger. PrivateSearchCV is"
    " charged once for all its fits."
)
_WEAK = "epsilon={:g} protects hardly anything. Values from 0.1 to 10 are usual."
_DELTA = (
    "delta={:g} is above {}: publishing a record at random could have this guarantee. Choose a much"
    " smaller one, such as 1e-6."
)
_FEW = (
    "Expect a model that is hardly better than a trivial one: {} records are few for {} columns at"
    " epsilon={:g}; {:,.0f} are usual. The method plan shows what a budget buys."
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
    """Warn of what a curator may have overlooked, from public facts and the frames of callers.

    ``n`` is the number of records, or its order of magnitude, if it is public. Frames are only
    read. A fit that this package calls is not looked at.
    """
    found, searches, callers = [*_of_budget(model, n, n_columns)], [], [model]
    frame: Any = sys._getframe(1)
    level, depth = 0, 1
    while frame is not None:
        depth += 1
        package, _, module = str(frame.f_globals.get("__name__")).partition(".")
        level = level or depth * (package not in ("skdp", "sklearn", "joblib"))  # the user's line
        is_search = package == "sklearn" and module.startswith("model_selection")
        is_method = frame.f_code.co_varnames[:1] == ("self",)
        facts = frame.f_locals if is_search or is_method else {}
        if is_search and "parallel" in facts and facts["parallel"] not in _SEEN:
            searches.append(facts["parallel"])
            found += _of_search(model, facts)
        caller, frame = facts.get("self"), frame.f_back
        if caller is None or any(caller is own for own in callers):
            continue
        if is_ours(caller):
            return
        steps = caller.steps if isinstance(caller, Pipeline) else []
        if isinstance(caller, TransformedTargetRegressor):
            steps = [("transformer", caller.transformer), ("regressor", model)]
        if steps and any(steps[-1][1] is own for own in callers):
            parts = [(name, part) for name, own in steps[:-1] for part in learners(own, model)]
            named = ", ".join(f"{name!r} ({type(part).__name__})" for name, part in parts)
            text = f"The {type(caller).__name__} fits {named} to the private rows. {_LEARNED}"
            found += [(text, PrivacyLeakWarning)] * bool(parts)
        callers.append(caller)
    for text, category in found:
        warnings.warn(text, category, stacklevel=level or 2)
    _SEEN.update(searches)  # if a warning is an error, it is one for every fit of the search


def _of_search(model: Any, facts: Mapping[str, Any]) -> Iterator[tuple[str, type[Warning]]]:
    """Yield warnings of a search or a cross-validation that has these local variables."""
    cv, candidates = facts.get("cv"), facts.get("candidate_params") or [{}]
    if "Stratified" in (kind := type(cv).__name__):
        yield _FOLDS.format(kind), PrivacyLeakWarning
    grid = [[own for name, own in one.items() if name.endswith("epsilon")] for one in candidates]
    if any(grid):
        yield _EPSILONS, PrivacyLeakWarning
    with suppress(Exception):  # of a splitter that needs data, or of a budget that a fit refuses
        epsilons = [float((own or [model.epsilon])[0]) for own in grid]
        splits: int = facts.get("n_splits") or cv.get_n_splits()  # type: ignore[union-attr]
        last = bool(getattr(facts.get("self"), "refit", False))
        fits, total = splits * len(grid) + last, splits * sum(epsilons) + last * max(epsilons)
        left = model.ledger.fits_left(mean := total / fits, model.delta)
        if left < min(fits, 10_000):
            yield _SMALL.format(fits, total, left, mean), UserWarning


def _of_budget(model: Any, n: int | None, n_columns: int) -> Iterator[tuple[str, type[Warning]]]:
    """Yield warnings of budgets that protect little, or buy little."""
    if model.epsilon > GREATEST_EPSILON:
        yield _WEAK.format(model.epsilon), UserWarning
    if model.delta > (1 / n if n else GREATEST_DELTA):
        bound = f"1 / n for n={n}" if n else f"{GREATEST_DELTA:g}"
        yield _DELTA.format(model.delta, bound), UserWarning
    if n and n * model.epsilon < FEWEST * (n_columns + 1):
        usual = 100 * (n_columns + 1) / model.epsilon
        yield _FEW.format(n, n_columns, model.epsilon, usual), UserWarning
