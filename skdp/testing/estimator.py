"""Whether a private estimator keeps its promise, as far as can be seen from outside.

Two attackers know both of two neighbouring tables and see many fits to each. One reads the
released numbers and looks for an event that is too likely under one table
(`skdp.testing.audit`). The other reads all that a fitted model holds and shows: each number with
its last bit, zeros with their signs, types, shapes and the layout of arrays, texts, and what is in
a pickle (`skdp.testing._attacker`). What does not come from noise must be the same for both tables:
40 fits of each catch it at epsilon = 1.

That is not far. An audit sees one pair of data sets, and events as likely as some in n_fits: no
delta of 1e-6, no noise that is 10 % short, nothing that other data would bring to light, and not
time or memory. It raises a false alarm with probability 1.01e-6 at most. Of noise on a sum, 500
fits catch a tenth of what it should be at epsilon = 1 or 2, and 3000 fits one half. Coefficients
of a perturbed objective tell less: in 3000 fits at epsilon = 2 `DPLogisticRegression` shows 0.56,
and 1.54 with half of its noise, which is not caught.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from skdp._checks import check_count
from skdp.privacy import BudgetExceeded, Guarantee, Ledger
from skdp.randomness import RandomStateLike, as_generator
from skdp.testing import _toy
from skdp.testing._attacker.attacker import attack
from skdp.testing._attacker.leaves import features, of_differences, structure
from skdp.testing._attacker.picture import picture, public_picture
from skdp.testing._require import agree, require
from skdp.testing.audit import ALARM, epsilon_lower_bound

RELEASED = ("coef_", "intercept_")
Outputs = Callable[[Any], Any]
# From a fitted model and a table to what its outputs would be without noise.
Noiseless = Callable[[Any, Any, Any], Any]
# Outputs and features of fits to either table.
Fits = list[tuple[Any, dict[str, float]]]
Seen = tuple[Fits, Fits]
# More fits than these to each table are not read from end to end.
MOST_READ = 500


def check_private_estimator(
    estimator: BaseEstimator,
    *,
    n_fits: int = 500,
    released: Collection[str] = RELEASED,
    outputs: Outputs | None = None,
    noiseless: Noiseless | None = None,
    neighbours: tuple[_toy.Data, _toy.Data] | None = None,
    random_state: RandomStateLike = None,
) -> None:
    """Raise AssertionError where an estimator is seen to break the promise of its guarantee.

    Clones and pickles must be the same model; the guarantee what was asked for, and void under
    a seed; nothing public but the release may depend on the data, and no error tell a value of
    it; the ledger is charged once, before noise is drawn, and refuses in time; and audits of all
    that many fits to two neighbouring data sets show must find no more than was promised.

    Parameters
    ----------
    estimator : scikit-learn estimator
        With parameters ``epsilon`` and ``random_state``, and ``guarantee_`` after `fit`. Where
        it has ``domain`` and ``ledger`` they are set for the toy data: two numbers in [-1, 1].
    n_fits : int >= 40, default=500
        Fits to each of the two data sets.
    released : collection of str
        Attributes that the guarantee is about, or that follow from them.
    outputs : callable or None
        From a fitted model to the numbers that are audited; None takes ``coef_`` and
        ``intercept_``.
    noiseless : callable or None
        From a fitted model, X and y to what ``outputs`` would be without noise, exactly: the
        last bits of the differences are audited too.
    neighbours : pair of (X, y), or None
        Numbers in [-1, 1], and targets in [-1, 1] or of "a" and "b", that differ in one record.
    random_state : None, int or Generator, default=None
        None audits fits as users make them. Others can be repeated.

    Raises
    ------
    AssertionError
        With a sentence that says what broke which rule. That none is raised does not show that
        an estimator is private: this module's text says what audits see.

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.testing import check_private_estimator
    >>> released = ("coef_", "intercept_", "bounds_")  # what its noise is for
    >>> check_private_estimator(DPLogisticRegression(epsilon=2.0), n_fits=40, released=released)
    """
    check_count("n_fits", n_fits, 40)
    check_interface(estimator)
    check_guarantee(estimator)
    check_independence(estimator, released)
    check_errors(estimator)
    if "ledger" in estimator.get_params(deep=False):
        check_ledger(estimator)
    pair = _toy.neighbours(estimator) if neighbours is None else neighbours
    check_audit(estimator, pair, n_fits, outputs, random_state, noiseless=noiseless)


def check_interface(estimator: BaseEstimator) -> None:
    """Check that `fit` writes no parameter, and that clones and pickles are the same model."""
    name, (X, y) = type(estimator).__name__, _toy.unlike(estimator)[0]
    model = _toy.prepared(estimator, random_state=3)
    before = dict(model.get_params(deep=False))
    require(_fit(model, X, y) is model, f"{name}.fit", "return the estimator")
    changed = [k for k, v in model.get_params(deep=False).items() if v is not before[k]]
    require(not changed, f"{name}.fit", "write no parameter", changed)
    prediction = model.predict(X)
    again = _fit(clone(model), X, y)
    copies = {"a pickle": pickle.loads(pickle.dumps(model)), "a clone, fitted alike,": again}
    for what, copy in copies.items():
        same = np.array_equal(copy.predict(X), prediction)
        require(same, f"{what} of {name}", "predict the same")
        same = picture(copy.guarantee_) == picture(model.guarantee_)
        require(same, f"{what} of {name}", "have the same guarantee_")
    require(not hasattr(clone(model), "guarantee_"), f"a clone of {name}", "be unfitted")


def check_guarantee(estimator: BaseEstimator) -> None:
    """Check what the guarantee says, and that a seed makes it void."""
    name, (X, y) = f"{type(estimator).__name__}.guarantee_", _toy.unlike(estimator)[0]
    model = _fit(_toy.prepared(estimator, random_state=None), X, y)
    promise, asked = model.guarantee_, model.get_params(deep=False)
    require(isinstance(promise, Guarantee), name, "be a Guarantee", type(promise))
    most = asked["epsilon"] * (1 + 1e-9)
    require(promise.epsilon <= most, name, "promise the epsilon asked for", promise.epsilon)
    most = asked.get("delta", 0.0)
    require(promise.delta <= most, name, "promise the delta asked for", promise.delta)
    relation = asked.get("neighbors", promise.neighbors)
    rule = f"be under neighbors={relation!r}"
    require(promise.neighbors == relation, name, rule, promise.neighbors)
    require(promise.holds, name, "hold where random_state is None", promise.void_because)
    seeded = _fit(_toy.prepared(estimator, random_state=0), X, y)
    rule = "not hold where random_state is a seed: whoever knows it subtracts the noise"
    require(not seeded.guarantee_.holds, name, rule)
    other = _fit(_toy.prepared(estimator, random_state=None), X, y)
    fresh = not np.array_equal(coefficients(other), coefficients(model))
    require(fresh, type(estimator).__name__, "draw new noise at every fit")


def check_independence(estimator: BaseEstimator, released: Collection[str] = RELEASED) -> None:
    """Check that nothing but the release depends on the data; nor do repr and warnings."""
    name = type(estimator).__name__
    seen = []
    for X, y in _toy.unlike(estimator):
        model = _toy.prepared(estimator, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        told = sorted(f"{w.category.__name__}: {w.message}" for w in caught)
        seen.append((public_picture(model, released), repr(model), told, structure(model)))
    first, text, told, layout = seen[0]
    for other, other_text, other_told, other_layout in seen[1:]:
        moved = [k for k in first.keys() | other.keys() if first.get(k) != other.get(k)]
        rule = "be the same for all data: what depends on data is released, with noise, or private"
        require(not moved, f"{name}: {', '.join(sorted(moved))}", rule)
        require(other_text == text, f"{name}.__repr__", "not depend on the data")
        require(other_told == told, f"{name}.fit", "warn of nothing that it read off the data")
        keys = layout.keys() | other_layout.keys()
        moved = sorted(k for k in keys if layout.get(k) != other_layout.get(k))
        rule = "have types, shapes and layouts that are the same for all data"
        require(not moved, f"{name}: {', '.join(moved)}", rule)


def check_errors(estimator: BaseEstimator) -> None:
    """Check that data that cannot be fitted is refused, and that no message tells a value."""
    name = f"{type(estimator).__name__}.fit"
    for X, y in _toy.spoilt(estimator):
        model = _toy.prepared(estimator, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(X, y)
            except Exception as error:
                told = "".join(_chain(error))
            else:
                require(False, name, "refuse missing values, words and other labels")
        told += "".join(str(w.message) for w in caught)
        planted = any(secret in told for secret in (str(_toy.NUMBER), _toy.WORD))
        require(not planted, name, "tell no value of the data in an error or a warning")


def _chain(error: BaseException | None) -> Iterator[str]:
    """Yield what an error and those behind it say, whether a traceback shows them or not."""
    while error is not None:
        yield from (str(error), repr(error.args), *getattr(error, "__notes__", ()))
        error = error.__context__ or error.__cause__


class NoDraws(np.random.Generator):
    """A generator that gives nothing: whoever asks it raises `Drawn`."""


class Drawn(Exception):
    """Noise was drawn."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Drawn


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(NoDraws, _name, _refuse)


def check_ledger(estimator: BaseEstimator) -> None:
    """Check that a ledger is charged once, before noise is drawn, and refuses in time."""
    name, (X, y) = f"{type(estimator).__name__}.fit", _toy.unlike(estimator)[0]
    epsilon, delta = _asked(estimator)
    ledger = Ledger(1.5 * epsilon, min(1.0, 1.5 * delta))
    model = _fit(_toy.prepared(estimator, ledger=ledger, random_state=0), X, y)
    _check_charge(name, ledger, model.guarantee_)
    rng = NoDraws(np.random.PCG64(0))
    broke = _toy.prepared(estimator, ledger=ledger, random_state=rng)
    with _refused(name):
        _fit(broke, X, y)
    require(len(ledger.entries) == 1, name, "charge nothing for a fit that was refused")
    twin = clone(model)
    require(twin.ledger == ledger, f"a clone of {name}", "charge the same ledger")
    roomy = Ledger(10 * epsilon, min(1.0, 10 * delta))
    try:
        _fit(_toy.prepared(estimator, ledger=roomy, random_state=rng), X, y)
    except Drawn:
        charged = len(roomy.entries) == 1
        require(charged, name, "charge the ledger before the first draw", len(roomy.entries))
    else:
        require(False, name, "draw its noise from random_state")


def _check_charge(name: str, ledger: Ledger, promise: Guarantee) -> None:
    charges = [(e.epsilon, e.delta, e.neighbors) for e in ledger.entries]
    expected = [(promise.epsilon, promise.delta, promise.neighbors)]
    require(charges == expected, name, f"charge the ledger once, for {expected}", charges)


@contextmanager
def _refused(name: str) -> Iterator[None]:
    try:
        yield
    except BudgetExceeded:
        return
    except Drawn:
        require(False, name, "be refused by an empty ledger before noise is drawn")
    require(False, name, "raise BudgetExceeded where the ledger has too little left")


def _asked(estimator: BaseEstimator) -> tuple[float, float]:
    asked = estimator.get_params(deep=False)
    return float(asked["epsilon"]), float(asked.get("delta", 0.0))


def check_audit(
    estimator: BaseEstimator,
    pair: tuple[_toy.Data, _toy.Data],
    n_fits: int,
    outputs: Outputs | None = None,
    random_state: RandomStateLike = None,
    alarm: float = ALARM,
    noiseless: Noiseless | None = None,
) -> float:
    """Check that many fits to two neighbours show no more epsilon than was promised.

    Returns
    -------
    float
        The epsilon that they show.
    """
    seen, promise = _attacked(estimator, pair, n_fits, outputs, noiseless, random_state)
    x, y = (np.array([out for out, _ in fits]).reshape(n_fits, -1) for fits in seen)
    agree(x.shape, y.shape, 0.0, "outputs", "have one shape")
    found = epsilon_lower_bound(x, y, delta=promise.delta, alarm=alarm)
    _require_less(estimator, promise, found <= promise.epsilon, f"epsilon >= {found:.3g}")
    return found


def check_attack(
    estimator: BaseEstimator,
    pair: tuple[_toy.Data, _toy.Data],
    n_fits: int,
    outputs: Outputs | None = None,
    random_state: RandomStateLike = None,
    noiseless: Noiseless | None = None,
) -> None:
    """Check that nothing that a fit shows tells which of two neighbours was fitted."""
    _attacked(estimator, pair, n_fits, outputs, noiseless, random_state)


def _attacked(
    estimator: BaseEstimator,
    pair: tuple[_toy.Data, _toy.Data],
    n_fits: int,
    outputs: Outputs | None,
    noiseless: Noiseless | None,
    random_state: RandomStateLike,
) -> tuple[Seen, Guarantee]:
    """Return what was seen of fits, which told no more than was promised, and the promise."""
    rng = None if random_state is None else as_generator(random_state)
    model = _toy.prepared(estimator, np.shape(pair[0][0])[1], random_state=rng)
    seen = _seen_of_fits(model, pair, n_fits, outputs or coefficients, noiseless)
    first, second = ([read for _, read in fits if read] for fits in seen)
    told = attack(first, second, model.guarantee_)
    _require_less(estimator, model.guarantee_, told is None, str(told))
    return seen, model.guarantee_


def _require_less(estimator: BaseEstimator, promise: Guarantee, holds: bool, shown: str) -> None:
    rule = f"be ({promise.epsilon:g}, {promise.delta:g})-private: an audit must not show more"
    require(holds, type(estimator).__name__, rule, shown)


def _seen_of_fits(
    model: Any,
    pair: tuple[_toy.Data, _toy.Data],
    n_fits: int,
    outputs: Outputs,
    noiseless: Noiseless | None,
) -> Seen:
    """Return outputs and features of fits to each table, in an order that is drawn."""
    seen: Seen = ([], [])
    for table in pair:  # what a first fit leaves behind must not speak for the first table
        features(_fit(model, *table))
    for which in np.random.default_rng(0).permutation([0, 1] * n_fits):
        _fit(model, *pair[which])
        found = features(model) if len(seen[which]) < MOST_READ else {}
        out = outputs(model)
        if noiseless is not None and found:
            found |= of_differences(out, [noiseless(model, *table) for table in pair])
        seen[which].append((out, found))
    return seen


def coefficients(model: Any) -> NDArray[np.float64]:
    """Return coefficients and intercept in one row."""
    parts = [np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", []))]
    return np.concatenate(parts).astype(float)


def _fit(model: Any, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)
