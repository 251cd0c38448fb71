"""Checks of private estimators: `check_private_estimator` and its parts.

Two attackers know two neighbouring tables and see many fits to each. The first searches the
released numbers for an event that is too likely under one table (`skdp.testing.audit`). The second
reads the whole fitted model: each number with its last bit, signs of zeros, types, shapes and
layouts of arrays, texts, and the pickle (`skdp.testing._attacker`). Values that do not come from
noise must be the same for both tables; at epsilon = 1, 40 fits of each detect a difference.

The power is limited. An audit uses one pair of data sets, and detects events that occur at least a
few times in n_fits. It does not detect violations of a delta of 1e-6, 10 % too little noise,
faults on other data, or disclosure by running time or memory. The false-alarm probability is at
most 1.01e-6. For noise on a sum at epsilon = 1 or 2, 500 fits detect a tenth of the required
noise, and 3000 fits detect one half. Coefficients of a perturbed objective disclose less: 3000
fits of `DPLogisticRegression` at epsilon = 2 show 0.56, and 1.54 with half of the noise, which is
not detected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from skdp._checks import check_count
from skdp.privacy import BudgetExceeded, Guarantee, Ledger
from skdp.randomness import RandomStateLike, as_generator
from skdp.testing import _toy
from skdp.testing._attacker import (
    attack,
    features,
    of_differences,
    picture,
    public_picture,
    structure,
)
from skdp.testing._require import agree, check_claim, pickled, require
from skdp.testing.audit import ALARM, epsilon_lower_bound

RELEASED = ("coef_", "intercept_")
Outputs = Callable[[Any], Any]
# From a fitted model and a table to its outputs without noise.
_Noiseless = Callable[[Any, Any, Any], Any]
# Outputs and features of each fit to a table.
Fits = list[tuple[Any, dict[str, float]]]
_Seen = tuple[Fits, Fits]
# Number of fits to each table whose features are read.
_MOST_READ = 500


def check_private_estimator(
    estimator: BaseEstimator,
    *,
    n_fits: int = 500,
    released: Collection[str] = RELEASED,
    outputs: Outputs | None = None,
    noiseless: _Noiseless | None = None,
    neighbours: tuple[_toy.Data, _toy.Data] | None = None,
    random_state: RandomStateLike = None,
) -> None:
    """Raise AssertionError if an estimator is found to violate its guarantee.

    Clones and pickles must be equal models. The guarantee must be the one asked for, and void
    under a seed. No public attribute but the released ones may depend on the data, and no error
    may contain a value. The ledger must be charged once, before noise is drawn, and must refuse
    a fit that it cannot pay. Audits of many fits to two neighbouring data sets must not show
    more than the claimed epsilon.

    Parameters
    ----------
    estimator : scikit-learn estimator
        It has parameters ``epsilon`` and ``random_state``, and ``guarantee_`` after `fit`.
        Parameters ``domain`` and ``ledger``, if any, are set for the test data: two numbers in
        [-1, 1].
    n_fits : int >= 40, default=500
        Number of fits to each of the two data sets.
    released : collection of str
        Attributes that the guarantee covers, or that follow from them.
    outputs : callable or None, default=None
        From a fitted model to the audited numbers. None takes ``coef_`` and ``intercept_``.
    noiseless : callable or None, default=None
        From a fitted model, X and y to the exact values of ``outputs`` without noise. With it
        the last bits of the differences are audited too.
    neighbours : pair of (X, y) or None, default=None
        Data sets that differ in one record, with numbers in [-1, 1], and targets in [-1, 1] or
        labels "a" and "b".
    random_state : None, int or Generator, default=None
        None audits fits as users make them. Other values make the audit repeatable.

    Raises
    ------
    AssertionError
        If a rule is broken; the message gives the rule. No error does not prove privacy.

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.testing import check_private_estimator
    >>> released = ("coef_", "intercept_", "bounds_")
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
    """Check that `fit` writes no parameter, and that clones and pickles are equal models."""
    name, (X, y) = type(estimator).__name__, _toy.unlike(estimator)[0]
    model = _toy.prepared(estimator, random_state=3)
    before = dict(model.get_params(deep=False))
    require(model.fit(X, y) is model, f"{name}.fit", "return the estimator")
    changed = [k for k, v in model.get_params(deep=False).items() if v is not before[k]]
    require(not changed, f"{name}.fit", "write no parameter", changed)
    prediction = model.predict(X)
    again = clone(model).fit(X, y)
    copies = {"a pickle": pickled(model, name), "a clone, fitted alike,": again}
    for what, copy in copies.items():
        same = np.array_equal(copy.predict(X), prediction)
        require(same, f"{what} of {name}", "predict the same")
        same = picture(copy.guarantee_) == picture(model.guarantee_)
        require(same, f"{what} of {name}", "have the same guarantee_")
    require(not hasattr(clone(model), "guarantee_"), f"a clone of {name}", "be unfitted")


def check_guarantee(estimator: BaseEstimator) -> None:
    """Check the claimed guarantee, and that a seed makes it void."""
    name, (X, y) = f"{type(estimator).__name__}.guarantee_", _toy.unlike(estimator)[0]
    model = _toy.prepared(estimator, random_state=None).fit(X, y)
    relation = model.get_params(deep=False).get("neighbors")
    check_claim(name, model.guarantee_, *_asked(estimator), relation)
    seeded = _toy.prepared(estimator, random_state=0).fit(X, y)
    rule = "not hold where random_state is a seed: an attacker who knows it removes the noise"
    require(not seeded.guarantee_.holds, name, rule)
    other = _toy.prepared(estimator, random_state=None).fit(X, y)
    fresh = not np.array_equal(coefficients(other), coefficients(model))
    require(fresh, type(estimator).__name__, "draw new noise at every fit")


def check_independence(estimator: BaseEstimator, released: Collection[str] = RELEASED) -> None:
    """Check that only the released attributes depend on the data, not repr and warnings."""
    name = type(estimator).__name__
    seen = []
    for X, y in _toy.unlike(estimator):
        model = _toy.prepared(estimator, random_state=0)
        with warnings.catch_warnings(record=True, action="always") as caught:
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
    """Check that invalid data are refused, and that no message contains a value."""
    name = f"{type(estimator).__name__}.fit"
    for X, y in _toy.spoilt(estimator):
        model = _toy.prepared(estimator, random_state=0)
        with warnings.catch_warnings(record=True, action="always") as caught:
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
    """Yield the texts of an error and of its causes and contexts, also of suppressed ones."""
    while error is not None:
        yield from (str(error), repr(error.args), *getattr(error, "__notes__", ()))
        error = error.__context__ or error.__cause__


class NoDraws(np.random.Generator):
    """A generator whose draws raise `Drawn`."""


class Drawn(Exception):
    """Error for a draw of noise."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Drawn


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(NoDraws, _name, _refuse)


def check_ledger(estimator: BaseEstimator) -> None:
    """Check that a ledger is charged once, before noise is drawn, and can refuse a fit."""
    name, (X, y) = f"{type(estimator).__name__}.fit", _toy.unlike(estimator)[0]
    epsilon, delta = _asked(estimator)
    ledger = Ledger(1.5 * epsilon, min(1.0, 1.5 * delta))
    model = _toy.prepared(estimator, ledger=ledger, random_state=0).fit(X, y)
    claim = model.guarantee_
    charges = [(e.epsilon, e.delta, e.neighbors) for e in ledger.entries]
    expected = [(claim.epsilon, claim.delta, claim.neighbors)]
    require(charges == expected, name, f"charge the ledger once, for {expected}", charges)
    rng = NoDraws(np.random.PCG64(0))
    broke = _toy.prepared(estimator, ledger=ledger, random_state=rng)
    try:
        broke.fit(X, y)
    except BudgetExceeded:
        pass
    except Drawn:
        require(False, name, "be refused by an empty ledger before noise is drawn")
    else:
        require(False, name, "raise BudgetExceeded where the ledger has too little left")
    require(len(ledger.entries) == 1, name, "charge nothing for a fit that was refused")
    twin = clone(model)
    require(twin.ledger == ledger, f"a clone of {name}", "charge the same ledger")
    roomy = Ledger(10 * epsilon, min(1.0, 10 * delta))
    try:
        _toy.prepared(estimator, ledger=roomy, random_state=rng).fit(X, y)
    except Drawn:
        charged = len(roomy.entries) == 1
        require(charged, name, "charge the ledger before the first draw", len(roomy.entries))
    else:
        require(False, name, "draw its noise from random_state")


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
    noiseless: _Noiseless | None = None,
) -> float:
    """Check that many fits to two neighbours show at most the claimed epsilon, and return it."""
    seen, claim = check_attack(estimator, pair, n_fits, outputs, random_state, noiseless)
    x, y = (np.array([out for out, _ in fits]).reshape(n_fits, -1) for fits in seen)
    agree(x.shape, y.shape, 0.0, "outputs", "have one shape")
    found = epsilon_lower_bound(x, y, delta=claim.delta, alarm=alarm)
    _require_private(estimator, claim, found <= claim.epsilon, f"epsilon >= {found:.3g}")
    return found


def check_attack(
    estimator: BaseEstimator,
    pair: tuple[_toy.Data, _toy.Data],
    n_fits: int,
    outputs: Outputs | None = None,
    random_state: RandomStateLike = None,
    noiseless: _Noiseless | None = None,
) -> tuple[_Seen, Guarantee]:
    """Check that no feature of a fit shows which of two neighbours was fitted.

    Return outputs and features of the fits to each table, and the guarantee.
    """
    rng = None if random_state is None else as_generator(random_state)
    model = _toy.prepared(estimator, np.shape(pair[0][0])[1], random_state=rng)
    seen = _seen_of_fits(model, pair, n_fits, outputs or coefficients, noiseless)
    first, second = ([read for _, read in fits if read] for fits in seen)
    found = attack(first, second, model.guarantee_)
    _require_private(estimator, model.guarantee_, found is None, str(found))
    return seen, model.guarantee_


def _require_private(estimator: BaseEstimator, claim: Guarantee, holds: bool, shown: str) -> None:
    rule = f"be ({claim.epsilon:g}, {claim.delta:g})-private: an audit must not show more"
    require(holds, type(estimator).__name__, rule, shown)


def _seen_of_fits(
    model: Any,
    pair: tuple[_toy.Data, _toy.Data],
    n_fits: int,
    outputs: Outputs,
    noiseless: _Noiseless | None,
) -> _Seen:
    """Return outputs and features of fits to each table, in a random order."""
    seen: _Seen = ([], [])
    for table in pair:  # caches that a first fit fills must not distinguish the tables
        features(model.fit(*table))
    for which in np.random.default_rng(0).permutation([0, 1] * n_fits):
        model.fit(*pair[which])
        found = features(model) if len(seen[which]) < _MOST_READ else {}
        out = outputs(model)
        if noiseless is not None and found:
            found |= of_differences(out, [noiseless(model, *table) for table in pair])
        seen[which].append((out, found))
    return seen


def coefficients(model: Any) -> NDArray[np.float64]:
    """Return coefficients and intercept in one array."""
    parts = [np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", []))]
    return np.concatenate(parts).astype(float)
