"""Trusted. The privacy of objective perturbation: what a noisy minimiser spends.

The released parameter minimises the objective of `perturbation` with a random linear term V, and
discrete Laplace noise hides the distance from the exact minimiser. Everything is evaluated from the
parts of the release: the bodies of rows, the noise of V, the ridges, the leverage that weights
enforce, and the scale of the output noise.

Statements and proofs: docs/proofs/objective_perturbation.md (K-norm noise: Theorem 1; any noise:
Theorem 2; the solver: Theorem 4), docs/proofs/gaussian_objective.md, docs/proofs/persons.md and
docs/proofs/softmax.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from skdp.geometry import ProductBall, SumBall
from skdp.linear_model._objective.families import per_coordinate, per_group
from skdp.linear_model._objective.perturbation import (
    OutputNoise,
    Perturbation,
    shift_share,
    weighted_length,
    weighted_radius,
)
from skdp.linear_model._objective.profiles import (
    JointProfile,
    corners,
    least_share_of,
    rank_of,
    record_of,
)
from skdp.linear_model._shared.design import Design
from skdp.linear_model.losses import Bounded, greatest_curvature, size_of_slopes
from skdp.mechanisms import GaussianNoise, KNormNoise, Sensitivity
from skdp.trusted.arrays import FloatArray
from skdp.trusted.composition import composed_delta
from skdp.trusted.identity import remembered
from skdp.trusted.losses import PairLoss, ProfileLoss
from skdp.trusted.noise import law_of, variances
from skdp.trusted.releases import NoisySum, described
from skdp.trusted.rounding import add_multiples, float_above
from skdp.trusted.statement import NotPrivate, Public, Spent, up

# Relative error of a computed bound on a cell, with a margin.
_ROUNDING = 1 + 1e-14
_MOST_CELLS = 10**6


@dataclass(frozen=True, repr=False)
class NoisyMinimiser:
    """The minimisers of a perturbed objective, one for each model.

    Attributes
    ----------
    objective : Perturbation
        Its ``epsilon`` and ``q`` are claims, which `spent` checks.
    design : Design
        The bodies of the parts of rows.
    """

    objective: Perturbation
    design: Design
    name: str = "objective"
    # Not in files: it follows from the domain.
    unwritten: ClassVar = {"design": None}

    @property
    def theorem(self) -> str:
        """The page and the theorem of the proof."""
        if isinstance(self.objective.noise, GaussianNoise):
            return "gaussian_objective.md, Theorems 1 to 3"
        kind = 1 if isinstance(self.objective.noise, KNormNoise) else 2
        return f"objective_perturbation.md, Theorem {kind}"

    @property
    def description(self) -> str:
        """What is published, and with which noise."""
        own = self.objective
        times = f"{own.models} models" if own.models > 1 else "the model"
        return f"{times} by objective perturbation of {own.loss!r} with {law_of(own.noise)}"

    @property
    def publication(self) -> OutputNoise:
        """The lattice and the noise on it that hides the inexactness of the solver."""
        return self.objective.hidden

    @property
    def law(self) -> str:
        """The law of the linear terms; discrete Laplace noise hides the solver's error."""
        return law_of(self.objective.noise)

    @property
    def times(self) -> int:
        """The number of models."""
        return self.objective.models

    @property
    def deviation(self) -> float:
        """The root mean square of a number of the linear term, in units of encoded records."""
        return math.sqrt(float(variances(self.objective.noise).mean()))

    def __repr__(self) -> str:
        return described(self)

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of all models; raise `NotPrivate` if a claim does not hold."""
        own, models, design = self.objective, self.objective.models, self.design
        if not (own.row_norm >= design.row_norm and own.leverage > 0 and models >= 1):
            raise NotPrivate(
                f"{self.name}: rows are longer than their bound, or weights are not > 0"
            )
        of_groups = per_coordinate(design, per_group(design, own.ridge))
        if len(own.ridge) != design.dim or not np.array_equal(of_groups, own.ridge):
            raise NotPrivate(f"{self.name}: the ridge is not the same for all numbers of a column")
        dim = design.dim * own.n_classes
        if getattr(own.noise, "dim", dim) != dim:
            raise NotPrivate(f"{self.name}: the noise has another dimension than the coefficients")
        record = record_of(own.loss, design.dim, public.unit == "person")
        hidden, noise = own.hidden.epsilon, own.noise
        # By type: a subclass may draw from another law.
        if type(noise) is KNormNoise:
            self._check_jointly(noise, record, own.epsilon - hidden, public)
        elif type(noise) is GaussianNoise and (mu := self._mu(noise, record)) is not None:
            profile = JointProfile(record, mu, own.leverage, public.relation, hidden)
            return Spent(math.inf, ((ProfileLoss(profile), models),))
        elif (delta := self._delta_apart(record, own.epsilon - hidden, public)) > 0:
            delta = up(delta * math.exp(hidden / 2))
            return Spent(math.inf, ((PairLoss(own.epsilon, delta), models),))
        whole = float_above(add_multiples([(own.epsilon, models)]))
        return Spent(whole, ((PairLoss(own.epsilon), models),))

    def _check_jointly(
        self, noise: KNormNoise, record: Bounded, epsilon: float, public: Public
    ) -> None:
        own, size = self.objective, size_of_slopes(self.objective.loss)
        # The loss of V at full slope.
        whole = up(public.records_changed * size * self.reach(noise) / float(noise.scale))
        worst = failing_cost(record, whole, own.leverage, epsilon, public.relation)
        if worst is not None:
            raise NotPrivate(
                f"{self.name}: e t(s) + log(1 + kappa(s) L) is {worst:.9g} for some slope s, and"
                f" epsilon = {epsilon:.9g} is stated"
            )

    def reach(self, noise: KNormNoise) -> float:
        """Return a bound on the gauge of a weighted row in the ball of the noise."""
        own, ball = self.objective, noise.ball
        if (classes := own.n_classes) > 1:
            # The gauge of all classes is the sum of theirs.
            sums = isinstance(ball, SumBall) and ball.index is None and set(ball.weights) == {1.0}
            parts = ball.balls if isinstance(ball, SumBall) and sums else ()
            if len(parts) != classes or any(part != parts[0] for part in parts):
                raise NotPrivate(f"{self.name}: the ball is not a sum of one ball for each class")
            ball = parts[0]
        if type(ball) is SumBall or type(ball) is ProductBall:
            groups = self.design.groups
            rows = ProductBall(tuple(g.ball for g in groups), tuple(g.index for g in groups))
            found = Sensitivity(rows).radius_in(ball)
            if found <= 1 + 1e-9:
                return found
        ridge = per_group(self.design, own.ridge)
        return float(weighted_radius(self.design, ball, ridge, own.leverage))

    def _mu(self, noise: GaussianNoise, record: Bounded) -> float | None:
        """Return the greatest length of a record's gradient in units of the noise.

        None if its deviations differ between classes or within a group of coordinates.
        """
        own, design = self.objective, self.design
        if np.ndim(noise.factor) > 1:
            return None
        first, *others = np.broadcast_to(noise.factor, noise.dim).reshape(own.n_classes, -1)
        deviations = per_group(design, first)
        same = all(np.array_equal(first, other) for other in others)
        if not same or not np.array_equal(per_coordinate(design, deviations), first):
            return None
        ridge = per_group(design, own.ridge)
        length = weighted_length(design, deviations**2, ridge, own.leverage)
        return up(record.slope_bound * float(length))

    def _delta_apart(self, record: Bounded, epsilon: float, public: Public) -> float:
        """Return delta for noise that is private at the share q of epsilon, for each corner.

        The rest of epsilon must pay for the curvature (Theorems 2 and 4).
        """
        own = self.objective
        rank = rank_of(record)
        bent = rank * math.log1p(greatest_curvature(record) * own.leverage / rank)
        left = epsilon - bent * _ROUNDING
        size = public.records_changed * record.slope_bound
        change = Sensitivity(self.design.hull, size, public.relation)
        spent = NoisySum(self.name, change, own.noise).spent(
            replace(public, in_two_steps=False, neighbors=public.relation)
        )
        if spent.epsilon <= left:
            return 0.0
        if public.unit == "person":
            raise NotPrivate(f"{self.name}: no theorem covers this noise for persons and a delta")
        if left < 0 or not getattr(own.noise, "log_concave", False):
            raise NotPrivate(
                f"{self.name}: the noise spends {spent.epsilon:.9g} and the curvature {bent:.9g},"
                f" and epsilon = {epsilon:.9g} is stated"
            )
        delta = composed_delta(spent.losses, left)
        return up(corners(record, public.relation) * delta)


@remembered(maxsize=512)
def failing_cost(
    record: Bounded, at_full_slope: float, leverage: float, epsilon: float, relation: str
) -> float | None:
    """Return None if e t(s) + rank log(1 + kappa(s) L / rank) <= epsilon for all slopes s.

    Otherwise a value that the left side has, or may have. On a cell [a, b] of slopes the curvature
    is at most ``curvature_bound(a, b)``, and t is greatest at b. Only cells that fail are split.
    """
    rank, least, c = rank_of(record), least_share_of(record), record.slope_bound
    low = 1 - np.geomspace(1.0, 1e-6, 400)
    high = np.append(low[1:], 1.0)

    def cost(a: FloatArray, b: FloatArray) -> FloatArray:
        curvature = np.asarray(record.curvature_bound(c * a, c * b), dtype=float)
        with np.errstate(invalid="ignore"):  # without curvature any leverage is allowed
            bent = np.where(curvature == 0, 0.0, np.log1p(curvature * leverage / rank))
        spent = at_full_slope * shift_share(b, relation, least) + rank * bent
        return np.asarray(np.where(np.isnan(spent), np.inf, spent) * _ROUNDING)

    while len(low):
        reached, bound, middle = cost(high, high), cost(low, high), (low + high) / 2
        fails = bound > epsilon
        no_more = ~((low < middle) & (middle < high))
        if (reached > epsilon).any() or (fails & no_more).any() or fails.sum() > _MOST_CELLS:
            return float(max(reached.max(), bound[no_more].max(initial=0.0)))
        low, middle, high = low[fails], middle[fails], high[fails]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return None
