"""Who takes part in the benchmark of everything, and what one run of each is.

A run fits on four fifths of a set's encoded rows and scores on the others: accuracy, AUROC and
log-loss, or R^2. All private methods have the same public bounds, one record replaced, and epsilon
at face value.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import report
from adassp import RHO, SQUARES
from data import DataSet, read
from measures import LEAST_SCORE, class_scores, number_scores
from report import FloatArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)
from skdp.mechanisms.gaussian.noise import gaussian_scale

EPSILONS = (0.1, 0.5, 1.0, 4.0)
# Where a method has no epsilon.
NO_EPSILON = math.inf
NONE, INVERSE_SQUARE, SMALL = "0", "1/n^2", "1e-6"
SEED = 0
SCRIPT = Path(__file__).with_name("diffprivlib_peer.py")


@dataclass(frozen=True)
class Contender:
    """A method at a delta.

    Attributes
    ----------
    method : str
        The name in the tables. Settings of a peer share their name: "name, setting".
    task : {"classification", "regression"}
    delta : {"0", "1/n^2", "1e-6"}
    epsilons : tuple of float
    """

    method: str
    task: str
    delta: str = NONE
    epsilons: tuple[float, ...] = EPSILONS

    @property
    def is_diffprivlib(self) -> bool:
        """Whether its runs need the environment of diffprivlib."""
        return self.method.startswith(DIFFPRIVLIB)


@dataclass(frozen=True)
class Run:
    """The scores of one method on one split of one set, by epsilon, and the seconds they took.

    ``scores`` has a dictionary for each epsilon, from the names in `measures.MEASURES` to scores.
    """

    set: str
    method: str
    delta: str
    repetition: int
    scores: dict[float, dict[str, float]]
    seconds: float

    def line(self) -> str:
        """Return the run as a line of JSON; scores have six digits."""
        scores = {
            f"{epsilon:g}": {name: float(f"{score:.6g}") for name, score in found.items()}
            for epsilon, found in self.scores.items()
        }
        return json.dumps({**asdict(self), "scores": scores, "seconds": round(self.seconds, 3)})

    @classmethod
    def from_line(cls, line: str) -> Run | None:
        """Return the run of a line; None if an older version stored it, with a single score."""
        facts = json.loads(line)
        scores = {float(epsilon): found for epsilon, found in facts["scores"].items()}
        if not all(isinstance(found, dict) for found in scores.values()):
            return None
        return cls(**{**facts, "scores": scores})


LOGISTIC, LINEAR, HUBER = "DPLogisticRegression", "DPLinearRegression", "DPHuberRegressor"
DESCENT = {
    "classification": "DPCoordinateDescentClassifier",
    "regression": "DPCoordinateDescentRegressor",
}
OURS: dict[str, Any] = {
    LOGISTIC: DPLogisticRegression,
    LINEAR: DPLinearRegression,
    HUBER: DPHuberRegressor,
    DESCENT["classification"]: DPCoordinateDescentClassifier,
    DESCENT["regression"]: DPCoordinateDescentRegressor,
}
ADASSP, DIFFPRIVLIB, PLAIN, TRIVIAL = "AdaSSP", "diffprivlib", "without privacy", "trivial"
# Of three releases, or of two with the eigenvalue taken from the noisy matrix.
ADASSP_KINDS = {f"{ADASSP}, three releases": 1.0, f"{ADASSP}, two releases": 0.0}
DIFFPRIVLIB_PENALTIES = {f"{DIFFPRIVLIB}, C=1": 1.0, f"{DIFFPRIVLIB}, C=0.1": 0.1}


def contenders() -> list[Contender]:
    """Return all of them; what is cheap first."""
    both = ("classification", "regression")
    references = [
        Contender(name, task, epsilons=(NO_EPSILON,)) for task in both for name in (TRIVIAL, PLAIN)
    ]
    pure = [
        Contender(LOGISTIC, "classification"),
        Contender(LINEAR, "regression"),
        Contender(HUBER, "regression"),
    ]
    approximate = [
        Contender(LOGISTIC, "classification", INVERSE_SQUARE),
        Contender(HUBER, "regression", INVERSE_SQUARE),
        *(Contender(DESCENT[task], task, INVERSE_SQUARE) for task in both),
    ]
    approximate += [Contender(name, "regression", INVERSE_SQUARE) for name in ADASSP_KINDS]
    # As AdaSSP's author measured it.
    small = [
        Contender(name, "regression", SMALL, (1.0,))
        for name in (LINEAR, HUBER, DESCENT["regression"], *ADASSP_KINDS)
    ]
    theirs = [Contender(name, "classification") for name in DIFFPRIVLIB_PENALTIES]
    theirs.append(Contender(DIFFPRIVLIB, "regression"))
    return [*references, *pure, *approximate, *small, *theirs]


# Runs


def runs(
    contender: Contender,
    name: str,
    wanted: Sequence[tuple[int, tuple[float, ...]]],
    python: str | None = None,
) -> list[Run]:
    """Make the wanted runs: repetitions, each with the epsilons that are missing."""
    data = read(name)
    if contender.is_diffprivlib:
        scored = _by_diffprivlib(contender, data, wanted, python or "python")
    else:
        scored = (_here(contender, data, *one) for one in wanted)
    return [Run(name, contender.method, contender.delta, *facts) for facts in scored]


def _here(
    contender: Contender, data: DataSet, repetition: int, epsilons: Iterable[float]
) -> tuple[int, dict[float, dict[str, float]], float]:
    """Return the repetition, its scores by epsilon, and the seconds."""
    train, test = report.split(len(data.y), SEED, repetition)
    X, y, began = data.encoded, data.y, perf_counter()
    measure = class_scores if data.task == "classification" else number_scores
    scores = {}
    for epsilon in epsilons:
        model = _model(contender, data, epsilon, repetition).fit(X[train], y[train])
        scores[epsilon] = measure(model, X[test], y[test])
    return repetition, scores, perf_counter() - began


def _model(contender: Contender, data: DataSet, epsilon: float, repetition: int) -> Any:
    """Return an estimator that is ready to be fitted."""
    method, is_class = contender.method, contender.task == "classification"
    if method == TRIVIAL:
        return DummyClassifier() if is_class else DummyRegressor()
    if method == PLAIN:
        return LogisticRegression(max_iter=2000) if is_class else LinearRegression()
    seed = report.noise_seed(SEED, repetition)
    delta, domain = delta_of(contender, len(data.y)), data.domain.encoded
    if method in ADASSP_KINDS:
        return AdaSSP(domain, epsilon, delta, ADASSP_KINDS[method], seed)
    return OURS[method](epsilon=epsilon, delta=delta, domain=domain, random_state=seed)


def delta_of(contender: Contender, n_rows: int) -> float:
    """Return delta as a number: 1 / n^2 takes the first digit of the number of training rows."""
    if contender.delta == INVERSE_SQUARE:
        facts = report.facts_of_fit(n_rows, 1.0, "replace_one", approximate=True)
        return float(facts["delta"])
    return float(contender.delta)


@dataclass
class AdaSSP:
    """Wang 2018, Algorithm 2, with the least noise that makes its releases private together.

    ``extra`` is the square of the change of the third release, the least eigenvalue; 0 releases
    two only and takes the eigenvalue of the noisy matrix. The intercept is a column of ones; rows
    are divided by the greatest length that the domain allows, the target is scaled to [-1, 1].
    """

    domain: Domain
    epsilon: float
    delta: float
    extra: float
    seed: int

    def fit(self, X: FloatArray, y: FloatArray) -> AdaSSP:
        """Release the moments and solve with the ridge that the noise asks for."""
        rows, t = self._rows(X), self.domain.encode_target(y)
        d, rng = rows.shape[1], np.random.default_rng(self.seed)
        square = SQUARES["replace_one"] + self.extra
        scale = math.sqrt(square) * gaussian_scale(self.epsilon, self.delta)
        exact, noise = rows.T @ rows, rng.standard_normal((d, d))
        # Symmetrised as in the author's code: less noise than Algorithm 2 has.
        XX = exact + scale * (noise + noise.T) / 2
        Xy = rows.T @ t + scale * rng.standard_normal(d)
        least = np.linalg.eigvalsh(exact if self.extra else XX)[0]
        if self.extra:
            least += scale * rng.standard_normal()
        wanted = scale * math.sqrt(d * math.log(2 * d**2 / RHO))
        self.coef = np.linalg.solve(XX + max(0.0, wanted - max(0.0, least)) * np.eye(d), Xy)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return predictions in the target's units."""
        return self.domain.decode_target(self._rows(X) @ self.coef)

    def _rows(self, X: FloatArray) -> FloatArray:
        return np.hstack([X, np.ones((len(X), 1))]) / self.domain.row_norm(2, intercept=True)


# diffprivlib, in its own environment


def _by_diffprivlib(
    contender: Contender,
    data: DataSet,
    wanted: Sequence[tuple[int, tuple[float, ...]]],
    python: str,
) -> Iterator[tuple[int, dict[float, dict[str, float]], float]]:
    """Hand the encoded arrays over in a file and read scores, a line of JSON for each split."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arrays.npz"
        np.savez(path, **_handed_over(data, [repetition for repetition, _ in wanted]))
        asked = {
            "task": contender.task,
            "C": DIFFPRIVLIB_PENALTIES.get(contender.method),
            "norm": data.domain.encoded.row_norm(2),
            "splits": [
                {"repetition": r, "epsilons": list(e), "seed": report.noise_seed(SEED, r)}
                for r, e in wanted
            ],
        }
        command = [python, str(SCRIPT), str(path), json.dumps(asked)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{SCRIPT.name} failed in {python}:\n{done.stderr}")
    for line in done.stdout.splitlines():
        found = json.loads(line)
        scores = {
            float(epsilon): {name: max(LEAST_SCORE, score) for name, score in own.items()}
            for epsilon, own in found["scores"]
        }
        yield found["repetition"], scores, found["seconds"]


def _handed_over(data: DataSet, repetitions: Iterable[int]) -> dict[str, Any]:
    """Return encoded rows, target, bounds, and the positions of each split's test rows."""
    lower = np.full(data.encoded.shape[1], -1.0)
    for block in data.domain.encoded.blocks:
        lower[block] = 0.0
    is_class = data.task == "classification"
    y = np.unique(data.y, return_inverse=True)[1] if is_class else _target(data)
    tests = {f"test{r}": report.split(len(y), SEED, r)[1] for r in repetitions}
    return {"X": data.encoded, "y": y, "lower": lower, **tests}


def _target(data: DataSet) -> FloatArray:
    """Return the target scaled so that its bounds are -1 and 1, and not clipped to them."""
    lower, upper = data.domain.target_bounds or (-1.0, 1.0)
    return np.asarray((data.y - (lower + upper) / 2) / ((upper - lower) / 2))
