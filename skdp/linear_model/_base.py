"""What the private linear models share: validate, plan, charge, release, decode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_choice, check_count, check_interval, check_positive, fail
from skdp.domain import Domain
from skdp.geometry import NormBall
from skdp.linear_model._design import Design
from skdp.linear_model._rules import Choice, Reference, Task, choose, guessed_size
from skdp.linear_model._validate import check_table
from skdp.linear_model.objective import (
    OUTPUT_SHARE,
    Perturbation,
    greatest_leverage,
    leverage_apart,
)
from skdp.mechanisms import KNorm, Sensitivity, calibrate
from skdp.mechanisms.knorm import NAMES
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.guarantee import NEIGHBORS
from skdp.randomness import as_generator, is_cryptographic

# Without a public order of magnitude the solver's tolerance is set for so many records.
ASSUMED_RECORDS = 2**22
HEADROOM = 16
# The solver's tolerance over the ridge is how far it may be off.
LEAST_RIDGE = 1e-3
# Share of epsilon that a mechanism of somebody else's gets.
APART_Q = 0.8


class PrivateLinearModel(BaseEstimator):
    """Base of the objective-perturbation estimators; it has no loss of its own."""

    # Each estimator names its reference convention, and q where no rule is to choose it.
    _reference: Reference
    _usual_q: float | None = None

    def _check_parameters(self):
        check_positive("epsilon", self.epsilon, "Smaller is more private; 1.0 is common.")
        check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        check_choice("neighbors", self.neighbors, tuple(NEIGHBORS))
        if self.n_public is not None:
            check_count("n_public", self.n_public)
        if not _is_auto(self.q):
            check_interval("q", self.q, 0.0, 1.0, closed="neither", remedy='Or give "auto".')
        if not _is_auto(self.regularization):
            remedy = 'Or give "auto".'
            check_interval("regularization", self.regularization, 0.0, math.inf, "left", remedy)
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise fail("domain", "be a Domain or None", type(self.domain))
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise fail("ledger", "be a Ledger or None", type(self.ledger))
        if not self._is_plugged():
            self._ball_of(None)

    def _ball_of(self, design):
        """Return the user's ball, or None where a rule is to choose it."""
        mechanism = self.mechanism
        if _is_auto(mechanism):
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

    def _public_domain(self, n_columns):
        """Return the declared domain, or [-1, 1] for every column."""
        domain = self.domain
        if domain is None:
            return Domain.unit_box(n_columns)
        if domain.n_columns != n_columns:
            remedy = "Drop the other columns, or declare them in the Domain."
            raise fail("X", f"have the domain's {domain.n_columns} columns", n_columns, remedy)
        return domain

    def _fit(self, X, y, loss_of, unsupported):
        """Validate, plan, charge, release. ``loss_of`` gives the candidates for a task."""
        with _spent_note() as spent:
            _refuse(unsupported)
            self._check_parameters()
            n = check_table(self, X, self.domain, reset=True)
            targets, public = self._targets(y, n)
            design = Design(self._public_domain(self.n_features_in_), bool(self.fit_intercept))
            plan = self._plan(design, n, len(targets), loss_of)
            guarantee = self._guarantee(plan)
            matrix = design.matrix(X, n)
            rng = as_generator(self.random_state)
            if self.ledger is not None:
                self.ledger.spend(guarantee, note=f"{type(self).__name__}.fit")
            spent.append(guarantee)
            found = [plan.release(matrix, target, rng) for target in targets]
        # Only now: a fit that fails leaves the model of an earlier one as it was.
        self._design, self.guarantee_ = design, guarantee
        for name, value in {**public, **self._public_of(plan, design.domain)}.items():
            setattr(self, name, value)
        self.noise_ = _promising(plan.noise, guarantee.void_because)
        # One minimisation: how many steps the solver took depends on the data.
        self.n_iter_ = 1
        # A solver that does not converge raises: a model that exists has converged.
        self.converged_ = True
        self._set_coefficients(plan.inflation * np.array([f.theta for f in found]))
        return self

    def _plan(self, design, n, n_models, loss_of):
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
            **calibrated(task, loss_of(task)),
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
        loss, q = losses[0], APART_Q if _is_auto(self.q) else float(self.q)
        hull = task.design.hull()
        sensitivity = Sensitivity(hull, task.shift * loss.slope_bound, self.neighbors)
        noise = calibrate(self.mechanism, sensitivity, epsilon=q * task.epsilon)
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
        q = self._usual_q if _is_auto(self.q) else float(self.q)
        ball = self._ball_of(task.design)
        return choose(task, losses, self._moments, q=q, ball=ball)

    def _radius(self, design, ball):
        # The rule's ball holds every row by construction.
        return 1.0 if _is_auto(self.mechanism) else design.radius_in(ball)

    def _ridge(self, design, choice: Choice, leverage: float):
        if _is_auto(self.regularization):
            return choice.ridge
        return self._least_ridge(design, leverage)

    def _least_ridge(self, design, leverage):
        """Return the least ridge with which no row is weighted down, and the user's on top."""
        extra = 0.0 if _is_auto(self.regularization) else float(self.regularization)
        return np.full(design.dim, max(design.row_norm**2 / leverage + extra, LEAST_RIDGE))

    def _guarantee(self, plan: Perturbation):
        seeded = "the noise came from random_state and not from the operating system"
        return Guarantee(
            float(self.epsilon),
            neighbors=self.neighbors,
            mechanism=(
                f"objective perturbation of {plan.loss!r}, q = {plan.q:g},"
                f" {type(plan.noise).__name__} in {len(plan.ridge)} dimensions"
            ),
            assumptions=self._assumptions(),
            void_because=() if is_cryptographic(self.random_state) else (seeded,),
        )

    def _assumptions(self):
        return (
            "the domain, the labels and all parameters were chosen without the data",
            "one record is one row of X with its target",
            "running time, memory and errors are not observed",
        )

    def _predictor(self, X):
        """Return the linear predictor of the encoded and clipped rows, (n, models)."""
        check_is_fitted(self, "coef_")  # a fit that failed leaves other attributes
        n = check_table(self, X, self._design.domain, reset=False)
        encoded = self._design.domain.encode(X)
        assert len(encoded) == n
        return encoded @ self._encoded_coef.T + self._encoded_intercept

    def _decode(self, theta):
        """Keep the coefficients of the encoded columns; return them for further decoding."""
        pairs = [self._design.coefficients(t) for t in theta]
        self._encoded_coef = np.array([coef for coef, _ in pairs])
        self._encoded_intercept = np.array([intercept for _, intercept in pairs])
        return self._encoded_coef, self._encoded_intercept

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.sparse = False
        tags.target_tags.required = True
        return tags


def _refuse(unsupported):
    """Raise for fit parameters that the proof does not cover."""
    if unsupported:
        names = ", ".join(sorted(unsupported))
        raise TypeError(
            f"fit does not support {names}: the proof gives every record the same influence."
            " Leave it out."
        )


def _promising(noise, void_because):
    """Return the noise with a guarantee that says why it is void, if it is."""
    if not (void_because and is_dataclass(noise)):
        return noise
    promise = replace(noise.guarantee, void_because=void_because)  # type: ignore[union-attr]
    return replace(noise, guarantee=promise)  # type: ignore[type-var]


def _is_auto(value) -> bool:
    return isinstance(value, str) and value == "auto"


@contextmanager
def _spent_note() -> Iterator[list[Guarantee]]:
    """Say on any error whether the budget was spent; append the guarantee once it is."""
    spent: list[Guarantee] = []
    try:
        yield spent
    except BaseException as error:
        if spent:
            error.add_note(
                f"The budget was spent: epsilon = {spent[0].epsilon:g}. Noise may have been drawn;"
                " nothing was released."
            )
        else:
            error.add_note("No budget was spent and no noise was drawn.")
        raise
