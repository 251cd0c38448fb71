"""Neither threads nor block sizes change what a fit releases, or only as far as is certified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import summed_records
from exact_gradient import Problem, problem
from inner_descent import Blocks, clipped_residual, logistic_slope, residual
from inner_descent import gradients_module as scaled_rows_module
from inner_fits import Design, exact_cross, exact_gram, exact_sums
from inner_objective import certified_gradient, minimise, row_builder, theorem_module
from summed_records import MIXED, gradients, moved, scaled, sums_along
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPCoordinateDescentRegressor
from skdp.linear_model.losses import LogisticLoss
from skdp.rows import MemoryRows
from skdp.rows import memory as memory_module
from skdp.rows.memory import SHARED_THREADS

DOMAIN = Domain({"a": (0, 100), "c": ["x", "y", "z"], "b": (-1, 1)}, target=(-5.0, 5.0))
FEATURES = {"a": (0, 100), "c": ["x", "y", "z"], "b": (-1, 1)}
BLOCK_SIZES = [(2**13, 2**18), (31, 2**18), (1000, 2**18), (2**13, 1)]


def table(n: int) -> tuple[pd.DataFrame, Any, Any]:
    """Return rows, numbers and labels of three classes."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(30, 5, n),
            "c": rng.choice(["x", "y", "z"], n),
            "b": rng.uniform(-1.1, 1.1, n),
        }
    )
    y = (X["a"] - 30) / 5 + X["b"] + rng.normal(size=n)
    return X, y.to_numpy(), (np.digitize(y, [-0.5, 0.5])).astype(int)


MODELS = {
    "moments": (skdp.DPLinearRegression, {}),
    "one stage of moments": (skdp.DPLinearRegression, {"mechanism": "l1"}),
    "descent": (DPCoordinateDescentRegressor, {"delta": 1e-6}),
    "clipped descent": (DPCoordinateDescentRegressor, {"clip": 0.3, "delta": 1e-6}),
    "descent of classes": (DPCoordinateDescentClassifier, {"delta": 1e-6, "order": "random"}),
    "greedy descent": (DPCoordinateDescentClassifier, {"order": "greedy", "n_passes": 9}),
    "logistic": (skdp.DPLogisticRegression, {}),
    "logistic with scaling": (skdp.DPLogisticRegression, {"scaling_share": 0.2, "delta": 1e-6}),
    "huber": (skdp.DPHuberRegressor, {"scaling_share": 0.2}),
}
EXACT = [name for name, (kind, _) in MODELS.items() if "Descent" in kind.__name__]
EXACT += ["moments", "one stage of moments"]


def released(name: str, n: int) -> list[Any]:
    """Return all numbers that a fit releases, with noise from a seed."""
    kind, settings = MODELS[name]
    X, y, labels = table(n)
    is_classifier = hasattr(kind, "predict_proba")
    own: dict[str, Any] = {"domain": Domain(FEATURES), "classes": [0, 1, 2]}
    facts = own if is_classifier else {"domain": DOMAIN}
    model = kind(epsilon=3.0, random_state=1, **facts, **settings)
    model.fit(X, labels if is_classifier else y)
    numbers = [model.coef_.tolist(), np.ravel(model.intercept_).tolist()]
    numbers += [np.ravel(getattr(model, "bounds_", [])).tolist()]
    return [*numbers, *(p.coef.tolist() for p in getattr(model, "history_", []))]


def of_threads(count: int, call: Any) -> Any:
    with threadpool_limits(count, user_api="blas"), SHARED_THREADS:
        return call()


@pytest.mark.parametrize("n", [3000, 20_000])
@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_threads_does_not_change_what_is_released(name: str, n: int) -> None:
    """To the last bit, for one block of rows and for several."""
    found = [of_threads(count, lambda: released(name, n)) for count in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", EXACT)
def test_block_sizes_do_not_change_moments_and_descents(name: str, monkeypatch: Any) -> None:
    """To the last bit: they are computed from sums that are exact."""
    found = []
    for most, cells in BLOCK_SIZES:
        monkeypatch.setattr(memory_module, "MOST_ROWS", most)
        monkeypatch.setattr(memory_module, "CELLS", cells)
        found.append(released(name, 9000))
    assert all(own == found[0] for own in found)


@pytest.mark.parametrize("name", ["logistic", "logistic with scaling", "huber"])
def test_block_sizes_move_minimisers_within_their_certificates(name: str, monkeypatch: Any) -> None:
    """Before the output noise: by at most the two gradients, divided by the least ridge.

    The bounds on the numbers are computed from exact sums: they are the same to the last bit.
    """
    publish, points, bounds, plans = theorem_module.publish_near, [], [], []
    release = theorem_module.NoisyMinimiser.release

    def kept(theta: Any, *rest: Any) -> Any:
        points[-1].append(theta)
        return publish(theta, *rest)

    def planned(self: Any, *rest: Any) -> Any:
        plans.append(self)
        return release(self, *rest)

    monkeypatch.setattr(theorem_module, "publish_near", kept)
    monkeypatch.setattr(theorem_module.NoisyMinimiser, "release", planned)
    for most, cells in BLOCK_SIZES:
        monkeypatch.setattr(memory_module, "MOST_ROWS", most)
        monkeypatch.setattr(memory_module, "CELLS", cells)
        points.append([])
        bounds.append(released(name, 9000)[2])
    assert all(own == bounds[0] for own in bounds)
    near = 2 * plans[0].tolerance / plans[0].ridge.min()
    assert 0 < near < 1e-6
    for own in points:
        assert len(own) == 1  # a joint model of all labels
        assert np.linalg.norm(own[0] - points[0][0]) <= near
        assert all(np.isfinite(theta).all() for theta in own)


def made_problem(n: int, d: int) -> Problem:
    return problem(n, d, LogisticLoss(), weighted=True, intercept=True, sizes=(3, 5))


@pytest.mark.parametrize(("n", "d"), [(3000, 12), (20_000, 12), (1300, 200), (20_000, 60)])
def test_objectives_have_the_same_bits_whatever_the_threads(n: int, d: int) -> None:
    """Also where matrices are so large that BLAS and LAPACK share them among threads."""
    made = made_problem(n, d)
    theta = np.random.default_rng(2).normal(size=made.dim)

    def numbers() -> list[Any]:
        objective = made.objective()
        found = certified_gradient(objective, theta, local=True)
        minimum = minimise(objective, 1e-7)
        return [
            objective.gradient(theta).tolist(),
            [part.tolist() for part in objective.hessian(theta)],
            found.value.tolist(),
            found.error,
            minimum.theta.tolist(),
            minimum.gradient_norm,
        ]

    found = [of_threads(count, numbers) for count in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("n", "d"), [(3000, 0), (20_000, 0), (1300, 200), (3000, 200)])
def test_sums_of_moments_have_the_same_bits_whatever_the_threads(n: int, d: int) -> None:
    X, y, _ = table(n)
    domain: Domain = Domain.unit_box(d, target=(-5.0, 5.0)) if d else DOMAIN
    target = domain.encode_target(y)
    wide = np.random.default_rng(5).uniform(-1, 1, (n, d))

    def numbers() -> list[Any]:
        rows = MemoryRows(domain, wide if d else X, target)
        whole = exact_gram(rows), exact_cross(rows), *exact_sums(rows)[:2]
        return [own.tolist() for own in whole]

    found = [of_threads(count, numbers) for count in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


KINDS = {
    "logistic": (logistic_slope, False),
    "residual": (clipped_residual(0.3), False),
    "clipped": (residual, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_descents_are_the_same_for_threads_and_block_sizes(
    kind: str, monkeypatch: Any
) -> None:
    """All gradients while the predictors move, over states of several blocks."""
    slope, clips = KINDS[kind]
    blocks = Blocks(MIXED, intercept=True)
    X, y = summed_records.table(40_000, 3)
    bounds = np.geomspace(1e-3, 10, blocks.dim) if clips else None
    moves = moved(blocks, 4, 2.0)

    def numbers() -> list[int]:
        model = gradients(blocks, scaled(blocks, 0.1, 0.3), X, y, slope, bounds)
        return sums_along(model, moves).tolist()

    expected = of_threads(1, numbers)
    assert of_threads(2, numbers) == expected
    assert of_threads(3, numbers) == expected
    for most, cells in BLOCK_SIZES[1:]:
        monkeypatch.setattr(memory_module, "MOST_ROWS", max(most, 97))
        monkeypatch.setattr(memory_module, "CELLS", cells)
        monkeypatch.setattr(scaled_rows_module, "CELLS", cells)
        assert numbers() == expected


def test_moves_are_copied_so_that_lost_predictors_are_computed_alike(monkeypatch: Any) -> None:
    """The descent changes its coordinates in place after it has moved the predictors."""
    X, y, _ = table(900)
    kept: list[Any] = []
    own = MemoryRows.keep

    def keep(self: MemoryRows, *arguments: Any, **named: Any) -> Any:
        kept.append(own(self, *arguments, **named))
        return kept[-1]

    def forget(progress: Any) -> None:
        for state in kept[-1].states:
            state._moved = None

    monkeypatch.setattr(MemoryRows, "keep", keep)
    settings = {"domain": DOMAIN, "start": (np.zeros(4), 0.4), "random_state": 0}
    models = [
        DPCoordinateDescentRegressor(**settings, callback=callback).fit(X, y)
        for callback in (None, forget)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("d", [5000, 9000])
def test_a_row_in_a_wide_ball_does_not_depend_on_its_place(d: int) -> None:
    rows = np.tile(np.random.default_rng(0).normal(size=d), (71, 1))
    encoded = Domain.l2_ball(d, 1.0).encode(rows)
    assert (encoded == encoded[0]).all()


@pytest.mark.parametrize("radius", [1e-60, 1e-45, 0.3, 1.0, 3.0, 9e37, 1e60])
def test_rows_of_a_ball_stay_in_it_in_single_precision(radius: float) -> None:
    """In units of a power of two no bit is lost, whatever the radius."""
    rows = np.random.default_rng(1).normal(size=(300, 3))
    rows *= radius / np.linalg.norm(rows, axis=1)[:, None]
    design = Design(Domain.l2_ball(3, radius), True)
    (state,) = MemoryRows(design.domain, rows, np.zeros(300)).keep(row_builder(design)).states
    shares = state.numbers.astype(float) * (design.unit / radius)
    lengths = (shares**2).sum(axis=0)
    assert lengths.max() <= 1
    assert lengths.min() > 1 - 1e-5
