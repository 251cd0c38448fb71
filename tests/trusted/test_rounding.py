"""Roundings on the safe side."""

import math
from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest

from skdp.trusted.arrays import as_decimal, exp_up, float_above, float_below


@pytest.mark.parametrize("step", [Decimal(0), Decimal("1e-40"), Decimal("-1e-40")])
@pytest.mark.parametrize("x", [0.1, 0.3, 1.0, 1e-12, 0.30000000000000004])
def test_sums_are_rounded_to_the_next_decimal_of_a_float(x, step):
    with localcontext(prec=60):
        exact = as_decimal(x) + step
    above, below = float_above(exact), float_below(exact)
    assert as_decimal(below) <= exact <= as_decimal(above)
    assert above == (math.nextafter(x, math.inf) if step > 0 else x)
    assert below == (math.nextafter(x, 0) if step < 0 else x)


def test_exponentials_are_at_least_the_exact_ones():
    for value in -np.random.default_rng(0).uniform(0, 700, 300):
        with mpmath.workdps(40):
            exact = mpmath.exp(mpmath.mpf(float(value)))
            assert exact <= exp_up(float(value)) <= exact * (1 + 1e-14)
    assert (exp_up(-math.inf), exp_up(1e-9)) == (0.0, 1.0)
