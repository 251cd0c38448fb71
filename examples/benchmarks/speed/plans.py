"""How long the plan of a fit takes: the choice of the noise and its calibration, without data.

Every estimator, over columns of numbers, levels, records, delta, neighbours and the intercept. Each
plan is made in a process of its own, so that nothing calibrated before helps it. Prints the slowest
plans, their time and peak memory, and how many take longer than a second.

Run it from the root of the repository with one thread of linear algebra:

    OMP_NUM_THREADS=1 python -m examples.benchmarks.speed.plans         # half of the grid's corners
    OMP_NUM_THREADS=1 python -m examples.benchmarks.speed.plans --full  # the whole grid

    OMP_NUM_THREADS=1 python -m examples.benchmarks.speed.plans --fits  # fits of 569 rows
    OMP_NUM_THREADS=1 python -m examples.benchmarks.speed.plans --columns  # linear, by columns

With these two, the first call of a process and the median of nine calls after it are printed.

``--only linear`` keeps cases whose text has this word; ``--limit 20`` ends plans after 20 seconds,
and no plan may take more than ``--memory`` gigabytes.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

import skdp
from skdp import Domain
from skdp.linear_model._shared.design import Design

ESTIMATORS = {
    "logistic": skdp.DPLogisticRegression,
    "huber": skdp.DPHuberRegressor,
    "linear": skdp.DPLinearRegression,
    "cd-classifier": skdp.DPCoordinateDescentClassifier,
    "cd-regressor": skdp.DPCoordinateDescentRegressor,
}
NUMBERS = (3, 20, 100, 200, 300)
LEVELS = ((), (3,), (10, 10), (100,), (10_000,))
RECORDS = (100, 2_000, 100_000)
GOAL = 1.0


class Case(NamedTuple):
    """What one plan is made for."""

    estimator: str
    numbers: int
    levels: tuple[int, ...]
    n: int
    delta: float
    neighbors: str
    intercept: bool
    epsilon: float = 1.0

    def __str__(self) -> str:
        words = [self.estimator, f"p={self.numbers}", f"levels={list(self.levels)}", f"n={self.n}"]
        words += [f"epsilon={self.epsilon:g}", f"delta={self.delta:g}", self.neighbors]
        return " ".join(words) + ("" if self.intercept else " no intercept")

    def model(self) -> Any:
        """Return the estimator."""
        columns: dict[str, Any] = {f"x{j}": (0.0, 1.0) for j in range(self.numbers)}
        columns |= {f"c{j}": list(range(count)) for j, count in enumerate(self.levels)}
        labels = self.estimator in ("logistic", "cd-classifier")
        domain = Domain(columns, target=[0, 1] if labels else (0.0, 1.0))
        return ESTIMATORS[self.estimator](
            epsilon=self.epsilon,
            delta=self.delta,
            neighbors=self.neighbors,
            n_public=self.n if self.neighbors == "add_remove" else None,
            fit_intercept=self.intercept,
            domain=domain,
        )

    def plan(self) -> Any:
        """Return what `fit` would release, and its noise."""
        model = self.model()
        model._check_parameters()
        return model._plan(Design(model.domain, self.intercept), self.n, 1)

    def fit(self) -> Any:
        """Return a model fitted to random rows without levels."""
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(self.n, self.numbers))
        y = X.mean(axis=1) + 0.1 * rng.normal(size=self.n)
        is_classifier = self.estimator in ("logistic", "cd-classifier")
        return self.model().fit(X, (y > 0.5).astype(int) if is_classifier else y.clip(0, 1))


class Timed(NamedTuple):
    """A plan's time in seconds, its peak memory in megabytes beyond imports, or why it failed."""

    case: Case
    seconds: float
    megabytes: float
    failure: str


def grid(full: bool) -> list[Case]:
    """Return the cases, without delta and a scaling stage if they are not used."""
    axes = (ESTIMATORS, NUMBERS, LEVELS, RECORDS, (0.0, 1e-6), tuple(NEIGHBORS), (True, False))
    cases = [Case(*values) for values in itertools.product(*axes)]
    corners = [case for case in cases if sum(map(_is_end, case)) % 2 == 0]
    return cases if full else corners


NEIGHBORS = ("replace_one", "add_remove")


def _is_end(value: Any) -> bool:
    return value in (True, 0.0, "replace_one", 3, 100, 300, (), (10_000,))


def table_of_fits() -> list[Case]:
    """Return every estimator for a small table, without and with delta."""
    axes = (ESTIMATORS, (0.0, 1e-6), NEIGHBORS)
    return [Case(name, 30, (), 569, *rest, True) for name, *rest in itertools.product(*axes)]


def table_of_columns() -> list[Case]:
    """Return linear regressions of numbers, and of numbers and levels, by columns."""
    axes = (NUMBERS, ((), (10, 2, 5)), (1_000, 1_000_000), (0.0, 1e-6), NEIGHBORS)
    return [Case("linear", *values, True) for values in itertools.product(*axes)]


def first_and_again(case: Case, is_fit: bool) -> tuple[float, float]:
    """Return the seconds of the first call in a fresh process, and the median of nine more."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_repeat, args=(case, is_fit, sender))
    process.start()
    seconds: list[float] = receiver.recv()
    process.join()
    return seconds[0], statistics.median(seconds[1:])


def _repeat(case: Case, is_fit: bool, answer: Connection) -> None:
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        _ = case.fit() if is_fit else case.plan()
        seconds.append(time.perf_counter() - start)
    answer.send(seconds)


def timed(case: Case, limit: float, memory: float) -> Timed:
    """Return how long a plan takes in a fresh process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(case, sender, memory))
    process.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(limit) else None
    except EOFError:
        answer = (0.0, 0.0, "the process died")
    process.terminate()
    process.join()
    return Timed(case, *(answer or (limit, 0.0, f"took more than {limit:g} s")))


def _work(case: Case, answer: Connection, memory: float) -> None:
    limit = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before, start, failure = _megabytes(), time.perf_counter(), ""
    try:
        case.plan()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"[:200]
    answer.send((time.perf_counter() - start, _megabytes() - before, failure))


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the whole grid")
    parser.add_argument("--fits", action="store_true", help="times of small fits")
    parser.add_argument("--columns", action="store_true", help="times of linear plans by columns")
    parser.add_argument("--only", default="", help="cases whose text has all of these words")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one plan")
    parser.add_argument("--memory", type=float, default=6.0, help="gigabytes for one plan")
    parser.add_argument("--show", type=int, default=25, help="how many of the slowest to print")
    options = parser.parse_args()
    words, few = options.only.split(), options.fits or options.columns
    cases = table_of_fits() if options.fits else table_of_columns()
    cases = cases if few else grid(options.full)
    cases = [case for case in cases if all(w in str(case).split() for w in words)]
    for case in cases if few else ():
        first, again = first_and_again(case, options.fits)
        print(f"first {first:7.4f} s, again {again:7.4f} s  {case}", flush=True)
    if few:
        return
    found = [timed(case, options.limit, options.memory) for case in cases]
    found.sort(key=lambda plan: -plan.seconds)
    for plan in found[: options.show]:
        print(f"{plan.seconds:8.3f} s {plan.megabytes:7.0f} MB  {plan.case}  {plan.failure}")
    failed = [plan for plan in found if plan.failure and plan not in found[: options.show]]
    for plan in failed:
        print(f"failed: {plan.case}  {plan.failure}")
    slow = sum(plan.seconds > GOAL for plan in found)
    print(f"{len(found)} plans, {slow} of them longer than {GOAL:g} s; ", end="")
    print(f"median {found[len(found) // 2].seconds:.3f} s")


if __name__ == "__main__":
    main()
