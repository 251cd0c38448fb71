"""What the estimators by coordinate descent share."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

import numpy as np

from skdp._checks import check_choice, check_count, check_interval, fail
from skdp.domain.layout import read_once
from skdp.linear_model._descent.algorithm import FARTHEST, Descent
from skdp.linear_model._descent.first_look import FirstLook
from skdp.linear_model._descent.records import Predictors, Records
from skdp.linear_model._descent.rules import curvatures, frame_of, penalties, plan_descent
from skdp.linear_model._descent.slots import Slots
from skdp.linear_model._shared.base import PrivateLinearModel
from skdp.linear_model._shared.gram import GRAM_BITS, row_unit
from skdp.linear_model._shared.progress import Progress
from skdp.linear_model.validation import is_auto

PENALTIES = ("auto", "l1", "l2", "elasticnet", "none")
ORDERS = ("cyclic", "random", "greedy")
_AUTO = 'Or give "auto".'
# Products of greater or lesser parameters may leave the range of floats.
_MOST, _LEAST = 1e30, 1e-30


class CoordinateDescent(PrivateLinearModel):
    """Base of the estimators by noisy coordinate descent; it has no loss of its own.

    An estimator names its loss for the rules (``_kind``), says whether the first look sees the
    target (``_looks_at_target``), and gives the slope with its unit (``_slope``).
    """

    def _check_parameters(self):
        super()._check_parameters()
        if self.penalty is not None:
            check_choice("penalty", self.penalty, PENALTIES, "None stands for no penalty.")
        _check_unless_auto(self.alpha, check_interval, "alpha", 0.0, _MOST, "both", _AUTO)
        check_interval("l1_ratio", self.l1_ratio, 0.0, 1.0)
        _check_unless_auto(self.n_passes, check_count, "n_passes", 1, _AUTO)
        _check_unless_auto(
            self.step_size, check_interval, "step_size", _LEAST, _MOST, "both", _AUTO
        )
        if self.clip is not None:
            least = "None clips least. " + _AUTO
            _check_unless_auto(self.clip, check_interval, "clip", _LEAST, _MOST, "both", least)
        check_choice("order", self.order, ORDERS)
        if self.scaling_share != 0:
            remedy = "0 uses the bounds of the domain. " + _AUTO
            limits = (1e-6, 1.0, "left", remedy)
            _check_unless_auto(self.scaling_share, check_interval, "scaling_share", *limits)
        if not isinstance(self.average, bool | np.bool_):
            raise fail("average", "be True or False", self.average)
        if not isinstance(self.verbose, bool):
            check_count("verbose", self.verbose, 0)
        if self.callback is not None and not callable(self.callback):
            raise fail("callback", "be None or a function of a Progress", type(self.callback))

    # Before any noise: what is released

    def _plan(self, design, n, n_models):
        public = self.neighbors == "replace_one"
        known = n if public else self.n_public
        # A penalty of the user's is on the encoded columns, which leave out first levels.
        free = is_auto(self.penalty) and design.intercept
        slots = Slots(design.domain, design.intercept, all_levels=free)
        look = FirstLook(slots, self._looks_at_target, self.neighbors, n if public else None)
        if self.start is not None:
            self._starts(slots, n_models)  # refused before anything is spent
        return plan_descent(
            slots,
            None if self.scaling_share == 0 else look,
            self.mechanism,
            share=None if is_auto(self.scaling_share) else float(self.scaling_share),
            n_passes=None if is_auto(self.n_passes) else int(self.n_passes),
            n_models=n_models,
            order=self.order,
            clips=not is_auto(self.clip),
            n=None if known is None else float(known),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            neighbors=self.neighbors,
        )

    def _starts(self, slots, n_models):
        """Return coefficients and intercept of the encoded columns that each model starts from."""
        rule = (
            "be None or a pair of coefficients and intercept of coef_'s shape, at most 2^20 in"
            " the units of numbers and targets scaled to [-1, 1]"
        )
        remedy = "The first has one row per model; a public model's (coef_, intercept_) will do."
        try:
            coef, intercept = (np.asarray(part, dtype=float) for part in self.start)
            coef = coef.reshape(n_models, slots.domain.n_encoded)
            intercept = intercept.reshape(n_models)
        except (TypeError, ValueError):
            raise fail("start", rule, None, remedy) from None
        with np.errstate(all="ignore"):
            models = [self._encoded(slots.domain, *m) for m in zip(coef, intercept, strict=True)]
        # NaN is not within the box either.
        if not all(np.abs(np.append(*model)).max() <= FARTHEST for model in models):
            raise fail("start", rule, None, remedy)
        return models

    def _delta_of(self, plan):
        return plan.noise.guarantee.delta

    def _prepare(self, plan, design, X, targets, n):
        """Read all of X: what is wrong with it is found before anything is spent."""
        table = read_once(design.domain, X)
        if plan.look is None:
            return None, Records(plan.slots, frame_of(plan, None), table, n), None, targets
        sums = plan.look.sums(table, targets[0])
        return sums, None, replace(table, again=True), targets

    # The release

    def _release(self, plan, data, rng):
        sums, records, X, targets = data
        seen = None
        if sums is not None:
            seen = _look(plan, sums, rng)
        frame = frame_of(plan, seen)
        if records is None:
            records = Records(plan.slots, frame, X, len(targets[0]))
        descent, slope = self._descent(plan, frame)
        found: list = []
        history: list[Progress] = []
        for model, target in enumerate(targets):
            watch = self._watch(plan, frame, model, history)
            predictors = Predictors(records, target, slope, descent.clips)
            start = self._start(plan, frame, model)
            found.append(descent.run(predictors, start, plan.noise, rng, watch))
        return [_columns(plan.slots, frame, theta) for theta in found], history

    @np.errstate(all="ignore")  # a penalty or step beyond floats is the greatest there is
    def _descent(self, plan, frame):
        """Return how to descend, and the slope of the loss, in its unit."""
        slots, kind = plan.slots, self._kind
        curvature = curvatures(slots, frame, kind)
        source = isinstance(self.clip, Real)
        bound, slope = self._slope(plan, frame)
        if source:
            # Muthukrishnan & Kalyani 2023, appendix D: C_j = C sqrt(M_j / sum M).
            unit = bound * np.sqrt(curvature / curvature[slots.free].sum())
        else:
            unit = np.full(slots.dim, bound)
        alpha = None if is_auto(self.alpha) else float(self.alpha)
        penalty = self.penalty or "none"
        l1, ridge = penalties(plan, frame, kind, unit, penalty, alpha, float(self.l1_ratio))
        size = 1.0 if is_auto(self.step_size) else float(self.step_size)
        step = np.where(slots.free, size / curvature, 0.0)
        descent = Descent(
            slots=slots,
            unit=unit,
            clips=unit if source else None,
            quiet=1 / plan.rows.loudness,
            step=step,
            l1=l1,
            ridge=ridge,
            n_passes=plan.n_passes,
            order=plan.order,
            average=bool(self.average),
            published=plan.published(),
            choice=plan.choice,
        )
        return descent, slope

    def _start(self, plan, frame, model):
        """Return the coordinates to begin with, (dim,)."""
        slots = plan.slots
        if self.start is None:
            theta = np.zeros(slots.dim)
            theta[: slots.intercept] = frame.target_centre
            return theta
        coef, intercept = self._starts(slots, plan.n_models)[model]
        columns = list(slots.numbers)
        coef[columns] *= row_unit(slots.domain)
        intercept += float(coef[columns] @ frame.centre)
        coef[columns] *= frame.scale
        return slots.of_model(coef, intercept)

    def _encoded(self, domain, coef, intercept):
        """Return a model in the user's units as one of encoded columns: decoding is affine."""
        zeros = np.zeros_like(coef)
        zero, constant = self._decoded(domain, zeros, 0.0)
        slopes, _ = self._decoded(domain, zeros + 1, 0.0)
        _, one = self._decoded(domain, zeros, 1.0)
        coef = (coef - zero) / (slopes - zero)
        rest = intercept - self._decoded(domain, coef, 0.0)[1]
        return coef, float(rest / (one - constant))

    def _watch(self, plan, frame, model, history):
        """Return what is called after every pass of a model."""
        domain = plan.slots.domain

        def watch(done, theta):
            coef, intercept = self._decoded(domain, *_columns(plan.slots, frame, theta))
            progress = Progress(model, plan.n_models, done, plan.n_passes, coef, float(intercept))
            history.append(progress)
            if self.verbose:
                progress.show()
            return self.callback is not None and _called(self.callback, progress)

        return watch

    # After the release

    def _keep(self, plan, released):
        models, self.history_ = released
        made = [progress.n_pass for progress in self.history_]
        self.n_iter_ = max(made)
        # A number of passes fixed beforehand, unless a callback stopped one.
        self.converged_ = sum(n == plan.n_passes for n in made) == plan.n_models
        self._set_coefficients(models)

    def _decode(self, theta):
        self._encoded_coef = np.array([coef for coef, _ in theta])
        self._encoded_intercept = np.array([intercept for _, intercept in theta])
        return self._encoded_coef, self._encoded_intercept


def _look(plan, sums, rng):
    """Release the sums of the first look."""
    lattice, stretch = plan.look_published()
    draws = stretch * plan.ratio * plan.noise.rvs(rng, len(sums))
    return lattice.release(sums.tolist(), -GRAM_BITS, draws, rng)


def _columns(slots, frame, theta):
    """Return coefficients and intercept of the encoded columns, from those of the frame."""
    coef, intercept = slots.of_columns(theta)
    columns = list(slots.numbers)
    coef[columns] /= frame.scale
    intercept -= float(coef[columns] @ frame.centre)
    coef[columns] /= row_unit(slots.domain)
    return coef, intercept


def _called(callback, progress):
    """Return whether a callback wants to stop; its errors say what it has seen."""
    try:
        return bool(callback(progress))
    except BaseException as error:
        error.add_note("The callback had seen the coefficients after every pass up to this one.")
        raise


def _check_unless_auto(value, check, name, *rules):
    if not is_auto(value):
        check(name, value, *rules)
