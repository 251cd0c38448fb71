"""The sum of losses by Fourier transforms: its window and its error bound, term by term."""

import math

import numpy as np
import pytest

from skdp.noise import Laplace
from skdp.privacy.fold import Spread, _Spectrum, _transform, fold, tilt
from skdp.privacy.grid import upper
from skdp.privacy.losses import GaussianLoss, ShiftLoss

STEP, FIRST, LAST = 0.01, -300, 300


def masses(loss):
    return upper(loss, STEP, FIRST, LAST)


PARTS = {
    "one": [(masses(ShiftLoss(Laplace(), 1.0)), 1)],
    "many": [(masses(ShiftLoss(Laplace(), 0.3)), 21)],
    "mixed": [(masses(ShiftLoss(Laplace(), 0.5)), 7), (masses(GaussianLoss(0.37)), 4)],
}


@pytest.mark.parametrize("theta", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("name", PARTS)
def test_the_mass_beyond_the_window_is_counted(name, theta):
    """The bound is that of the window's own ends, seen from the mean of the sum."""
    parts = PARTS[name]
    total = fold(parts, theta, 2048)
    tilted = [(tilt(m, theta), n) for m, n in parts]
    mean = sum(n * q.mean for q, n in tilted)
    below = mean - STEP * total.first
    above = STEP * (total.first + len(total.law) - 1) - mean
    assert total.outside >= Spread.of(tilted).beyond(below, above) * (1 - 1e-9)
    # Nor is more given away than a step on either side.
    assert total.outside <= Spread.of(tilted).beyond(below - 2 * STEP, above - 2 * STEP)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_errors_of_a_transform_are_carried_through_its_powers(n):
    """If each value is off by d, its n-th power is off by (|v| + d)^n - |v|^n, and no less."""
    q = tilt(PARTS["one"][0][0], 0.5)
    size = 4096
    values, off = _transform(q, 0, size)
    _, error = _Spectrum.of_nothing(size).times(q, 0, n).law()
    sizes = np.abs(values)
    least = math.sqrt(2 / size) * float(np.linalg.norm((sizes + off) ** n - sizes**n))
    assert error >= least * (1 - 1e-6)
    assert error < 1e-11
