"""Fits by coordinate descent whose noise is written down, and a plain account of what they do."""

import math
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from inner_descent import algorithm_module as _coordinate_descent

from skdp.linear_model.coordinate_descent import DPCoordinateDescentClassifier
from skdp.noise.independent import RepeatedNoise
from skdp.trusted.noise import Publication
from skdp.trusted.randomness import Lattice

# No scaling stage and no penalty: the plain descent in the units of the domain.
PLAIN = {"scaling_share": 0, "penalty": None, "average": False, "fit_intercept": False}


class Run(NamedTuple):
    """A model after a fit, its plan, and the noise that it drew before any factor."""

    model: Any
    plan: Any
    draws: list[float]

    @property
    def path(self):
        """Coefficients after each pass, (passes, d)."""
        return np.array([np.ravel(progress.coef) for progress in self.model.history_])

    @property
    def precision(self):
        """What the noise of each block is divided by."""
        return self.plan.rows.precision


def fitted(kind, X, y, *, seed=0, **parameters):
    """Return the run of a fit with noise from a seed."""
    parameters = {**PLAIN, "epsilon": 1.0, "delta": 1e-3, "mechanism": "gaussian", **parameters}
    if kind is DPCoordinateDescentClassifier:
        parameters.setdefault("classes", [0, 1])
    model = kind(random_state=np.random.default_rng(seed), **parameters)
    plans, draws = [], []
    draw, plan = RepeatedNoise.rvs, _coordinate_descent.plan_descent

    def drawn(self, rng, size=None):
        draws.append(draw(self, rng, size))
        return draws[-1]

    def planned(*args, **kwargs):
        plans.append(plan(*args, **kwargs))
        return plans[-1]

    with (
        mock.patch.object(RepeatedNoise, "rvs", drawn),
        mock.patch.object(RepeatedNoise, "publication_for", undithered),
        mock.patch.object(_coordinate_descent, "plan_descent", planned),
    ):
        model.fit(np.asarray(X, dtype=float), np.asarray(y))
    return Run(model, plans[0], np.concatenate([np.ravel(d) for d in draws]).tolist())


def undithered(self, factors, numbers):
    """Publish the draws as they are, on a lattice that no float shows."""
    dim = len(factors)
    return Publication(Lattice(np.full(dim, -100), np.full(dim, -140), 1), 1.0)


def weights(X, rows):
    """What records count, where their lengths are bounded."""
    if rows.bound is None:
        return np.ones(len(X))
    powers = np.abs(X) ** rows.power @ rows.precision**rows.power
    return np.minimum(1.0, (rows.bound / np.maximum(powers, 1e-300)) ** (1 / rows.power))


def followed(kind, X, y, run, *, size=1.0, clip=None, bound=2.0, draws=None):
    """Coordinate descent by definition with the noise given: coefficients, (passes, d)."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    logistic = kind is DPCoordinateDescentClassifier
    theta, found, w = np.zeros(X.shape[1]), [], weights(X, run.plan.rows)
    step = size / len(y) / (0.25 if logistic else 1.0)
    for noise in np.reshape(run.draws if draws is None else draws, (-1, X.shape[1])):
        for j, x in enumerate(X.T):
            slope = (1 / (1 + np.exp(-X @ theta)) if logistic else X @ theta) - y
            if clip is not None:
                unit = clip / math.sqrt(len(theta))  # all curvatures are alike
                g = np.clip(slope * x / unit, -1, 1).sum()
            else:
                unit = 1.0 if logistic else bound
                g = (w * np.clip(slope / unit, -1, 1) * x).sum()
            theta[j] -= step * unit * (g + noise[j] / run.precision[j])
        found.append(theta.copy())
    return np.array(found)
