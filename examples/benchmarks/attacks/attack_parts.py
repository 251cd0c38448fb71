"""Attacks 4 to 12: parts that break a rule, private search, plans that hang, odd inputs."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from examples.benchmarks.attacks.attack_report import Verdict, at_most, refused
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Ledger,
)
from skdp.geometry import LpBall
from skdp.linear_model._objective.advice import greatest_leverage
from skdp.linear_model.losses import LogisticLoss, PseudoHuber, SharpLogistic
from skdp.mechanisms import Independent, Sensitivity, calibrate
from skdp.model_selection import PrivateSearchCV
from skdp.model_selection._scores import as_score
from skdp.noise import Gaussian
from skdp.privacy import Guarantee
from skdp.trusted.losses import GaussianLoss

REFUSALS = (ValueError, TypeError)
# A plan takes less than a second of a processor; a slow one is given twice that.
MOST_SECONDS = 2.0


def attacks(seed: int, fast: bool) -> Iterator[Verdict]:
    """Run everything that is no guess of a bit."""
    yield from wrong_parts()
    yield from searches(seed)
    yield from plans(fast)
    yield from odd_inputs()


def error_of(run: Callable[[], Any]) -> str | None:
    """Return how a call was refused; None if it was not, or by a raw error."""
    try:
        run()
    except REFUSALS as error:
        return type(error).__name__
    except ArithmeticError:
        return None
    return None


def small_data(classes: bool = False, n: int = 60, columns: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, columns))
    return X, (np.where(X[:, 0] > 0, "a", "b") if classes else X[:, 0].copy())


# Wrong parts: losses, laws, calibrations, guarantees


class LowEnd(PseudoHuber):
    """Steeper than it says where the target is at the lower end of its range."""

    def slope(self, z: Any, y: Any) -> Any:
        """Return a slope beyond the bound."""
        return super().slope(z, y) * np.where(np.asarray(y) < 0, 3.0, 1.0)


class Bent(LogisticLoss):
    """A plain subclass of a frozen loss with an attribute that equality does not see."""

    def __init__(self, bend: float) -> None:
        object.__setattr__(self, "bend", bend)

    def curvature_bound(self, low: Any, high: Any) -> Any:
        """Return a bound that grows with the attribute."""
        return self.bend * super().curvature_bound(low, high)


class CalledLaplace(Gaussian):
    """A normal law with an attribute that is Laplace's in another family."""

    r: ClassVar[int] = 1


def wrong_parts() -> Iterator[Verdict]:
    """Attacks 4, 5, 6, 8 and 10."""
    X, y = small_data()
    domain = Domain.unit_box(2, target=(-1.0, 1.0))
    for loss in (LogisticLoss(), SharpLogistic(), LowEnd(0.3)):
        model = DPHuberRegressor(loss=loss, domain=domain)
        error = error_of(lambda model=model: model.fit(X, y))
        yield refused(f"wrong loss: {type(loss).__name__} for numbers", error, "fitted")
    asked = {"q": 0.8, "epsilon": 1.0, "neighbors": "replace_one"}
    greatest_leverage(Bent(1.0), **asked)
    found, allowed = (
        greatest_leverage(Bent(4.0), **asked),
        greatest_leverage(LogisticLoss(), **asked) / 4,
    )
    yield at_most("cached calibration of another loss", found, allowed, "leverage")
    one = Sensitivity(LpBall(1))
    error = error_of(lambda: calibrate(Independent(CalledLaplace()), one, epsilon=1.0))
    yield refused("a normal law that is called Laplace's", error, "pure guarantee")
    promise = Guarantee(1.0, 1e-6, losses=((GaussianLoss(0.01), 1),))
    for epsilon in (5.0, 50.0):
        found = promise.delta_at(epsilon)
        yield Verdict(f"delta at {epsilon:g} of a Gaussian loss", f"{found}", "> 0", found > 0)


# Private search


def searches(seed: int) -> Iterator[Verdict]:
    """Attack 7."""
    yield whole_step("the other relation", neighbors="add_remove")
    yield whole_step("a ledger of its own", ledger=Ledger(10.0))
    yield whole_step("a seed", random_state=0)
    yield whole_step("a delta", delta=1e-3)
    yield depending_scores(seed)
    yield claimed_less()


def whole_step(what: str, **changed: Any) -> Verdict:
    """Give a grid a whole step with a parameter that the search owns."""
    X, y = small_data(classes=True)
    asked = {"domain": Domain.unit_box(2, target=["a", "b"])}
    own, other = DPLogisticRegression(**asked), DPLogisticRegression(**asked, **changed)
    pipeline = Pipeline([("same", FunctionTransformer()), ("model", own)])
    search = PrivateSearchCV(pipeline, {"model": [other]})
    return refused(f"search: a step with {what}", error_of(lambda: search.fit(X, y)), "certified")


def depending_scores(seed: int) -> Verdict:
    """Count held-out records whose right or wrong label depends on who else is scored."""
    rng = np.random.default_rng([seed, 7])
    columns, n = 60, 2000
    X, y = small_data(classes=True, n=400, columns=columns)
    domain = Domain.unit_box(columns, target=["a", "b"])
    model = DPLogisticRegression(epsilon=10.0, domain=domain, random_state=0).fit(X, y)
    records = near_the_boundary(model, rng.uniform(-1, 1, (n, columns)))
    score = as_score(None, ["a", "b"], None)
    labels = np.full(n, "a")
    alone = [score.total(model, records[k : k + 1], labels[k : k + 1]) for k in range(n)]
    found = {
        size: sum(
            score.total(model, records[k : k + size], labels[k : k + size])
            != sum(alone[k : k + size])
            for k in range(0, n, size)
        )
        for size in (2, 3, 5, 8, 16)
    }
    return at_most("search: scores that depend on others", sum(found.values()), 0.0, "tables")


def near_the_boundary(model: Any, X: Any) -> Any:
    """Return records with log-odds of 0 but for the last bits."""
    slope = model.coef_.ravel()
    free = int(np.argmax(np.abs(slope)))
    X = X * 0.05
    for _ in range(3):
        X[:, free] -= (X @ slope + float(np.ravel(model.intercept_)[0])) / slope[free]
    return X


def claimed_less() -> Verdict:
    """Compare what the chosen model's noise claims with what the search cost."""
    X, y = small_data(classes=True)
    model = DPLogisticRegression(domain=Domain.unit_box(2, target=["a", "b"]))
    search = PrivateSearchCV(model, {"regularization": [0.5, 1.0]}).fit(X, y)
    claimed = search.best_estimator_.noise_.guarantee.epsilon
    return at_most("search: the model's noise claims less", search.epsilon, claimed, "epsilon")


# Plans that hang, and budgets beyond floats

PLANS = {
    "few records, levels, delta": "({'x0': (-1, 1), 'x1': (-1, 1), 'l': list('abcde')}, 50, {})",
    "100 columns, no intercept": (
        "({f'x{j}': (-1, 1) for j in range(100)}, 200, {'fit_intercept': False})"
    ),
    "300 columns": "({f'x{j}': (-1, 1) for j in range(300)}, 2000, {'fit_intercept': False})",
    "10,000 levels": "({'l': [str(k) for k in range(10_000)]}, 2000, {})",
}
SCRIPT = """
import time
import numpy as np
from skdp import Domain
from skdp.linear_model._moments.advice import plan_moments
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.task import Task
columns, n, options = {what}
domain = Domain(columns, target=(-1.0, 1.0))
start = time.process_time()
design = Design(domain, options.get("fit_intercept", True))
plan_moments(Task(design, n, 1.0, 1e-6), "auto")
print(time.process_time() - start)
"""


def plans(fast: bool) -> Iterator[Verdict]:
    """Attack 9: time plans with nothing remembered, each in a process of its own."""
    for name, what in PLANS.items():
        patience = 10.0 if fast else 120.0
        try:
            run = subprocess.run(
                [sys.executable, "-c", SCRIPT.format(what=what)],
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
            )
            found = float(run.stdout) if run.returncode == 0 else np.inf
        except subprocess.TimeoutExpired:
            found = patience
        yield at_most(f"plan: {name}", found, MOST_SECONDS, "seconds")
    for epsilon in (1e-200, 1e-300):
        yield tiny(epsilon)


def tiny(epsilon: float) -> Verdict:
    """Ask for an epsilon whose noise no float holds."""
    faults = []
    for model in all_estimators():
        ledger = Ledger(1.0)
        X, y = small_data(is_classifier(model))
        try:
            model.set_params(epsilon=epsilon, ledger=ledger).fit(X, y)
            faults.append("fitted")
        except (ValueError, ArithmeticError) as error:
            if not (isinstance(error, ValueError) and "epsilon" in str(error)):
                faults.append(type(error).__name__)
        if ledger.entries:
            faults.append("spent")
    error = None if faults else "5 refuse, nothing spent"
    return refused(f"epsilon {epsilon:g}", error, ", ".join(sorted(set(faults))))


def all_estimators() -> list[Any]:
    """Return the five estimators for small data."""
    labels, numbers = (Domain.unit_box(2, target=t) for t in (["a", "b"], (-1.0, 1.0)))
    return [
        DPLogisticRegression(domain=labels),
        DPHuberRegressor(domain=numbers),
        DPLinearRegression(domain=numbers),
        DPCoordinateDescentClassifier(domain=labels),
        DPCoordinateDescentRegressor(domain=numbers),
    ]


# Odd inputs

SECRET = "value-of-a-cell-7319"


class Angry:
    """A cell that raises with its own content."""

    def __float__(self) -> float:
        raise ValueError(SECRET)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(SECRET)

    __str__ = __repr__ = __float__  # type: ignore[assignment]


def odd_tables() -> dict[str, tuple[Any, Any]]:
    """Return inputs that are to be refused, with nothing told and nothing spent."""
    X, _ = small_data()
    dates = np.full(X.shape, np.datetime64("2020-01-01"), dtype=object)
    spans = np.full(X.shape, np.timedelta64(3, "D"), dtype=object)
    angry = X.astype(object)
    angry[3, 1] = Angry()
    records = np.zeros(len(X), dtype=[("a", float), ("b", float)])
    return {
        "masked": (np.ma.array(X, mask=X > 0.9), None),
        "complex": (X + 1j, None),
        "complex cells": ((X + 1j).astype(object), None),
        "dates": (dates, None),
        "spans": (spans, None),
        "angry cell": (angry, None),
        "structured target": (X, records),
        "complex target": (X, X[:, 0] + 1j),
        "masked target": (X, np.ma.array(X[:, 0], mask=X[:, 0] > 0.9)),
    }


def odd_inputs() -> Iterator[Verdict]:
    """Attack 12."""
    for name, (X, given) in odd_tables().items():
        taken, told, spent = [], [], []
        for model in all_estimators():
            y = small_data(is_classifier(model))[1] if given is None else given
            ledger, kind = Ledger(10.0), type(model).__name__
            words, raised = words_of(model.set_params(ledger=ledger), X, y)
            taken += [] if raised else [kind]
            told += [kind] if SECRET in words or "ComplexWarning" in words else []
            spent += [kind] if raised and ledger.entries else []
        faults = {"taken": taken, "told": told, "spent": spent}
        said = ", ".join(f"{what} by {len(who)}" for what, who in faults.items() if who)
        yield refused(f"odd input: {name}", None if said else "5 refuse", said)


def words_of(model: Any, X: Any, y: Any) -> tuple[str, bool]:
    """Return all that a fit says, and whether it was refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
            words, raised = "", False
        except Exception as error:
            words, raised = "".join(chain_of(error)), True
    return words + "".join(f"{w.category.__name__}: {w.message}" for w in caught), raised


def chain_of(error: BaseException | None) -> Iterator[str]:
    """Yield what an error says, and those behind it that a traceback would show."""
    while error is not None:
        yield f"{error.args} {getattr(error, '__notes__', ())}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
