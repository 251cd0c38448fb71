"""Coordinate descent: the length of rows, greedy steps, and what the lattice costs."""

import math

import numpy as np
import pytest
from descent_runs import fitted
from inner_fits import Design

from skdp import Domain
from skdp.linear_model.coordinate_descent import DPCoordinateDescentClassifier
from skdp.noise import Gaussian, Laplace
from skdp.privacy import Composition
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import SelectionLoss


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
    blocks, classes, noise = plan.blocks, math.prod(plan.classes), plan.noise
    steps = plan.published(plan.factors)
    cost, least = plan.steps * classes, (1 if clip is None else blocks.dim) * classes
    if plan.stage.norm is None:
        stage = plan.published(plan.ratio * plan.stage.units)
        assert stage.lattice.dither == steps.lattice.dither
        assert stage.stretch == steps.stretch
        cost, least = cost + plan.stage.sums.dim, max(least, plan.stage.sums.dim)
    distance = min(1 - 2 * math.exp(noise.law.logsf(size / 2)) for size, _ in noise.shifts)
    whole = max(math.exp(loss.log_delta(0.0)) for loss, _ in noise.guarantee.losses)
    paid = (1 - 1 / steps.stretch) * steps.lattice.dither
    assert paid >= 3 * min(least / distance, cost / whole)
