"""Faults that are planted in the package; replay must find each of them.

A fault is a function that patches something, or returns an estimator. The fit without it has no
violation. Where the checker would refuse the plan, it is switched off: replay finds the rest.
"""

import inspect
import warnings
from dataclasses import replace
from functools import partial

import inner_replay
import numpy as np
import pytest
from inner_replay import Descent, DescentPlan, KNormFamily, NoisyMinimiser, ScaledRows, base_module

import skdp
from skdp import Domain, DPCoordinateDescentRegressor, DPLinearRegression, DPLogisticRegression
from skdp.noise import Laplace, independent
from skdp.noise.independent import RepeatedNoise
from skdp.testing import replay
from skdp.trusted import NoisySum
from skdp.trusted import noise as noises
from skdp.trusted.ball import length_in
from skdp.trusted.noise import KNormNoise
from skdp.trusted.randomness import publish_near

N = 40
PUBLIC_X, PUBLIC_Y = np.linspace(-0.5, 0.5, 60).reshape(20, 3), np.linspace(-0.5, 0.5, 20)
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.7, 0.7, (N, 3))
Y = X @ [0.5, -0.3, 0.1]
LABELS = (Y > 0).astype(int)
# The neighbour has a record at a corner, with another label.
OTHER_X, OTHER_Y, OTHER_LABELS = X.copy(), Y.copy(), LABELS.copy()
X[3], Y[3] = np.sign(X[3]), np.sign(Y[3])
OTHER_X[3], OTHER_Y[3], OTHER_LABELS[3] = -9 * X[3], -9 * Y[3], 1 - LABELS[3]
REGRESSION, CLASSES = (Domain.unit_box(3, target=target) for target in ((-1, 1), [0, 1]))


def given(estimator, neighbors):
    """Return an estimator with its domain, and the arguments of its fits to neighbouring tables.

    Of the method ``infer`` of an estimator, the model is fitted to other records.
    """
    if inspect.ismethod(estimator):
        public, pair = given(estimator.__self__, neighbors)
        public.fit(PUBLIC_X, PUBLIC_Y)
        return partial(public.infer, epsilon=1.0), pair
    is_classifier = hasattr(estimator, "classes")
    estimator.set_params(domain=CLASSES if is_classifier else REGRESSION, neighbors=neighbors)
    y, other = (LABELS, OTHER_LABELS) if is_classifier else (Y, OTHER_Y)
    pair = (X, y), (OTHER_X, other)
    if neighbors == "add_remove":
        pair = (X, y), (np.vstack([X, OTHER_X[3:4]]), np.append(y, other[3]))
    return estimator, pair


def found(estimator, neighbors="replace_one"):
    estimator, pair = given(estimator, neighbors)
    found = replay(estimator, *pair)
    assert found.n_published
    return found.violations


def linear(**given):
    return DPLinearRegression(**given)


def moments():
    return linear(mechanism="l1")


def logistic(**given):
    return DPLogisticRegression(**given)


def descent(**given):
    return DPCoordinateDescentRegressor(**{"n_passes": 3} | given)


def gaussian():
    """Return a descent whose budget the length of the changes of all passes spends."""
    return descent(mechanism="gaussian", delta=0.01)


SOUND = {
    "descent, gaussian": gaussian,
    "linear": linear,
    "moments": moments,
    "linear, add_remove": lambda: linear(n_public=10**6),
    "logistic": logistic,
    "descent": descent,
    "descent, greedy": lambda: descent(order="greedy"),
    "inference": lambda: linear().infer,
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_without_a_fault_nothing_is_found(name, neighbors):
    assert found(SOUND[name](), neighbors) == ()


FAULTS = {}


def fault(kind, estimator=linear, neighbors="replace_one"):
    """Add a fault, which is found as this kind of violation."""

    def add(plant):
        FAULTS[plant.__name__.replace("_", " ")] = kind, plant, estimator, neighbors
        return plant

    return add


def released(patch, draw):
    """Give all sums of moments another way of drawing: draw(noise, stretch, exact, rng)."""

    def release_integers(release, exact, unit, rng):
        lattice, stretch = noises.publication(release.noise)

        def drawn(generator):
            noise = draw(release.noise, stretch, exact, generator)
            return lattice.release(exact, unit, noise, generator)

        return inner_replay.publish(
            release, exact, drawn, rng, unit=unit, scale=stretch, lattice=lattice
        )

    patch.setattr(inner_replay.gram_module, "release_integers", release_integers)


def after_fit(patch, leak):
    """Call leak(model, rows, target) after each fit."""
    fit = DPLinearRegression.fit

    def leaking(self, X, y=None, **others):
        fit(self, X, y, **others)
        leak(self, np.asarray(X), np.asarray(y))
        return self

    patch.setattr(DPLinearRegression, "fit", leaking)


# Noise


@fault("noise")
def the_scale_of_the_noise_depends_on_the_data(patch):
    released(
        patch, lambda noise, s, exact, rng: s * (1 + 1e-9 * abs(exact[0]) / 2**70) * noise.rvs(rng)
    )


@fault("noise", moments)
def the_noise_is_the_same_in_every_fit(patch):
    rvs = KNormNoise.rvs
    patch.setattr(KNormNoise, "rvs", lambda self, rng: rvs(self, np.random.default_rng(0)))


@fault("noise", descent)
def one_draw_is_used_for_all_passes(patch):
    rvs = RepeatedNoise.rvs

    def repeated(self, rng, size=None):
        drawn = rvs(self, rng, size)
        return np.broadcast_to(drawn[:1], drawn.shape).copy() if drawn.ndim == 2 else drawn

    patch.setattr(RepeatedNoise, "rvs", repeated)


@fault("noise", logistic)
def the_solution_has_no_output_noise(patch):
    def near(theta, exponent, scale, rng):
        return publish_near(theta, exponent, 1, rng)

    patch.setattr(inner_replay.theorem_module, "publish_near", near)


@fault("noise", logistic)
def the_linear_term_is_half_of_a_draw(patch):
    patch.setattr(NoisyMinimiser, "linear_term", lambda self, rng: self.noise.rvs(rng) / 2)


@fault("noise", logistic)
def the_solver_stops_early(patch):
    def minimise(objective, tolerance):
        point = type("Point", (), {})()
        point.theta = -objective.linear_term / (objective.ridge + objective.n / 4)
        return point

    patch.setattr(inner_replay.theorem_module, "minimise", minimise)


# Changes


def unchecked(patch):
    def stated(releases, public, *_):
        return skdp.Guarantee(public.epsilon, public.delta, public.neighbors, unit=public.unit)

    patch.setattr(base_module, "guarantee_of", stated)


@fault("change")
def cells_are_not_clipped(patch):
    patch.setattr(Domain, "encode_target", lambda self, y: np.asarray(y, dtype=float))


@fault("change", moments)
def a_sum_is_the_count_times_a_float(patch):
    def rough(*given, **others):
        means = inner_replay.exact_moments(*given, **others) / 2.0**40 / N
        return np.round(means.astype(np.float16).astype(float) * N * 2.0**40).astype(object)

    patch.setattr(inner_replay.moments_module, "exact_moments", rough)


@fault("change", descent)
def an_eighth_of_the_noise_of_gradients(patch):
    published = DescentPlan.published

    def less(self, factors):
        lattice, stretch = published(self, factors)
        return noises.Publication(lattice, stretch / 8)

    patch.setattr(DescentPlan, "published", less)


@fault("noise")
def the_noise_is_not_stretched(patch):
    publication = NoisySum.publication.func
    less = property(lambda self: publication(self)._replace(stretch=0.999))
    patch.setattr(NoisySum, "publication", less)


@fault("proof")
def the_change_is_that_of_the_other_relation(patch):
    unchecked(patch)
    plan = DPLinearRegression._plan

    def other(self, *given):
        if self.neighbors != "replace_one":
            return plan(self, *given)
        self.neighbors = "add_remove"
        try:
            return plan(self, *given)
        finally:
            self.neighbors = "replace_one"

    patch.setattr(DPLinearRegression, "_plan", other)


@fault("proof", logistic)
def a_factor_of_two_is_missed_in_the_linear_term(patch):
    unchecked(patch)
    noise = KNormFamily.noise

    def half(self, *given):
        made = noise(self, *given)
        return replace(made, scale=made.scale / 2)

    patch.setattr(KNormFamily, "noise", half)


@fault("change", lambda: logistic(mechanism="l2"))
def rows_have_no_weights(patch):
    patch.setattr(NoisyMinimiser, "weigh", lambda self: None)


@fault("change", gaussian, "add_remove")
def the_rows_of_a_pass_have_no_bounded_length(patch):
    patch.setattr(ScaledRows, "_powers", lambda self, scaling: np.full(len(self.target), 1e-9))


@fault("change", gaussian, "add_remove")
def the_length_of_all_passes_is_that_of_one(patch):
    """The checker believes it; the change of each pass is within its bound."""
    patch.setattr(independent, "length_of", lambda shift: shift[0][0])


@fault("change", lambda: linear(mechanism="gaussian", delta=0.01))
def the_length_of_a_change_is_half(patch):
    patch.setattr(noises, "length_in", lambda *given: length_in(*given) / 2)


@fault("change", lambda: skdp.DPCoordinateDescentClassifier(class_weight={0: 0.5}, n_passes=3))
def weights_of_labels_are_above_one(patch):
    patch.setattr(base_module, "label_weights", lambda weights, labels: np.array([40.0, 30.0]))


# Flow


@fault("flow", lambda: linear().infer)
def the_noise_of_another_release_is_used(patch):
    releases = inner_replay.InferencePlan.releases.func

    def swapped(self):
        own = releases(self)
        noises = {one.name: one.noise for one in own}
        noises["numerators"] = noises["denominators"]
        return tuple(replace(one, noise=noises[one.name]) for one in own)

    def stage(self):
        return {own.name: own for own in swapped(self.plan)}

    patch.setattr(inner_replay.InferenceRelease, "_releases", property(stage))


@fault("flow", descent)
def the_number_of_passes_depends_on_the_data(patch):
    run = Descent.run

    def shorter(self, gradients, *given):
        count = 1 + int(gradients.of_block(0)[0]) // 2**20 % 7
        return run(replace(self, plan=replace(self.plan, passes=count)), gradients, *given)

    patch.setattr(Descent, "run", shorter)


@fault("flow", lambda: descent(order="greedy"))
def the_greatest_gradient_is_taken_without_noise(patch):
    def steepest(self, theta, exact, release, rng):
        return int(np.argmax(np.abs(exact)))

    patch.setattr(Descent, "_steepest", steepest)


@fault("flow", lambda: linear(n_public=10**6), "add_remove")
def the_plan_depends_on_the_number_of_records(patch):
    plan = DPLinearRegression._plan

    def private(self, design, n, *given):
        self.n_public = n
        return plan(self, design, n, *given)

    patch.setattr(DPLinearRegression, "_plan", private)


@fault("flow")
def something_is_published_beside_the_releases(patch):
    after_fit(patch, lambda model, X, y: Laplace(100.0).release([y[0]], model.random_state))


def quoted(model, X, y):
    try:
        raise KeyError(X[3, 0])
    except KeyError:
        raise ValueError("the model cannot be stored") from None


def refused(model, X, y):
    if np.abs(X).max() > 1:
        raise ValueError("cells must be in the bounds")


def is_first(X):
    return X[3, 0] > 0


# What is done after a fit with the model and its records.
LEAKS = {
    "an attribute counts the records": lambda model, X, y: setattr(model, "n_seen_", len(X)),
    "a private attribute is deep inside": lambda model, X, y: setattr(
        model, "_history", [{"seen": (1.0, [np.array([X.mean()])])}]
    ),
    "the layout of an array depends on the data": lambda model, X, y: setattr(
        model, "path_", np.ones((2, 2), order="F" if is_first(X) else "C")
    ),
    "the order of a dict depends on the data": lambda model, X, y: setattr(
        model, "facts_", dict([("a", 1), ("b", 2)][:: 1 if is_first(X) else -1])
    ),
    "the last bit of a coefficient depends on the data": lambda model, X, y: setattr(
        model, "coef_", np.nextafter(model.coef_, np.inf if is_first(X) else -np.inf)
    ),
    "a parameter is changed": lambda model, X, y: model.set_params(epsilon=1 + 1e-9 * is_first(X)),
    "a warning counts clipped cells": lambda model, X, y: warnings.warn(
        f"{(np.abs(X) > 1).sum()} cells are clipped", stacklevel=2
    ),
    "the mean is printed": lambda model, X, y: print(X.mean()),
    "an error quotes a cell": quoted,
    "some tables are refused": refused,
    "the global generator is used": lambda model, X, y: setattr(
        model,
        "coef_",
        model.coef_ + np.random.normal(),  # noqa: NPY002
    ),
}
for name, leak in LEAKS.items():
    neighbors = "add_remove" if name == "an attribute counts the records" else "replace_one"
    FAULTS[name] = "flow", partial(after_fit, leak=leak), linear, neighbors


@fault("flow")
def the_file_has_a_fact_of_the_data(patch):
    held = []
    to_json = DPLinearRegression.to_json
    patch.setattr(DPLinearRegression, "to_json", lambda self: to_json(self) + str(held[-1]))
    after_fit(patch, lambda model, X, y: held.append(X.sum()))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, monkeypatch):
    kind, plant, estimator, neighbors = FAULTS[name]
    plant(monkeypatch)
    violations = found(estimator(), neighbors)
    assert any(own.startswith(kind) for own in violations), violations
