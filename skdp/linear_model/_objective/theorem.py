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

import numpy as np

from skdp._arrays import FloatArray
from skdp._identity import remembered
from skdp.geometry import NormBall, ProductBall, SumBall
from skdp.linear_model._objective.families import per_coordinate, per_group
from skdp.linear_model._objective.perturbation import (
    Perturbation,
    shift_share,
    weighted_length,
    weighted_radius,
)
from skdp.linear_model._objective.profiles import JointProfile, corners, least_share_of, rank_of
from skdp.linear_model._shared.design import Design
from skdp.linear_model.losses import Bounded, greatest_curvature, size_of_slopes
from skdp.mechanisms import GaussianNoise, KNormNoise, Sensitivity
from skdp.privacy.losses import PairLoss, ProfileLoss
from skdp.privacy.profile import composition
from skdp.privacy.rounding import add_multiples, float_above
from skdp.trusted.releases import NoisySum, NotPrivate, Public, Spent, up

# Relative error of a computed bound on a cell, with a margin.
_ROUNDING = 1 + 1e-14
_MOST_CELLS = 10**6


@dataclass(frozen=True)
class NoisyMinimiser:
    """The minimisers of a perturbed objective, one for each model.

    Attributes
    ----------
    objective : Perturbation
        Its ``epsilon`` and ``q`` are claims, which `spent` checks.
    record : Bounded
        Bounds on slope and curvature of the loss of one record, a row or a person.
    design : Design
        The bodies of the parts of rows.
    """

    objective: Perturbation
    record: Bounded
    design: Design
    name: str = "objective"

    @property
    def theorem(self) -> str:
        """The page and the theorem of the proof."""
        if isinstance(self.objective.noise, GaussianNoise):
            return "gaussian_objective.md, Theorem 3"
        kind = 1 if isinstance(self.objective.noise, KNormNoise) else 2
        return f"objective_perturbation.md, Theorem {kind}"

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of all models; raise `NotPrivate` if a claim does not hold."""
        own, models = self.objective, self.objective.models
        hidden = own.hidden.epsilon
        match own.noise:
            case KNormNoise():
                self._check_jointly(own.epsilon - hidden, public)
            case GaussianNoise() if self._is_equal_within_groups:
                profile = JointProfile(self.record, self._mu, own.leverage, public.relation, hidden)
                return Spent(math.inf, ((ProfileLoss(profile), models),))
            case _:
                delta = self._delta_apart(own.epsilon - hidden, public)
                if delta > 0:
                    delta = up(delta * math.exp(hidden / 2))
                    return Spent(math.inf, ((PairLoss(own.epsilon, delta), models),))
        whole = float_above(add_multiples([(own.epsilon, models)]))
        return Spent(whole, ((PairLoss(own.epsilon), models),))

    def _check_jointly(self, epsilon: float, public: Public) -> None:
        own, size = self.objective, size_of_slopes(self.objective.loss)
        # The loss of V at full slope.
        whole = up(public.records_changed * size * self._reach / float(own.noise.scale))
        worst = failing_cost(self.record, whole, own.leverage, epsilon, public.relation)
        if worst is not None:
            raise NotPrivate(
                f"{self.name}: e t(s) + log(1 + kappa(s) L) is {worst:.9g} for some slope s, and"
                f" epsilon = {epsilon:.9g} is stated"
            )

    @property
    def _reach(self) -> float:
        """A bound on the gauge of a weighted row in the ball of K-norm noise."""
        ball: NormBall = self.objective.noise.ball
        if (classes := self.objective.n_classes) > 1:
            # The gauge of all classes is the sum of theirs.
            same = type(ball) is SumBall and ball.index is None and set(ball.weights) == {1.0}
            if (
                not same
                or len(ball.balls) != classes
                or any(b != ball.balls[0] for b in ball.balls)
            ):  # type: ignore[attr-defined]
                raise NotPrivate(f"{self.name}: the ball is not a sum of one ball for each class")
            ball = ball.balls[0]  # type: ignore[attr-defined]
        if type(ball) in (SumBall, ProductBall):
            groups = self.design.groups
            rows = ProductBall(tuple(g.ball for g in groups), tuple(g.index for g in groups))
            found = Sensitivity(rows).radius_in(ball)
            if found <= 1 + 1e-9:
                return found
        own = self.objective
        return float(
            weighted_radius(self.design, ball, per_group(self.design, own.ridge), own.leverage)
        )

    @property
    def _deviations(self) -> FloatArray:
        """The standard deviations of Gaussian noise in the coordinates of one class."""
        noise, classes = self.objective.noise, self.objective.n_classes
        return np.asarray(np.broadcast_to(noise.factor, (noise.dim,)).reshape(classes, -1))

    @property
    def _is_equal_within_groups(self) -> bool:
        noise = self.objective.noise
        if np.ndim(noise.factor) > 1 or isinstance(self.objective.q, str):
            return False
        first, *others = self._deviations
        same = all(np.array_equal(first, other) for other in others)
        per = per_coordinate(self.design, per_group(self.design, first))
        return same and np.array_equal(per, first)

    @property
    def _mu(self) -> float:
        """The greatest length of a record's gradient in units of Gaussian noise."""
        own, design = self.objective, self.design
        variance = per_group(design, self._deviations[0]) ** 2
        length = weighted_length(design, variance, per_group(design, own.ridge), own.leverage)
        return up(self.record.slope_bound * float(length))

    def _delta_apart(self, epsilon: float, public: Public) -> float:
        """Return delta for noise that is private at the share q of epsilon, for each corner.

        The rest of epsilon must pay for the curvature (Theorems 2 and 4).
        """
        own, record = self.objective, self.record
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
        if left < 0 or not getattr(own.noise, "log_concave", False):
            raise NotPrivate(
                f"{self.name}: the noise spends {spent.epsilon:.9g} and the curvature {bent:.9g},"
                f" and epsilon = {epsilon:.9g} is stated"
            )
        delta = composition(spent.losses).delta_at(left)
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
