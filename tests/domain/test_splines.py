"""Splines: their encoding, their bounds, and models whose effects are curves."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from declared import SPLINES, check_simplex
from exact_gradient import LOSSES, distance, exact_gradient, penalised, problem
from inner_fits import Design, Task, exact_cross
from inner_moments import RowScaler, ScaledMoments, posterior
from inner_objective import certified_gradient
from inner_objective import problem_module as hessian
from scipy.interpolate import BSpline
from scipy.special import expit
from sklearn.linear_model import LinearRegression
from spent import mu, part

import skdp
from skdp import Domain, DPLinearRegression, Spline
from skdp.domain.splines import GRID, STEPS
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.mechanisms import Sensitivity
from skdp.rows.memory import MemoryRows

PAIR = (
    Domain({"p": Spline(0, 1, knots=8, degree=3), "q": Spline(0, 9, knots=(1.0, 2.0), degree=2)})
    .interact("p", "q")
    ._layout.placed[0][0]
)


@pytest.mark.parametrize("spline", SPLINES, ids=repr)
def test_the_values_of_a_node_are_a_point_of_the_simplex(spline):
    check_simplex(spline.table, spline.degree + 1)


@pytest.mark.parametrize("spline", SPLINES, ids=repr)
def test_the_values_are_those_of_b_splines(spline):
    numbers = np.random.default_rng(0).uniform(spline.lower, spline.upper, 300)
    domain = Domain({"x": spline})
    near = spline.nodes[spline.positions(numbers).astype(int)]
    step = np.diff(spline.breaks).max() / (1 if spline.degree == 0 else STEPS)
    assert np.abs(near - numbers).max() <= step / 2 * (1 + 1e-9)
    if spline.degree == 0 or spline.missing == "indicator":
        return
    b, k = spline.breaks, spline.degree
    ends = [
        b[0] - (b[1] - b[0]) * np.arange(k, 0, -1),
        b[-1] + (b[-1] - b[-2]) * np.arange(1, k + 1),
    ]
    knots = np.concatenate([ends[0], b, ends[1]])
    for j in range(1, spline.n_out + 1):
        own = BSpline.basis_element(knots[j : j + k + 2], extrapolate=False)
        found = np.nan_to_num(own(near))
        encoded = domain.encode(near[:, None])[:, j - 1]
        np.testing.assert_allclose(encoded, found, atol=(k + 1) * GRID)


def test_cells_outside_the_bounds_and_missing_ones():
    domain = Domain({"x": Spline(0, 4, knots=3)}, missing={"x": "indicator"})
    encoded = domain.encode([[-5.0], [9.0], [np.nan], [1.5]])
    assert domain.encoded_names() == ("x_1", "x_2", "x_3", "x_4", "x_missing")
    expected = [[0, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0.5, 0.5, 0, 0, 0]]
    np.testing.assert_array_equal(encoded, expected)
    filled = Domain({"x": Spline(0, 4, knots=3)}, missing={"x": 3.0})
    np.testing.assert_array_equal(filled.encode([[np.nan]]), [[0, 0, 1, 0]])
    with pytest.raises(ValueError, match="column 'x' must contain only finite numbers"):
        Domain({"x": Spline(0, 4)}).encode([[np.nan]])


@pytest.mark.parametrize(
    ("spline", "words"),
    [
        (Spline(1, 0), "must have lower < upper"),
        (Spline(0, 1, knots=-1), "knots must be an integer >= 0"),
        (Spline(0, 1, knots=[0.5, 0.2]), "increasing numbers between the bounds"),
        (Spline(0, 1, knots=[0.5, 1.0]), "increasing numbers between the bounds"),
        (Spline(0, 1, knots=[0.5, "a"]), "increasing numbers between the bounds"),
        (Spline(0, 1, knots=5000), "knots must be at most 100,"),
        (Spline(0, 1.7e308), r"bounds must be at most 1e\+300 in size"),
        (Spline(0, 1, degree=4), "degree must be 0, 1, 2 or 3"),
        (Spline(0, 1, degree=True), "degree must be 0, 1, 2 or 3"),
        (Spline(0, 1, knots=0, degree=0), "knots must be at least 1 for degree 0"),
        (Spline(0, 1, missing=7.0), "within the bounds"),
    ],
)
def test_invalid_declarations_are_errors(spline, words):
    with pytest.raises(ValueError, match=words) as error:
        Domain({"age": spline})
    assert "age" in str(error.value)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("own", [(SPLINES[4], SPLINES[1]), (PAIR,)], ids=["splines", "pair"])
def test_the_certificate_holds_with_curves(own, loss, intercept, scale):
    """The computed gradient is within its error bound of that in 120 digits."""
    made = problem(60, 2, loss, intercept=intercept, sizes=(3,), splines=own, weighted=True)
    theta = scale * np.random.default_rng(1).normal(size=made.dim)
    found = certified_gradient(made.objective([20]), theta)
    away = float(distance(exact_gradient(made, theta), found.value))
    assert away <= found.error
    assert found.error < 1e-9 * scale


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_certificate_holds_for_coefficients_greater_than_their_curve(sign):
    """A cubic curve may be far smaller than its coefficients, which cancel at all nodes."""
    spline = Spline(0, 1, knots=0, degree=3)
    made = problem(60, 1, LOSSES[0], splines=(spline,))
    made = replace(
        made,
        design=0 * made.design,
        codes=np.full((60, 1), 32),  # where the curve is near 0
        ridge=np.full(made.dim, 1e-30),
        linear_term=np.zeros(made.dim),
    )
    own = sign * np.array([-1.47327780e9, 2.67188117e9, -9.21421631e9])
    own += np.linalg.lstsq(spline.table[32:33], -spline.table[32:33] @ own)[0]
    theta = np.append(0.0, own)
    found = certified_gradient(made.objective([20]), theta)
    away = float(distance(exact_gradient(made, theta), found.value))
    assert np.abs(spline.table @ own).max() < np.abs(own).max() / 8
    assert found.error < 1e-10
    assert away <= found.error


@pytest.mark.parametrize("room", [1024, 20, 4])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_second_derivative_with_splines(intercept, room, monkeypatch):
    """It is the derivative of the gradient, within the error of single precision."""
    monkeypatch.setattr(hessian, "MOST_CORE", room)
    own = SPLINES[4], SPLINES[1]
    made = problem(200, 2, LOSSES[0], intercept=intercept, sizes=(3,), splines=own)
    objective, theta = made.objective([70]), 0.1 * np.random.default_rng(1).normal(size=made.dim)
    rows = made.matrix()
    p = expit(rows @ theta)
    penalty = np.array(penalised(made, list(np.eye(made.dim))), dtype=float)
    expected = (rows.T * (p * (1 - p))) @ rows + made.ridge[:, None] * penalty
    (core,), (matrix,), diagonal = objective.hessian(theta)
    assert (len(core) == made.dim) == (room == 1024)
    np.testing.assert_allclose(matrix, expected[np.ix_(core, core)], atol=1e-4)
    np.testing.assert_allclose(diagonal, expected.diagonal(), atol=1e-4)


def at_all_nodes():
    """Return a domain of splines and records at all of their nodes."""
    X = pd.DataFrame({"x": SPLINES[4].nodes})
    X["z"], X["w"] = np.resize([*SPLINES[6].nodes, np.nan], len(X)), np.resize([0, 1, 1], len(X))
    return Domain({"x": SPLINES[4], "z": SPLINES[6], "w": (0, 1)}, target=(-1.0, 1.0)), X.iloc[::4]


def of_lines():
    """Return a domain with a line for each level, all corners of its records and random ones."""
    columns = {"x": (2, 7), "s": ["a", "b", "c"], "w": (0, 1), "v": (-1, 3)}
    domain = Domain(columns, target=(-1.0, 1.0)).interact("x", "s").interact("s", "v")
    corners = pd.DataFrame(list(product(*columns.values())), columns=[*columns])
    return domain, pd.concat([corners, domain.sample(30, random_state=0)], ignore_index=True)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("records", [at_all_nodes, of_lines])
def test_no_record_changes_the_scaling_stage_or_the_cross_release_by_more_than_they_hide(
    neighbors, delta, records
):
    """For all pairs of records."""
    domain, X = records()
    n = 10**4 if neighbors == "replace_one" else None
    task = Task(Design(domain, True), n, 1.0, delta, neighbors, n_public=10**4)
    plan = ScaledMoments.plan(task, 60.0)
    ones = np.ones(domain.n_encoded + 2)
    box = RowScaler(0 * ones, ones, ones, clips=True)
    statistics = plan.sums, lambda rows: exact_cross(rows, box.place)
    for release, sums in zip(plan.releases[::2], statistics, strict=True):
        noise = release.noise
        pairs = [(X.iloc[[k]], [y]) for k in range(len(X)) for y in (-1.0, 1.0)]
        found = [sums(MemoryRows(domain, row, np.array(y))).astype(float) for row, y in pairs]
        own = np.array(found) / 2**40
        changes = own if n is None else (own[:, None] - own).reshape(-1, own.shape[1])
        assert hasattr(noise, "ball") == (delta == 0)  # otherwise Gaussian noise
        if delta == 0:
            assert (noise.ball.gauge(changes) / noise.scale).max() <= part(release)
        else:
            assert np.linalg.norm(changes / noise.factor, axis=1).max() <= mu(release)


def test_moments_of_curves():
    """Their ball would need products within a block; blocks without columns are not counted."""
    layout = MomentLayout(3, (), ((), (0,), (1, 2)), neighbors="add_remove", curves=(1,))
    assert layout.pairs.tolist()[5:10] == [[2, 2], [3, 3], [1, 2], [1, 3], [2, 3]]
    assert layout.indicators.tolist() == [1]
    with pytest.raises(ValueError, match="layout must have no curves"):
        MomentBall(layout, level=0)
    with pytest.raises(ValueError, match="curves must be positions of the 2 blocks"):
        MomentLayout(3, (), ((), (0,), (1, 2)), curves=(2,))


def test_a_statistic_of_a_user_is_bounded_at_all_nodes():
    """Products of neighbouring functions are 0 at the corners of the simplex, and not between."""
    domain = Domain({"x": Spline(0, 1, knots=1, degree=1)})
    ball = Sensitivity.of(lambda x: [x[0] * x[1]], domain, neighbors="add_remove").ball
    assert ball.gauge(np.array([0.25])) <= 1 + 1e-9
    assert ball.gauge(np.array([0.3])) > 1


def test_a_clip_of_single_contributions_is_refused():
    domain = Domain({"x": Spline(0, 1)}, target=[0, 1])
    model = skdp.DPCoordinateDescentClassifier(domain=domain, clip=0.5)
    with pytest.raises(ValueError, match='clip must be "auto" or None for a domain with splines'):
        model.fit(np.zeros((4, 1)), [0, 1, 0, 1])


def curves(n, seed):
    """Return a table whose log-odds are a sum of curves, and labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0, 1, (n, 3)), columns=["a", "b", "c"])
    z = 3 * np.sin(9 * X["a"]) + 6 * np.abs(X["b"] - 0.5) - 1.5
    return X, (rng.random(n) < expit(z)).astype(int), z


@pytest.mark.parametrize(("degree", "delta"), [(0, 0.0), (1, 1e-6), (3, 0.0), (3, 1e-6)])
@pytest.mark.parametrize("kind", [skdp.DPLogisticRegression, skdp.DPCoordinateDescentClassifier])
def test_a_classifier_learns_curves(kind, degree, delta):
    """The accuracy is near that of the truth; with linear effects it is far below."""
    X, y, _ = curves(8000, 0)
    other, labels, z = curves(4000, 1)
    domain = Domain({name: Spline(0, 1, knots=6, degree=degree) for name in X}, target=[0, 1])
    plain = Domain(dict.fromkeys(X, (0, 1)), target=[0, 1])
    own = {"epsilon": 1.0, "delta": delta, "random_state": 0}
    model = kind(domain=domain, **own).fit(X, y)
    least = np.mean((z > 0) == labels) - 0.06
    assert model.score(other, labels) > least
    assert kind(domain=plain, **own).fit(X, y).score(other, labels) < least - 0.05
    again = kind(domain=domain.encoded, **own).fit(
        pd.DataFrame(domain.encode(X), columns=domain.encoded_names()), y
    )
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-6)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_moments_give_least_squares(neighbors, delta):
    """With a huge epsilon the fit is that of ordinary least squares on the encoded columns."""
    X, _, z = curves(3000, 0)
    domain = Domain(
        {"a": Spline(0, 1, knots=4, degree=3), "b": Spline(0, 1, knots=5), "c": (0, 1)},
        target=(-8, 8),
    )
    model = DPLinearRegression(epsilon=1e6, delta=delta, neighbors=neighbors, domain=domain)
    found = model.fit(X, z).predict(X)
    plain = LinearRegression().fit(domain.encode(X), z).predict(domain.encode(X))
    assert np.sqrt(np.mean((found - plain) ** 2)) < 0.02 * z.std()


def test_a_prior_is_a_change_of_coordinates():
    """With exact moments it changes nothing; else the directions of the covariance are shrunk."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    z = rng.normal(size=(1000, 5))
    z[:, 4] = 0.4 * z[:, 0] + 0.1 * z[:, 1] + 0.1 * z[:, 4]
    rows = np.column_stack([np.ones(1000), z])
    exact = rows.T @ rows / 1000
    prior = root @ root.T
    plain = posterior(exact, np.zeros((6, 6)))[0]
    np.testing.assert_allclose(posterior(exact, np.zeros((6, 6)), prior)[0], plain, rtol=1e-9)
    noisy = np.full((6, 6), 0.1)
    same = posterior(exact, noisy, np.eye(4))[0]
    np.testing.assert_allclose(posterior(exact, noisy)[0], same, rtol=1e-9)
    # Where the covariance is hardly above 0 there is no effect.
    thin = np.diag([1.0, 1e-12, 1.0, 1.0])
    found = posterior(exact, noisy, thin)[0]
    assert abs(found[2]) < 1e-6 < abs(same[2])
    assert found[1] == pytest.approx(same[1], abs=0.1)


def test_a_domain_is_made_additive():
    """Numbers become curves with their rules; levels, target and other columns stay."""
    domain = Domain(
        {"age": (17, 90), "pay": (0, 9), "sex": ["f", "m"]}, target=(0, 1), missing={"age": 40}
    )
    every, one = domain.additive(knots=4, degree=2), domain.additive(columns=["pay"])
    assert every == Domain(
        {"age": Spline(17, 90, 4, 2), "pay": Spline(0, 9, 4, 2), "sex": ["f", "m"]},
        target=(0, 1),
        missing={"age": 40},
    )
    assert one.block_sizes == (11, 1)
    assert Domain.unit_box(2).additive(knots=1, degree=1).n_encoded == 4
    for columns, words in (("pay", "be a list of names"), (["sex"], "names of numeric columns")):
        with pytest.raises(ValueError, match=words):
            domain.additive(columns=columns)
    with pytest.raises(ValueError, match="bound every column"):
        Domain.l2_ball(2, 1.0).additive()
    with pytest.raises(ValueError, match="degree must be 0, 1, 2 or 3"):
        domain.additive(degree=7)
