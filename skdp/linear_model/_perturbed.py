"""Objective perturbation: what the logistic and the robust linear model share."""

from __future__ import annotations

import math

import numpy as np

from skdp._checks import check_choice, check_interval, fail
from skdp.geometry import NormBall
from skdp.linear_model._base import PrivateLinearModel, is_auto
from skdp.linear_model._rules import Choice, Reference, Task, choose, guessed_size
from skdp.linear_model.objective import (
    OUTPUT_SHARE,
    Perturbation,
    greatest_leverage,
    leverage_apart,
)
from skdp.mechanisms import KNorm, Sensitivity, calibrate
from skdp.mechanisms.knorm import NAMES

# Without a public order of magnitude the solver's tolerance is set for so many records.
ASSUMED_RECORDS = 2**22
HEADROOM = 16
# The solver's tolerance over the ridge is how far it may be off.
LEAST_RIDGE = 1e-3
# Share of epsilon that a mechanism of somebody else's gets.
APART_Q = 0.8


class ObjectivePerturbation(PrivateLinearModel):
    """Base of the objective-perturbation estimators; it has no loss of its own."""

    # Each estimator names its reference convention, and q where no rule is to choose it.
    _reference: Reference
    _usual_q: float | None = None

    def _check_parameters(self):
        super()._check_parameters()
        if not is_auto(self.q):
            check_interval("q", self.q, 0.0, 1.0, closed="neither", remedy='Or give "auto".')
        if not is_auto(self.regularization):
            remedy = 'Or give "auto".'
            check_interval("regularization", self.regularization, 0.0, math.inf, "left", remedy)
        if not self._is_plugged():
            self._ball_of(None)

    def _ball_of(self, design):
        """Return the user's ball, or None where a rule is to choose it."""
        mechanism = self.mechanism
        if is_auto(mechanism):
            return None
        if isinstance(mechanism, str):
            check_choice("mechanism", mechanism, ("auto", *NAMES))
        elif not isinstance(mechanism, NormBall):  # a mapped ball has a ball, and is one
            mechanism = getattr(mechanism, "ball", mechanism)
        if isinstance(self.mechanism, type) or not isinstance(mechanism, NormBall | str):
            remedy = (
                f'Give "auto", one of {sorted(NAMES)}, a norm ball, a KNorm of one, or an object'
                " with calibrate(sensitivity, *, epsilon, delta)."
            )
            raise fail("mechanism", "have its noise shaped by a norm ball", mechanism, remedy)
        if design is None:
            return None
        ball = KNorm(mechanism).for_dim(design.hull())
        if ball.dim != design.dim:
            rule = f"have a ball of {design.dim} dimensions, one for each coefficient"
            raise fail("mechanism", rule, ball.dim, "The intercept is the first, if fitted.")
        return ball

    def _plan(self, design, n, n_models):
        """Choose and calibrate, from public things only."""
        # Composed over the models; a hair less each, so that the sum cannot round up.
        epsilon = self.epsilon / n_models * (1 - 1e-15 * (n_models > 1))
        share = epsilon * (1 - OUTPUT_SHARE)
        task = self._task(design, n, share)
        calibrated = self._apart if self._is_plugged() else self._jointly
        bound = n if self.neighbors == "replace_one" else self._records_bound()
        return Perturbation(
            epsilon=epsilon,
            neighbors=self.neighbors,
            row_norm=design.row_norm,
            n_bound=bound,
            inflation=self._inflation(task),
            **calibrated(task, self._losses(task)),
        )

    def _jointly(self, task, losses):
        """K-norm noise: gradient and curvature share epsilon slope by slope (Theorem 1)."""
        choice = self._choose(task, losses)
        loss, q = choice.loss, choice.q
        leverage = greatest_leverage(loss, q, task.epsilon, self.neighbors)
        radius = task.shift * loss.slope_bound * self._radius(task.design, choice.ball)
        sensitivity = Sensitivity(choice.ball, radius, self.neighbors)
        noise = KNorm(choice.ball).calibrate(sensitivity, epsilon=q * task.epsilon)
        ridge = self._ridge(task.design, choice, leverage)
        return {"loss": loss, "q": q, "ridge": ridge, "leverage": leverage, "noise": noise}

    def _apart(self, task, losses):
        """Anybody's noise: q epsilon for the gradient, the rest for the curvature (Theorem 2)."""
        loss, q = losses[0], APART_Q if is_auto(self.q) else float(self.q)
        hull = task.design.hull()
        sensitivity = Sensitivity(hull, task.shift * loss.slope_bound, self.neighbors)
        try:
            noise = calibrate(self.mechanism, sensitivity, epsilon=q * task.epsilon)
        except ValueError as error:
            remedy = f"It said: {error}"
            rule = "calibrate noise for delta = 0, which objective perturbation needs"
            raise fail("mechanism", rule, type(self.mechanism).__name__, remedy) from None
        promise = noise.guarantee
        if promise.delta > 0 or promise.epsilon > q * task.epsilon * (1 + 1e-9):
            rule = "calibrate noise to the epsilon it is asked for, with delta = 0"
            raise fail("mechanism", rule, (promise.epsilon, promise.delta))
        leverage = leverage_apart(loss, q, task.epsilon)
        ridge = self._least_ridge(task.design, leverage)
        return {"loss": loss, "q": q, "ridge": ridge, "leverage": leverage, "noise": noise}

    def _is_plugged(self):
        """Whether the mechanism is an object with a calibration of its own."""
        mechanism = self.mechanism
        if isinstance(mechanism, str | type | KNorm | NormBall) or hasattr(mechanism, "ball"):
            return False
        return callable(getattr(mechanism, "calibrate", None))

    def _prepare(self, plan, design, X, targets, n):
        return design.matrix(X, n), targets

    def _release(self, plan, data, rng):
        matrix, targets = data
        return [plan.release(matrix, target, rng) for target in targets]

    def _keep(self, plan, released):
        for name, value in self._public_of(plan, self._design.domain).items():
            setattr(self, name, value)
        self._set_coefficients(plan.inflation * np.array([f.theta for f in released]))

    def _public_of(self, plan, domain):
        """Return further public attributes by their names."""
        return {}

    def _inflation(self, task):
        """Return a public factor on the released coefficients."""
        return 1.0

    def _task(self, design, n, epsilon):
        public = n if self.neighbors == "replace_one" else self.n_public
        task = Task(design, float(public or 1), epsilon, self.neighbors, self._reference)
        return task if public else guessed_size(task)

    def _records_bound(self):
        return ASSUMED_RECORDS if self.n_public is None else HEADROOM * int(self.n_public)

    def _choose(self, task, losses):
        q = self._usual_q if is_auto(self.q) else float(self.q)
        ball = self._ball_of(task.design)
        return choose(task, losses, self._moments, q=q, ball=ball)

    def _radius(self, design, ball):
        # The rule's ball holds every row by construction.
        return 1.0 if is_auto(self.mechanism) else design.radius_in(ball)

    def _ridge(self, design, choice: Choice, leverage: float):
        if is_auto(self.regularization):
            return choice.ridge
        return self._least_ridge(design, leverage)

    def _least_ridge(self, design, leverage):
        """Return the least ridge with which no row is weighted down, and the user's on top."""
        extra = 0.0 if is_auto(self.regularization) else float(self.regularization)
        return np.full(design.dim, max(design.row_norm**2 / leverage + extra, LEAST_RIDGE))
