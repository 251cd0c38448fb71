"""The difference of two Wishart matrices: its density by quadrature, its draws, its calibration.

With S = 1 and two rows h depends on the eigenvalues of M. Definite M: exp(-|tr M|) times a
constant. Eigenvalues a > 0 > -b: exp(-a - b) times K(a, b) / K(0, 0), K(a, b) the integral of
sqrt(min(p (q + b), (p + a) q)) exp(-2 p - 2 q) over p, q >= 0 (put V = [[p, r], [r, q + b]] in
the formula of docs/proofs/matrix_laplace.md, Theorem 1).
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from moment_records import LAYOUTS
from scipy.stats import binom, gamma, kstest, laplace

from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.mechanisms import Sensitivity
from skdp.mechanisms.matrix import MatrixLaplace
from skdp.noise.matrix import MatrixLaplaceNoise, losses_of_trace
from skdp.privacy import Guarantee

RELATIONS = ["replace_one", "add_remove"]


def rule(nodes, end):
    """Gauss and Legendre's nodes and weights on [0, end]."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) * end / 2, w * end / 2


def indefinite(a, b, nodes=40):
    """K(a, b) / K(0, 0), a, b >= 0 of one shape (n,).

    p = t u, q = t (1 - u): either term is the smaller one to one side of u = a / (a + b). Roots at
    the ends are taken away by u or 1 - u = c s^2 and t = tau^2.
    """
    a, b = np.maximum(np.asarray([a, b], dtype=float), 1e-12)
    tau, w_tau = rule(nodes, math.sqrt(22))  # e^-44 is left out
    s, w_s = rule(nodes, 1.0)
    t, jacobian = tau**2, 2 * tau**3 * np.exp(-2 * tau**2) * w_tau

    def side(own, other):
        cut = (own / (own + other))[:, None, None]
        u = cut * s[:, None] ** 2
        value = np.sqrt(t * u * (t * (1 - u) + other[:, None, None]))
        return np.einsum("nst,s,t->n", value * 2 * cut * s[:, None], w_s, jacobian)

    return (side(a, b) + side(b, a)) * 32 / math.pi


def log_density(M):
    """log h of matrices (n, 2, 2) for S = 1, up to its constant."""
    values = np.linalg.eigvalsh(M)
    a, b = values[:, 1].clip(min=0), (-values[:, 0]).clip(min=0)
    mixed = (a > 0) & (b > 0)
    correction = np.where(mixed, np.log(indefinite(a, b)), 0.0)
    return -np.abs(values).sum(axis=1) + correction


def test_the_density_adds_up_to_one():
    """Definite matrices have the share 2^(1 - P (P + 1) / 2) = 1/4, so mixed ones three times it.

    The density of the eigenvalues is h times their distance: definite ones have the mass 1.
    """
    x, w = rule(60, math.sqrt(40))
    side, weight = x**2, 2 * x * w
    a, b = (grid.ravel() for grid in np.meshgrid(side, side))
    mass = indefinite(a, b) * (a + b) * np.exp(-a - b) * np.outer(weight, weight).ravel()
    assert mass.sum() == pytest.approx(3.0, rel=1e-6)


def outputs(rng, n=400):
    """Symmetric matrices near and far, definite and not."""
    A = rng.normal(size=(n, 2, 2)) * rng.exponential(1, n)[:, None, None] * 8
    return A + np.swapaxes(A, 1, 2)


def loss(precision, D, M):
    """The greatest |log h(M + D) - log h(M)|, and what Theorem 1 says of it."""
    root = np.sqrt(np.outer(precision, precision))
    E = D * root
    values, vectors = np.linalg.eigh(E)
    far = vectors @ np.diag(400 * np.sign(values)) @ vectors.T
    M = np.concatenate([M * root, far[None], np.zeros((1, 2, 2))])
    return np.abs(log_density(M + E) - log_density(M)).max(), np.abs(values).sum()


@pytest.mark.parametrize("precision", [(1.0, 1.0), (0.3, 1.7), (5.0, 0.01)])
def test_the_log_ratio_is_bounded_by_the_trace_norm_and_reaches_it(precision):
    """For v v' - u u' at the corners and inside, for one record added, for any symmetric D."""
    rng = np.random.default_rng(0)
    M = outputs(rng)
    rows = [np.array([1.0, x]) for x in (-1.0, -0.4, 0.0, 1.0)]
    replaced = [np.outer(v, v) - np.outer(u, u) for v, u in itertools.permutations(rows, 2)]
    added = [np.outer(v, v) for v in rows]
    for D in [*replaced, *added, *outputs(rng, 5)]:
        found, bound = loss(np.array(precision), D, M)
        assert found <= bound * (1 + 1e-4)  # quadrature
        assert found > 0.98 * bound


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_calibrated_noise_reaches_epsilon_and_a_twin_exceeds_it(neighbors):
    """The target alone, two rows: 5 % less noise is seen."""
    layout = MomentLayout(0, (), (), neighbors=neighbors)
    M = outputs(np.random.default_rng(2))
    rows = [np.array([1.0, y]) for y in (-1.0, 0.3, 1.0)]
    changes = [np.outer(v, v) for v in rows]
    if not layout.adds:
        changes = [d - e for d, e in itertools.permutations(changes, 2)]
    for epsilon in (0.1, 1.0, 8.0):
        precision = calibrated(MomentBall(layout), epsilon).precision
        scaled = M / precision.max()
        greatest = max(loss(precision, D, scaled)[0] for D in changes)
        assert 0.98 * epsilon < greatest <= epsilon * (1 + 1e-4)  # quadrature
        weak = 1.05 * precision
        assert max(loss(weak, D, scaled)[0] for D in changes) > 1.02 * epsilon


class OneRow:
    """A layout of a single number, the matrix itself."""

    n_rows = dim = 1

    def statistic(self, gram):
        return gram[..., 0, :1]


def draws(noise, n, seed):
    rng = np.random.default_rng(seed)
    return np.array([noise.rvs(rng) for _ in range(n)])


def test_with_one_row_it_is_the_laplace_law():
    """One p-value at 1e-8; 5 % too little noise shows in the mean size, Gamma(n) (0.7 % wide)."""
    noise = MatrixLaplaceNoise(OneRow(), np.array([0.4]), Guarantee(1.0))
    v = draws(noise, 20_000, 4)[:, 0]
    assert kstest(v, laplace(scale=1 / 0.4).cdf).pvalue > 1e-8
    for factor, alarm in ((1.0, False), (0.95, True)):
        share = gamma(len(v)).cdf(0.4 * factor * np.abs(v).sum())
        assert (2 * min(share, 1 - share) < 1e-8) == alarm


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize("rows", [2, 3])
def test_draws_are_definite_as_often_as_the_density_says(rows):
    """The share is 2^(1 - P (P + 1) / 2); P degrees of freedom, one too few, are caught.

    Exact binomial limits at 1e-8 on 20,000 draws.
    """
    rng, n = np.random.default_rng(5), 20_000
    share = 2.0 ** (1 - rows * (rows + 1) / 2)
    low, high = binom(n, share).ppf([1e-8, 1 - 1e-8])
    for freedom, alarm in ((rows + 1, False), (rows, True)):
        z = rng.standard_normal((2, n, rows, freedom))
        wishart = z @ np.swapaxes(z, -1, -2)
        if not alarm:
            wishart = np.moveaxis(np.array([own_pair(rows, rng) for _ in range(n)]), 1, 0)
        signs = np.sign(np.linalg.eigvalsh(wishart[0] - wishart[1])).sum(axis=1)
        definite = int((np.abs(signs) == rows).sum())
        assert (not low <= definite <= high) == alarm


def own_pair(rows, rng):
    """The noise's own matrix, and 0: read through a layout that releases all of it."""
    gathered = []

    class Whole:
        n_rows = rows

        def statistic(self, gram):
            gathered.append(gram)
            return gram

    MatrixLaplaceNoise(Whole(), np.ones(rows), Guarantee(1.0)).rvs(rng)
    return gathered[0], np.zeros((rows, rows))


def balls(neighbors):
    for parameters in LAYOUTS.values():
        yield MomentBall(MomentLayout(*parameters, neighbors=neighbors), level=0)
    numbers = MomentLayout(3, range(3), target_square=True, neighbors=neighbors)
    yield RadialMomentBall(numbers, 0.7)


def calibrated(ball, epsilon, weights=None):
    sensitivity = Sensitivity(ball, neighbors=ball.layout.neighbors)
    return MatrixLaplace(weights).calibrate(sensitivity, epsilon=epsilon)


def test_the_variance_of_an_entry_is_that_of_its_normal_products():
    """Two sums of P + 1 products of normals of variance 1 / (2 S): E z^4 = 3 s^2, E z^2 w^2 = s t.

    Draws see 20 % of it, this the last digits.
    """
    precision = np.array([0.4, 1.0, 7.0])
    layout = MomentLayout(1, (0,))
    noise = MatrixLaplaceNoise(layout, precision, Guarantee(1.0))
    for i, s in enumerate(0.5 / precision):
        for j, t in enumerate(0.5 / precision):
            product = 3 * s**2 - s**2 if i == j else s * t
            assert noise.entry_variance(i, j) == pytest.approx(2 * 4 * product, rel=1e-14)


def test_the_mean_gauge_is_that_of_draws():
    """256 of its own against 2000: the seeds are fixed, the two means 5 errors wide."""
    layout = MomentLayout(2, (0, 1))
    noise, ball = calibrated(MomentBall(layout, level=0), 1.0), LpBall(8, p=1.0)
    seen = ball.gauge(draws(noise, 2000, 7))
    error = seen.std() * math.sqrt(1 / 256 + 1 / 2000)
    assert abs(noise.expected_norm(ball) - seen.mean()) < 5 * error


def corner_rows(layout):
    """Every row with numbers at -1 or 1 and any levels."""
    sizes = [len(block) for block in layout.block_columns]
    for signs in itertools.product([-1.0, 1.0], repeat=len(layout.variables)):
        for chosen in itertools.product(*(range(m + 1) for m in sizes)):
            row = np.zeros(layout.n_rows)
            row[0], row[layout.variables] = 1.0, signs
            for block, k in zip(layout.block_columns, chosen, strict=True):
                if k:
                    row[block[k - 1]] = 1.0
            yield row


@pytest.mark.parametrize("name", LAYOUTS)
def test_row_square_is_the_maximum_over_all_corners(name):
    """v'Sv is convex in every number: no inner row has more."""
    layout, rng = MomentLayout(*LAYOUTS[name]), np.random.default_rng(8)
    squares = np.array(list(corner_rows(layout))) ** 2
    for _ in range(5):
        weights = rng.exponential(size=layout.n_rows)
        assert layout.row_square(weights) == pytest.approx((squares @ weights).max(), rel=1e-12)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 1.0, 7.3])
def test_epsilon_is_never_exceeded_in_exact_arithmetic(neighbors, epsilon):
    """v'Sv + u'Su of the worst rows, in fractions, and not far below epsilon."""
    for ball in balls(neighbors):
        noise = calibrated(ball, epsilon)
        precision = [Fraction(s) for s in noise.precision.tolist()]
        if ball.layout.adds:  # what the count is adjusted by
            np.testing.assert_allclose(noise.first_covariance(), noise.covariance()[0])
        assert all(s > 0 for s in precision)
        if isinstance(ball, RadialMomentBall):
            worst = precision[0] + Fraction(0.7) ** 2 * max(precision[1:-1]) + precision[-1]
        else:
            worst = max(
                sum((s for s, x in zip(precision, row, strict=True) if x), Fraction(0))
                for row in corner_rows(ball.layout)
            )
        spent = worst * (1 if ball.layout.adds else 2)
        assert Fraction(epsilon) * Fraction(1 - 1e-11) <= spent <= Fraction(epsilon)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_no_other_diagonal_has_less_weighted_error(neighbors):
    """400 random ones around it, for each layout, as far as a factor of e and as near as 1 %."""
    rng = np.random.default_rng(9)
    for ball in balls(neighbors):
        label_weights = rng.exponential(size=ball.layout.dim)
        weights = label_weights[ball.layout.orbits]
        noise = calibrated(ball, 1.0, weights)
        best = weights @ noise.variance()
        squares = getattr(ball, "row_square", ball.layout.row_square)
        for k in range(400):
            step = rng.normal(size=len(noise.precision)) * (0.01, 0.1, 1.0)[k % 3]
            other = noise.precision * np.exp(step)
            other *= squares(noise.precision) / squares(other)
            assert weights @ replace(noise, precision=other).variance() > best * (1 - 1e-3)
        even = np.ones_like(noise.precision) * squares(noise.precision)
        even /= squares(np.ones_like(even))
        assert weights @ replace(noise, precision=even).variance() >= best * (1 - 1e-9)


LAYOUT = MomentLayout(1, (0,))
LAYOUT_OF = {neighbors: MomentLayout(1, (0,), neighbors=neighbors) for neighbors in RELATIONS}
OWN = Sensitivity(MomentBall(LAYOUT, level=0))
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("mechanism", "sensitivity", "parameters", "text"),
    [
        (MatrixLaplace(), Sensitivity(LpBall(4)), {}, "must be that of moments"),
        (MatrixLaplace(), Sensitivity(OWN.ball, 2.0), {}, "moment ball's own: radius 1"),
        (MatrixLaplace(), Sensitivity(OWN.ball, 1.0, "add_remove"), {}, "the same neighbours"),
        (MatrixLaplace(), OWN, {"epsilon": 0.0}, "epsilon must be"),
        (MatrixLaplace(), OWN, {"epsilon": INF}, "epsilon must be"),
        (MatrixLaplace(), OWN, {"delta": 1.0}, "delta must be"),
        (MatrixLaplace([1.0]), OWN, {}, "4 finite numbers, one for each moment"),
        (MatrixLaplace([1.0, 1.0, 1.0, -1.0]), OWN, {}, "weights must be a number"),
        (MatrixLaplace([1.0, 1.0, 1.0, NAN]), OWN, {}, "weights must be a number"),
        (MatrixLaplace([1.0, 1.0, 1.0, INF]), OWN, {}, "4 finite numbers"),
        (MatrixLaplace([0.0, 0.0, 0.0, 0.0]), OWN, {}, "not all 0"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(mechanism, sensitivity, parameters, text):
    with pytest.raises(ValueError, match=text):
        mechanism.calibrate(sensitivity, **{"epsilon": 1.0, **parameters})


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_delta_that_saves_noise_is_spent_and_a_small_one_is_not(neighbors):
    """The shift is epsilon - 2 log(1 - delta) in exact arithmetic, or epsilon."""
    sensitivity = Sensitivity(MomentBall(LAYOUT_OF[neighbors], level=0), neighbors=neighbors)
    records = 2 if neighbors == "replace_one" else 1
    pure = MatrixLaplace().calibrate(sensitivity, epsilon=1.0)
    for delta in (0.0, 1e-6, 4e-4):
        noise = MatrixLaplace().calibrate(sensitivity, epsilon=1.0, delta=delta)
        assert (noise.guarantee.epsilon, noise.guarantee.delta) == (1.0, 0.0)
        np.testing.assert_array_equal(noise.precision, pure.precision)
        ((loss, _),), ((other, _),) = noise.guarantee.losses, losses_of_trace(1.0, records)
        assert loss.log_delta(0.3) == pytest.approx(other.log_delta(0.3), rel=1e-9)
    for delta in (1e-3, 0.1, 0.9):
        noise = MatrixLaplace().calibrate(sensitivity, epsilon=1.0, delta=delta)
        said, shift = noise.guarantee, 1 - 2 * math.log1p(-delta)
        assert (said.epsilon, said.delta) == (1.0, delta)
        np.testing.assert_allclose(noise.precision, shift * pure.precision, rtol=1e-10)
        ((loss, _),), ((other, _),) = said.losses, losses_of_trace(shift, records)
        assert loss.log_delta(0.3) == pytest.approx(other.log_delta(0.3), rel=1e-9)
        assert said.delta_at(1.0) <= delta
