"""Coordinate descent: nothing but what is released depends on the data; greedy steps."""

import math
from itertools import product

import numpy as np
import pytest
from descent_runs import fitted
from inner_descent import Descent, DescentPlan
from inner_descent import algorithm_module as _descent
from inner_descent import algorithm_module as shared
from inner_fits import Design

from skdp import Domain
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.noise import Gaussian, Laplace
from skdp.privacy import Composition
from skdp.privacy.losses import SelectionLoss, ShiftLoss

# Nothing else depends on the data


def recorded(monkeypatch, kind, X, y, **parameters):
    """Everything public of a fit: the plan, the scaling, the descents, what the model says."""
    kept = []

    def keeping(make, keep):
        def made(*args, **kwargs):
            result = make(*args, **kwargs)
            kept.append(keep(result, args, kwargs))
            return result

        return made

    def released(result, *_):
        return {name: np.array(value) for name, value in vars(result).items() if name != "blocks"}

    def asked(plan, args, kwargs):
        return repr(
            (plan.noise, plan.ratio, plan.task.size, plan.task.passes, plan.choice, args, kwargs)
        )

    with monkeypatch.context() as patch:
        patch.setattr(shared, "plan_descent", keeping(shared.plan_descent, asked))
        patch.setattr(shared, "scaling_of", keeping(shared.scaling_of, released))
        patch.setattr(shared, "Descent", keeping(Descent, released))
        # What is released is the same whatever the data.
        patch.setattr(DescentPlan, "release_stage", lambda plan, sums, rng: the_same(sums, rng))
        patch.setattr(_descent._Release, "__call__", lambda self, place, exact: the_same(exact))
        run = fitted(kind, X, y, **parameters)
    model = run.model
    said = (model.guarantee_, model.noise_, model.n_iter_, model.converged_, len(model.history_))
    return repr(kept), repr(said), run.path, model.coef_, model.intercept_


def the_same(exact, rng=None):
    """Numbers that a release might be, from its length alone."""
    noise = 0.0 if rng is None else rng.standard_normal(len(exact))
    return np.reshape(0.1 + np.arange(exact.size), exact.shape) + noise


DATA_CASES = [
    {"scaling_share": 0, "clip": "auto"},
    {"scaling_share": "auto", "clip": "auto", "penalty": "auto"}
    | {"fit_intercept": True, "average": True},
    {"scaling_share": 0.3, "clip": 0.2, "penalty": "l1", "alpha": 0.01, "fit_intercept": True},
    {"scaling_share": 0, "order": "random", "penalty": "auto"},
    {"scaling_share": "auto", "neighbors": "add_remove", "penalty": "auto", "fit_intercept": True},
    {"scaling_share": 0, "neighbors": "add_remove", "n_public": 100, "penalty": "auto"},
]
DATA_KINDS = [DPCoordinateDescentClassifier, DPCoordinateDescentRegressor]
JOINT = {"scaling_share": "auto", "classes": [0, 1, 2], "penalty": "auto", "clip": "auto"}


@pytest.mark.parametrize(
    ("kind", "parameters"), [*product(DATA_KINDS, DATA_CASES), (DATA_KINDS[0], JOINT)], ids=str
)
def test_only_what_is_released_depends_on_the_data(monkeypatch, kind, parameters):
    """With the released numbers held fixed all the rest is the same, the coefficients too.

    Under add_remove also for another number of records.
    """
    rng = np.random.default_rng(1)
    n = 37 if parameters.get("neighbors") == "add_remove" else 60
    data = [
        (rng.uniform(-1, 1, (60, 3)), rng.integers(0, 2, 60)),
        (np.full((n, 3), 0.9), np.ones(n, dtype=int)),
    ]
    runs = [recorded(monkeypatch, kind, X, y, n_passes=4, **parameters) for X, y in data]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_check_on_the_data_sees_a_scale_that_is_read_off_it(monkeypatch):
    """The twin: steps from the columns' own mean squares, as the source has it."""
    keep, data = shared.curvatures, {}

    def leaking(blocks, scaling, kind):
        return keep(blocks, scaling, kind) * data["square"]

    monkeypatch.setattr(shared, "curvatures", leaking)
    runs = []
    for X in (np.full((60, 3), 0.9), np.full((60, 3), 0.3)):
        data["square"] = float((X**2).mean())
        runs.append(
            recorded(monkeypatch, DPCoordinateDescentClassifier, X, [0, 1] * 30, n_passes=2)
        )
    assert runs[0][0] != runs[1][0]


class Disguised(Laplace):
    """Somebody else's law, with an attribute that says something else."""

    law = Gaussian()


def test_only_gaussian_noise_pays_for_the_length_of_rows():
    """Theorem 6 holds for no other law."""
    X = np.zeros((4, 3))
    run = fitted(DPCoordinateDescentClassifier, X, [0, 1, 0, 1], mechanism=Disguised(), n_passes=2)
    assert run.plan.rows.bound is None


# A greedy step


def noise_delta(law, shifts, epsilons):
    """Least delta of one noisy sum, for each shift at an epsilon of its own."""
    pairs = zip(np.abs(shifts), epsilons, strict=True)
    return np.array([math.exp(ShiftLoss(law, max(v, 1e-9)).log_delta(e)) for v, e in pairs])


def choice_and_sum_delta(law, sums, others, choice, epsilon):
    """Least delta of one greedy step: a sum over the chosen, a closed form for its sum."""
    p, q = (np.exp(np.abs(s) / choice) for s in (sums, others))
    p, q = p / p.sum(), q / q.sum()
    told = np.log(p) - np.log(q)
    return float((p * noise_delta(law, sums - others, epsilon - told)).sum())


@pytest.mark.parametrize("law", [Gaussian(3.0), Laplace(5.0)], ids=str)
def test_greedy_steps_tell_no_more_than_their_losses(law):
    """One step in closed form: choice and sum together, sums moved by up to 2 each."""
    rng, choice, caught = np.random.default_rng(0), 6.0, False
    step = (ShiftLoss(law, 2.0), 1)
    whole = Composition([(SelectionLoss(4 / choice), 1), step])
    twin = Composition([(SelectionLoss(0.4 / choice), 1), step])
    bounds = [(e, whole.delta_at(e).upper, twin.delta_at(e).upper) for e in (0.1, 0.5, 0.9)]
    for trial in range(60):
        sums = rng.normal(scale=8, size=4)
        others = sums + (rng.uniform(-2, 2, 4) if trial % 2 else rng.choice([-2.0, 2.0], 4))
        for epsilon, promised, less in bounds:
            found = choice_and_sum_delta(law, sums, others, choice, epsilon)
            assert found <= promised * (1 + 1e-9)
            caught |= found > less
    assert caught


@pytest.mark.parametrize("share", ["auto", 1e-4])
@pytest.mark.parametrize("clip", ["auto", None])
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("ball", [False, True])
def test_the_stretch_pays_for_the_lattice_of_steps_and_stage(share, clip, n_labels, delta, ball):
    """Either every release by its own distance, or all by one composition and one stretch."""
    labels = list(range(n_labels))
    domain = Domain.l2_ball(5, 1.0, target=labels) if ball else Domain.unit_box(5, target=labels)
    mechanism = "gaussian" if delta else "laplace"
    facts = {"delta": delta, "mechanism": mechanism, "scaling_share": share, "clip": clip}
    model = DPCoordinateDescentClassifier(domain=domain, n_passes=2, **facts)
    plan = model._plan(Design(domain, True), 1000, 1 if n_labels == 2 else 3)
    blocks, classes, noise = plan.task.blocks, plan.task.n_classes, plan.noise
    steps = plan.published()
    cost, least = plan.steps * classes, (1 if clip is None else blocks.dim) * classes
    if plan.stage.norm is None:
        stage = plan.stage_published()
        assert stage.lattice.dither == steps.lattice.dither
        assert stage.stretch == steps.stretch
        cost, least = cost + plan.stage.dim, max(least, plan.stage.dim)
    distance = min(1 - 2 * math.exp(noise.law.logsf(size / 2)) for size, _ in noise.shifts)
    whole = max(math.exp(loss.log_delta(0.0)) for loss, _ in noise.guarantee.losses)
    paid = (1 - 1 / steps.stretch) * steps.lattice.dither
    assert paid >= 3 * min(least / distance, cost / whole)
