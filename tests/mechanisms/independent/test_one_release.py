"""The least scale for one real number: never below the truth at sixty digits, and next to it."""

import math

import mpmath as mp
import numpy as np
import pytest
from exact_profile import Bare, exact_delta
from inner_package import last_passing

from skdp import noise as laws
from skdp.mechanisms.independent import calibrate_releases, least_scale
from skdp.noise.independent import greatest_slope
from skdp.noise.laws import FlippedHuber, Gaussian, Laplace, Logistic, OffsetGaussian, Subbotin
from skdp.privacy.shift import log_delta

LAWS = [
    Laplace(0.7), Gaussian(2.0), Logistic(0.4), Subbotin(1.05), Subbotin(1.5), Subbotin(8.0),
    FlippedHuber(1e-3, 1.0), FlippedHuber(1.5, 1.0), FlippedHuber(30.0, 1.0),
    laws.TruncatedLaplace(0.2, 1.0), laws.TruncatedLaplace(5.0, 1.0), OffsetGaussian(0.5, 1.0),
    OffsetGaussian(20.0, 1.0),
]  # fmt: skip
GRID = [
    (1e-4, 1e-2), (1e-4, 1e-30), (0.01, 1e-6), (0.1, 0.9), (1.0, 1e-2), (1.0, 1e-12), (5.0, 1e-30),
    (100.0, 1e-6), (700.0, 1e-12),
]  # fmt: skip


def is_private(law, scale, epsilon, delta):
    """At sixty digits, for a sensitivity of 1 and a scale that may be an mpf."""
    with mp.workdps(60):
        found, spared = exact_delta(law, 1 / mp.mpf(scale), epsilon)
        return bool(found <= delta) if delta <= 0.5 else bool(spared >= 1 - mp.mpf(delta))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_scale_is_private_and_the_least(law):
    """A twin 1e-9 smaller is not private, so a scale too small by that much would be seen."""
    for epsilon, delta in GRID:
        scale = least_scale(law, 1.0, epsilon=epsilon, delta=delta)
        assert is_private(law, scale, epsilon, delta)
        assert not is_private(law, mp.mpf(scale) * (1 - mp.mpf("1e-9")), epsilon, delta)


@pytest.mark.parametrize("law", [Laplace(0.7), Logistic(0.4), Gaussian(2.0)], ids=repr)
def test_closed_forms_agree_with_the_search(law):
    """The same law without its name has its scale searched for."""
    bare = Bare(law)
    for epsilon, delta in ((0.1, 1e-3), (1.0, 1e-9), (10.0, 0.2)):

        def excess(shift, epsilon=epsilon, delta=delta):
            return float(log_delta(bare, shift, epsilon)) - math.log(delta)

        scale = 1 / last_passing(excess, 1.0)
        assert least_scale(law, 1.0, epsilon=epsilon, delta=delta) == pytest.approx(
            scale, rel=3e-12
        )


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_scale_is_linear_in_the_shift_and_falls_with_epsilon_and_delta(law):
    """A truncated law may need the same scale at a greater epsilon: its end decides."""
    first = least_scale(law, 1.0, epsilon=0.5, delta=1e-3)
    assert least_scale(law, 1.0, epsilon=0.6, delta=1e-3) <= first * (1 + 1e-12)
    assert least_scale(law, 1.0, epsilon=0.5, delta=2e-3) < first
    assert least_scale(law, 3.0, epsilon=0.5, delta=1e-3) == pytest.approx(3 * first, rel=1e-14)


def test_pure_privacy_is_for_bounded_losses():
    """At delta = 0 the scale is slope times shift over epsilon; nothing less is private."""
    for law in (Laplace(0.5), Logistic(0.5), Subbotin(1.0, 0.5)):
        scale = least_scale(law, 3.0, epsilon=2.0)
        assert scale == pytest.approx(3.0, rel=1e-11)
        assert scale > 3.0
        assert greatest_slope(law) == 2.0
    other = Bare(Laplace(0.5))
    assert greatest_slope(other) == math.inf


@pytest.mark.parametrize("law", [*LAWS[5:], Bare(Laplace())], ids=repr)
def test_an_unbounded_loss_is_refused_at_delta_zero(law):
    message = r"delta must be > 0 .*not known to be pure DP.*Pass 1e-6, say, or take"
    with pytest.raises(ValueError, match=message):
        least_scale(law, 1.0, epsilon=1.0)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("epsilon", {"epsilon": 0.0, "delta": 0.1}),
        ("epsilon", {"epsilon": math.nan, "delta": 0.1}),
        ("epsilon", {"epsilon": math.inf, "delta": 0.1}),
        ("delta", {"epsilon": 1.0, "delta": 1.0}),
        ("delta", {"epsilon": 1.0, "delta": -1e-9}),
        ("delta", {"epsilon": 1.0, "delta": math.nan}),
    ],
)
def test_errors_name_the_parameter(kind, values):
    with pytest.raises(ValueError, match=f"^{kind} must be"):
        least_scale(Subbotin(3.0), 1.0, **values)


STEPS = [
    lambda x: -math.inf if x < 0.3 else 5.0,
    lambda x: -1e-4 * (0.3 - x) if x <= 0.3 else 1e3,
    lambda x: math.log(x / 0.3),
    lambda x: (x / 0.3) ** 40 - 1,
    lambda x: math.inf if x > 0.3 else -1.0,
]


@pytest.mark.parametrize("excess", STEPS)
@pytest.mark.parametrize("start", [1e-9, 0.29999, 1e6])
def test_the_search_returns_an_end_that_has_passed(excess, start):
    """Also at jumps; in few steps; a search that returns the middle would fail half of these."""
    seen = []

    def watched(x):
        seen.append(x)
        return excess(x)

    found = last_passing(watched, start)
    assert found in seen
    assert excess(found) <= 0
    assert excess(found * (1 + 1e-13)) > 0
    assert len(seen) < 120


@pytest.mark.parametrize("size", [2.0**-20, 1.0, 2.0**20])
@pytest.mark.parametrize("law", [Laplace(), Gaussian()], ids=repr)
def test_the_dither_s_grid_is_no_finer_than_the_error_of_the_sampler(law, size):
    """A draw is within one step of the exact law's; the grid is hardly wider than that takes."""
    noise = calibrate_releases(law, [(size, 3)], neighbors="replace_one", epsilon=1.0, delta=1e-6)
    factors = np.array([1.0, 0.01, 30.0])
    error = noise.granularity * factors * math.sqrt(noise.var())
    step = 2.0 ** noise.publication_for(factors, 2).lattice.fine
    assert (error <= step).all()
    assert (step <= 4 * error).all()
