"""How the law and the scale for many releases are found: choices, looks, and what they may do."""

import math

import numpy as np
import pytest
from test_repeated import COUNTS, MIXED, calibrated, composed

from skdp.mechanisms.auto import TIE
from skdp.mechanisms.independent import _budget as budget_module
from skdp.mechanisms.independent._budget import Budget
from skdp.mechanisms.independent._composed import Composed, Root
from skdp.mechanisms.independent._releases import CANDIDATES
from skdp.mechanisms.independent._sketch import Sketch, _binned
from skdp.mechanisms.independent.repeated import MECHANISMS, _calibrated
from skdp.noise.flipped_huber import FlippedHuber
from skdp.noise.laplace import Laplace
from skdp.noise.logistic import Logistic
from skdp.noise.truncated_laplace import TruncatedLaplace

# Choosing


CELLS = [
    ([(1.0, 1)], 1.0, 0.01, "FlippedHuber"),
    ([(1.0, 1)], 1.0, 1e-6, "Laplace"),
    ([(1.0, 8)], 1.0, 1e-6, "OffsetGaussian"),
    ([(1.0, 8)], 0.1, 1e-6, "Logistic"),
    (MIXED, 1.0, 1e-5, "Gaussian"),
    ([(1.0, 10_000)], 1.0, 1e-6, "Gaussian"),
    (MIXED, 1.0, 0.0, "Laplace"),
]


@pytest.mark.parametrize(("shifts", "epsilon", "delta", "best"), CELLS)
def test_auto_is_never_worse_than_the_best_law(shifts, epsilon, delta, best):
    """By more than a thousandth, and it says what it took."""
    noise = calibrated("auto", shifts, epsilon, delta)
    names = CANDIDATES if delta > 0 else ["laplace", "logistic"]
    least = min(calibrated(name, shifts, epsilon, delta).var() for name in names)
    assert noise.var() <= least * (1 + TIE) * (1 + 2e-4)  # two searches for one shape
    assert type(noise.law).__name__ == best
    said = noise.guarantee.mechanism
    assert f"chosen of {len(names)} laws" in said
    assert said.startswith(f"{noise.law!r} noise in each of {sum(n for _, n in shifts)} releases")


def test_auto_does_not_believe_looks(monkeypatch):
    """A sketch that calls the best law thrice as noisy is found out by a certified bound."""
    shifts, epsilon, delta = ((1.0, 8),), 0.1, 1e-6
    honest, sketched = calibrated("logistic", shifts, epsilon, delta), Budget.sketched

    def lying(self, law, worst, tolerance, near=None):
        root = sketched(self, law, worst, tolerance, near)
        return Root(3 * root.scale, root.slope) if type(law) is Logistic else root

    monkeypatch.setattr(Budget, "sketched", lying)
    _calibrated.cache_clear()
    noise = calibrated("auto", shifts, epsilon, delta)
    _calibrated.cache_clear()
    assert type(noise.law) is Logistic
    assert noise.var() == pytest.approx(honest.var(), rel=1e-4)


# Looks


@pytest.mark.parametrize("off", [-1.0, 1.0])
def test_a_look_that_is_wrong_costs_time_and_no_privacy(monkeypatch, off):
    """delta is said to be e times too great or too small: the result is still the least."""
    law, shifts = Logistic(), ((1.0, 200),)
    right = Composed(law, shifts, 1.0, 1e-5).least_scale()
    log_delta_of = Sketch.log_delta.func
    monkeypatch.setattr(Sketch, "log_delta", property(lambda self: log_delta_of(self) + off))
    found = Composed(law, shifts, 1.0, 1e-5).least_scale()
    assert found == pytest.approx(right, rel=1e-3)
    assert composed(law, shifts, found).delta_at(1.0).upper <= 1e-5 * (1 + 1e-3)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "law", [Laplace(), FlippedHuber(1.0, 1.0), TruncatedLaplace(20.0)], ids=repr
)
def test_a_look_is_close_to_the_bounds(law, count):
    """Within 1 % of delta, for two sizes; neither is computed from the other."""
    first, second = 2.5 / math.sqrt(count), 0.5 / math.sqrt(count)
    shifts = ((first, count // 2), (second, count - count // 2))
    bounds = composed(law, shifts).delta_at(2.0)
    look = math.exp(Sketch(law, shifts, 1.0, 2.0, bounds.upper).log_delta)
    assert bounds.lower * 0.99 < look < bounds.upper * 1.01


def test_points_on_the_circle_keep_mass_mean_and_variance():
    """And their transforms are at most 1 in size, so that no power of them grows."""
    for place in np.linspace(3.5, 4.5, 21):
        law = _binned(np.array([place]), np.ones(1))
        k = np.arange(len(law))
        assert law.sum() == pytest.approx(1, abs=1e-14)
        assert law @ k == pytest.approx(place, abs=1e-12)
        assert law @ (k - place) ** 2 == pytest.approx(0, abs=1e-12)
        assert np.abs(np.fft.rfft(law)).max() <= 1 + 1e-14


def test_ten_thousand_releases_take_few_bounds(monkeypatch):
    """What takes the time of a calibration: at most six certified bounds and 150 sketches."""
    counts = {"bound": 0, "sketch": 0}
    bound, sketch = Composed._bound, Composed._sketch

    def counted(kind, function):
        def called(self, *arguments):
            counts[kind] += 1
            return function(self, *arguments)

        return called

    monkeypatch.setattr(Composed, "_bound", counted("bound", bound))
    monkeypatch.setattr(Composed, "_sketch", counted("sketch", sketch))
    for name in MECHANISMS:
        counts.update(bound=0, sketch=0)
        _calibrated.cache_clear()
        calibrated(name, [(0.1, 10_000)], 1.0, 1e-6)
        assert counts["bound"] <= 6, name
        assert counts["sketch"] <= 150, name


def test_a_calibration_is_remembered():
    """The same object comes back, whichever order the sizes are given in."""
    assert calibrated("laplace", MIXED) is calibrated("laplace", tuple(MIXED[::-1]))
    assert hash(calibrated("laplace", MIXED)) == hash(calibrated("laplace", MIXED))


@pytest.mark.parametrize("shifts", [((1.0, 31), (0.674, 341), (0.5, 31)), ((2.0, 30), (0.1, 900))])
@pytest.mark.parametrize("name", ["flipped_huber", "offset_gaussian"])
def test_the_shape_for_many_releases_is_that_for_equal_sizes(name, shifts, monkeypatch):
    """Its variance is nearly the least of the family; the scale is that of the true sizes."""
    found = calibrated(name, shifts, 1.0, 1e-6)
    monkeypatch.setattr(budget_module, "_MANY", 10**6)
    _calibrated.cache_clear()
    best = calibrated(name, shifts, 1.0, 1e-6)
    _calibrated.cache_clear()
    assert found.var() <= best.var() * (1 + 2e-4)
