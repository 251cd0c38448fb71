"""Every number of seeded fits and calibrated noise, compared bit by bit between two checkouts.

A change of the code that is not meant to change results is checked with

    python -m examples.benchmarks.upkeep.bits --against path/to/another/checkout

Each checkout computes in a process of its own. Numbers that differ are listed as hexadecimal
floats, and the exit code is 1 if there are any. ``--save FILE`` keeps the numbers of this
checkout, and ``--against`` takes such a file too. Noise from a seed protects nobody: this command
is for development. Needs no data files.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import skdp
from skdp import Domain
from skdp.geometry import EncodedRowsBall, LpBall, MomentBall, MomentLayout, ProductBall
from skdp.mechanisms import MatrixLaplace, Sensitivity, calibrate, calibrate_releases

N_ROWS = 400
# The share of epsilon for privately estimated bounds has had these names.
SHARES = ("scaling_share", "look")
RELATIONS, DELTAS = ("replace_one", "add_remove"), (0.0, 1e-6)
ESTIMATORS = (
    "DPLogisticRegression",
    "DPLinearRegression",
    "DPHuberRegressor",
    "DPCoordinateDescentClassifier",
    "DPCoordinateDescentRegressor",
)
RELEASED = ("coef_", "intercept_", "n_iter_", "converged_")
Numbers = dict[str, list[str]]


def bits(values: Any) -> list[str]:
    """Return every number as a hexadecimal float."""
    return [float(value).hex() for value in np.ravel(np.asarray(values, dtype=float))]


# Fits


def tables() -> dict[str, tuple[Any, Any]]:
    """Return for each kind of domain a function of the target that makes it, and rows."""
    rng = np.random.default_rng(0)
    numbers = {"a": (-1, 1), "b": (-5, 15), "c": (-0.1, 0.1)}
    mixed = {"age": (17, 90), "job": [0, 1, 2, 3], "sex": [0, 1]}
    box = rng.uniform(-1, 1, (N_ROWS, 3)) * [1, 10, 0.1] + [0, 5, 0]
    levels = np.column_stack([rng.uniform(17, 90, N_ROWS), rng.integers(0, [4, 2], (N_ROWS, 2))])
    ball = rng.normal(size=(N_ROWS, 3))
    ball *= (2 / np.maximum(2, np.linalg.norm(ball, axis=1)))[:, None]
    return {
        "box": (lambda target: Domain(numbers, target), box),
        "levels": (lambda target: Domain(mixed, target), levels),
        "ball": (lambda target: Domain.l2_ball(3, 2.0, target), ball),
    }


def target_of(X: Any, is_classifier: bool) -> Any:
    score = X @ [1.0, -0.3, 2.0] + np.random.default_rng(1).normal(size=len(X))
    score = (score - score.mean()) / score.std()
    return (score > 0).astype(int) if is_classifier else np.clip(score, -4, 4)


def scaling(kind: Any, is_on: bool) -> dict[str, Any]:
    """Return the parameter for privately estimated bounds, or nothing where there is none."""
    known = inspect.signature(kind).parameters
    return {name: "auto" if is_on else 0 for name in SHARES if name in known}


def fits() -> Iterator[tuple[str, list[str]]]:
    """Yield what each fit released."""
    cases = itertools.product(ESTIMATORS, tables().items(), RELATIONS, DELTAS, (False, True))
    for name, (domain_name, (domain, X)), neighbors, delta, is_on in cases:
        kind = getattr(skdp, name)
        if is_on and not scaling(kind, is_on):
            continue
        is_classifier = "classes" in inspect.signature(kind).parameters
        y = target_of(X, is_classifier)
        shared = {"neighbors": neighbors, "delta": delta, "random_state": 3}
        shared["domain"] = domain([0, 1] if is_classifier else (-4, 4))
        model = kind(**shared, **scaling(kind, is_on)).fit(X, y)
        switch = "on" if is_on else "off"
        where = f"{name}, {domain_name}, {neighbors}, delta={delta:g}, scaling {switch}"
        values = [bits(getattr(model, attribute)) for attribute in RELEASED]
        values.append(bits([model.guarantee_.epsilon, model.guarantee_.delta]))
        decide = model.decision_function if is_classifier else model.predict
        values.append(bits(decide(X[:20])))
        yield where, list(itertools.chain.from_iterable(values))


# Noise


def noises() -> Iterator[tuple[str, list[str]]]:
    """Yield the variances, a draw and a release of calibrated noise."""
    balls = {
        "l1": LpBall(4, p=1),
        "l2": LpBall(4),
        "box": LpBall(4, p=np.inf),
        "weighted": LpBall(4, p=1.5, weights=(1.0, 0.2, 3.0, 1.0)),
        "product": ProductBall((LpBall(1), LpBall(3, radius=2.0))),
        "rows": EncodedRowsBall(2, (3, 2)),
        "moments": MomentBall(MomentLayout(4, range(4)), level=0),
    }
    budgets = [(0.01, 0.0), (1.0, 0.0), (10.0, 0.0), (0.1, 1e-9), (1.0, 1e-6), (4.0, 0.01)]
    for (name, ball), (epsilon, delta) in itertools.product(balls.items(), budgets):
        pure = MatrixLaplace() if name == "moments" else ball
        noise = calibrate(
            "gaussian" if delta else pure, Sensitivity(ball), epsilon=epsilon, delta=delta
        )
        yield f"{name}, epsilon={epsilon:g}, delta={delta:g}", numbers_of(noise, ball.dim)
    laws = ("laplace", "gaussian", "logistic", "flipped_huber", "subbotin", "auto")
    for law, (epsilon, delta) in itertools.product(laws, budgets[3:]):
        shifts, budget = [(1.0, 3), (0.5, 20)], {"epsilon": epsilon, "delta": delta}
        repeated = calibrate_releases(law, shifts, neighbors="replace_one", **budget)
        where = f"{law} 23 times, epsilon={epsilon:g}, delta={delta:g}"
        yield where, bits([repeated.var(), *repeated.release(np.ones(3), 5)])


def numbers_of(noise: Any, dim: int) -> list[str]:
    variances = np.diag(noise.covariance())
    drawn = noise.rvs(np.random.default_rng(5))
    return bits(np.concatenate([variances, drawn, noise.release(np.ones(dim), 5)]))


# Two checkouts


def computed() -> Numbers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a seed makes the noise predictable, which is meant
        return {**dict(fits()), **dict(noises())}


def of_checkout(place: Path) -> Numbers:
    """Return the numbers in a file, or those of another checkout, found in its own process."""
    if place.is_file():
        return dict(json.loads(place.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "bits.json"
        environment = os.environ | {"PYTHONPATH": str(place.resolve())}
        command = [sys.executable, str(Path(__file__).resolve()), "--save", str(kept)]
        subprocess.run(command, check=True, env=environment, cwd=folder)
        return dict(json.loads(kept.read_text(encoding="utf-8")))


def differences(ours: Numbers, theirs: Numbers) -> Iterator[str]:
    """Yield a line for each setting whose numbers are not the same."""
    for where in sorted(ours.keys() | theirs.keys()):
        if where not in ours or where not in theirs:
            yield f"{where}: only in {'this' if where in ours else 'the other'} checkout"
            continue
        pairs = list(itertools.zip_longest(ours[where], theirs[where], fillvalue="none"))
        wrong = [(place, a, b) for place, (a, b) in enumerate(pairs) if a != b]
        if wrong:
            place, a, b = wrong[0]
            yield f"{where}: {len(wrong)} of {len(pairs)} differ, the first at {place}: {a}, {b}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another checkout, or a file of --save")
    parser.add_argument("--save", type=Path, help="where to keep the numbers of this checkout")
    arguments = parser.parse_args()
    found = computed()
    if arguments.save:
        arguments.save.write_text(json.dumps(found, indent=0), encoding="utf-8")
    if arguments.against:
        lines = list(differences(found, of_checkout(arguments.against)))
        print("\n".join([*lines, f"{len(lines)} of {len(found)} settings differ."]))
        raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
