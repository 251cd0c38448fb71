"""The privacy loss of exp(-|x|_2): its closed form against radius and angle, digits and bounds."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc, logsumexp
from scipy.stats import gamma, kstest

from skdp.geometry import LpBall
from skdp.noise.laws import Laplace
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.radial import RadialLoss, RadialSum

CASES = [(2, 0.3), (2, 1.0002), (3, 1.1), (7, 12.0), (50, 2.0), (300, 40.0), (1000, 7.5)]


def tail_by_radius(dim, shift, loss):
    """P(|X + v| - |X| > l) in doubles: r = |X| is Gamma(d), the angle's cosine a beta variable.

    |X + v| > r + l is u > (2 r l + l^2 - v^2) / (2 r v); all angles do for r < (v - l) / 2.
    """
    first = (shift - loss) / 2

    def share(step):
        r = first + step**2
        u = (2 * r * loss + loss**2 - shift**2) / (2 * r * shift)
        angle = betainc((dim - 1) / 2, (dim - 1) / 2, min(max((1 - u) / 2, 0.0), 1.0))
        return 2 * step * angle * math.exp((dim - 1) * math.log(r) - r - math.lgamma(dim))

    most = math.sqrt(gamma(dim).isf(1e-18))
    ends = np.linspace(0.0, most, 9)
    parts = [quad(share, a, b, epsabs=0, epsrel=1e-11)[0] for a, b in pairwise(ends)]
    return gamma(dim).cdf(first) + sum(parts)


@pytest.mark.parametrize(("dim", "shift"), CASES)
def test_the_closed_form_is_that_of_radius_and_angle(dim, shift):
    """Both tails under P, and those under Q, which are the others' mirror images."""
    for share in (-0.5, 0.0, 0.3):
        loss = share * shift
        above = tail_by_radius(dim, shift, loss)
        found = np.exp(RadialLoss(dim, shift).log_tails(loss))
        assert found[0] == pytest.approx(above, rel=1e-8)
        assert found[2] == pytest.approx(1 - above, rel=1e-8, abs=1e-12)
        mirrored = tail_by_radius(dim, shift, -loss)
        assert found[3] == pytest.approx(mirrored, rel=1e-8)


def density(dim, shift):
    """The density of the angle t with L = v cos t under P, up to its integral."""
    k, order, ratio = mpmath.mpf(shift) / 2, mpmath.mpf(-0.5), mpmath.mpf(1)
    if dim % 2 == 0:
        order, ratio = mpmath.mpf(0), mpmath.besselk(1, k) / mpmath.besselk(0, k)
    while order < mpmath.mpf(dim) / 2 - 1:
        order += 1
        ratio = 1 / ratio + 2 * order / k
    b = (dim - 1) * ratio / k
    return lambda t: (
        mpmath.exp(k * mpmath.cos(t)) * mpmath.sin(t) ** (dim - 2) * (mpmath.sin(t) ** 2 + b)
    )


def integral(function, start, stop, pieces=24):
    ends = [start + (stop - start) * mpmath.mpf(i) / pieces for i in range(pieces + 1)]
    return mpmath.quad(function, ends, method="gauss-legendre")


DIGITS = [
    (2, 1.0002, 1.0), (3, 1.1, 1.0), (10, 1.1, 1.0), (1000, 7.5, 1.0), (1000, 0.05, 0.01),
    (30, 100.0, 90.0), (50, 2.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "shift", "epsilon"), DIGITS)
def test_digits_of_tails_and_delta(dim, shift, epsilon):
    """Against the same integral at thirty digits: delta from above by less than 1e-12."""
    with mpmath.workdps(30):
        p, e = density(dim, shift), mpmath.mpf(epsilon)

        def q(t):
            return p(t) * mpmath.exp(-shift * mpmath.cos(t))

        def gain(t):
            return -p(t) * mpmath.expm1(e - shift * mpmath.cos(t))

        at = mpmath.acos(e / shift)
        ups = [integral(f, 0, at) for f in (p, q, gain)]
        lows = [integral(f, at, mpmath.pi) for f in (p, q)]
        total = ups[0] + lows[0]
        true = [float(mpmath.log(x / total)) for x in (*ups, *lows)]
    loss = RadialLoss(dim, shift)
    found = loss.log_tails(epsilon)
    assert found == pytest.approx([true[0], true[1], true[3], true[4]], rel=1e-15, abs=1e-13)
    assert true[2] <= loss.log_delta(epsilon) <= true[2] + 1e-12
    assert loss.log_delta(-epsilon) == pytest.approx(
        math.log(-math.expm1(-epsilon) + math.exp(true[2] - epsilon)), abs=1e-12
    )


@pytest.mark.parametrize(("dim", "shift"), [(2, 3.0), (20, 6.0)])
def test_it_is_the_loss_of_drawn_noise(dim, shift):
    """Kolmogorov-Smirnov at 1e-7 on 20,000 draws, which a shift 5 % shorter does not pass."""
    rng = np.random.default_rng(0)
    x = rng.gamma(dim + 1, size=(20_000, 1)) * LpBall(dim).sample(20_000, rng)
    size = np.linalg.norm(x, axis=1)
    moved = np.linalg.norm(x + shift * np.eye(dim)[0], axis=1)
    for twin, alarm in ((1.0, False), (0.95, True)):
        loss = RadialLoss(dim, twin * shift)
        p = kstest(moved - size, lambda at, loss=loss: np.exp(loss.log_tails(at)[2])).pvalue
        assert (p < 1e-7) == alarm


@pytest.mark.parametrize("shift", [1e-3, 1.0, 30.0])
def test_one_dimension_is_a_laplace_variable(shift):
    """With its two atoms, at the ends of the range."""
    ours, other = RadialLoss(1, shift), ShiftLoss(Laplace(), shift)
    losses = shift * np.array([-2.0, -1.0, -0.999, -0.3, 0.0, 0.2, 0.999, 1.0, 2.0])
    for found, expected in zip(ours.log_tails(losses), other.log_tails(losses), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    delta = [max(0.0, -math.expm1((at - shift) / 2)) for at in losses[losses >= 0].tolist()]
    found = np.exp(ours.log_delta(losses[losses >= 0]))
    np.testing.assert_allclose(found, delta, rtol=3e-13)
    np.testing.assert_allclose(
        ours.log_delta(losses), other.log_delta(losses), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(("dim", "shift"), [*CASES, (2, 1e5), (10**6, 500.0), (5, 1e-9)])
def test_tails_are_those_of_one_symmetric_law(dim, shift):
    """They add up to 1, are monotone, mirror each other, and end at the shift."""
    loss = RadialLoss(dim, shift)
    assert loss.symmetric
    assert loss.reversed() is loss
    grid = shift * np.concatenate([[-1.5, -1.0], np.linspace(-1, 1, 401), [1.0, 1.5]])
    up_p, up_q, low_p, low_q = loss.log_tails(grid)
    np.testing.assert_allclose(np.exp(up_p) + np.exp(low_p), 1.0, rtol=1e-11)
    np.testing.assert_allclose(np.exp(up_q) + np.exp(low_q), 1.0, rtol=1e-11)
    for tail, sign in ((up_p, -1), (up_q, -1), (low_p, 1), (low_q, 1)):
        assert (np.diff(sign * tail[np.isfinite(tail)]) >= -1e-9).all()
    np.testing.assert_allclose(np.exp(up_p), np.exp(low_q[::-1]), rtol=1e-10)
    assert (up_p[-3:] == -np.inf).all()
    assert (low_p[-3:] == 0.0).all()
    assert (up_p[:3] == 0.0).all()


def test_far_tails_are_right_in_logs():
    """Next to the greatest loss the density is that of an angle t -> 0, t^(d-2) e^(k cos t) b."""
    dim, shift = 40, 3.0
    with mpmath.workdps(30):
        p = density(dim, shift)
        total = integral(p, 0, mpmath.pi)
        for gap in (1e-3, 1e-9, 1e-15):
            loss = shift * (1 - gap)
            angle = mpmath.acos(mpmath.mpf(loss) / shift)
            true = mpmath.log(integral(p, 0, angle) / total)
            assert float(RadialLoss(dim, shift).log_tails(loss)[0]) == pytest.approx(
                float(true), rel=1e-12
            )


@pytest.mark.parametrize(("dim", "shift"), [(2, 1.0), (5, 0.3), (40, 3.0)])
def test_beyond_the_pieces_both_laws_differ_by_the_greatest_loss(dim, shift):
    """There P has e^shift times the mass of Q, to all digits."""
    gap = np.array([1e-30, 1e-60, 1e-200])
    total = RadialSum(dim, shift)
    p, q = total._log_far(total.end - np.log(gap) / 10)
    np.testing.assert_allclose(p - q, shift, rtol=1e-12)
    # And the pieces go on where the closed form begins.
    ends = np.linspace(total.end, total.end + 80 / dim, 2000)
    pieces = total._log_integrals(ends[:-1], ends[1:])
    found = [logsumexp(piece) for piece in pieces]
    np.testing.assert_allclose(found, total.log_beyond, rtol=1e-10)


def test_delta_at_many_epsilons():
    """It falls and bends as delta must, is the same one by one, and ends at the shift."""
    loss, grid = RadialLoss(20, 3.0), np.linspace(-4, 3.5, 301)
    delta = np.exp(loss.log_delta(grid))
    assert (np.diff(delta) <= 0).all()
    slopes = np.diff(delta) / np.diff(np.exp(grid))
    assert (np.diff(slopes) >= -1e-12).all()
    assert (slopes >= -1 - 1e-12).all()
    for k in (3, 150, 260):
        assert delta[k] == pytest.approx(math.exp(loss.log_delta(grid[k])), rel=1e-14)
    assert loss.log_delta(3.0) == -math.inf
    assert loss.log_delta(1e9) == -math.inf
    assert np.isnan(loss.log_delta(math.nan))
    assert np.isnan(loss.log_tails(math.nan)).all()
    assert loss.log_delta(grid.reshape(7, 43)).shape == (7, 43)
    assert all(t.shape == (0,) for t in loss.log_tails([]))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RadialLoss(0, 1.0), "dim must be an integer >= 1"),
        (lambda: RadialLoss(2, 0.0), "shift must be a finite number > 0"),
        (lambda: RadialLoss(2, math.nan), "shift must"),
        (lambda: RadialLoss(2, 2e5), "100000.*an upper bound"),
    ],
)
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=f"(?s){text}"):
        make()
