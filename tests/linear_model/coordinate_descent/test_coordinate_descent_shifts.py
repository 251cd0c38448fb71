"""Coordinate descent: how far a record moves what is released; nothing else depends on it."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from descent_runs import fitted
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_descent import (
    Blocks,
    Descent,
    DescentPlan,
    DescentStage,
    Gradients,
    RowBound,
    Scaling,
    clipped_residual,
    keep_scaled,
    logistic_slope,
    residual,
)
from inner_descent import algorithm_module as _descent
from inner_descent import algorithm_module as shared
from inner_fits import GRAM_BITS, Design
from scipy.stats import chisquare

from skdp import Domain
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.noise import Gaussian, Laplace
from skdp.privacy import Composition
from skdp.privacy.losses import SelectionLoss, ShiftLoss
from skdp.rows import MemoryRows

UNIT = 2**GRAM_BITS

# How far one record moves what is released


COLUMNS = {"a": (0.0, 1.0), "b": (-2.0, 2.0), "c": ["x", "y", "z"], "d": ["p", "q"]}
DOMAIN = Domain(COLUMNS, target=(-1.0, 1.0))
CELLS = st.tuples(st.floats(-1, 2), st.floats(-3, 3), st.sampled_from("xyz"), st.sampled_from("pq"))
RECORD = st.tuples(CELLS, st.floats(-1, 1))


def table(records):
    """The encoded rows, and the targets."""
    people = pd.DataFrame([cells for cells, _ in records], columns=list(COLUMNS))
    return people, np.array([target for _, target in records])


def sums_of(records, scaling, slope, clips, moves):
    """All sums of a set of records, after some moves, in units of 2^-40."""
    blocks = Blocks(DOMAIN, True, all_levels=True)
    X, y = table(records)
    label = 1 if slope is logistic_slope else None
    target = y if label is None else (y > 0).astype(np.uint8)
    kept = keep_scaled(MemoryRows(DOMAIN, X, target), blocks, scaling)
    gradients = Gradients(kept, blocks, label, slope, clips)
    for block, place in enumerate(blocks.places):
        gradients.move(block, moves[place])
    return gradients.of_all(), blocks


def scaling_at(centre, scale, rows):
    """A scaling that might have been released."""
    return Scaling(10.0, np.array(centre), np.array(scale), np.ones(8), 0.0, 1.0, True, rows)


@settings(max_examples=60, deadline=None)
@given(
    records=st.lists(RECORD, min_size=1, max_size=4),
    new=RECORD,
    centre=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    scale=st.tuples(st.floats(0.03, 3), st.floats(0.03, 3)),
    moves=st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8),
    near=st.booleans(),
    kind=st.sampled_from(["logistic", "residual", "clipped", "clipped logistic"]),
)
def test_one_record_moves_a_block_by_no_more_than_its_shift(
    records, new, centre, scale, moves, near, kind
):
    """Replaced: 2 in one coordinate, or two levels by 1 each; added: one by 1. To the last bit."""
    scaling = scaling_at(centre, scale, RowBound(np.ones(5)))
    slope = {"logistic": logistic_slope, "residual": clipped_residual(0.3)}.get(kind, residual)
    slope = logistic_slope if kind == "clipped logistic" else slope
    clips = np.linspace(0.05, 0.8, 8) if kind.startswith("clipped") else None
    facts = (scaling, slope, clips, np.array(moves) / (1e6 if near else 1.0))
    whole, blocks = sums_of(records, *facts)
    replaced, _ = sums_of([new, *records[1:]], *facts)
    added, _ = sums_of([*records, new], *facts)
    assert blocks.dim == 8
    for place in blocks.places:
        by = [abs(int(v)) for v in (whole - replaced)[place]]
        assert max(by) <= 2 * UNIT
        assert sum(by) <= 2 * UNIT
        assert sum(v > 0 for v in by) <= 2
        more = [abs(int(v)) for v in (added - whole)[place]]
        assert sum(v > 0 for v in more) <= 1
        assert max(more) <= UNIT


@settings(max_examples=60, deadline=None)
@given(
    records=st.lists(RECORD, min_size=1, max_size=4),
    centre=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    scale=st.tuples(st.floats(0.03, 3), st.floats(0.03, 3)),
    precision=st.lists(st.floats(0.1, 30), min_size=5, max_size=5),
    bound=st.floats(0.01, 100),
)
def test_rows_are_no_longer_than_their_bound(records, centre, scale, precision, bound):
    """In fractions: w^2 sum_g (a_g z_g)^2, the intercept and each column of levels counting 1."""
    blocks, (X, y) = Blocks(DOMAIN, True, all_levels=True), table(records)
    scaling = scaling_at(centre, scale, RowBound(np.array(precision), bound))
    (made,) = keep_scaled(MemoryRows(DOMAIN, X, y), blocks, scaling).states
    squares = [Fraction(a) ** 2 for a in precision]
    for weight, numbers in zip(made.weight.tolist(), made.numbers.T.tolist(), strict=True):
        entries = [1, *map(Fraction, numbers), 1, 1]
        length = sum(a * z**2 for a, z in zip(squares, entries, strict=True))
        assert Fraction(weight) ** 2 * length <= Fraction(bound)
        assert all(abs(Fraction(weight) * z) <= 1 for z in entries)
        most = min(1 / max(1.0, *map(abs, numbers)), math.sqrt(bound / length))
        assert weight >= most - 2.1 * 2.0**-20


@settings(max_examples=60, deadline=None)
@given(records=st.lists(RECORD, min_size=1, max_size=4), new=RECORD, seen=st.booleans())
def test_one_record_moves_the_scaling_stage_by_no_more_than_its_shifts(records, new, seen):
    """The greatest changes, in units of the noise, add up to no more than the sizes do."""
    blocks = Blocks(DOMAIN, True)
    for changed, n in (([new, *records[1:]], 5), ([*records, new], None)):
        stage = DescentStage(blocks, seen, n)
        moved = stage_change(stage, records, changed)
        by = np.sort(np.abs(moved / stage.planned.units))[::-1]
        declared = sorted((s for s, count in stage.shifts for _ in range(count)), reverse=True)
        assert len(by) == stage.dim
        declared += [0.0] * (stage.dim - len(declared))
        assert (by.cumsum() <= np.cumsum(declared) * (1 + 1e-12)).all()
        long = replace(stage, gaussian=True).planned
        changes = stage_change(replace(stage, gaussian=True), records, changed)
        square = sum(count * size**2 for size, count in long.shifts)
        assert np.sum((changes / long.units) ** 2) <= square * (1 + 1e-12)


def stage_change(stage, records, changed):
    before, after = (stage.exact(MemoryRows(DOMAIN, *table(rows))) for rows in (records, changed))
    return np.array([float(Fraction(int(v), UNIT)) for v in after - before])


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
    {
        "scaling_share": "auto",
        "clip": "auto",
        "penalty": "auto",
        "fit_intercept": True,
        "average": True,
    },
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


def greedy(scores_l1, choice):
    """A descent whose coordinates are those of a box, for its choice alone."""
    blocks = Blocks(Domain.unit_box(len(scores_l1)), False)
    ones = np.ones(blocks.dim)
    return Descent(
        blocks=blocks,
        unit=ones,
        clips=None,
        noise_factor=np.ones(len(blocks)),
        step=ones,
        l1=np.asarray(scores_l1, dtype=float),
        ridge=0 * ones,
        n_passes=1,
        order="greedy",
        average=False,
        published=None,
        choice=choice,
    )


def choices(sums, l1, choice, draws, seed=0):
    """How often each coordinate is chosen."""
    descent, rng = greedy(l1, choice), np.random.default_rng(seed)
    exact = np.array([int(Fraction(s) * UNIT) for s in sums], dtype=object)
    theta = np.zeros(len(sums))
    found = [descent._steepest(theta, exact, rng) for _ in range(draws)]
    return np.bincount(found, minlength=len(sums))


def test_the_choice_is_the_exponential_mechanism():
    """Odds e^(score / scale), the score what the penalty leaves of the sum's size; 1e-6 by chance.

    A choice with 20 % less noise is seen.
    """
    sums, l1, scale, draws = [5.0, -3.0, 1.0, 0.5], [0.0, 1.0, 2.0, 0.0], 2.0, 12_000
    left = np.array([5.0, 2.0, 0.0, 0.5])
    odds = np.exp(left / scale)
    expected = draws * odds / odds.sum()
    assert chisquare(choices(sums, l1, scale, draws), expected).pvalue > 1e-6
    assert chisquare(choices(sums, l1, 0.8 * scale, draws), expected).pvalue < 1e-6


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
    whole = max(math.exp(loss.log_delta(0.0)) for loss, _ in noise.losses)
    paid = (1 - 1 / steps.stretch) * steps.lattice.dither
    assert paid >= 3 * min(least / distance, cost / whole)
