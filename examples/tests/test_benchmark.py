"""The benchmark of everything: what is run, what is kept, what the page says of it."""

import ast
import csv
import dataclasses
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_rel
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skdp
from examples.benchmarks.peers import contenders as field
from examples.benchmarks.peers import everything, opponents, opponents_logistic, peers, verdicts
from examples.benchmarks.peers import everything_page as page
from examples.benchmarks.peers.contenders import Contender, Run
from examples.benchmarks.peers.verdicts import AHEAD, BEHIND, LEVEL, Cell, Outcome, Scores
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import names_of, read
from examples.benchmarks.shared.measures import AUROC, R2
from examples.benchmarks.speed import plans
from examples.benchmarks.upkeep import mutation_sites
from skdp import Domain

HUBER = Contender(field.HUBER, "regression")


def run(method, scores, repetition=0, name="diabetes", delta="0", measure=R2):
    """Return a run; its scores are numbers by epsilon, all of one measure."""
    found = {epsilon: {measure: score} for epsilon, score in scores.items()}
    return Run(name, method, delta, repetition, found, 1.0)


def field_of(scores_by_method, repeats=20, **facts):
    """Runs at epsilon = 1 whose score is the given one of each repetition."""
    return [
        run(method, {1.0: score[k]}, k, **facts)
        for method, score in scores_by_method.items()
        for k in range(repeats)
    ]


# Who takes part


def test_every_estimator_takes_part():
    """An estimator that is added to the package has to be added to the benchmark.

    Counts and quantiles have other scores, and benchmarks of their own.
    """
    ours = {name for name in skdp.__all__ if name.startswith("DP")}
    ours -= {"DPPoissonRegressor", "DPGammaRegressor", "DPQuantileRegressor"}
    assert ours == set(field.OURS)
    assert ours <= {c.method for c in field.contenders()}


# Runs


def test_runs_repeat_and_differ_between_splits():
    """The same split and seed give the same score; another split another one."""
    wanted = [(0, (0.5, 4.0)), (1, (0.5, 4.0))]
    first, again = (field.runs(HUBER, "diabetes", wanted) for _ in range(2))
    assert [r.scores for r in first] == [r.scores for r in again]
    assert first[0].scores != first[1].scores
    assert list(first[0].scores) == [0.5, 4.0]


def test_a_run_comes_back_from_its_line():
    """With infinite epsilon of the references, and to six digits."""
    one = run(field.TRIVIAL, {np.inf: -1 / 3}, 4)
    back = Run.from_line(one.line())
    assert back.scores == {np.inf: {R2: -0.333333}}
    assert (back.set, back.method, back.delta, back.repetition) == ("diabetes", "trivial", "0", 4)


def test_runs_of_an_older_version_are_told_and_kept(tmp_path, capsys):
    """They had a number in place of a dictionary, or another delta; they are not used."""
    path, new = tmp_path / "runs.jsonl", run(field.HUBER, {1.0: 0.5}).line() + "\n"
    older = new.replace('{"r2": 0.5}', "0.5")
    other = new.replace('"delta": "0"', '"delta": "1e-6"')
    assert new not in (older, other)
    path.write_text(older + new + other, encoding="utf-8")
    assert len(list(everything.load(path))) == 1
    assert "2 runs of an older version" in capsys.readouterr().err
    everything.repair(path)
    assert path.read_text(encoding="utf-8") == older + new + other


def test_curves_are_fitted_to_the_raw_columns():
    """Ours chooses curves by itself, and has no settings to choose from."""
    own = Contender(field.CURVES[field.HUBER], "regression", field.SMALL, (4.0,))
    model = field._model(own, read("diabetes"), 4.0, 0)
    assert (model.neighbors, model.delta) == ("add_remove", 1e-6)
    assert (model.domain, model.additive) == (read("diabetes").domain, "auto")
    assert np.isfinite(field.runs(own, "diabetes", [(0, (4.0,))])[0].scores[4.0][R2])
    assert verdicts.settings_of(field.HUBER) == [field.HUBER]


def test_rows_of_length_1_are_private():
    """Each row is divided by its own length, and the domain is the ball that then holds them."""
    own = Contender(field.UNIT_ROWS[field.HUBER], "regression", field.SMALL, (4.0,))
    *steps, model = field._model(own, read("diabetes"), 4.0, 0)
    rows = make_pipeline(*steps).fit_transform(read("diabetes").encoded)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert model.domain.row_norm(2, intercept=model.fit_intercept) == 1
    assert np.isfinite(field.runs(own, "diabetes", [(0, (4.0,))])[0].scores[4.0][R2])


# Opponents


def fitted(name, epsilon, **facts):
    """The predictions of an opponent in the target's units, and those of least squares."""
    data = read("diabetes")
    kind, settings = field.OPPONENTS["regression"][name], {"neighbors": "add_remove", **facts}
    model = kind(data.domain.encoded, epsilon, 1e-6, seed=0, **settings).fit(data.encoded, data.y)
    plain = field._model(Contender(field.PLAIN, "regression"), data, np.inf, 0)
    return model.predict(data.encoded), plain.fit(data.encoded, data.y).predict(data.encoded)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("name", "most", "facts"),
    [
        (field.ADASSP, 0.1, {"extra": 0.0}),
        (field.ADASSP, 0.1, {"extra": 1.0}),
        (field.BOOSTED, 0.1, {}),
        (field.DESCENDING, 8.0, {"steps": 20_000}),
        (field.MARGINALS, 20.0, {}),
    ],
)
def test_opponents_without_noise_are_least_squares(name, most, facts, neighbors):
    """At epsilon = 1e9 little but the moments is left; at 0.01 it is far off (the twin).

    The descent has not ended after 20,000 steps, and marginals have at most 32 bins.
    """
    (near, plain), (far, _) = (
        fitted(name, epsilon, neighbors=neighbors, **facts) for epsilon in (1e9, 0.01)
    )
    assert np.abs(near - plain).max() < most
    assert np.abs(far - plain).max() > 50


def test_hessian_mixing_comes_near_to_least_squares():
    """At epsilon = 1000 the sketches have little noise; at 0.1 the model is far off (the twin)."""
    near, plain = fitted(field.MIXING, 1000.0, rounds=10, factor=50)
    far, _ = fitted(field.MIXING, 0.1)
    assert np.abs(near - plain).mean() < 5 < 30 < np.abs(far - plain).mean()


def test_sketches_have_the_divergence_of_normal_laws():
    """Of order 3, of variances v and v - 1, by quadrature; at the variance that was needed."""
    v, order, x = 9.0, 3.0, np.linspace(-60, 60, 200_001)
    p, q = (np.exp(-(x**2) / (2 * s)) / np.sqrt(2 * np.pi * s) for s in (v - 1, v))
    exact = [np.log(np.trapezoid(a**order * b ** (1 - order), x)) for a, b in [(p, q), (q, p)]]
    found = -(order * np.log1p(-1 / v) - np.log1p(-order / v)) / 2
    assert max(exact) == pytest.approx(abs(found), rel=1e-6)
    needed = [opponents.sketch_variance(60, 3, epsilon, 1e-7) for epsilon in (0.5, 1.0, 2.0)]
    assert needed == sorted(needed, reverse=True)


@pytest.mark.parametrize("own_lengths", [False, True])
def test_no_row_of_an_opponent_is_longer_than_one(own_lengths):
    data = read("diabetes")
    facts = {"neighbors": "add_remove", "seed": 0, "own_lengths": own_lengths}
    model = opponents.AdaSSP(data.domain.encoded, 1.0, 1e-6, **facts)
    lengths = np.linalg.norm(model._rows(data.encoded), axis=1)
    assert lengths.max() <= 1 + 1e-12
    assert (lengths.min() > 1 - 1e-12) == own_lengths


@pytest.mark.parametrize("name", field.OPPONENTS["classification"])
def test_classifiers_of_the_literature_learn(name):
    """Nearly as good as without privacy at epsilon = 20, and not at 0.01 (the twin)."""
    wanted = [(0, (0.01, 20.0))]
    method = next(m for m in field.SETTINGS if m.startswith(name) and "30 " not in m)
    own = Contender(method, "classification", field.SMALL)
    far, near = field.runs(own, "breast_cancer_wdbc", wanted)[0].scores.values()
    assert near[AUROC] > 0.95 > far[AUROC]


def logistic(kind, epsilon, **facts):
    """A classifier of the literature, fitted, with its rows and signs."""
    data = read("breast_cancer_wdbc")
    model = kind(data.domain.encoded, epsilon, 1e-6, "add_remove", seed=0, **facts)
    model.fit(data.encoded, data.y)
    return model, model._rows(data.encoded), 2.0 * (data.y == model.classes_[1]) - 1


@pytest.mark.parametrize("factor", [1.06, 1.3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_objective_perturbation_spends_what_is_asked_for(epsilon, factor):
    """The loss is at most |log(1 - curvature / penalty)| + m + sqrt(2 m) |Z|, with Z normal."""
    model = opponents_logistic.ObjectivePerturbation(
        None, epsilon, 1e-6, "add_remove", seed=0, factor=factor
    )
    z = np.linspace(0, 40, 2_000_001)
    half = 2 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def delta(penalty):
        m = 1 / (2 * model.deviation**2)
        loss = -np.log1p(-0.25 / penalty) + m + np.sqrt(2 * m) * z
        return np.trapezoid(half * -np.expm1(np.minimum(epsilon - loss, 0)), z)

    assert delta(model.penalty) == pytest.approx(1e-6, rel=1e-4)
    assert delta(0.99 * model.penalty) > 1.001e-6  # the twin
    # Far beyond the tail: where the mean of the loss alone exceeds epsilon.
    m = 1 / (2 * 0.2**2)
    loss = m + np.sqrt(2 * m) * z
    exact = np.trapezoid(half * -np.expm1(np.minimum(epsilon - loss, 0)), z)
    found = opponents_logistic.perturbation_delta(epsilon, 0.2)
    assert found == pytest.approx(exact, rel=1e-6)


def test_objective_perturbation_without_noise_is_logistic_regression():
    """With the penalty 1/4 that any epsilon needs; at 0.1 it is far off (the twin)."""
    kind = opponents_logistic.ObjectivePerturbation
    near, rows, signs = logistic(kind, 1e9)
    plain = LogisticRegression(C=4, fit_intercept=False, tol=1e-10, max_iter=10_000)
    exact = plain.fit(rows, signs).coef_[0]
    assert np.abs(near.coef - exact).max() < 1e-3 * np.abs(exact).max()
    assert np.abs(logistic(kind, 0.1)[0].coef - exact).max() > 0.5 * np.abs(exact).max()


def test_gaussian_mixing_is_least_squares_of_the_parabola():
    """With the noise's share of the squares, if sketches are long; at 0.1 it is far off (the twin).

    Rows with their signs have the length sqrt(2), so that the noise counts twice.
    """
    kind, epsilon, factor = opponents_logistic.GaussianMixing, 1e4, 1000.0
    near, rows, signs = logistic(kind, epsilon, factor=factor)
    d = rows.shape[1]
    noise = 2 * opponents.sketch_variance(round(factor * d), 1, epsilon, 1e-6 / 3)
    nodes = 6 * np.cos(np.pi * np.array([1, 3, 5]) / 6)
    curvature, slope, _ = np.polyfit(nodes, np.logaddexp(0, -nodes), 2)
    ridge = np.linalg.solve(rows.T @ rows + noise * np.eye(d), rows.T @ signs)
    exact = rows @ ridge * -slope / (2 * curvature)
    assert np.abs(rows @ near.coef - exact).mean() < 0.1 * np.abs(exact).mean()
    assert np.abs(rows @ logistic(kind, 0.1)[0].coef - exact).mean() > 0.5 * np.abs(exact).mean()


def test_a_record_moves_a_step_by_at_most_one():
    """A residual of 5 is clipped: without clipping the step would be longer than the noise is."""
    model = opponents.DescentRegressor(None, 1e9, 1e-6, "add_remove", seed=0)
    rows, t = np.array([[0.6, 0.8]]), np.array([5.0])
    rng = np.random.default_rng(0)
    coef = opponents.descended(model, rows, lambda u: u - t, 1.0, 1, rng)
    assert np.linalg.norm(coef) == pytest.approx(1, abs=1e-3)


def test_adassp_noise_covers_every_replacement():
    """Of X'X and X'y together, over angles between rows; a tenth less would not cover them."""
    c = np.linspace(-1, 1, 2001)
    rows = np.stack([c, np.sqrt(1 - c * c)], axis=1)
    matrix = np.array([1.0, 0.0])[:, None] * np.array([1.0, 0.0]) - rows[:, :, None] * rows[:, None]
    vector = np.array([1.0, 0.0]) + rows  # targets 1 and -1
    changes = (matrix**2).sum(axis=(1, 2)) + (vector**2).sum(axis=1)
    square = opponents.SQUARES["replace_one"]
    assert 0.9 * square < changes.max() <= square + 1e-9
    # The least eigenvalue moves by at most the spectral norm of the matrix's change, and Boosted
    # AdaSSP counts the matrix for itself.
    assert np.abs(np.linalg.eigvalsh(matrix)).max() <= 1 + 1e-9
    assert (matrix**2).sum(axis=(1, 2)).max() == pytest.approx(2)


def test_a_record_is_in_one_cell_of_each_table():
    """The noise of the marginals is for the change of all tables; of a replaced record, for two."""
    domain = Domain({"a": (-1, 1), "b": ["x", "y", "z"]}, target=(-1, 1)).encoded
    data = np.array([[0.3, 0, 0, -1.0], [-1, 1, 0, 1.0], [1, 0, 1, 0.0]])

    def tables(rows):
        codes, values = opponents.coded(rows, domain.blocks, 4)
        sizes = [len(v) for v in values]
        assert sizes == [4, 3, 4]
        return [
            opponents.counted(codes[a], codes[b], (sizes[a], sizes[b]))
            for a, b in [(0, 1), (0, 2), (1, 2)]
        ]

    def change(other):
        pairs = zip(tables(data), tables(other), strict=True)
        return sum(((one - two) ** 2).sum() for one, two in pairs)

    models = [opponents.Marginals(domain, 1.0, 1e-6, n, 0) for n in ("add_remove", "replace_one")]
    changes = [change(data[:2]), change(np.vstack([data[:2], [-0.6, 0, 0, 0.9]]))]
    assert changes == [model.change(3) for model in models]


def test_tables_become_nonnegative_and_get_their_margins():
    """The nearest ones: moving a count from one cell to another brings none nearer."""
    rng = np.random.default_rng(0)
    noisy = rng.normal(3, 5, (6, 5))
    found = opponents.nonnegative(noisy, 90)
    assert found.min() == 0
    assert found.sum() == pytest.approx(90)
    slope = (found - noisy)[found > 0]
    assert np.ptp(slope) < 1e-9
    assert (found - noisy)[found == 0].min() >= slope.min() - 1e-9
    first, second = rng.uniform(10, 20, 6), rng.uniform(10, 20, 5)
    raked = opponents.raked(found + 5, first, second * first.sum() / second.sum())
    assert raked.sum(axis=1) == pytest.approx(first, rel=0.02)


def tukey_of(points, least, epsilon):
    """Return the density of TukeyEM's draw between all values of ``points`` in one dimension."""
    points = np.sort(points)
    lengths = (points[::-1] - points)[: len(points) // 2]
    chances = np.exp(opponents.region_chances(np.log(lengths), least, epsilon))
    chances /= chances.sum()

    def density(x):
        depth = np.minimum(np.searchsorted(points, x), len(points) - np.searchsorted(points, x))
        heights = np.concatenate([np.zeros(least), np.cumsum(chances / lengths[least - 1 :])])
        return heights[depth]

    return np.log(lengths), density


def tukey_delta(points, other, least, epsilon):
    """Return the delta at epsilon of the draws from two sets of models, exactly."""
    ends = np.unique([*points, *other])
    middles = (ends[1:] + ends[:-1]) / 2
    p, q = (tukey_of(own, least, epsilon)[1](middles) for own in (points, other))
    return max(
        (np.diff(ends) * np.maximum(one - np.exp(epsilon) * two, 0)).sum()
        for one, two in [(p, q), (q, p)]
    )


def test_tukey_draws_are_private_where_the_test_says_so():
    """Every replaced model; and where the distance is -1 there is a leak (the twin)."""
    m, least, epsilon, delta = 120, 30, 1.0, 0.02
    safe = np.random.default_rng(0).standard_normal(m)
    # Depths of 30 and more are in an interval of 1e-6, and that of 29 in one of 2.
    unsafe = np.concatenate([np.full(29, -1.0), np.full(29, 1.0), np.linspace(0, 1e-6, 62)])
    unsafe += 1e-9 * np.arange(m)
    for points, is_safe in ((safe, True), (unsafe, False)):
        volumes, density = tukey_of(points, least, epsilon)
        grid = np.linspace(points.min(), points.max(), 400_001)
        assert np.trapezoid(density(grid), grid) == pytest.approx(1, abs=0.01) or not is_safe
        distance = opponents.distance_to_unsafe(volumes, least, epsilon, delta)
        leaks = []
        for k in range(m):
            for value in (-5.0, -0.5, 0.0, 0.5, 5.0):
                other = np.append(np.delete(points, k), value)
                leaks.append(tukey_delta(points, other, least, epsilon))
                near = opponents.distance_to_unsafe(
                    tukey_of(other, least, epsilon)[0], least, epsilon, delta
                )
                assert abs(near - distance) <= 1
        assert (distance >= 0) == is_safe
        assert (max(leaks) <= delta) == is_safe


def test_tukeys_test_is_private():
    """Distances differ by 1: chances by e^epsilon at most, and at -1 it is below delta.

    Fails by chance once in a million runs; half of the noise is seen (the twin).
    """
    epsilon, delta, n = 0.5, 0.1, 20_000

    def passed(distance, own=epsilon):
        rng = np.random.default_rng(distance + 1)
        return sum(opponents.passes(distance, own, delta, rng) for _ in range(n))

    exact = {k: delta * np.exp(epsilon * k) for k in (-1, 0, 1, 2)}
    for k, chance in exact.items():
        assert binomtest(passed(k), n, chance).pvalue > 2.5e-7
    assert binomtest(passed(1, 2 * epsilon), n, exact[1]).pvalue < 1e-6


def test_tukey_em_learns_or_gives_up():
    """Near the truth at epsilon = 4, and the middle of the bounds where its test fails."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 3))
    y = X @ [0.2, -0.1, 0.1] + 0.1 + 0.05 * rng.standard_normal(20_000)
    domain = Domain({f"x{k}": (-1, 1) for k in range(3)}, target=(-1, 1)).encoded
    near, far = (
        opponents.TukeyEM(domain, epsilon, 1e-6, "add_remove", 0).fit(X, y)
        for epsilon in (4.0, 0.05)
    )
    assert near.coef / domain.row_norm(2, intercept=True) == pytest.approx(
        [0.2, -0.1, 0.1, 0.1], abs=0.03
    )
    assert not far.predict(X).any()


# Peers, by a stand-in for their environments

STAND_IN = """
import json, sys
import numpy as np
arrays, asked = dict(np.load(sys.argv[2])), json.loads(sys.argv[3])
if asked["task"] == "classification":
    sys.exit("no classes here")
for split in asked["splits"]:
    test = arrays["test%d" % split["repetition"]]
    numbers = [own for own in asked["bounds"] if own]
    facts = [len(asked["bounds"]), len(test), min(numbers)[0], float(np.ptp(arrays["y"]))]
    scores = [(epsilon, {"r2": fact}) for epsilon, fact in zip(split["epsilons"], facts)]
    print(json.dumps({"repetition": split["repetition"], "scores": scores, "seconds": 0.5}))
"""


@pytest.fixture
def stand_in(tmp_path):
    """A folder of environments, each with a program that is called as their Python is."""
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN, encoding="utf-8")
    for peer in field.PEERS.values():
        program = peer.python(tmp_path)
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize("name", field.PEERS)
def test_arrays_and_scores_cross_to_the_other_environment(name, stand_in):
    """It sees its rows, the same test rows, public bounds, and the target in its bounds."""
    wanted = [(0, field.EPSILONS), (3, field.EPSILONS)]
    delta = field.NONE if name == field.DIFFPRIVLIB else field.SMALL
    found = field.runs(Contender(name, "regression", delta), "diabetes", wanted, stand_in)
    data = read("diabetes")
    assert [r.repetition for r in found] == [0, 3]
    # The target is declared from 0 to 350, and the last of the columns from 50.
    encoded = [data.encoded.shape[1], -1, 2 * np.ptp(data.y) / 350]
    facts = {
        field.DIFFPRIVLIB: encoded,
        field.EBM: [data.X.shape[1], 0, np.ptp(data.y)],
        field.AIM: encoded,
    }[name]
    facts.insert(1, round(0.2 * len(data.y)))
    assert [scores[R2] for scores in found[0].scores.values()] == pytest.approx(facts)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_failure_over_there_is_told(stand_in):
    contender = Contender(f"{field.DIFFPRIVLIB}, C=1", "classification")
    with pytest.raises(SystemExit, match="no classes here"):
        field.runs(contender, "breast_cancer_wdbc", [(0, (1.0,))], stand_in)


def test_raw_columns_are_within_their_bounds():
    """Levels are texts, and have none."""
    data = read("diabetes")
    columns, bounds, target = peers.raw(data)
    assert (list(columns), target) == ([f"X{k}" for k in range(len(bounds))], (0, 350))
    for cells, own in zip(columns.values(), bounds, strict=True):
        assert (cells.dtype.kind == "U") == (own is None)
        assert own is None or (own[0] <= cells.min() and cells.max() <= own[1])
    assert bounds.count(None) == len(data.domain.blocks)
    shifted = Domain({name: [0, 1] for name in data.X}, target=(100, 145))
    assert peers.raw(dataclasses.replace(data, domain=shifted))[2] == (0, 45)


def test_peers_without_an_environment_are_left_out(stand_in):
    def methods(*asked):
        return {c.method for c in everything.chosen(everything.parse([*asked]))}

    found = methods("--peers", str(stand_in))
    assert found == {c.method for c in field.contenders()}
    field.PEERS[field.EBM].python(stand_in).unlink()
    assert found - methods("--peers", str(stand_in)) == {field.EBM}
    alone = {field.DIFFPRIVLIB, *field.PENALTIES, field.EBM, *field.SIZES}
    assert found - methods() == alone


@pytest.mark.parametrize("peer", field.PEERS.values())
def test_scripts_of_peers_say_what_they_need(peer):
    """The Makefile reads it; versions are pinned, and nothing of skdp is imported."""
    text = peer.script.read_text(encoding="utf-8")
    needs = text.splitlines()[0].removeprefix("# needs: ").split()
    assert all("==" in need for need in needs)
    assert "skdp" not in {node.names[0].name for node in imports(text)}
    makefile = Path(__file__).parents[2] / "Makefile"
    line = next(x for x in makefile.read_text(encoding="utf-8").splitlines() if "PEERS :=" in x)
    assert peer.environment in line.split()


def imports(text):
    """The import statements of a source."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)]


# What is left to run


def test_only_what_is_missing_is_run():
    """A stored epsilon is not run again, another is, and the rest of the splits."""
    jobs = list(
        everything.missing([run(field.HUBER, {0.1: 0.0, 4.0: 0.5})], [HUBER], ["diabetes"], 2)
    )
    assert [job.wanted for job in jobs] == [((0, (0.5, 1.0)), (1, field.EPSILONS))]
    stored = [run(field.HUBER, dict.fromkeys(field.EPSILONS, 0.0), k) for k in range(2)]
    assert not list(everything.missing(stored, [HUBER], ["diabetes"], 2))


def test_what_is_slow_is_run_on_few_sets_and_splits():
    slow = [c for c in field.contenders() if c.method in field.SIZES]
    names = [*names_of("classification"), *names_of("regression")]
    jobs = list(everything.missing([], slow, names, 20))
    assert {job.name for job in jobs} == {name for own in field.SLOW.values() for name in own}
    assert {job.wanted for job in jobs} == {((0, (1.0,)), (1, (1.0,)), (2, (1.0,)))}


def test_the_order_gives_a_table_early():
    """All sets have their first splits before any has more; the large ones come last, alone."""
    names = names_of("regression")
    jobs = list(everything.missing([], [HUBER], names, 10))
    large = [job for job in jobs if job.name in everything.LARGE]
    more = everything.missing([], [HUBER], everything.LARGE, 20)
    assert sum(len(job.wanted) for job in more) == everything.LARGE_SPLITS
    usual = jobs[: len(jobs) - len(large)]
    assert not {job.name for job in usual} & everything.LARGE
    firsts = [job.wanted[0][0] for job in usual]
    assert firsts == [0] * (len(names) - 1) + [5] * (len(names) - 1)
    assert [len(job.wanted) for job in large] == [1] * 10


def test_a_line_that_was_cut_off_is_dropped(tmp_path):
    """And what is stored afterwards stands on a line of its own."""
    path = tmp_path / "runs.jsonl"
    whole = run(field.HUBER, {1.0: 0.5}).line() + "\n"
    path.write_text(whole + whole[:20], encoding="utf-8")
    assert len(list(everything.load(path))) == 1
    everything.repair(path)
    assert path.read_text(encoding="utf-8") == whole
    assert not list(everything.load(tmp_path / "none"))


# Verdicts


def difference(own, peer, **facts):
    """The difference of scores that are given by split, of regressors or as losses."""
    scores = Scores.of(field_of({"own": own, "peer": peer}, len(own)))
    scores.is_loss = facts.get("is_loss", False)
    return scores.difference(*(Cell("diabetes", name, "0", 1.0) for name in ("own", "peer")))


BASE = np.linspace(0.5, 0.6, 20)


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        (BASE + 1e-3, AHEAD),
        (BASE, LEVEL),
        (BASE - 1e-3, BEHIND),
        (BASE + np.where(np.arange(20) % 2, 0.011, -0.01), LEVEL),
        (BASE - np.where(np.arange(20) % 2, 0.011, -0.001), BEHIND),
    ],
    ids=["better", "same", "worse", "wavering", "worse on every second split"],
)
def test_a_worse_method_is_behind(own, verdict):
    """On the same splits: those of one method differ by far more than the two methods do."""
    assert difference(own, BASE).verdict == verdict
    mirrored = {AHEAD: BEHIND, BEHIND: AHEAD, LEVEL: LEVEL}[verdict]
    assert difference(own, BASE, is_loss=True).verdict == mirrored


def test_five_splits_can_be_lost_and_one_cannot():
    own, peer = np.array([0.1, 0.2, 0.1, 0.2, 0.1]), np.full(5, 0.5)
    assert difference(own, peer).verdict == BEHIND
    assert difference(own[:1], peer[:1]).verdict == LEVEL


def test_the_interval_is_that_of_a_paired_t_test():
    own, peer = np.random.default_rng(0).uniform(size=(2, 20))
    found, (low, high) = difference(own, peer), ttest_rel(own, peer).confidence_interval()
    assert (found.lower, found.upper) == pytest.approx((low, high))
    assert (found.mean, found.splits) == (pytest.approx(np.mean(own - peer)), 20)


def test_a_failure_of_one_split_counts_once():
    """R^2 of -1e12 is -1 here; or the peer would be level by the width of its interval."""
    peer = np.where(np.arange(20) < 10, -1e12, 0.5)
    assert difference(BASE, peer).verdict == AHEAD


def test_verdicts_hold_of_equal_methods():
    """Of equally good methods one verdict in 20 is wrong: 50 of 1000, with a deviation of 7."""
    rng = np.random.default_rng(1)
    verdicts_ = [difference(*rng.normal(0.5, 0.1, (2, 20))).verdict for _ in range(1000)]
    assert 30 <= 1000 - verdicts_.count(LEVEL) <= 71


def test_the_peer_is_given_its_better_setting():
    """Ours has none to choose from."""
    runs = field_of(
        {f"{field.DIFFPRIVLIB}, C=1": np.zeros(3), f"{field.DIFFPRIVLIB}, C=0.1": np.ones(3)}, 3
    )
    scores = Scores.of(runs)
    assert scores.median("diabetes", field.DIFFPRIVLIB, "0", 1.0) == 1
    assert scores.median("diabetes", field.LOGISTIC, "0", 1.0) is None
    assert verdicts.settings_of(field.LOGISTIC) == [field.LOGISTIC]


# The page


@pytest.fixture
def written(tmp_path):
    """The page of a small field in which least squares is behind and Huber is ahead."""
    base = np.linspace(0.2, 0.4, 20)
    made = {field.LINEAR: base - 0.1, field.HUBER: base + 0.1, field.EBM: base}
    runs = []
    for epsilon in field.EPSILONS:
        for method, scores in made.items():
            runs += [
                run(method, {epsilon: score}, k, delta=field.SMALL)
                for k, score in enumerate(scores)
            ]
    runs += [run(field.TRIVIAL, {np.inf: 0.0}, k) for k in range(20)]
    runs += [run(field.PLAIN, {np.inf: 0.5}, k) for k in range(20)]
    page.write(runs, tmp_path)
    return tmp_path


def lines_of(text, start):
    """The cells of the lines of tables that start with a text."""
    lines = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_page_says_where_ours_is_behind(written):
    """With the difference and its interval; and nowhere that the other one is."""
    text = (written / "benchmark.md").read_text(encoding="utf-8")
    (peer,) = lines_of(text, field.EBM + " ")[:-1]
    assert peer[:4] == [field.EBM, "1e-6", "0 / 0 / 4", "4 / 0 / 0"]
    (all_,) = lines_of(text, "all ")
    assert all_[2:4] == ["0 / 0 / 4", "4 / 0 / 0"]
    lost = text.partition("<!-- figure: benchmark-losses -->")[2]
    (line,) = lines_of(lost.partition("- *")[0], page.ESTIMATOR)
    assert line == [page.ESTIMATOR, "linear 4", "diabetes .100"]
    assert "Classification" not in text
    share = lines_of(text, field.HUBER)[0]
    assert share[:3] == [field.HUBER, "R²", "80 %"]


REASON_CASES = {
    "another estimator": (page.ESTIMATOR, {field.HUBER: 0.1, field.CURVES[field.HUBER]: 0.1}),
    "curves": (page.EFFECTS, {field.HUBER: -0.1, field.CURVES[field.HUBER]: 0.1}),
    "rows of length 1": (page.LENGTHS, {field.HUBER: -0.1, field.UNIT_ROWS[field.HUBER]: 0.0}),
    "all are behind": (page.OTHER, {field.HUBER: -0.1, field.UNIT_ROWS[field.HUBER]: -0.1}),
    "nothing else was run": (page.OTHER, {}),
}


@pytest.mark.parametrize("case", REASON_CASES)
def test_the_reason_is_what_holds_in_the_same_cell(case):
    """Of least squares that is behind a peer by .1, while others are not."""
    (why, others), peer = REASON_CASES[case], field.EBM
    base = np.linspace(0.2, 0.4, 20)
    shifts = {field.LINEAR: -0.1, peer: 0.0, **others}
    scores = Scores.of(field_of({m: base + v for m, v in shifts.items()}, delta=field.SMALL))
    own, other = (Cell("diabetes", m, field.SMALL, 1.0) for m in (field.LINEAR, peer))
    lost = Outcome("diabetes", 1.0, own, other, scores.difference(own, other))
    assert page.reason_of(scores, "regression", lost) == why


def test_files_and_picture_are_written(written):
    """A row for each figure, with quartiles; one for each difference."""
    with (written / "benchmark.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 4 + 2
    huber = next(row for row in rows if row["method"] == field.HUBER)
    assert float(huber["median"]) == pytest.approx(0.4)
    assert float(huber["lower quartile"]) == pytest.approx(0.35)
    with (written / "benchmark_differences.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 4  # of ours and peers, with the trivial model
    worse = [row for row in rows if row["skdp"] == field.LINEAR and row["peer"] != field.TRIVIAL]
    assert {row["verdict"] for row in worse} == {BEHIND}
    assert (written / page.PICTURE).read_bytes().startswith(b"\x89PNG")


def test_shares_are_those_of_the_sets_that_all_have():
    """A set that one of the methods does not have counts for none of them."""
    runs = []
    for name, methods in [("diabetes", (field.HUBER, field.EBM)), ("airfoil", (field.HUBER,))]:
        runs += [run(field.TRIVIAL, {np.inf: 0.0}, name=name)]
        runs += [run(field.PLAIN, {np.inf: 1.0}, name=name)]
        score = 0.5 if name == "diabetes" else 0.9
        scores = dict.fromkeys(field.EPSILONS, score)
        runs += [run(m, scores, name=name, delta=field.SMALL) for m in methods]
    by_measure = {measure: Scores.of(runs, measure) for measure in (AUROC, R2)}
    shown = {row["method"]: row["0.5"] for row in page.share_rows(by_measure)}
    assert shown == {field.HUBER: "50 %", field.EBM: "50 %"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.8251, ".825"),
        (-0.0004, ".000"),
        (-0.25, "-.250"),
        (1.0, "1.000"),
        (10.25, "10.250"),
    ],
)
def test_numbers_are_short(value, text):
    assert page.number(value) == text


def test_command_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    """The first call runs and writes; the second one runs nothing more."""
    store, docs = tmp_path / "runs.jsonl", tmp_path / "docs"
    asked = ["--sets", "diabetes", "--methods", "Huber", "trivial", "--repeats", "1", "--jobs", "1"]
    asked += ["--store", str(store), "--docs", str(docs)]
    everything.main(asked)
    first = store.read_text(encoding="utf-8")
    assert len(first.splitlines()) == 6  # Huber, its curves and rows of length 1, the mean
    assert "6/6 runs" in capsys.readouterr().err
    everything.main(asked)
    assert store.read_text(encoding="utf-8") == first
    assert "runs" not in capsys.readouterr().err
    assert (docs / "benchmark.md").exists()
    assert report.RESULTS not in store.parents


def test_exclusions_of_mutations_name_what_there_is():
    """A name that is no longer defined would hide that its successor is not excluded."""
    package = Path(skdp.__file__).parent
    for module in mutation_sites.EXCLUDED:
        assert (package / module).exists(), module
    for module, names in mutation_sites.NAMES.items():
        tree = ast.parse((package / module).read_text(encoding="utf-8"))
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        defined = {name for node in statements for name in mutation_sites.defined(node)}
        assert set(names.split()) <= defined, module


def test_mutations_are_drawn_from_all_folders_of_the_package():
    package = Path(skdp.__file__).parent
    drawn = mutation_sites.drawn(package, 10**6, np.random.default_rng(0))
    modules = {mutation.module for mutation in drawn}
    assert {"linear_model/_objective/theorem.py", "rows/memory.py"} <= modules
    assert not modules & set(mutation_sites.EXCLUDED)
    for mutation in drawn[::50]:
        source = (package / mutation.module).read_bytes()
        assert source[mutation.start : mutation.stop].decode() == mutation.old
        ast.parse(mutation.applied(source))


def test_a_plan_is_timed_in_a_process_of_its_own():
    found = plans.timed(
        plans.Case("huber", 3, (), 100, 0.0, "replace_one", True), limit=60, memory=8
    )
    assert not found.failure
    assert 0 < found.seconds < 60
    late = plans.timed(
        plans.Case("linear", 300, (), 100, 1e-6, "replace_one", True), limit=1e-3, memory=8
    )
    assert late.failure == "took more than 0.001 s"
