"""Who takes part in the benchmark of everything, and what one run of each is.

A run fits on four fifths of a set's rows and scores on the others: accuracy, AUROC and log-loss, or
R^2. All private methods have the same public bounds and epsilon at face value. One record is
replaced, but for the guarantee ``SMALL``: there the table has one record more or less.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize

from examples.benchmarks.peers.opponents import (
    AdaSSP,
    BoostedAdaSSP,
    DescentClassifier,
    DescentRegressor,
    DoubleNoise,
    HessianMixing,
    Marginals,
    TukeyEM,
)
from examples.benchmarks.peers.opponents_logistic import GaussianMixing, ObjectivePerturbation
from examples.benchmarks.peers.peers import SEED, Peer, Scored, Wanted
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import DataSet, read
from examples.benchmarks.shared.measures import class_scores, number_scores
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)

EPSILONS = (0.1, 0.5, 1.0, 4.0)
# Where a method has no epsilon.
NO_EPSILON = math.inf
NONE, SMALL = "0", "1e-6, add/remove"


@dataclass(frozen=True)
class Contender:
    """A method at a delta.

    Attributes
    ----------
    method : str
        The name in the tables. Settings of a peer share their name: "name, setting".
    task : {"classification", "regression"}
    delta : {"0", "1e-6, add/remove"}
    epsilons : tuple of float
    sets : tuple of str
        The only sets on which it is run; every set if empty.
    splits : int or None
        The most splits on which it is run; as many as are asked for if None.
    """

    method: str
    task: str
    delta: str = NONE
    epsilons: tuple[float, ...] = EPSILONS
    sets: tuple[str, ...] = ()
    splits: int | None = None

    @property
    def neighbors(self) -> str:
        """The neighbouring relation."""
        return "add_remove" if self.delta == SMALL else "replace_one"

    @property
    def peer(self) -> Peer | None:
        """The peer whose environment its runs need."""
        return PEERS.get(self.method.partition(", ")[0])


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
# The same estimator with a curve in the place of the linear effect of each number.
CURVES = {name: f"{name}, curves" for name in (LOGISTIC, HUBER)}
# The same estimator on the rows of `unit_rows`.
UNIT_ROWS = {name: f"{name}, rows of length 1" for name in (LOGISTIC, HUBER)}
PLAIN, TRIVIAL = "without privacy", "trivial"
DIFFPRIVLIB, EBM, AIM = "diffprivlib", "DP-EBM", "AIM"
PEERS = {DIFFPRIVLIB: Peer("diffprivlib"), EBM: Peer("ebm", is_raw=True), AIM: Peer("aim")}
PENALTIES = {f"{DIFFPRIVLIB}, C=1": 1.0, f"{DIFFPRIVLIB}, C=0.1": 0.1}
# AIM takes minutes: megabytes of its model, sets, epsilon and splits are few.
SIZES = {f"{AIM}, 2 MB": 2.0}
SLOW: dict[str, tuple[str, ...]] = {
    "classification": ("magic_gamma_telescope", "adult"),
    "regression": ("bike_sharing_hour", "california_housing"),
}
ADASSP, BOOSTED, MIXING = "AdaSSP", "Boosted AdaSSP", "Hessian mixing"
DESCENDING, NEWTON = "DP-GD", "DP-Newton"
TUKEY, MARGINALS = "TukeyEM", "Marginals to moments"
PERTURBATION, SKETCH = "Objective perturbation", "Gaussian mixing"
# Settings: releases of AdaSSP, three or, with the eigenvalue of the noisy matrix, two; steps; noise
# over that of a Gaussian release; rows of a sketch per coefficient.
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    ADASSP: {", three releases": {"extra": 1.0}, ", two releases": {"extra": 0.0}},
    BOOSTED: {"": {}},
    MIXING: {"": {}},
    DESCENDING: {", 30 steps": {"steps": 30}, ", 300 steps": {"steps": 300}},
    NEWTON: {"": {}},
    TUKEY: {", 1000 models": {"models": 1000}, ", 2000 models": {"models": 2000}},
    MARGINALS: {"": {}},
    PERTURBATION: {", 1.06 times": {"factor": 1.06}, ", 1.3 times": {"factor": 1.3}},
    SKETCH: {", 6.5 rows": {"factor": 6.5}, ", 40 rows": {"factor": 40.0}},
}
# Those that do not need rows of length 1.
UNSCALED = {TUKEY, MARGINALS}
LENGTHS = {"": {}, ", own lengths": {"own_lengths": True}}
SETTINGS = {
    method + kind + length: {**KINDS[method][kind], **LENGTHS[length]}
    for method in KINDS
    for kind, length in product(KINDS[method], LENGTHS)
    if not (length and method in UNSCALED)
}
OPPONENTS: dict[str, dict[str, Any]] = {
    "classification": {
        DESCENDING: DescentClassifier,
        NEWTON: DoubleNoise,
        PERTURBATION: ObjectivePerturbation,
        SKETCH: GaussianMixing,
    },
    "regression": {
        ADASSP: AdaSSP,
        BOOSTED: BoostedAdaSSP,
        MIXING: HessianMixing,
        DESCENDING: DescentRegressor,
        TUKEY: TukeyEM,
        MARGINALS: Marginals,
    },
}
ESTIMATORS = {
    "classification": (LOGISTIC, CURVES[LOGISTIC], DESCENT["classification"]),
    "regression": (LINEAR, HUBER, CURVES[HUBER], DESCENT["regression"]),
}


def contenders() -> list[Contender]:
    """Return all of them; what is cheap first."""
    found = []
    for task, own in ESTIMATORS.items():
        found += [Contender(name, task, epsilons=(NO_EPSILON,)) for name in (TRIVIAL, PLAIN)]
        found += [Contender(name, task) for name in own if name != DESCENT[task]]
        unit = [UNIT_ROWS[name] for name in own if name in UNIT_ROWS]
        found += [Contender(name, task, SMALL) for name in (*own, *unit, *settings(task), EBM)]
        found += [Contender(name, task, SMALL, (1.0,), SLOW[task], 3) for name in SIZES]
    found += [Contender(name, "classification") for name in PENALTIES]
    return [*found, Contender(DIFFPRIVLIB, "regression")]


def settings(task: str) -> list[str]:
    """Return the names of the opponents of a task, with their settings."""
    names = OPPONENTS[task]
    return [name for name in SETTINGS if name.partition(", ")[0] in names]


# Runs


def runs(contender: Contender, name: str, wanted: Wanted, folder: Path | None = None) -> list[Run]:
    """Make the wanted runs: repetitions, each with the epsilons that are missing.

    ``folder`` holds the environments of the peers.
    """
    data = read(name)
    if contender.peer:
        facts = {
            "delta": delta_of(contender),
            "norm": data.domain.encoded.row_norm(2),
            "C": PENALTIES.get(contender.method),
            "blocks": [(own.start, own.stop) for own in data.domain.encoded.blocks],
            "size": SIZES.get(contender.method),
        }
        scored = contender.peer.runs(data, wanted, facts, folder or Path())
    else:
        scored = (_here(contender, data, *one) for one in wanted)
    return [Run(name, contender.method, contender.delta, *facts) for facts in scored]


def _here(
    contender: Contender, data: DataSet, repetition: int, epsilons: Iterable[float]
) -> Scored:
    """Return the repetition, its scores by epsilon, and the seconds."""
    train, test = report.split(len(data.y), SEED, repetition)
    began = perf_counter()
    if contender.method in CURVES.values():
        seen, unseen = data.X.iloc[train], data.X.iloc[test]
    else:
        seen, unseen = data.encoded[train], data.encoded[test]
    measure = class_scores if data.task == "classification" else number_scores
    scores = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Expect a model")  # some sets are small
        for epsilon in epsilons:
            model = _model(contender, data, epsilon, repetition).fit(seen, data.y[train])
            scores[epsilon] = measure(model, unseen, data.y[test])
    return repetition, scores, perf_counter() - began


def _model(contender: Contender, data: DataSet, epsilon: float, repetition: int) -> Any:
    """Return an estimator that is ready to be fitted."""
    method, is_class = contender.method, contender.task == "classification"
    if method == TRIVIAL:
        return DummyClassifier() if is_class else DummyRegressor()
    if method == PLAIN:
        return LogisticRegression(max_iter=2000) if is_class else LinearRegression()
    seed, domain = report.noise_seed(SEED, repetition), data.domain.encoded
    delta, neighbors = delta_of(contender), contender.neighbors
    if method in SETTINGS:
        kind = OPPONENTS[contender.task][method.partition(", ")[0]]
        return kind(domain, epsilon, delta, neighbors, seed, **SETTINGS[method])
    facts = report.facts_of_fit(len(data.y), epsilon, neighbors)
    facts |= {"delta": delta, "random_state": seed}
    own = OURS[method.partition(", ")[0]]
    if method in CURVES.values():
        return own(domain=data.domain, additive="auto", **facts)
    if method in UNIT_ROWS.values():
        ball = Domain.l2_ball(domain.n_encoded + 1, 1.0, domain.target)
        model = own(domain=ball, fit_intercept=False, **facts)
        return make_pipeline(FunctionTransformer(unit_rows), model)
    return own(domain=domain, **facts)


def unit_rows(X: report.FloatArray) -> report.FloatArray:
    """Return rows (1, x), each divided by its own length."""
    return np.asarray(normalize(np.column_stack([np.ones(len(X)), X])))


def delta_of(contender: Contender) -> float:
    """Return delta as a number."""
    return float(contender.delta.partition(",")[0])
