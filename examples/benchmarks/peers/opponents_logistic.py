"""More logistic models of the literature for the benchmark of everything; one record more or less.

Rows and public facts are those of `opponents`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_ndtr, ndtr

from examples.benchmarks.peers.opponents import Classifier, sketch_variance
from examples.benchmarks.shared.report import FloatArray

# The greatest curvature of the logistic loss of a row of length 1.
CURVATURE = 0.25


@dataclass
class ObjectivePerturbation(Classifier):
    """Redberg et al. 2023: the minimiser of the loss with a penalty and a normal linear term.

    As in the authors' code, ``factor`` times the noise of a Gaussian release is added, and the
    penalty is the least for that noise. The minimum is taken as exact.
    """

    factor: float = 1.3

    @property
    def deviation(self) -> float:
        """Standard deviation of the linear term."""
        return self.factor * self.scale

    @property
    def penalty(self) -> float:
        """The least weight of half the squared length of the coefficients.

        It leaves ``spent`` of epsilon to the change of curvature: |log(1 - curvature / penalty)|.
        """

        def surplus(spent: float) -> float:
            return perturbation_delta(self.epsilon - spent, self.deviation) - self.delta

        spent = brentq(surplus, 0.0, self.epsilon)
        return -CURVATURE / math.expm1(-spent)

    def _solution(self, rows: FloatArray, is_second: FloatArray, rng: Generator) -> FloatArray:
        penalty = self.penalty
        tilt = self.deviation * rng.standard_normal(rows.shape[1])

        def objective(coef: FloatArray) -> tuple[float, FloatArray]:
            u = rows @ coef
            loss = np.logaddexp(0, u).sum() - is_second @ u + penalty / 2 * coef @ coef
            slope = rows.T @ (expit(u) - is_second) + penalty * coef
            return float(loss + tilt @ coef), slope + tilt

        exact = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-6}
        start = np.zeros(rows.shape[1])
        return np.asarray(minimize(objective, start, method="L-BFGS-B", jac=True, options=exact).x)


def perturbation_delta(epsilon: float, deviation: float) -> float:
    """Return delta of objective perturbation, without what the curvature takes of epsilon.

    The formula of the authors' code for generalised linear models: the loss is at most m + |N(0, 2
    m)|, where m is the mean loss of a Gaussian release. Gradients of records have a length of at
    most 1.
    """
    mean = 1 / (2 * deviation**2)
    if epsilon >= mean:
        return 2 * hockey_stick(epsilon, 1 / deviation)
    share = math.exp(epsilon - mean)
    return 1 - share + 2 * share * hockey_stick(mean, 1 / deviation)


def hockey_stick(epsilon: float, shift: float) -> float:
    """Return delta of two normal laws of deviation 1, of which one is shifted."""
    upper, lower = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
    return float(ndtr(upper) - math.exp(epsilon + log_ndtr(lower)))


@dataclass
class GaussianMixing(Classifier):
    """Lev et al. 2025: the logistic loss as a parabola, on one noisy sketch of rows and labels.

    The parabola meets the loss at the three nodes of Chebyshev on [-6, 6], as in the authors' code,
    where a sketch has 4 to 6.5 rows per coefficient: ``factor``.
    """

    factor: float = 6.5

    def _solution(self, rows: FloatArray, is_second: FloatArray, rng: Generator) -> FloatArray:
        d = rows.shape[1]
        k, part = math.ceil(self.factor * d), self.delta / 3
        # Rows with their signs have the length sqrt(2).
        signed = np.column_stack([rows, 2 * is_second - 1]) / math.sqrt(2)
        needed = sketch_variance(k, 1, self.epsilon, part)
        moments = signed.T @ signed
        least = float(np.linalg.eigvalsh(moments)[0])
        tail = math.sqrt(2 * math.log(1 / part))
        known = max(0.0, least - needed / math.sqrt(k) * (tail - rng.standard_normal()))
        root = np.linalg.cholesky(moments + (max(0.0, needed - known) + 1e-9) * np.eye(d + 1))
        sketch = rng.standard_normal((k, d + 1)) @ root.T
        node = 6 * math.cos(math.pi / 6)
        curvature = 2 * math.log(math.cosh(node / 2)) / node**2
        least_squares = np.linalg.lstsq(sketch[:, :d], sketch[:, d], rcond=None)[0]
        return np.asarray(least_squares / (2 * curvature))
