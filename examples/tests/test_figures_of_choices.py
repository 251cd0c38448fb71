"""The commands behind tables of automatic_choices.md and of proofs, on few populations."""

import argparse

import numpy as np
import pytest

from examples.benchmarks.accuracy import estimated_bounds, linear_curve
from examples.benchmarks.noise import gaussian_objective
from examples.benchmarks.rules import descent_rules, objective_rules


def test_losses_have_a_row_for_each_delta_and_share():
    """Without delta there is more noise; "auto" is the share that an estimator has by default."""
    asked = ["--problems", "3", "--sizes", "3000", "--scaling", "0", "auto"]
    arguments = descent_rules.parse(asked)
    rows = descent_rules.rows_of("regression", 3000, arguments)
    lost = {(row["delta"], row["scaling"]): row["lost"] for row in rows}
    assert list(lost) == [("1/n^2", "0"), ("1/n^2", "auto"), ("0", "0"), ("0", "auto")]
    assert lost["0", "auto"] > lost["1/n^2", "auto"]
    settings = {"epsilon": 1.0, "delta": 0.0, "neighbors": "replace_one"}
    own = [descent_rules.problem("regression", k).loss(3000, settings)[0] for k in range(3)]
    assert lost["0", "auto"] == pytest.approx(np.mean(own))
    assert rows[-1]["error"] == pytest.approx(np.std(own, ddof=1) / 3**0.5)


def test_curves_gain_what_the_losses_of_lines_and_curves_differ_by(monkeypatch):
    """Problems outside of the bins are not run; a label without test records does not count."""
    weights = [10.0, 40.0, 50.0, 60.0, 200.0, 300.0, 700.0, 800.0, 9000.0]

    def made(task, seed, parameters, curved):
        assert [own.get("additive") for own in parameters] == [None, "auto"]
        gain = 0.1 * seed if curved else 0.0
        lost = [[0.5], [0.5 - gain]]
        return None if seed == 3 else {"seed": seed, "weight": weights[seed], "lost": lost}

    monkeypatch.setattr(objective_rules, "weight_of", lambda task, seed: weights[seed])
    monkeypatch.setattr(objective_rules, "problem", made)
    monkeypatch.setattr(
        objective_rules.report, "run", lambda f, calls, *_: [f(*call) for call in calls]
    )
    facts = {"tasks": ["regression"], "seed": 0, "repeats": 9, "jobs": 1}
    rows = objective_rules.curve_rows(argparse.Namespace(**facts))
    assert [row["records"] for row in rows] == ["30 to 150", "150 to 600", "600 to 5000"]
    assert [row["problems, R2, curved"] for row in rows] == [2, 2, 2]
    np.testing.assert_allclose([row["R2, curved"] for row in rows], [0.15, 0.45, 0.65])
    np.testing.assert_allclose([row["error, R2, curved"] for row in rows], 0.05)
    assert all(row["R2, linear"] == 0 for row in rows)


def test_a_problem_has_losses_for_each_dictionary_of_parameters():
    """Those of the automatic curves of one problem; lines with another epsilon lose another sum."""
    seed = next(k for k in range(50) if 600 < objective_rules.weight_of("regression", k) < 5000)
    pair = [{}, {"additive": "auto"}, {"epsilon": 1e-3}]
    found = objective_rules.problem("regression", seed, pair, curved=True)
    (lines,), (curves,), (noisy,) = found["lost"]
    assert found["weight"] == objective_rules.weight_of("regression", seed)
    assert len({lines, curves, noisy}) == 3
    assert max(lines, curves) < noisy


def test_mean_losses_have_their_standard_errors():
    lost = np.array([[0.1, 0.0], [0.3, 0.0]])
    found = estimated_bounds.means(lost, [0.1, 0.5])
    assert found["share 0.1"] == pytest.approx(0.2)
    assert found["error 0.1"] == pytest.approx(0.1)
    assert (found["share 0.5"], found["error 0.5"]) == (0.0, 0.0)


def test_sizes_with_many_records_have_a_row_together(monkeypatch):
    lost = {1000: 0.5, 5000: 0.5, 10_000: 0.1, 20_000: 0.2, 40_000: 0.4}

    def made(function, calls, *_):
        return [{"lost": np.full(2, lost[size[0]])} for size, *_ in calls]

    monkeypatch.setattr(estimated_bounds.report, "run", made)
    facts = {"seed": 0, "repeats": 3, "shares": [0.1, 0.2], "jobs": 1}
    rows = estimated_bounds.simulation(argparse.Namespace(**facts))
    many = [row for row in rows if row["records"] == "10000 and more"]
    assert [row["task"] for row in many] == ["classification", "regression"]
    # Two sizes each of 10,000 and 20,000 records, one of 40,000.
    assert many[0]["share 0.1"] == pytest.approx((2 * 0.1 + 2 * 0.2 + 0.4) / 5)


def test_the_mean_alone_is_below_the_floor_where_its_noise_is_large():
    """Its loss of R^2 has the mean 2 (2 / n epsilon)^2 / variance: compared over 400 draws."""
    table = linear_curve.population(7, 0)
    own = linear_curve.mean_alone(table, list(range(400)))
    noise = 2 * (2 / (len(table.y) * linear_curve.GRID[0])) ** 2 / table.y_test.var()
    base = table.r2(np.full(len(table.y_test), table.y.mean()))
    assert base - own[:, 0].mean() == pytest.approx(noise, rel=0.5)
    rows = [
        {"plain": 0.9, "R2": [0.5] * 9, "mean alone": [-0.5] * 9},
        {"plain": 0.9, "R2": [-0.1] * 9, "mean alone": [0.0] * 9},
    ]
    first = linear_curve.summary(rows)[0]
    assert first["mean loss"] == pytest.approx(0.7)
    assert (first["below -0.02"], first["mean alone below -0.02"]) == (1, 1)


def test_a_curvature_costs_the_noise_over_that_without(monkeypatch):
    """Ranges have the ends of the grid; tests/docs has the values of the page."""
    noise = {0.0: 2.0, 0.5: 3.0, 1.0: 5.0}
    monkeypatch.setattr(gaussian_objective, "EPSILONS", np.array([0.5, 1.0]))
    monkeypatch.setattr(gaussian_objective, "DELTAS", [1e-5])
    monkeypatch.setattr(gaussian_objective, "leverage_apart", lambda loss, q, epsilon: epsilon)
    monkeypatch.setattr(gaussian_objective, "ours", lambda loss, leverage, *_: noise[leverage])
    row = gaussian_objective.cost_row("logistic", "add_remove", 0.9)
    assert (row["least"], row["greatest"]) == (1.5, 2.5)


def test_noise_of_several_labels_is_between_one_gradient_and_separate_models():
    """More with a larger normalizer; a gradient of fixed direction has sqrt(1 + a^2) at least."""
    rows = [gaussian_objective.softmax_row(3, a) for a in (0.1, 1.0)]
    for row, a in zip(rows, (0.1, 1.0), strict=True):
        assert (1 + a**2) ** 0.5 <= row["least"] <= row["greatest"] < 3**0.5
    assert rows[0]["greatest"] < rows[1]["least"]
