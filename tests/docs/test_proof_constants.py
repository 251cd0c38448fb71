"""The constants of docs/proofs, against exact arithmetic, 50 digits, and the code that has them."""

import inspect
import math
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from inner_descent import BOX_RADIUS, RADIUS
from inner_descent import gradients_module as _gradients
from inner_descent import solve_module as _descent
from inner_fits import GRAM_BITS, NUMBER_BITS, Design, Task, row_unit, whole_rows
from inner_fits import gram_module as _gram
from inner_moments import DESCENT, RowScaler, moment_ball
from inner_moments import moments_module as _parts
from inner_moments import scaling_module as _stage
from inner_objective import greatest_leverage
from inner_objective import theorem_module as objective
from scipy import integrate
from scipy.special import expit

from skdp import Domain, DPLogisticRegression
from skdp.domain.layout import encode_compactly
from skdp.linear_model.losses import LogisticLoss
from skdp.mechanisms.statistics import ROUNDING
from skdp.noise import Laplace
from skdp.noise.independent import MOST_SIZES
from skdp.privacy import composition as _lower
from skdp.privacy import ledger_file, ledger_rules
from skdp.privacy import profile as _profile
from skdp.privacy.composition import Composition
from skdp.privacy.conversions import mu_of_pure, pure_of_mu, rho_of_pure
from skdp.privacy.shift import ShiftLoss
from skdp.rows import Block
from skdp.rows import memory as _memory
from skdp.trusted import arrays as _sums
from skdp.trusted import composition as _plan
from skdp.trusted import fold as _fold
from skdp.trusted import radial as _radial_sum
from skdp.trusted.arrays import ROUND_UP
from skdp.trusted.losses import SelectionLoss
from skdp.trusted.noise import variances
from skdp.trusted.randomness import GRANULARITY

PROOFS = Path(__file__).parents[2] / "docs" / "proofs"
RELATIONS = ["replace_one", "add_remove"]


def power(exponent):
    return f"2^{{{exponent}}}"


# A number of [-1, 1], centred and divided by the least scale.
_GREATEST_NUMBER = 2 / (min(RADIUS, BOX_RADIUS) * math.sqrt(DESCENT.least))
# What a page says in formulas, made of the constants of the code.
SAID = [
    ("coordinate_descent", f"half-width ${power(round(math.log2(_descent.FARTHEST)))}$"),
    ("coordinate_descent", f"at most ${power(round(math.log2(2 * _descent.FARTHEST)))}$"),
    ("coordinate_descent", f"at most ${power(round(math.log2(_gradients.MOST_MOVE)))}$"),
    ("coordinate_descent", f"Scaled numbers are at most ${_GREATEST_NUMBER:g}$"),
    ("coordinate_descent", f"allow ${power(round(math.log2(_gradients.MOST_NUMBER)))}$"),
    ("coordinate_descent", f"at least $10^{{{round(math.log10(DESCENT.least))}}}$ (`SpreadRule`)"),
    ("coordinate_descent", f"a multiple of ${power(-NUMBER_BITS)}$"),
    ("coordinate_descent", f"a multiple of ${power(-GRAM_BITS)}$"),
    ("coordinate_descent", f"at most ${power(round(math.log2(_memory.MOST_ROWS)))}$ shares"),
    ("coordinate_descent", f"with {_descent._MORE_BITS} bits more"),
    ("moment_release", f"a multiple of ${power(-NUMBER_BITS)}$"),
    ("moment_release", f"at most ${power(round(math.log2(_memory.MOST_ROWS)))}$ of them"),
    ("moment_release", f"at most $2^{round(math.log2(_sums.FOLD))}$ at a time"),
    ("moment_release", f"to {_parts.MOST_SHARE:g} of $\\epsilon$".replace("0.", ".")),
    ("objective_perturbation", f"\\min(\\epsilon/{round(1 / objective.OUTPUT_SHARE)}, "),
    ("objective_perturbation", f", {objective.MOST_OUTPUT:g}/K)$ for each of $K$ models"),
    ("objective_perturbation", f"at most $h/({objective.GRID_STEPS}d)$"),
    ("repeated_releases", f"Of more than {MOST_SIZES} a few"),
    ("conversions", f"{_profile._PIECES} pieces"),
    ("adaptive_spending", f"\\frac14d$; or\n* $\\sum l_i \\le \\frac1{{{round(1 / 0.05)}}}d$"),
    ("adaptive_spending", f"{ledger_rules._GAUSSIAN_SHARE:g}\\,d$ for $b = \\sum m_i$"),
    ("adaptive_spending", f"has\n    $\\delta(e) \\le {ledger_rules._ASIDE_SHARE:g}\\,d$"),
    ("adaptive_spending", f"{2 * ledger_file._POINTS + 1}\npoints"),
    ("loss_distributions", "4\\cdot10^{-5}\\max(\\min(\\epsilon, 1), \\epsilon/4)"),
    ("loss_distributions", f"e^{{-{_fold._DEEP:g}}}$ are set to 0"),
    ("loss_distributions", "$\\nu = 100\\cdot 2^{-52}$"),
    ("knorm_delta", f"w \\le {_radial_sum._WIDEST:g}$ with {len(_radial_sum._NODES)} Gauss"),
    ("knorm_delta", f"{_radial_sum._BULGE:g}\\,\\mathrm{{sech}}^2c$"),
    ("hulls", "raised by $2^{-52}(k+1)"),
]


@pytest.mark.parametrize(("page", "said"), SAID)
def test_a_page_states_the_constant_that_the_code_has(page, said):
    text = (PROOFS / f"{page}.md").read_text(encoding="utf-8")
    squeezed = " ".join(text.split())
    assert " ".join(said.split()) in squeezed


def test_constants_that_pages_state_in_words():
    unit = Fraction(1, 2**52)
    assert (_stage.LEAST_SHARE, _stage.MOST_SHARE) == (1 / 20, 1 / 5)
    assert (_plan._GAP, Fraction(_lower._NUDGE), Fraction(_fold.SHAKE)) == (
        4e-5, 100 * unit, 16 * unit,
    )  # fmt: skip
    assert (Fraction(ROUNDING), _fold.ACCURACY, ROUND_UP) == (unit, 1e-12, 1 + 1e-12)


def test_shares_of_a_divided_ledger_add_up_to_all_of_delta():
    parts = ["_BASIC_SHARE", "_INFINITY_SHARE", "_GAUSSIAN_SHARE"]
    shares = [Fraction(repr(getattr(ledger_rules, part))) for part in parts]
    aside = Fraction(repr(ledger_rules._ASIDE_SHARE)) * len(ledger_rules._ASIDE)
    assert sum(shares) + aside == 1


# Lengths of what one record changes


def test_the_square_of_a_number_and_its_own_change_together_by_at_most_4():
    """max over [0, 2] of u^2 (1 + w^2 (2 - u)^2) at the greatest w^2, to fifty digits."""
    with mp.workdps(50):
        root = mp.sqrt(5)
        weight = (11 + 5 * root) / 8
        for u, value in ((root - 1, 4), (4 - root, (4 - root) ** 3 / (2 * (3 - root)))):
            assert abs(1 + 2 * weight * (2 - u) * (1 - u)) < mp.mpf(10) ** -45  # a zero of g'
            assert abs(u**2 * (1 + weight * (2 - u) ** 2) - value) < mp.mpf(10) ** -45
            assert value <= 4
        assert mp.mpf(11) / 4 < weight < mp.mpf("2.7726")


WEIGHT = Fraction(11, 4)


def extreme_changes(numbers, blocks, adds):
    """Squared lengths of changes in the first stage of cross moments, over corners."""
    grid = [Fraction(k, 8) for k in range(-8, 9)]
    each = max(
        (y - z) ** 2 + WEIGHT * (y * y - z * z) ** 2 if not adds else y * y + (2 * y * y - 1) ** 2
        for y in grid for z in (grid if not adds else [0])
    )  # fmt: skip
    return (numbers + 1) * each + blocks * (1 if adds else 2) + adds


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(("numbers", "levels"), [(1, 0), (2, 1), (3, 2), (5, 0)])
def test_lengths_of_cross_moments_hold_every_change(numbers, levels, neighbors):
    columns = {f"x{j}": (-1, 1) for j in range(numbers)}
    columns |= {f"c{j}": ["a", "b", "c"] for j in range(levels)}
    design = Design(Domain(columns, target=(-1, 1)), True)
    n = None if neighbors == "add_remove" else 10
    plan = _parts.ScaledMoments.plan(Task(design, n, 1.0, 0.0, neighbors, n_public=10), 3.0)
    found = _parts.lengths(plan.layout, plan.first.sums)
    first, second = (Fraction(v) ** 2 for v in found)
    adds = neighbors == "add_remove"
    seen = extreme_changes(numbers, levels, adds)
    assert seen <= first <= seen * Fraction(107, 100)
    # v (1, u) at v = 1, and its mirror image
    exact = (1 + numbers + levels) * (1 if adds else 4)
    assert exact <= second <= exact * (1 + Fraction(5, 10**12))


# Rounding to the grid


def squared_length(row):
    return sum(Fraction(float(v)) ** 2 for v in row)


def on_grid(rows):
    rows = rows + _gram.ROUNDER
    return rows - _gram.ROUNDER


@pytest.mark.parametrize("width", [3, 12, 102])
def test_rows_of_the_second_stage_are_as_short_as_what_is_charged(width):
    """Rows that end half a step from grid points, all upwards: beyond 1, and that is paid for."""
    rng = np.random.default_rng(width)
    layout = _parts.MomentLayout(width - 2, tuple(range(width - 2)), (), True, True)
    scaler = RowScaler(np.zeros(width), np.ones(width), np.ones(width))
    rows = np.floor(rng.uniform(0.02, 1, (400, width)) / math.sqrt(width) * 2**NUMBER_BITS)
    rows = (rows + 0.5000001) / 2**NUMBER_BITS
    rows[0] = 1.0  # from far outside
    rows[:, -1] = np.sqrt(np.maximum(0.0, 1 - (rows[:, :-1] ** 2).sum(axis=1)))
    scaler.place(rows)
    longest = max(squared_length(row) for row in on_grid(rows))
    bound = Fraction(_parts.greatest_square(layout))
    assert 1 < longest <= bound
    # The bound is |z| <= 1 + sqrt(P) 2^-20, in fractions: the root is rounded down.
    root = Fraction(math.isqrt(width * 4**40), 2**40)
    assert bound >= (1 + root / 2**NUMBER_BITS) ** 2
    # Half of it is what the grid may do, the other half is for rounding before it.
    assert longest <= (1 + root / 2 ** (NUMBER_BITS + 1) + Fraction(1, 2**45)) ** 2


@pytest.mark.parametrize("radius", [0.7, 1.0, 1.3, 5e-9])
def test_rows_of_a_ball_are_as_short_as_its_moment_ball_says(radius):
    rng, q = np.random.default_rng(0), 9
    domain = Domain.l2_ball(q, radius, target=(-1.0, 1.0))
    unit = row_unit(domain)
    rows = np.floor(rng.uniform(0.02, 1, (400, q)) / math.sqrt(q) * radius / unit * 2**NUMBER_BITS)
    rows = (rows + 0.5000001) / 2**NUMBER_BITS
    rest = (radius / unit) ** 2 - (rows[:, :-1] ** 2).sum(axis=1)
    rows[:, -1] = np.sqrt(np.maximum(0.0, rest))
    encoded = encode_compactly(domain, rows * unit)
    block = Block(encoded.numbers, encoded.levels, np.zeros(len(rows)))
    (placed,) = whole_rows(domain, block, None)
    longest = max(squared_length(row[1:-1]) for row in placed)
    allowed = Fraction(moment_ball(domain, "replace_one").radius)
    assert (Fraction(radius) / Fraction(unit)) ** 2 < longest <= allowed**2
    root = Fraction(math.isqrt(q * 4**40), 2**40)
    moved = Fraction(radius) / Fraction(unit) + root / 2 ** (NUMBER_BITS + 1)
    assert allowed >= moved * (1 - Fraction(1, 2**52))


def test_weights_are_rounded_down_by_more_than_their_sums_are_off():
    """Theorem 6 of coordinate_descent.md, in fractions, for 2^20 blocks."""
    u, blocks = Fraction(1, 2**53), 2**20
    # A product a z^2 with a rounded power, and additions: (1 + u)^(n + 4) at most.
    off = (blocks + 4) * u / (1 - (blocks + 4) * u)
    assert off < Fraction(1, 2**32)
    down = 1 - Fraction(1, 2**30)
    assert down**2 * (1 + off) * (1 + u) ** 6 < 1
    assert down * (1 + off) * (1 + u) ** 6 < 1
    # 2^-40 would not be enough for so many blocks.
    assert (1 - Fraction(1, 2**40)) ** 2 * (1 + off) > 1
    text = (PROOFS / "coordinate_descent.md").read_text(encoding="utf-8")
    assert "(1 - 2.0**-30)" in inspect.getsource(_gradients.ScaledRows._weights)
    assert "\\sqrt{B/\\ell}\\,(1 - 2^{-30})" in text


def test_the_quotient_that_bounds_a_weight_reaches_no_integer_by_rounding():
    """floor(2^20 / z) for z = k 2^-20: the distance to the next integer is above a rounding."""
    rng = np.random.default_rng(0)
    k = rng.integers(2**20, 2**24, 100_000)
    found = np.floor(2.0**20 / (k / 2.0**20))
    assert (found == 2**40 // k).all()


# Conversions


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.1, 0.999, 1.0, 3.0, 20.0, 300.0, 700.0])
def test_pure_privacy_in_gaussian_terms_touches_the_corner_from_the_safe_side(epsilon):
    """G_mu(c) <= c at the corner c = 1 / (1 + e^epsilon), to fifty digits."""
    with mp.workdps(350):
        e, mu = mp.mpf(epsilon), mp.mpf(mu_of_pure(epsilon))
        corner = 1 / (1 + mp.exp(e))
        # G_mu(c) <= c exactly if Phi(-mu / 2) <= c.
        assert mp.ncdf(-mu / 2) <= corner
        assert mp.ncdf(-mu * (1 - mp.mpf(10) ** -11) / 2) > corner
        back = mp.mpf(pure_of_mu(float(mu)))
        assert e * (1 - mp.mpf(10) ** -11) < back <= e
        least = e * mp.tanh(e / 2)
        assert least <= mp.mpf(rho_of_pure(epsilon)) <= least * (1 + mp.mpf(10) ** -11)


# Noise


@pytest.mark.parametrize("seed", range(4))
def test_no_log_concave_noise_on_a_line_tells_more_than_laplace_noise(seed):
    """knorm_delta.md, Theorem 1: log-densities made of pieces, of slopes up to a in size."""
    rng = np.random.default_rng(seed)
    a = float(rng.uniform(0.3, 4))
    knots = np.sort(rng.normal(size=6)) * rng.choice([0.3, 1, 5])
    inner = np.sort(rng.uniform(-a, a, 5))[::-1]
    slopes = np.concatenate([[a], inner, [-a]])
    t = np.linspace(-40 / a + knots[0], 40 / a + knots[-1], 400_001)
    step = t[1] - t[0]
    bends = np.concatenate([[slopes[0]], np.diff(slopes)])
    log_g = bends[0] * t + sum(
        b * np.maximum(t - k, 0) for b, k in zip(bends[1:], knots, strict=True)
    )
    log_g -= np.log(np.exp(log_g - log_g.max()).sum() * step) + log_g.max()
    ahead = np.interp(t + 1, t, log_g)
    for epsilon in a * np.array([0.0, 0.2, 0.6, 0.95]):
        delta = np.maximum(np.exp(log_g) - np.exp(epsilon + ahead), 0).sum() * step
        assert delta <= -math.expm1((epsilon - a) / 2) + 1e-4


def test_constants_of_the_sums_for_round_noise():
    """knorm_delta.md, Proposition 4, to thirty digits."""
    with mp.workdps(30):
        half = mp.mpf(1) / 2
        assert mp.e / mp.cos(half) ** 2 < _radial_sum._BULGE
        length = (8 + mp.mpf(1) / 8) / 4
        assert length < _radial_sum._LENGTH
        assert half > _radial_sum._LENGTH * _radial_sum._WIDEST
        height = mp.exp(10) * 6
        assert height < mp.mpf("1.4e5")
        assert _radial_sum._BULGE * mp.exp(mp.mpf("0.48")) < 6
        error = half * mp.mpf(64) / 15 * mp.mpf("1.4e5") * mp.mpf(8) ** -38 / (1 - mp.mpf(8) ** -2)
        assert error < mp.mpf("2e-29")
        assert 25 * mp.exp(17) < 10**9
        assert 2 * error * 10**9 < mp.mpf("1e-19")


@pytest.mark.parametrize("width", [0.05, 1.0, 4.0])
def test_a_choice_is_the_worst_pair_of_two_points(width):
    """coordinate_descent.md, Theorem 5 (iii): the greatest over t of two-point profiles."""
    top = math.exp(width)
    t = np.exp(np.linspace(0, width, 4001))
    for epsilon in np.linspace(-0.9 * width, 0.9 * width, 7):
        gamma = math.exp(epsilon)
        share = (top - t) / (top - 1)  # P-mass of the loss log t
        high = share * np.maximum(1 - gamma / t, 0)
        low = (1 - share) * np.maximum(1 - gamma * top / t, 0)
        found = math.exp(float(SelectionLoss(width).log_delta(epsilon)))
        assert (high + low).max() == pytest.approx(found, rel=1e-5)
        assert (high + low).max() <= found * (1 + 1e-12)


def test_a_shift_that_is_worst_at_one_epsilon_is_not_worst_in_a_composition():
    """worst_shift.md, "What does not follow": Laplace noise, shifts (.6, .6) and (1, 0)."""
    alone, both = ((ShiftLoss(Laplace(), 1.0), 1),), ((ShiftLoss(Laplace(), 0.6), 2),)
    at_zero = [Composition(losses).delta_at(0.0) for losses in (alone, both)]
    assert at_zero[0].lower > at_zero[1].upper
    many = [tuple((loss, 12 * n) for loss, n in losses) for losses in (alone, both)]
    far = [Composition(losses).delta_at(12.5) for losses in many]
    assert far[1].lower > 0 == far[0].upper
    # (1.2, 0) majorises both, and dominates both in any composition.
    above = Composition(((ShiftLoss(Laplace(), 1.2), 12),))
    for epsilon in (0.0, 1.0, 5.0, 10.0, 12.5, 14.0):
        bound = above.delta_at(epsilon).upper
        assert all(Composition(losses).delta_at(epsilon).lower <= bound for losses in many)


@pytest.mark.parametrize("dim", [1, 4, 60])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_the_output_noise_hides_the_distance_that_is_left_open(dim, epsilon):
    """objective_perturbation.md, Theorem 4, in fractions: t >= 2 (h / g + d) / epsilon_o."""
    domain = Domain.unit_box(dim, target=[0, 1])
    model = DPLogisticRegression(epsilon=epsilon, domain=domain)
    plan = model._plan(Design(domain, True), 1000, 1).minimisers[0]
    d, hidden = len(plan.ridge), plan.publication
    root = Fraction(math.isqrt(d * 4**60) + 1, 2**60)
    sampled = Fraction(GRANULARITY) * Fraction(math.sqrt(float(variances(plan.noise).sum())))
    open_ended = (Fraction(plan.tolerance) + sampled) / Fraction(float(plan.ridge.min()))
    grid = Fraction(2) ** hidden.exponent
    steps = root * open_ended / grid + d
    spent = Fraction(objective.OUTPUT_SHARE) * Fraction(plan.epsilon)
    assert 2 * steps / spent <= hidden.scale <= 2 * steps / spent * Fraction(11, 10) + 1
    assert grid <= root * open_ended / (objective.GRID_STEPS * d) <= 2 * grid * Fraction(101, 100)


# Objective perturbation


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_penalty_with_a_corner_keeps_the_guarantee_and_its_atom(neighbors):
    """objective_perturbation.md, Corollary 2, in one dimension with r = b |theta|, b = 1."""
    epsilon, q, b = 1.0, 0.9, 1.0
    scale = (2 if neighbors == "replace_one" else 1) / (epsilon * q)
    enough = 1 / greatest_leverage(LogisticLoss(), q, epsilon, neighbors)
    grid = np.linspace(-60, 60, 1_200_001)
    step = grid[1] - grid[0]

    def law(labels, ridge):
        def gradient(a):
            return sum(expit(a) - y for y in labels) + ridge * a

        def density(v):
            return np.exp(-np.abs(v) / scale) / (2 * scale)

        bend = ridge + len(labels) * expit(grid) * expit(-grid)
        smooth = density(gradient(grid) + b * np.sign(grid)) * bend
        at_zero = gradient(0.0)
        atom, _ = integrate.quad(density, -at_zero - b, -at_zero + b, points=[0.0])
        return smooth, atom

    pairs = [([1.0], [0.0])] if neighbors == "replace_one" else [([1.0], []), ([], [0.0])]
    for one, other in pairs:
        (p, at_p), (r, at_r) = law(one, enough), law(other, enough)
        assert p.sum() * step + at_p == pytest.approx(1, abs=1e-4)
        assert np.abs(np.log(p / r)).max() <= epsilon
        assert at_p > 0.05
        assert abs(math.log(at_p / at_r)) <= epsilon
    if neighbors == "add_remove":  # a ridge far too small is seen
        (p, _), (r, _) = law([1.0], enough / 100), law([], enough / 100)
        assert np.abs(np.log(p / r)).max() > epsilon


# Matrices


def test_one_wishart_matrix_tells_neighbours_apart_with_certainty():
    """errata.md, 21: a release above G' but not above G never comes from G."""
    rng, p, scale = np.random.default_rng(0), 3, 1.5
    u, v = np.array([1.0, 0.0, 0.0]), np.array([0.6, 0.8, 0.0])
    one = np.eye(p) + np.outer(u, u)
    other = np.eye(p) + np.outer(v, v)

    def below(release, matrix):
        return np.linalg.eigvalsh(release - matrix)[0] < -1e-9

    draws = rng.normal(size=(2000, p, p + 1)) * math.sqrt(scale)
    noise = draws @ draws.transpose(0, 2, 1)
    assert not any(below(one + w, one) for w in noise)
    revealing = np.mean([below(other + w, one) for w in noise])
    assert revealing > 0.02  # the delta of that noise, at every epsilon
