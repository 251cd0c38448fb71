"""Checks of X, y and parameters. Messages contain only public facts.

scikit-learn's validators quote the array in their messages. The messages of these checks contain
only the number of columns, declared labels and rules.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from skdp.domain import Domain
from skdp.domain.columns import Levels, kinds_of
from skdp.domain.domain import refuse_encoded
from skdp.domain.tables import NOT_REAL, as_cells, as_column, as_table, in_memory, refuse_not_real
from skdp.privacy import Guarantee, Ledger, PrivacyLeakWarning, UndeclaredDomainWarning
from skdp.privacy.guarantee import compose
from skdp.rows.persons import GRID as GRID
from skdp.rows.persons import Persons, weight_steps
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_positive, converted, fail, is_ours

# Weights of rows, those of `weight_steps`.
Weights = NDArray[np.int64] | None
Warned = tuple[str, type[Warning]]  # a text and its category
# The solver's tolerance is set for at most this many records.
_MOST_RECORDS = 2**31
_ALONE = (
    "by public rules; a step that learned from the data before, such as StandardScaler or"
    " SimpleImputer, voids the guarantee"
)
# What one record is, for each unit of privacy: a sentence of a guarantee.
RECORDS = {
    "row": "one record is one row of X with its target, which was made from this record alone,"
    f" {_ALONE}",
    "person": "one person is all rows of X with one identifier, with their targets, which were made"
    f" from this person's data alone, {_ALONE}; identifiers do not change between readings,"
    " and the rows of a person are in the same order in all tables",
}
UNSEEN = "running time, memory, errors and what other code prints or warns of are not observed"
WEIGHTED = (
    "the weight of a row was made from its record alone, by public rules, and counts as at most"
    " max_weight: greater weights are trimmed to it"
)
INFERRED = "the set of labels in y is public: it was read from y, because none were declared"
_PUBLIC_WEIGHTS = (
    '"balanced" weights would be computed from the data. If the frequencies of the labels are'
    " public, pass 1 / (n_labels * frequency) for each label."
)
_UNDECLARED = (
    "No domain was given, so every number, and the target of a regression, is clipped to [-1, 1],"
    " that of counts to [0, 1]."
    " Numbers outside raise no error, because an error would disclose data. Declare public bounds,"
    " for example domain=Domain({'age': (17, 90)}). If all d columns are in [-1, 1], declare"
    " domain=Domain.unit_box(d) to avoid this warning."
)
# scikit-learn's meta-estimators number the labels that occur. If one record is the only one with
# its label, it then changes the numbers of the labels of other records.
_NUMBERED = (
    "the numbers in y are positions among all declared labels; if a meta-estimator numbered the"
    " labels that occur in y, the set of labels in y is public"
)
_DECLARE = "Declare them: classes=[...], or target=[...] in the Domain."
# These fit only the estimators in them.
COMPOSITIONS = {"Pipeline", "FeatureUnion", "ColumnTransformer"}
# Errors are at most a tenth below those of the trivial model if there are fewer records per
# coefficient, in units of 1 / epsilon: `examples/benchmarks/rules/few_records.py`.
FEWEST = 5
# From here on a guess between two values of a record may be right in all but 2e-9 of the cases.
GREATEST_EPSILON = 20.0
# Where the number of records is private; a public one is its own bound.
GREATEST_DELTA = 1e-3
# The parallel calls of searches of which a fit has warned.
_SEEN: WeakSet[object] = WeakSet()
_LEARNED = (
    "No guarantee covers what they learn, and the model's own does not hold for the pipeline. Use"
    " domain.encoder(), rules for missing cells in the domain, a FunctionTransformer with public"
    " constants, or FrozenEstimator(step) of a step that was fitted to public data."
)
_FOLDS = (
    "The folds of {} depend on all labels: one record may move others to other folds, and the total"
    " of the ledger does not hold for the table. Use PrivateSearchCV, or pass cv=KFold(5)."
)
_EPSILONS = (
    "A search over epsilon chooses by scores on private records, which no guarantee covers, and"
    " mostly the greatest one. Choose epsilon beforehand: the method plan shows what it buys."
)
_SMALL = (
    "The ledger may be too small: {0} fits need epsilon={1:.4g} in total, and only {2} with their"
    " mean, epsilon={3:.4g}, can be paid for (fits_left). Clones of a model share its ledger."
    " PrivateSearchCV is charged once for all its fits."
)
_WEAK = "epsilon={:g} protects hardly anything. Values from 0.1 to 10 are usual."
_DELTA = (
    "delta={:g} is above {}: a release of one record at random could have this guarantee. Choose a"
    " much smaller delta, such as 1e-6."
)
_FEW = (
    "Expect a model that is hardly better than a trivial one: {} records are few for {} columns at"
    " epsilon={:g}; a useful model needs about {:,.0f}. The method plan shows what a budget buys."
)


def warn_without(domain: Domain | None) -> None:
    """Warn of a fit without a domain; nothing depends on the data."""
    if domain is None:
        warnings.warn(_UNDECLARED, UndeclaredDomainWarning, stacklevel=3)


def check_table(
    estimator: BaseEstimator, X: Any, domain: Any, *, reset: bool, neighbors: str | None = None
) -> Any:
    """Check the shape and the column names of ``X``, and return a DataFrame or an array.

    ``neighbors`` is the relation of a fit.
    """
    given, X = X, in_memory(X)
    shape = X.shape
    refuse_empty(shape[0], neighbors)
    if shape[0] > _MOST_RECORDS:
        raise fail("X", f"have at most {_MOST_RECORDS} records")
    if (reset or neighbors is not None) and isinstance(domain, Domain):
        refuse_encoded(given, X, domain)
    names = getattr(domain, "names", None)
    if reset and names is not None and hasattr(X, "columns"):
        as_table(X, names, domain.n_columns)  # its error names missing and undeclared columns
    if shape[1] == 0:
        raise ValueError(
            "X must have columns: found 0 feature(s) (shape=(, 0)) while a minimum of 1 is"
            " required."
        )
    header = X
    if names is not None and hasattr(X, "iloc") and sorted(map(str, X.columns)) == sorted(names):
        if not reset and tuple(getattr(estimator, "feature_names_in_", ())) == names:
            return X
        # In the domain's order, and empty. With an array pandas makes no type, for which it would
        # change the filters of warnings.
        header = type(X)(np.empty((0, len(names))), columns=list(names))
    validate_data(estimator, header, skip_check_array=True, reset=reset)
    return X


def refuse_empty(n: int, neighbors: str | None) -> None:
    """Raise an error for a table without records, unless their number is private."""
    if n == 0 and neighbors != "add_remove":
        raise ValueError("X must have records: found 0 sample(s) while a minimum of 1 is required.")


def check_target(estimator: BaseEstimator, y: object, n: int) -> Array:
    """Return ``y`` as an array of shape (n,)."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    out = as_cells(y, "y", one_type=True)
    if out.ndim == 2 and out.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        text = "A column-vector y was passed when a 1d array was expected. Use y.ravel()."
        warnings.warn(text, DataConversionWarning, stacklevel=5)
        out = out[:, 0]
    if out.ndim != 1:
        raise fail("y", "be a 1d array", out.ndim, "y should be a 1d array: one target per row.")
    if len(out) != n:
        raise fail("y", "have as many entries as X has rows")
    return out


def without_column(X: Any, parameter: str, name: str, remedy: str) -> tuple[Any, Any]:
    X = in_memory(X)
    if not hasattr(type(X), "columns"):
        raise fail(parameter, "be a name only if X has named columns", name, remedy)
    if name not in X.columns:
        raise fail(parameter, f"be a column of X, which has {list(X.columns)}", name)
    return X.drop(columns=[name]), X[name]


def units_of(groups: object, n: int) -> tuple[int, NDArray[np.intp] | None]:
    """Return the number of units of n rows and, for persons, the position of each row's."""
    if groups is None:
        return n, None
    groups = as_column(groups, "groups")
    persons = Persons.of_table(groups, n)
    return len(persons), persons.codes(groups)


def check_max_weight(most: float | None, weights: object) -> None:
    """Raise an error unless there is a greatest weight if and only if there are weights."""
    if most is not None:
        check_positive("max_weight", most)
        if weights is None:
            raise fail("max_weight", "be None without weights", most, "Pass sample_weight=weights.")
    elif weights is not None:
        remedy = "Pass the greatest weight that counts, chosen without the data: max_weight=5000."
        raise fail("max_weight", "be given with sample_weight", None, remedy)


def read_weights(weights: Any, n: int, usual: float | None, most: float | None = None) -> Weights:
    """Return the weights of n rows, or None, as `weight_steps` does.

    The greatest one is ``most`` or, if it is None, the ``usual`` one of a model.
    """
    most = usual if most is None and weights is not None else most
    check_max_weight(most, weights)
    return None if most is None else weight_steps(weights, most, n)


def check_labels(y: Array, declared: Any) -> tuple[Array, Array]:
    """Return the sorted public labels, and the position of every entry of ``y`` among them.

    Positions are of the smallest unsigned integer type. If all declared labels are strings and
    ``y`` is an array of integers, its entries are positions among the sorted labels and become the
    labels, as scikit-learn's meta-estimators replace them before a fit. The types alone decide.
    """
    labels, meaning = _inferred(y) if declared is None else sorted_labels(declared), ""
    _refuse_one(labels)
    if labels.dtype.kind == "U" and y.dtype.kind in "iu":
        meaning = f", which stand for {labels.tolist()}"
        labels = np.arange(len(labels))
    return labels, places_of(y, labels, meaning)


def numbered(declared: Any, labels: Array) -> tuple[str, ...]:
    """Return what a guarantee assumes if positions stand for the declared labels."""
    is_numbered = labels.dtype.kind in "iu" and sorted_labels(declared).dtype.kind == "U"
    return (_NUMBERED,) if is_numbered else ()


def label_facts(model: BaseEstimator) -> tuple[str, ...]:
    """Return what the guarantee of a fit assumes about the labels that its model has."""
    known = getattr(getattr(model, "guarantee_", None), "assumptions", ())
    return (INFERRED,) if INFERRED in known else ()


def sorted_labels(declared: Any) -> Array:
    labels = None
    if declared is None:
        raise fail("classes", "be declared if y is not in memory", None, _DECLARE)
    with suppress(TypeError, ValueError):
        array = np.asarray(declared)
        # numpy converts labels of two types to strings.
        if array.ndim == 1 and array.tolist() == list(declared):
            labels = np.unique(array)
    if labels is None or len(labels) != len(declared):
        raise fail("classes", "be a list of distinct labels of one type", declared)
    _refuse_one(labels)
    return labels


def check_class_weight(given: Any) -> dict[Any, float]:
    """Return the public weights that were given for labels."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        rule = "be None or a dict from labels to public weights > 0"
        shown = given if isinstance(given, str) else type(given)
        raise fail("class_weight", rule, shown, _PUBLIC_WEIGHTS)
    return {
        label: check_positive(f"class_weight[{label!r}]", weight) for label, weight in given.items()
    }


def label_weights(given: Any, labels: Array) -> FloatArray | None:
    """Return the weight of each label, divided by the greatest; None if all are equal."""
    found = check_class_weight(given)
    # Dates are keys as scalars of numpy or of Python.
    places = {label: k for own in (labels, labels.tolist()) for k, label in enumerate(own)}
    if unknown := [label for label in found if label not in places]:
        raise fail("class_weight", "have only labels as keys", unknown, _DECLARE)
    weights = np.ones(len(labels))
    for label, weight in found.items():
        weights[places[label]] = weight
    weights /= weights.max()
    return None if (weights == 1).all() else weights


def _refuse_one(labels: Array) -> None:
    if len(labels) < 2:
        rule = "contain at least two labels; one class cannot be fitted"
        raise fail("classes", rule, None, _DECLARE)


def _inferred(y: Array) -> Array:
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y must not contain NaN or inf. Drop those records by a public rule.")
    if y.dtype.kind == "O" and not kinds_of(y.flat) <= {str, np.str_}:
        rule = "contain labels of one type, numbers or strings (Unknown label type: objects)"
        raise fail("y", rule, remedy=_DECLARE)
    # scikit-learn's own check would warn of the number of labels.
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        rule = "contain labels, not numbers with fractions (Unknown label type: continuous)"
        raise fail("y", rule, remedy=_DECLARE)
    labels = np.unique(y)
    text = f"The labels were read from y, which no guarantee covers. {_DECLARE}"
    warnings.warn(text, PrivacyLeakWarning, stacklevel=6)
    return labels


def places_of(y: Array, labels: Array, meaning: str = "") -> Array:
    """Return positions in ``labels``. The error for an undeclared label does not name it."""
    rule = "contain only declared labels"
    remedy = f"The labels are {labels.tolist()}{meaning}. Map or drop others by a public rule."
    found = converted(lambda: _positions(y, labels), "y", rule, remedy)
    if not found.all():
        raise fail("y", rule, None, remedy)
    return (found - 1).astype(np.min_scalar_type(len(labels) - 1), copy=False)


def _positions(y: Array, labels: Array) -> Array:
    """Return 1 + positions in ``labels``, or 0 for entries not there; may raise any error."""
    kinds = {array.dtype.kind for array in (y, labels)}
    if kinds & NOT_REAL or kinds == {"i"}:  # integers need no conversion to floats
        if len(kinds) > 1:
            raise TypeError("dates are labels among dates only")
        found = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
        return np.asarray(np.where(labels[found] == y, found + 1, 0))
    if y.dtype.kind == "O":
        refuse_not_real(kinds_of(y.flat))
    return Levels((None, *labels.tolist()), None).positions_in(y)


def refuse_unsupported(unsupported: dict[str, object], method: str = "fit") -> None:
    """Raise an error for arguments of a method that the privacy proof does not cover."""
    if unsupported:
        names = ", ".join(sorted(unsupported))
        raise TypeError(
            f"{method} does not support {names}: the proof assumes the same bound for every record."
            " Leave it out."
        )


_RIDGE = "The ridge is regularization, on the scale of the summed loss: regularization = "
_PENALTY = "For penalties use DPCoordinateDescentClassifier or DPCoordinateDescentRegressor."
_BOUNDS = "Declare bounds in the domain: Domain({'age': (17, 90)})."
_SOLVER = "The solver is chosen automatically, and its result is certified."
# Parameters of other packages, and what to use here.
_FOREIGN = {
    "C": _RIDGE + "1 / C.",
    "alpha": _RIDGE + "n_records * alpha for an alpha on the mean loss.",
    "l2": _RIDGE + "l2.",
    "penalty": _PENALTY,
    "l1_ratio": _PENALTY,
    "max_iter": _SOLVER,
    "solver": _SOLVER,
    "tol": _SOLVER,
    "n_jobs": "Threads are used if they help; limit them with threadpoolctl.",
    "eps": "Write epsilon.",
    "bounds": _BOUNDS,
    "bounds_X": _BOUNDS,
    "bounds_y": "Declare the bounds of the target in the domain: Domain(columns, target=(0, 100)).",
    "data_norm": "Declare the greatest length of a row in the domain: Domain.l2_ball(d, radius).",
    "accountant": "Write ledger=Ledger(epsilon).",
}


def refuse_foreign(given: Iterable[str], known: Collection[str]) -> None:
    """Raise an error for a parameter that other packages have and an estimator has not."""
    for name in given:
        if name in _FOREIGN and name not in known:
            remedy = _FOREIGN[name]
            if remedy.startswith(_RIDGE) and "regularization" not in known:
                remedy = (
                    "The penalty is penalty='l2' with alpha, on the mean loss: alpha = 1 / (n C)."
                    if "alpha" in known
                    else "The ridge is chosen from the size of the noise: see postprocess."
                )
            raise TypeError(f"There is no parameter {name}. {remedy}")


def check_ledger(name: str, ledger: Any, columns: Iterable[object] | None = None) -> None:
    """Raise an error unless a ledger is None or a Ledger: a subclass may not count.

    A table with the column of the ledger's groups may have records of several groups.
    """
    if ledger is not None and type(ledger) is not Ledger:
        raise fail(name, "be a Ledger or None", type(ledger), "Write Ledger(epsilon=2.0).")
    if columns is not None and ledger and (group := ledger.group) and group.column in [*columns]:
        rule = f"not have the column {group.column!r}, which its ledger's groups state"
        raise fail("X", rule, None, f"Select the records of {group.level!r}, then drop the column.")


def chosen_publicly(domain: Any, chosen: str) -> str:
    """Return the assumption on the domain and on what else was chosen without the data."""
    estimated = getattr(domain, "estimated", None)
    if estimated is None:
        return f"the domain, {chosen} were chosen without the data"
    cost = (
        f"epsilon = {estimated.epsilon:g} and delta = {estimated.delta:g} for one"
        f" {estimated.unit} under {estimated.neighbors!r}"
    )
    void = "" if estimated.holds else ", by a release whose guarantee does not hold,"
    return (
        f"bounds or levels of the domain were estimated from the data{void} with {cost}, which this"
        f" guarantee does not include; {chosen} were chosen without the data"
    )


def estimated_by(domain: Any, guarantee: Guarantee) -> Any:
    """Return a domain whose bounds were estimated with this guarantee, and with its earlier one."""
    earlier = domain.estimated
    alike = earlier is not None and (earlier.unit, earlier.neighbors) == (
        guarantee.unit,
        guarantee.neighbors,
    )
    return type(domain)._build(*domain._key(), compose(earlier, guarantee) if alike else guarantee)


def without_bounds(domain: Any) -> Any:
    """Return the domain of records with labels, without the bounds of a target."""
    columns, names, target, *others = domain._key()
    target = None if domain.target_bounds else target
    return type(domain)._build(columns, names, target, *others, domain.estimated)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


@contextmanager
def spent_note() -> Iterator[list[Guarantee]]:
    """Add a note to errors that says whether the budget was spent.

    The caller appends the guarantee to the yielded list when it is spent.
    """
    spent: list[Guarantee] = []
    try:
        yield spent
    except BaseException as error:
        if spent:
            delta = f", delta = {spent[0].delta:g}" if spent[0].delta else ""
            error.add_note(
                f"The budget was spent: epsilon = {spent[0].epsilon:g}{delta}. Noise may have been"
                " drawn; nothing was released."
            )
        else:
            error.add_note("No budget was spent and no noise was drawn.")
        raise


@contextmanager
def columns_kept(estimator: BaseEstimator) -> Iterator[None]:
    """Restore the number and the names of an estimator's columns if its fit fails."""
    facts, names = vars(estimator), ("n_features_in_", "feature_names_in_")
    before = {name: facts[name] for name in names if name in facts}
    try:
        yield
    except BaseException:
        for name in names:
            facts.pop(name, None)
        facts.update(before)
        raise


@contextmanager
def without_spent_notes() -> Iterator[None]:
    """Remove notes of single fits on the budget: the search adds its own note."""
    try:
        yield
    except BaseException as error:
        notes = getattr(error, "__notes__", [])
        error.__notes__ = [note for note in notes if "budget was spent" not in note]
        raise


# What calls a fit, which the fit finds on the stack: pipelines and searches of scikit-learn


def learners(step: Any, private: BaseEstimator) -> Iterator[object]:
    """Yield the parts of a step that learn from data, except the private model.

    A subclass of scikit-learn's classes may do anything in its own ``fit``.
    """
    if step is private or type(step) is FrozenEstimator:
        return
    if isinstance(step, list | tuple):
        for part in step:
            yield from learners(part, private)
    elif is_composition(type(step)):
        for *_, columns in getattr(step, "transformers", ()):
            if callable(columns):  # one cell may change the type of a column, and so what is read
                yield columns
        for part in step.get_params(deep=False).values():
            yield from learners(part, private)
    elif (hasattr(step, "fit") or hasattr(step, "fit_transform")) and not _is_stateless(step):
        yield step


def is_composition(kind: type) -> bool:
    """Return whether a class is one of `COMPOSITIONS`, which take long to import."""
    return kind.__module__.startswith("sklearn.") and kind.__name__ in COMPOSITIONS


def _is_stateless(step: BaseEstimator) -> bool:
    """Return whether the class that defines the methods of a step says that it needs no fit."""
    line = type(step).__mro__
    place = {name: k for k, kind in reversed([*enumerate(line)]) for name in vars(kind)}
    methods = [place[name] for name in ("fit", "fit_transform", "transform") if name in place]
    says_so = place.get("__sklearn_tags__", len(line)) <= min(methods, default=-1)
    return says_so and not get_tags(step).requires_fit


def warn_before_charge(model: BaseEstimator, n: int | None, n_columns: int = 0) -> None:
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
        # Python may keep variables that were read until the method returns.
        is_fit = package == "skdp" or frame.f_code.co_name.startswith("fit")
        is_method = is_fit and frame.f_code.co_varnames[:1] == ("self",)
        if package == "skdp" and not is_method:  # a function, such as epsilon_curve
            return
        facts = frame.f_locals if is_search or is_method else {}
        if is_search and "parallel" in facts and facts["parallel"] not in _SEEN:
            searches.append(facts["parallel"])
            found += _of_search(model, facts)
        caller, frame = facts.get("self"), frame.f_back
        if caller is None or any(caller is own for own in callers):
            continue
        with suppress(Exception):  # any class may have a method fit, and steps of its own
            if is_ours(caller):
                return
            parts_of = getattr(caller, "__dict__", {})
            steps = parts_of.get("steps", ())
            if {"transformer", "regressor"} <= parts_of.keys():  # of the target
                steps = [("transformer", parts_of["transformer"]), ("regressor", model)]
            if any(steps[-1][1] is own for own in callers):
                parts = [(name, part) for name, own in steps[:-1] for part in learners(own, model)]
                named = ", ".join(f"{name!r} ({type(part).__name__})" for name, part in parts)
                text = f"The {type(caller).__name__} fits {named} to the private rows. {_LEARNED}"
                found += [(text, PrivacyLeakWarning)] * bool(parts)
        callers.append(caller)
    for text, category in found:
        warnings.warn(text, category, stacklevel=level or 2)
    _SEEN.update(searches)  # if a warning is an error, it is one for every fit of the search


def _of_search(model: BaseEstimator, facts: Mapping[str, Any]) -> Iterator[Warned]:
    """Yield warnings of a search or a cross-validation that has these local variables."""
    cv, candidates = facts.get("cv"), facts.get("candidate_params") or [{}]
    if "Stratified" in (kind := type(cv).__name__):
        yield _FOLDS.format(kind), PrivacyLeakWarning
    grid = [[own for name, own in one.items() if name.endswith("epsilon")] for one in candidates]
    if any(grid):
        yield _EPSILONS, PrivacyLeakWarning
    with suppress(Exception):  # of a splitter that needs data, or of a budget that a fit refuses
        epsilons = [float((own or [model.epsilon])[0]) for own in grid]
        splits: int = cv.get_n_splits()  # type: ignore[union-attr]  # without the rows
        last = bool(getattr(facts.get("self"), "refit", False))
        fits, total = splits * len(grid) + last, splits * sum(epsilons) + last * max(epsilons)
        left = model.ledger.fits_left(mean := total / fits, model.delta)
        if left < min(fits, 10_000):
            yield _SMALL.format(fits, total, left, mean), UserWarning


def _of_budget(model: BaseEstimator, n: int | None, n_columns: int) -> Iterator[Warned]:
    """Yield warnings of budgets that protect little, or buy little."""
    if model.epsilon > GREATEST_EPSILON:
        yield _WEAK.format(model.epsilon), UserWarning
    if model.delta > (1 / n if n else GREATEST_DELTA):
        bound = f"1 / n for n={n}" if n else f"{GREATEST_DELTA:g}"
        yield _DELTA.format(model.delta, bound), UserWarning
    if n and n * model.epsilon < FEWEST * (n_columns + 1):
        usual = 100 * (n_columns + 1) / model.epsilon
        yield _FEW.format(n, n_columns, model.epsilon, usual), UserWarning
