"""The joint model of several classes: its bounds, its exact law, its solver, and its fits."""

import itertools
import math
from dataclasses import replace

import inner_objective
import mpmath
import numpy as np
import pytest
from exact_gradient import dense_hessian, problem
from inner_fits import Design, Task
from inner_objective import JointProfile, SoftmaxRecord, greatest_leverage, greatest_shift, minimise
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, softmax

from skdp import Domain, DPLogisticRegression
from skdp.linear_model import load_model
from skdp.linear_model.losses import LogisticLoss, Softmax, size_of_slopes
from skdp.trusted.noise import variances

NORMALIZERS = (0.2, 0.6, 1.0)
CLASSES = (2, 3, 6)


def matrix_of(p):
    return np.diag(p) - np.outer(p, p)


def gradient_of(p, y, a):
    """Return a p - e_y: the slopes before their mean is subtracted."""
    return a * p - np.eye(len(p))[y]


# Bounds of one record


@pytest.mark.parametrize("a", NORMALIZERS)
@pytest.mark.parametrize("k", CLASSES)
def test_slopes_of_a_record_have_the_size_of_lemma_1(k, a):
    """The sum of the absolute entries is 1 - a + 2 a s, and at most the bound for the noise."""
    rng = np.random.default_rng(k)
    for p, y in zip(rng.dirichlet(np.ones(k), 50), rng.integers(0, k, 50), strict=True):
        size = np.abs(gradient_of(p, y, a)).sum()
        assert size == pytest.approx(1 - a + 2 * a * (1 - p[y]))
        assert size <= size_of_slopes(Softmax(k, a))
    assert size_of_slopes(Softmax(k, a)) == pytest.approx(1 + a)


@pytest.mark.parametrize("a", NORMALIZERS)
@pytest.mark.parametrize("k", CLASSES)
def test_the_determinant_is_below_the_bound_of_lemma_2(k, a):
    """For random probabilities of the other classes, and with equality where all are equal."""
    rng, loss = np.random.default_rng(0), Softmax(k, a)
    for leverage, s in itertools.product([0.1, 3.0, 40.0], [0.05, 0.5, 0.9, 1.0]):
        kappa = float(loss.curvature_bound(s, s))
        bound = (k - 1) * math.log1p(kappa * leverage / (k - 1))
        for rest in rng.dirichlet(np.full(k - 1, 0.7), 40):
            p = np.append(1 - s, s * rest)
            found = np.linalg.slogdet(np.eye(k) + a * leverage * matrix_of(p))[1]
            assert found <= bound * (1 + 1e-9) + 1e-12
        even = np.append(1 - s, np.full(k - 1, s / (k - 1)))
        assert a * np.trace(matrix_of(even)) == pytest.approx(kappa)
    even = np.full(k, 1 / k)
    equal = np.linalg.slogdet(np.eye(k) + a * 5.0 * matrix_of(even))[1]
    peak = float(loss.curvature_bound(0.0, 1.0))
    assert equal == pytest.approx((k - 1) * math.log1p(5 * peak / (k - 1)))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("q", [0.5, 0.97])
@pytest.mark.parametrize("a", NORMALIZERS)
@pytest.mark.parametrize("epsilon", [0.3, 10.0])
def test_the_leverage_satisfies_the_condition_of_theorem_1_and_no_greater_one_does(
    a, q, epsilon, neighbors
):
    k = 4
    leverage = greatest_leverage(
        SoftmaxRecord(Softmax(k, a), k - 1, is_row=True), q, epsilon, neighbors
    )
    s = np.append(1 - np.geomspace(1, 1e-9, 20_001), 1.0)
    u = (1 - a + 2 * a * s) / (1 + a)
    share = (1 + u) / 2 if neighbors == "replace_one" else u

    def worst(leverage):
        h = (k - 1) * np.log1p(a * s * (2 - s * k / (k - 1)) * leverage / (k - 1))
        return np.max(epsilon * q * share + h)

    assert worst(leverage) <= epsilon
    assert worst(leverage * 1.001) > epsilon


# The exact law of the released matrix


class Law:
    """The exact law of the minimiser for one number, K classes and Laplace noise."""

    def __init__(self, loss, rows, labels, *, scale, ridge, counts=None):
        self.loss, self.scale, self.ridge = loss, scale, ridge
        self.rows, self.labels = np.asarray(rows, dtype=float), np.asarray(labels)
        self.counts = np.ones(len(self.rows)) if counts is None else counts

    def log_density(self, theta):
        k, a = self.loss.n_classes, self.loss.normalizer
        p = softmax(self.rows[:, None] * theta, axis=1)
        moved = (a * p - np.eye(k)[self.labels]) * (self.counts * self.rows)[:, None]
        gradient, hessian = moved.sum(axis=0), self.ridge * np.eye(k)
        for x, own, count in zip(self.rows, p, self.counts, strict=True):
            hessian += a * count * x * x * matrix_of(own)
        v = -(gradient + self.ridge * theta)
        return -np.abs(v).sum() / self.scale + np.linalg.slogdet(hessian)[1]


def witness(a, epsilon, q, *, less_noise=1.0, less_ridge=1.0):
    """Return the greatest log ratio of densities with and without a record, K = 3.

    Many short rows fix the signs of V, and add no curvature.
    """
    loss, y = Softmax(3, a), 0
    leverage = greatest_leverage(SoftmaxRecord(loss, 2), q, epsilon, "add_remove")
    scale, ridge = (1 + a) / (epsilon * q) * less_noise, 1 / leverage * less_ridge
    count, short = 1e9, 1e-6

    def ratio(shift):
        theta = np.array([-shift, 0.0, 0.0])
        # Far from 0, where removing the record moves each entry of V away from it or towards it.
        rows, labels = np.array([-short, short, short, 1.0]), np.array([0, 1, 2, y])
        counts = np.array([count, 2 * count, 2 * count, 1.0])
        own = {"scale": scale, "ridge": ridge}
        without = Law(loss, rows[:3], labels[:3], counts=counts[:3], **own).log_density(theta)
        found = Law(loss, rows, labels, counts=counts, **own).log_density(theta)
        return found - without

    grid = np.linspace(-6, 30, 200)
    best = grid[np.argmax([ratio(t) for t in grid])]
    refined = minimize_scalar(lambda t: -ratio(t), bounds=(best - 0.3, best + 0.3))
    return max(ratio(best), -refined.fun)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("a", [0.3, 1.0])
def test_density_ratios_reach_epsilon_and_exceed_it_with_less_noise(a, epsilon):
    """For q near 1 the bound is attained; with 5 % less noise it is exceeded."""
    assert 0.99 * epsilon < witness(a, epsilon, 0.97) <= epsilon * (1 + 1e-9)
    assert witness(a, epsilon, 0.97, less_noise=0.95) > 1.005 * epsilon


@pytest.mark.parametrize("a", [0.3, 1.0])
def test_density_ratios_exceed_epsilon_with_a_smaller_ridge(a):
    """At q = 1/2 the curvature has the other half; a ridge of 80 % is too small."""
    assert 0.95 < witness(a, 1.0, 0.5) <= 1.0
    assert witness(a, 1.0, 0.5, less_ridge=0.8) > 1.0


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_no_density_ratio_is_above_epsilon(neighbors):
    """Random data sets, records and outputs in one dimension."""
    rng, k, epsilon, worst = np.random.default_rng(1), 3, 1.0, 0.0
    for a, q in itertools.product([0.2, 0.7, 1.0], [0.5, 0.9]):
        loss = Softmax(k, a)
        leverage = greatest_leverage(SoftmaxRecord(loss, k - 1, is_row=True), q, epsilon, neighbors)
        moved = 2 if neighbors == "replace_one" else 1
        own = {"scale": moved * (1 + a) / (epsilon * q), "ridge": 1 / leverage}
        for _ in range(300):
            n = int(rng.integers(0, 6))
            rows, labels = rng.uniform(-1, 1, n), rng.integers(0, k, n)
            theta = rng.normal(size=k) * rng.choice([0.3, 3.0, 20.0])
            pair = [
                Law(loss, np.append(rows, x), np.append(labels, y), **own).log_density(theta)
                for x, y in zip(rng.choice([-1.0, 1.0], 2), rng.integers(0, k, 2), strict=True)
            ]
            if neighbors == "add_remove":
                pair[1] = Law(loss, rows, labels, **own).log_density(theta)
            worst = max(worst, abs(pair[0] - pair[1]))
    assert 0.5 < worst <= epsilon


# Gaussian noise


@pytest.mark.parametrize("a", [0.2, 1.0])
@pytest.mark.parametrize("k", [3, 8])
def test_the_gaussian_profile_is_above_that_of_every_choice_of_directions(k, a):
    """An adversary chooses p after it saw V: the best corner, computed from many draws."""
    rng, shift, leverage, epsilon = np.random.default_rng(0), 0.8, 0.2, 1.0
    loss = SoftmaxRecord(Softmax(k, a), k - 1, is_row=True)
    z = rng.normal(size=(400_000, k))
    # V . u + |u|^2 / 2 for u = shift (a e_l - e_y), and for u = -shift (1 - a) e_y.
    along = shift * (a * z[:, 1:] + z[:, :1]) + shift**2 * (1 + a * a) / 2
    least = shift * (1 - a) * z[:, 0] + (shift * (1 - a)) ** 2 / 2
    h = (k - 1) * math.log1p(a * (k - 1) / k * leverage / (k - 1))
    seen = np.maximum(np.maximum(along.max(axis=1), least), 0.0) + h
    for add, privacy_loss in ((True, seen - h), (False, seen)):
        delta = np.maximum(1 - np.exp(epsilon - privacy_loss), 0.0)
        error = delta.std() / math.sqrt(len(z))
        profile = JointProfile(loss, shift, leverage)
        bound = math.exp(profile._added(np.array(epsilon)) if add else profile(epsilon))
        assert delta.mean() - 4 * error < bound < 1.1 * (delta.mean() + 4 * error)


def test_a_gaussian_profile_by_the_length_of_the_gradient_alone_would_be_too_small():
    """The twin that treats the direction as fixed is below what the adversary reaches."""
    rng, shift, a, k, epsilon = np.random.default_rng(0), 0.8, 1.0, 8, 1.0
    z = rng.normal(size=(400_000, k))
    along = shift * (a * z[:, 1:] + z[:, :1]).max(axis=1) + shift**2
    reached = np.maximum(1 - np.exp(epsilon - along), 0.0).mean()
    fixed = JointProfile(LogisticLoss(), shift * math.sqrt(2), 1e-12)
    assert math.exp(fixed(epsilon)) < 0.8 * reached


@pytest.mark.parametrize("shift", [0.3, 1.5])
def test_the_bound_for_persons_is_not_capped_within_its_mean(shift):
    """Delta of Theorem 3 by quadrature over Z and M: given M a mean may be above 1."""
    k, a, leverage, epsilon = 3, 1.0, 1e-9, 2.0
    loss = SoftmaxRecord(Softmax(k, a), 2 * (k - 1))
    m, z = np.linspace(0, 12, 1201), np.linspace(-12, 14, 4001)
    mass = np.diff(np.append(0.0, ndtr(m) ** (k - 1)))  # of M at the upper end of its cell
    inner = np.maximum(np.exp(np.maximum(shift * (z + a * m[:, None]), 0)) - math.exp(epsilon), 0)
    whole = (mass[:, None] * inner * np.exp(-z * z / 2)).sum() * (z[1] - z[0])
    whole /= math.sqrt(2 * math.pi)
    found = math.exp(JointProfile(loss, shift, leverage)(epsilon))
    assert min(1.0, whole) * 0.99 < found < min(1.0, whole) * 1.3


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("a", [0.3, 1.0])
def test_a_gaussian_release_of_three_classes_keeps_its_delta(a, neighbors):
    """The hockey-stick divergence of the exact laws of the minimisers, from draws of V."""
    epsilon, delta, k = 1.0, 1e-2, 3
    loss, leverage = Softmax(k, a), 0.15
    shift = greatest_shift(
        SoftmaxRecord(loss, k - 1, is_row=True), leverage, epsilon, delta, neighbors
    )
    worst = 0.0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, labels = rng.uniform(-0.1, 0.1, 3), rng.integers(0, k, 3)
        pair = [(np.append(rows, 1.0), np.append(labels, 0)), (rows, labels)]
        if neighbors == "replace_one":
            pair[1] = np.append(rows, 1.0), np.append(labels, 1)
        for one, other in (pair, pair[::-1]):
            worst = max(worst, _divergence(loss, one, other, 1 / shift, 1 / leverage, epsilon))
    assert worst <= delta
    # No record here turns its gradient as fast as the bound allows for under replacement.
    assert neighbors == "replace_one" or worst > 0.02 * delta


def _divergence(loss, one, other, deviation, ridge, epsilon, draws=5000):
    v = deviation * np.random.default_rng(5).normal(size=(draws, loss.n_classes))
    theta = np.zeros_like(v)
    for _ in range(12):  # Newton's method for every draw
        gradient, hessian = _derivatives(loss, one, theta, ridge)
        theta -= np.linalg.solve(hessian, (gradient + v)[..., None])[..., 0]
    assert np.abs(_derivatives(loss, one, theta, ridge)[0] + v).max() < 1e-8
    logs = []
    for data in (one, other):
        gradient, hessian = _derivatives(loss, data, theta, ridge)
        log_noise = -np.square(gradient).sum(axis=1) / (2 * deviation**2)
        logs.append(log_noise + np.linalg.slogdet(hessian)[1])
    return np.maximum(1 - np.exp(epsilon - (logs[0] - logs[1])), 0.0).mean()


def _derivatives(loss, data, theta, ridge):
    """Return the gradients and the second derivatives without V at points theta, (draws, k)."""
    (rows, labels), eye = data, np.eye(loss.n_classes)
    p = softmax(rows[:, None] * theta[:, None], axis=2)
    slopes = loss.normalizer * p - eye[labels]
    own = p[..., None] * eye - p[..., None] * p[:, :, None]
    hessian = loss.normalizer * np.einsum("i,nikl->nkl", rows**2, own) + ridge * eye
    return np.einsum("i,nik->nk", rows, slopes) + ridge * theta, hessian


# The solver


def joint(n, d, loss, *, seed=0, ridge=1.0, linear_term=1.0, **layout):
    """Return a `Problem` whose loss has several classes, and an `Objective` for it."""
    made = problem(n, d, LogisticLoss(), seed=seed, **layout)
    rng, k = np.random.default_rng(seed), loss.n_classes
    labels = rng.integers(0, k, n)
    ridges = np.full(k * made.dim, ridge)
    linear = linear_term * rng.normal(size=(k, made.dim))
    linear = (linear - linear.mean(axis=0)).ravel()
    made = replace(made, target=labels)
    rows = made.objective().rows
    made = replace(made, loss=loss)
    own = inner_objective.Objective(loss, rows, made.layout, ridges, linear, n)
    return made, own


def exact(made, objective, theta):
    """Return the exact gradient in 60 digits."""
    k, a = made.loss.n_classes, mpmath.mpf(made.loss.normalizer)
    weight = np.ones(made.n) if made.weight is None else made.weight
    with mpmath.workdps(60):
        point = [[mpmath.mpf(t) for t in own] for own in theta.reshape(k, -1).tolist()]
        public = zip(objective.ridge.tolist(), theta.tolist(), objective.linear_term, strict=True)
        total = [mpmath.mpf(r) * mpmath.mpf(t) + mpmath.mpf(v) for r, t, v in public]
        for x, y, w in zip(made.rows(), made.target.tolist(), weight.tolist(), strict=True):
            e = [mpmath.exp(mpmath.fdot(x, own)) for own in point]
            for j in range(k):
                slope = mpmath.mpf(w) * (a * e[j] / sum(e) + (1 - a) / k - (j == y))
                for i, entry in enumerate(x):
                    total[j * made.dim + i] += slope * mpmath.mpf(entry)
    return total


@pytest.mark.parametrize("size", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("a", [0.3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_certified_error_holds_for_several_classes(a, size, weighted):
    """With centred levels, numbers, weights, and predictors up to hundreds."""
    made, objective = joint(60, 4, Softmax(4, a), weighted=weighted, intercept=True, sizes=(3, 5))
    theta = size * np.random.default_rng(2).normal(size=objective.dim)
    found = inner_objective.certified_gradient(objective, theta)
    with mpmath.workdps(60):
        difference = [
            e - mpmath.mpf(v)
            for e, v in zip(exact(made, objective, theta), found.value, strict=True)
        ]
        assert mpmath.norm(difference) <= found.error
    assert found.error < 1e-9


@pytest.mark.parametrize("most", [2048, 1], ids=["one matrix", "a matrix for each class"])
def test_the_solver_reaches_the_minimum(monkeypatch, most):
    """Whether or not products of different classes are part of the second derivative."""
    monkeypatch.setattr("skdp.linear_model._objective.problem.MOST_JOINT", most)
    made, objective = joint(600, 6, Softmax(5, 0.6), ridge=0.05, intercept=True, sizes=(4,))
    found = minimise(objective, 1e-9)
    difference = exact(made, objective, found.theta)
    assert float(mpmath.norm(difference)) <= found.gradient_norm <= 1e-9
    np.testing.assert_allclose(found.theta.reshape(5, -1).sum(axis=0), 0.0, atol=1e-7)


def test_the_second_derivative_is_that_of_the_gradient():
    _, objective = joint(200, 3, Softmax(3, 0.7), weighted=True, intercept=True, sizes=(4,))
    theta = np.random.default_rng(3).normal(size=objective.dim)
    step = 1e-5 * np.eye(objective.dim)
    numeric = [(objective.gradient(theta + h) - objective.gradient(theta - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(dense_hessian(objective, theta), numeric, atol=2e-4)


# Fits


def table(n=600, k=4, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    y = np.argmax(X @ rng.normal(size=(d, k)) * 3 + rng.gumbel(size=(n, k)), axis=1)
    return X, y, Domain.unit_box(d, target=list(range(k)))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_noise_of_a_fit_is_that_of_theorem_1(neighbors):
    """Scale, leverage and ridge of the plan satisfy the condition for the epsilon of the fit."""
    X, y, domain = table()
    model = DPLogisticRegression(
        domain=domain, epsilon=1.0, neighbors=neighbors, scaling_share=0, mechanism="linf",
        random_state=0,
    ).fit(X, y)  # fmt: skip
    a, moved = model.normalizer_, 2 if neighbors == "replace_one" else 1
    assert model.loss_ == Softmax(4, a)
    released = model.releases_[-1]
    epsilon = released.epsilon - released.output_epsilon
    assert model.noise_.scale == pytest.approx(moved * (1 + a) / (model.q_ * epsilon), rel=1e-6)
    assert model.noise_.dim == 4 * 6
    task = Task(model._design, n=600 if moved == 2 else None, epsilon=1.0, n_models=4,
                neighbors=neighbors)  # fmt: skip
    plan = model._algorithm().plan(task).minimisers[0]
    most = greatest_leverage(SoftmaxRecord(model.loss_, 3), model.q_, epsilon, neighbors)
    assert plan.leverage == pytest.approx(most)
    assert plan.ridges.tolist() == np.tile(model.ridge_, 4).tolist()


@pytest.mark.parametrize("n_classes", [3, 5])
def test_gaussian_noise_of_a_fit_is_that_of_theorem_3(n_classes):
    """The deviation covers the shift that the profile allows, and 5 % more would exceed delta."""
    X, y, domain = table(k=n_classes)
    model = DPLogisticRegression(
        domain=domain, epsilon=2.0, delta=1e-5, mechanism="gaussian", scaling_share=0,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    loss = SoftmaxRecord(model.loss_, n_classes - 1, is_row=True)
    epsilon = model.releases_[-1].output_epsilon
    plan = model._algorithm().plan(Task(model._design, n=600, epsilon=2.0, delta=1e-5,
                                        n_models=n_classes)).minimisers[0]  # fmt: skip
    squares = np.linspace(0, 5, 100_001)  # of the numbers of a row
    weights = np.minimum(1, plan.leverage / (1 / model.ridge_[0] + squares / model.ridge_[1]))
    longest = np.max(weights * np.sqrt(1 + squares))
    shift = longest / math.sqrt(variances(model.noise_)[0])
    for factor, holds in ((1.0, True), (1.05, False)):
        profile = JointProfile(loss, factor * shift, plan.leverage, "replace_one")
        assert (float(profile(2.0 - epsilon)) <= math.log(1e-5)) == holds


def test_predictions_are_probabilities_that_the_loss_estimates():
    X, y, domain = table(n=4000)
    model = DPLogisticRegression(domain=domain, epsilon=1000.0, random_state=0).fit(X, y)
    z, a = model.decision_function(X), model.normalizer_
    np.testing.assert_allclose(z.sum(axis=1), 0.0, atol=1e-4)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, a * softmax(z, axis=1) + (1 - a) / 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X))
    np.testing.assert_array_equal(model.predict(X), z.argmax(axis=1))
    np.testing.assert_allclose(p.mean(axis=0), np.bincount(y) / len(y), atol=0.01)


@pytest.mark.parametrize("given", [Softmax(4, 0.25), "logistic"])
def test_the_loss_can_be_chosen(given):
    X, y, domain = table()
    model = DPLogisticRegression(domain=domain, loss=given, random_state=0).fit(X, y)
    assert model.loss_ == (Softmax(4) if given == "logistic" else given)
    assert model.releases_[-1].times == 1


@pytest.mark.parametrize("mechanism", ["l1", "l2", "hull", "laplace", "logistic"])
def test_norm_balls_have_joint_noise_and_other_mechanisms_separate_models(mechanism):
    X, y, domain = table()
    model = DPLogisticRegression(domain=domain, mechanism=mechanism, random_state=0).fit(X, y)
    is_joint = mechanism != "logistic"
    assert hasattr(model, "normalizer_") == is_joint
    assert model.releases_[-1].times == (1 if is_joint else 4)
    assert model.noise_.dim == (24 if is_joint else 6)
    assert model.coef_.shape == (4, 5)


@pytest.mark.parametrize(
    ("k", "parameters", "message"),
    [
        (4, {"loss": Softmax(3)}, "loss must be for the number of labels"),
        (4, {"loss": Softmax(4), "mechanism": "logistic"}, "must be a name or a norm ball"),
        (2, {"loss": Softmax(2)}, "more than two"),
    ],
)
def test_a_softmax_that_does_not_fit_is_refused_before_anything_is_spent(k, parameters, message):
    X, y, domain = table(k=k)
    with pytest.raises(ValueError, match=message) as caught:
        DPLogisticRegression(domain=domain, random_state=0, **parameters).fit(X, y)
    assert "No budget was spent" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(("k", "a"), [(1, 1.0), (3, 0.0), (3, 1.5), (2.5, 1.0)])
def test_a_softmax_has_at_least_two_classes_and_a_normalizer_in_the_unit_interval(k, a):
    with pytest.raises(ValueError, match=r"n_classes|normalizer"):
        Softmax(k, a)


@pytest.mark.parametrize(
    ("k", "normalizer", "message"),
    [(4, 0.0, "normalizer"), (4, -1.0, "normalizer"), (4, 2.0, "normalizer"),
     (2, 0.5, "fewer than three labels")],
)  # fmt: skip
def test_a_file_with_a_wrong_normalizer_is_refused(k, normalizer, message):
    X, y, domain = table(k=k)
    content = DPLogisticRegression(domain=domain, random_state=0).fit(X, y).to_dict()
    content["attributes"]["normalizer_"] = normalizer
    with pytest.raises(ValueError, match=message):
        load_model(content)


def test_several_rows_of_one_dimension_are_not_one_row():
    """The rows of a person may have different classes: Theorem 4 is for one row only."""
    task = inner_objective.ModelTask(
        Design(Domain.unit_box(1), False), n=100, epsilon=1.0, delta=1e-6, n_models=1,
        are_persons=True, size=100.0, reference=DPLogisticRegression._reference,
    )  # fmt: skip
    loss = task.of_record(Softmax(3, 0.5))
    row = replace(task, are_persons=False).of_record(Softmax(3, 0.5))
    assert (loss.rank, row.rank) == (2, 2)
    assert not loss.is_row
    assert row.is_row
    shifts = [greatest_shift(own, 0.1, 1.0, 1e-6, "add_remove") for own in (loss, row)]
    assert shifts[0] < 0.99 * shifts[1]
