"""Objective perturbation, calibrated for gradient and curvature jointly.

The released parameter minimises

    J(theta) = sum_i w(x_i) phi(x_i'theta, y_i) + 1/2 theta' diag(ridge) theta + V'theta,

with V of density proportional to exp(-|v|_K / scale) and w(x) = min(1, leverage / l(x)),
l(x) = sum_j x_j^2 / ridge_j. Let |x|_K <= B over the domain, c the slope bound of phi, and
kappa(s) a bound on its curvature where the slope is at most c and at least s. With
scale = 2 c B / (epsilon q) under replace-one, c B / (epsilon q) under add/remove, and
t(s) = (1 + s/c) / 2 or s/c, the minimiser is epsilon-private if for every s in [0, c]

    epsilon q t(s) + log(1 + kappa(s) leverage) <= epsilon.

Statement and proof: docs/proofs/objective_perturbation.md, Theorem 1; it sharpens Awan &
Slavkovic (2020), Theorem 4.1, which bounds the two terms apart. The solver's inexactness is paid
for by Theorem 4 of the same page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._draws import MOST_SCALE
from skdp._identity import remembered
from skdp.linear_model._objective.solve import Objective, Solution, attainable_tolerance, minimise
from skdp.linear_model.losses import Loss
from skdp.mechanisms.noise import Noise, variances
from skdp.randomness import granularity_of, publish_near

# Share of epsilon that pays for the solver's inexactness and the rounding to a lattice.
OUTPUT_SHARE = 1e-3
# More than this, over all models, is not needed; it costs delta a factor of exp of half of it.
MOST_OUTPUT = 1.0
# Distances that the solver leaves open are at least so many steps of the grid of releases.
GRID_STEPS = 16


def shift_share(s: FloatArray, neighbors: str) -> FloatArray:
    """Return t: which share of the sensitivity two slopes, c and ``s`` c, can move V by."""
    return (1 + s) / 2 if neighbors == "replace_one" else s


def output_epsilon(epsilon: float, models: int = 1) -> float:
    """Return what each of several models, of ``epsilon`` each, pays for hiding the solver."""
    return min(OUTPUT_SHARE * epsilon, MOST_OUTPUT / models)


@remembered(maxsize=1024)
def greatest_leverage(loss: Loss, q: float, epsilon: float, neighbors: str) -> float:
    """Return a leverage for which the privacy condition holds, within 1e-6 of the greatest.

    A branch-and-bound over slopes: on a cell [a, b] the curvature is at most
    ``loss.curvature_bound(a, b)`` and the room left by the shift at least that at b, so the
    returned value is on the safe side whatever the loss.

    Parameters
    ----------
    loss : Loss
    q : float in (0, 1)
        Share of epsilon that the linear term V spends at full slope.
    epsilon : float > 0
    neighbors : {"replace_one", "add_remove"}

    Returns
    -------
    float > 0
        Greatest allowed w(x) sum_j x_j^2 / ridge_j; infinite for a loss without curvature.
    """
    c = loss.slope_bound
    # Cells shrink geometrically towards full slope, where the room left is least.
    low = 1 - np.geomspace(1.0, (1 - q) * 1e-3, 400)
    high = np.append(low[1:], 1.0)
    reached, factor = 0.0, 1 + 1e-6
    while len(low):
        room = _room(high, q, epsilon, neighbors)
        reached = max(reached, float(np.max(_needed(loss, c * high, c * high, room))))
        bound = _needed(loss, c * low, c * high, room)
        middle = (low + high) / 2
        split = (bound > reached * factor) & (low < middle) & (middle < high)
        # What is not split is within the factor of a value reached, or as narrow as floats go.
        reached = max(reached, float(np.max(bound[~split], initial=0.0)) / factor)
        low, middle, high = low[split], middle[split], high[split]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return math.inf if reached == 0 else (1 - 1e-9) / (reached * factor)


def leverage_apart(loss: Loss, q: float, epsilon: float) -> float:
    """Return the greatest leverage that leaves q epsilon to any additive noise (Theorem 2)."""
    curvature = float(loss.curvature_bound(0.0, loss.slope_bound))
    room = math.expm1(min(epsilon * (1 - q), 700.0))
    return room / curvature * (1 - 1e-9) if curvature > 0 else math.inf


def _room(s: FloatArray, q: float, epsilon: float, neighbors: str) -> FloatArray:
    """Return exp(epsilon (1 - q t(s))) - 1: how much the curvature may change a determinant."""
    exponent = np.minimum(epsilon * (1 - q * shift_share(s, neighbors)), 700.0)
    return np.asarray(np.expm1(exponent))


def _needed(loss: Loss, low: FloatArray, high: FloatArray, room: FloatArray) -> FloatArray:
    needed = np.asarray(loss.curvature_bound(low, high) / room)
    if np.isnan(needed).any():  # it would compare as small, and the ridge would vanish
        raise fail("loss", "have a curvature_bound that is never NaN", loss)
    return needed


class OutputNoise(NamedTuple):
    """Discrete Laplace noise on a grid, that hides how far the solver is from the minimiser.

    Attributes
    ----------
    exponent : int
        The grid's distances are 2^exponent.
    scale : int
        Scale of the noise in steps of the grid.
    """

    exponent: int
    scale: int

    @property
    def deviation(self) -> float:
        """Standard deviation of each coordinate, rounded up."""
        return math.sqrt(2) * (self.scale + 1) * math.ldexp(1.0, self.exponent)


@dataclass(frozen=True)
class Perturbation:
    """Everything public about one perturbed objective.

    Attributes
    ----------
    loss : Loss
    epsilon : float
        What the release costs, the solver's inexactness included.
    neighbors : {"replace_one", "add_remove"}
    q : float in (0, 1)
    ridge : ndarray of shape (dim,)
        Of the quadratic term, each > 0.
    leverage : float
        Bound that the weights enforce; see :func:`greatest_leverage`.
    noise : Noise
        The law of V.
    row_norm : float
        Greatest Euclidean norm of a row.
    n_bound : int
        A public number; the solver's tolerance is set for so many records.
    inflation : float
        What released coefficients are multiplied by: post-processing.
    losses : tuple of (PrivacyLoss, int)
        What is known of the privacy of what is released beyond epsilon; may be empty.
    """

    loss: Loss
    epsilon: float
    neighbors: str
    q: float
    ridge: FloatArray
    leverage: float
    noise: Noise
    row_norm: float
    n_bound: int
    inflation: float = 1.0
    losses: tuple[Any, ...] = ()
    models: int = 1

    @property
    def output_epsilon(self) -> float:
        """What of epsilon pays for hiding the solver's inexactness."""
        return output_epsilon(self.epsilon, self.models)

    @property
    def mechanism(self) -> str:
        """What a guarantee says of it."""
        return (
            f"objective perturbation of {self.loss!r}, q = {self.q:g},"
            f" {type(self.noise).__name__} in {len(self.ridge)} dimensions"
        )

    def weights(self, design: FloatArray, cells: int = 2**17) -> FloatArray | None:
        """Return w for every row, (n,); None where every row of the domain has weight 1."""
        if not self.row_norm**2 / np.min(self.ridge) > self.leverage:
            return None
        out, block = np.empty(len(design)), max(256, cells // design.shape[1])
        for start in range(0, len(design), block):
            rows = design[start : start + block]
            shares = np.square(rows)
            shares /= self.ridge
            # Not a product of matrices, whose last bits depend on a row's place.
            shares.sum(axis=1, out=out[start : start + block])
        # Rounded down by more than the error of the sum, so that w l <= leverage holds.
        np.maximum(out, self.leverage, out=out)
        return np.divide(self.leverage * (1 - 1e-9), out, out=out)

    @cached_property
    def tolerance(self) -> float:
        """Greatest |grad J| that the solver may leave: a public number."""
        c, dim = self.loss.slope_bound, len(self.ridge)
        curvature = float(self.loss.curvature_bound(0.0, c))
        attainable = attainable_tolerance(
            self.n_bound,
            self.row_norm,
            dim,
            c,
            curvature,
            linear_term=self._radius_of_linear_term(),
        )
        return max(attainable, self._harmless(curvature))

    def _radius_of_linear_term(self) -> float:
        """Return what |V|_2 hardly ever exceeds: where it does, the fit ends in an error."""
        dim = len(self.ridge)
        spread = math.sqrt(float(variances(self.noise).sum()))
        return spread * (1 + 40 / math.sqrt(dim)) * math.sqrt(dim)

    def _harmless(self, curvature: float) -> float:
        """Return a tolerance so small that hiding it adds nothing that matters.

        The output noise is then at most a tenth of what V does to any coefficient, however
        curved the objective.
        """
        moved = np.sqrt(variances(self.noise)) / (self.n_bound * curvature + self.ridge)
        # Standard deviation of a coordinate of the output noise, per unit of tolerance.
        spread = 3 * math.sqrt(len(self.ridge)) / self.output_epsilon
        return float(0.1 * np.min(moved) / spread * np.min(self.ridge))

    def release(self, design: FloatArray, target: FloatArray, rng: Generator) -> Solution:
        """Draw V, minimise, and hide what the solver left open; theta is a lattice point."""
        linear_term = self.noise.rvs(rng)
        hidden = self.hidden
        objective = Objective(
            loss=self.loss,
            design=design,
            target=target,
            ridge=self.ridge,
            linear_term=linear_term,
            weight=self.weights(design),
            row_norm=self.row_norm,
        )
        found = minimise(objective, self.tolerance)
        theta = publish_near(found.theta, hidden.exponent, hidden.scale, rng)
        return Solution(theta, found.gradient_norm, found.n_iter)

    @cached_property
    def hidden(self) -> OutputNoise:
        """What covers the distance of what is found from the exact minimiser.

        The distance is what the solver leaves open, and what the sampler of V does: both bound
        the gradient, over the least ridge (``docs/proofs/objective_perturbation.md``, Theorem 4).
        """
        dim, epsilon = len(self.ridge), self.output_epsilon
        sampled = granularity_of(self.noise) * math.sqrt(float(variances(self.noise).sum()))
        distance = (self.tolerance + sampled) / float(np.min(self.ridge)) * (1 + 1e-9)
        farthest = math.sqrt(dim) * distance  # in the l1 norm
        exponent = math.frexp(farthest / (dim * GRID_STEPS))[1] - 1
        # Rounding down may add a step in each coordinate.
        steps = math.ceil(math.ldexp(farthest, -exponent) * (1 + 1e-9)) + dim
        # Moving the minimiser so far under either data set costs half of epsilon each.
        scale = 2 * steps / epsilon * (1 + 1e-9)
        if not scale <= MOST_SCALE:
            rule = f"be great enough to hide the solver's inexactness in {dim} dimensions"
            raise fail("epsilon", rule, self.epsilon)
        return OutputNoise(exponent, math.ceil(scale))
