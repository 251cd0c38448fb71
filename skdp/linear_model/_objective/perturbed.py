"""Objective perturbation: what the logistic and the robust linear model share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_choice, check_interval, fail
from skdp._identity import claims
from skdp.geometry import NormBall
from skdp.linear_model._objective.families import GaussianFamily, KNormFamily
from skdp.linear_model._objective.gaussian import corners
from skdp.linear_model._objective.loss_check import check_loss
from skdp.linear_model._objective.narrowing import Narrowing, Window, bounds_of, check_scaling_share
from skdp.linear_model._objective.perturbation import Perturbation, leverage_apart, output_epsilon
from skdp.linear_model._objective.rules import choose, guessed_size
from skdp.linear_model._objective.task import Choice, Reference, Task
from skdp.linear_model._shared.base import PrivateLinearModel
from skdp.linear_model.validation import is_auto
from skdp.mechanisms import KNorm, Sensitivity, calibrate
from skdp.mechanisms.calibrate import GAUSSIANS, LAWS
from skdp.mechanisms.knorm.noise import NAMES
from skdp.mechanisms.noise import publication

# Without a public order of magnitude the solver's tolerance is set for so many records.
ASSUMED_RECORDS = 2**22
HEADROOM = 16
# The solver's tolerance over the ridge is how far it may be off.
LEAST_RIDGE = 1e-3
# Share of epsilon that a mechanism of somebody else's gets.
APART_Q = 0.8
_NAMES = ("auto", *sorted({*NAMES, *GAUSSIANS, *LAWS}))
# Laws of bounded log-density ratios can do without.
_NEED_DELTA = {*GAUSSIANS, *LAWS} - {"logistic"}


@dataclass(frozen=True, eq=False)
class Plan:
    """A perturbed objective, and the look at the numbers before it, if any."""

    objective: Perturbation
    look: Narrowing | None = None

    @property
    def noise(self) -> Any:
        """The law of the perturbation."""
        return self.objective.noise

    @property
    def mechanism(self) -> str:
        """What a guarantee says of it."""
        looked = f"{self.look.mechanism}, then " if self.look else ""
        return looked + self.objective.mechanism

    def check_published(self) -> None:
        """Raise where 53 bits cannot keep the guarantee."""
        _ = self.objective.hidden
        if self.look:
            publication(self.look.noise)

    @property
    def losses(self) -> tuple[Any, ...]:
        """What is known of the privacy of all of it beyond epsilon; may be empty."""
        known = self.objective.losses
        if self.look and known:
            return self.look.noise.losses and (*self.look.noise.losses, *known)
        return known


class ObjectivePerturbation(PrivateLinearModel):
    """Base of the objective-perturbation estimators; it has no loss of its own."""

    # Each estimator names its reference convention, and q where no rule is to choose it: for
    # K-norm noise, and for Gaussian noise.
    _reference: Reference
    _target: str  # what a loss is to be for
    _usual_q: tuple[float | None, float | None] = (None, None)

    def _check_parameters(self):
        super()._check_parameters()
        if not is_auto(self.q):
            check_interval("q", self.q, 0.0, 1.0, closed="neither", remedy='Or give "auto".')
        if not is_auto(self.regularization):
            remedy = 'Or give "auto".'
            check_interval("regularization", self.regularization, 0.0, math.inf, "left", remedy)
        check_scaling_share(self.scaling_share)
        if not isinstance(self.loss, str):
            check_loss(self.loss, self._target)
        self._check_mechanism()

    def _check_mechanism(self):
        """Raise for what is neither a name, nor a ball, nor a calibration."""
        mechanism = self.mechanism
        if isinstance(mechanism, str):
            check_choice("mechanism", mechanism, _NAMES)
            if mechanism in _NEED_DELTA and self.delta == 0:
                rule = f"be > 0 for mechanism={mechanism!r}, whose log-density ratios have no bound"
                raise fail("delta", rule, self.delta, 'Give 1e-6, say, or mechanism="auto".')
        elif isinstance(mechanism, type) or not (self._is_plugged() or self._has_ball()):
            remedy = (
                f"Give one of {_NAMES}, a norm ball, a KNorm of one, or an object"
                " with calibrate(sensitivity, *, epsilon, delta)."
            )
            raise fail("mechanism", "have its noise shaped by a norm ball", mechanism, remedy)

    def _has_ball(self):
        # By type: what else has a ball may have a calibration of its own.
        return isinstance(self.mechanism, NormBall) or type(self.mechanism) is KNorm

    def _families(self, design):
        """Return the kinds of noise to choose from."""
        mechanism, (knorm_q, gaussian_q) = self.mechanism, self._usual_q
        if is_auto(mechanism):
            gaussian = [GaussianFamily(usual_q=gaussian_q)] if self.delta > 0 else []
            return [KNormFamily(usual_q=knorm_q), *gaussian]
        if isinstance(mechanism, str) and mechanism in GAUSSIANS:
            return [GaussianFamily(mechanism == "elliptic", gaussian_q)]
        if not isinstance(mechanism, NormBall | str):  # a mapped ball has a ball, and is one
            mechanism = mechanism.ball
        ball = KNorm(mechanism).for_dim(design.hull())
        if ball.dim != design.dim:
            rule = f"have a ball of {design.dim} dimensions, one for each coefficient"
            raise fail("mechanism", rule, ball.dim, "The intercept is the first, if fitted.")
        return [KNormFamily(ball, knorm_q)]

    def _plan(self, design, n, n_models):
        """Choose and calibrate, from public things only."""
        look = self._look_at(design, n)
        rest = float(self.epsilon) - (look.epsilon if look else 0.0)
        return Plan(self._objective(design, n, n_models, rest, look is not None), look)

    def _look_at(self, design, n):
        """Return the plan of a first look, or None."""
        if self.scaling_share == 0 or (is_auto(self.scaling_share) and not is_auto(self.mechanism)):
            return None
        epsilon, public = float(self.epsilon), n if self.neighbors == "replace_one" else None
        known = self._task(design, n, {"epsilon": epsilon}).n
        share = None if is_auto(self.scaling_share) else float(self.scaling_share)
        return Narrowing.plan(design, public, known, epsilon, share, self._looks_at_target())

    def _looks_at_target(self):
        """Return whether the target is a number to look at."""
        return False

    def _objective(self, design, n, n_models, epsilon, is_part):
        # Composed over the models; a hair less each, so that the sum cannot round up.
        epsilon = epsilon / n_models * (1 - 1e-15 * (n_models > 1 or is_part))
        hidden = output_epsilon(epsilon, n_models)
        # Hiding the solver's inexactness costs epsilon, and delta a factor (Theorem 4).
        delta = float(self.delta) * math.exp(-n_models * hidden / 2) * (1 - 1e-12)
        budget = {"epsilon": epsilon - hidden, "hidden": hidden, "delta": delta}
        task = self._task(design, n, budget | {"models": n_models})
        bound = n if self.neighbors == "replace_one" else self._records_bound()
        calibrated = self._apart if self._is_plugged() else self._jointly
        return Perturbation(
            epsilon=epsilon,
            neighbors=self.neighbors,
            row_norm=design.row_norm,
            n_bound=bound,
            inflation=self._inflation(task),
            models=n_models,
            **calibrated(task, self._losses(task)),
        )

    def _jointly(self, task, losses):
        """Gradient and curvature share the budget slope by slope."""
        q = None if is_auto(self.q) else float(self.q)
        choice = choose(task, losses, self._moments, self._families(task.design), q=q)
        found = choice.family.calibrated(task, choice)
        return {
            "loss": choice.loss,
            "q": choice.q,
            "ridge": self._ridge(task.design, choice, found.leverage),
            "leverage": found.leverage,
            "noise": found.noise,
            "losses": found.losses,
        }

    def _apart(self, task, losses):
        """Anybody's noise: q epsilon for the gradient, the rest for the curvature."""
        loss, q = losses[0], APART_Q if is_auto(self.q) else float(self.q)
        leverage = leverage_apart(loss, q, task.epsilon)
        ridge = self._least_ridge(task.design, leverage)
        noise = self._noise_apart(task, loss, q)
        return {"loss": loss, "q": q, "ridge": ridge, "leverage": leverage, "noise": noise}

    def _noise_apart(self, task, loss, q):
        hull = task.design.hull()
        sensitivity = Sensitivity(hull, task.shift * loss.slope_bound, self.neighbors)
        delta = task.delta / task.models / corners(loss, self.neighbors) * (1 - 1e-12)
        mechanism = self.mechanism
        name = mechanism if isinstance(mechanism, str) else type(mechanism).__name__
        asked = {"epsilon": q * task.epsilon} | ({"delta": delta} if delta > 0 else {})
        try:
            noise = calibrate(mechanism, sensitivity, **asked)
        except ValueError as error:
            rule = f"calibrate noise to what objective perturbation asks of it, {asked}"
            raise fail("mechanism", rule, name, f"It said: {error}") from None
        if noise.guarantee.delta > 0 and not claims(noise, "log_concave", about=("rvs",)):
            remedy = "If it is, let its class say so by log_concave = True; or give delta=0."
            raise fail("mechanism", "make log-concave noise where delta > 0", name, remedy)
        return noise

    def _is_plugged(self):
        """Whether the mechanism has a calibration of its own."""
        mechanism = self.mechanism
        if isinstance(mechanism, str):
            return mechanism in LAWS
        if isinstance(mechanism, type | NormBall) or self._has_ball():
            return False
        return callable(getattr(mechanism, "calibrate", None))

    def _delta_of(self, plan):
        return float(self.delta) if plan.noise.guarantee.delta > 0 else 0.0

    def _prepare(self, plan, design, X, targets, n):
        matrix = design.matrix(X, n)
        return matrix, plan.look.sums(matrix, targets[0]) if plan.look else None, targets

    def _release(self, plan, data, rng):
        matrix, sums, targets = data
        window = None
        if plan.look:
            window = plan.look.window(sums, rng)
            window.place(plan.look.design, matrix)
            targets = [window.place_target(target) for target in targets]
        return window, [plan.objective.release(matrix, target, rng) for target in targets]

    def _keep(self, plan, released):
        window, found = released
        self._window = window or Window.whole(self._design)
        self.bounds_ = bounds_of(self._window, self._design.domain)
        for name, value in self._public_of(plan.objective, self._design.domain).items():
            setattr(self, name, value)
        self._set_coefficients(plan.objective.inflation * np.array([f.theta for f in found]))

    def _decode(self, theta):
        placed = super()._decode(theta)
        self._encoded_coef, self._encoded_intercept = self._window.encoded(*placed)
        return self._encoded_coef, self._encoded_intercept

    def _encode(self, X):
        encoded = super()._encode(X)
        self._window.clip(encoded)
        return encoded

    def _public_of(self, plan, domain):
        """Return further public attributes by their names."""
        return {}

    def _inflation(self, task):
        """Return a public factor on the released coefficients."""
        return 1.0

    def _task(self, design, n, budget):
        public = n if self.neighbors == "replace_one" else self.n_public
        fixed = {"neighbors": self.neighbors, "reference": self._reference}
        task = Task(design, float(public or 1), **fixed, **budget)
        return task if public else guessed_size(task)

    def _records_bound(self):
        return ASSUMED_RECORDS if self.n_public is None else HEADROOM * int(self.n_public)

    def _ridge(self, design, choice: Choice, leverage: float):
        if is_auto(self.regularization):
            return choice.ridge
        return self._least_ridge(design, leverage)

    def _least_ridge(self, design, leverage):
        """Return the least ridge with which no row is weighted down, and the user's on top."""
        extra = 0.0 if is_auto(self.regularization) else float(self.regularization)
        return np.full(design.dim, max(design.row_norm**2 / leverage + extra, LEAST_RIDGE))
