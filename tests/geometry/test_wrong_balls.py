"""Arguments that make no ball, and what no ball lists: errors with the name and the rule."""

import math

import numpy as np
import pytest

from skdp.geometry import (
    EncodedRowsBall,
    LpBall,
    MappedBall,
    MomentLayout,
    ProductBall,
    RadialMomentBall,
    ShearedBall,
    SimplexBall,
    SumBall,
)

BOX = LpBall(2, p=math.inf)
ROWS = EncodedRowsBall(6, (8, 15, 6, 13, 5, 4, 1, 41))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: LpBall(0), "dim must be an integer >= 1, got 0"),
        (lambda: LpBall(2, 0.5), "p must be a number in"),
        (lambda: LpBall(2, math.nan), "p must be a number in"),
        (lambda: LpBall(2, radius=0.0), "radius must be a finite number > 0"),
        (lambda: LpBall(2, weights=(1.0, -1.0)), "weights must be a finite number > 0"),
        (lambda: LpBall(2, weights=(1.0,)), "weights must have one entry for each of 2 dims"),
        (lambda: LpBall(2).gauge([1.0, 2.0, 3.0]), "v must have 2 numbers on its last axis"),
        (lambda: LpBall(2).extreme_points(), "finitely many corners"),
        (lambda: LpBall(21, p=math.inf).extreme_points(), "dim must be at most 20"),
        (lambda: SimplexBall(0), "dim must be an integer >= 1, got 0"),
        (lambda: SimplexBall(2.5), "dim must be an integer >= 1, got 2.5"),
        (lambda: SimplexBall(2).gauge([1.0, 2.0, 3.0]), "v must have 2 numbers on its last axis"),
        (lambda: SimplexBall(2).support([1.0]), "w must have 2 numbers on its last axis"),
        (lambda: EncodedRowsBall(-1), "n_numbers must be an integer >= 0"),
        (lambda: EncodedRowsBall(1, (0,)), "block_sizes must be an integer >= 1"),
        (lambda: EncodedRowsBall(0, intercept=False), "n_numbers must be > 0"),
        (lambda: EncodedRowsBall(1, index=(0, 0)), "index must contain each of 0, ..., 1 once"),
        (lambda: ROWS.extreme_points(), "extreme_points must number at most 65536"),
        (lambda: MappedBall(BOX, (1.0, 0.0)), "matrix must be invertible"),
        (lambda: MappedBall(BOX, np.ones((2, 2))), "matrix must be invertible"),
        (lambda: MappedBall(BOX, (1.0, math.nan)), "matrix must be invertible"),
        (lambda: MappedBall(BOX, np.eye(3)), "matrix must have shape"),
        (lambda: ShearedBall(BOX, (0.0, 1.0, 1.0)), "shift must have shape"),
        (lambda: ShearedBall(BOX, (1.0, 1.0)), "shift must have shape .* a first entry of 0"),
        (lambda: ShearedBall(BOX, (0.0, math.nan)), "shift must be shorter than"),
        (lambda: ShearedBall(BOX, (0.0, 1e6)), "shift must be shorter than"),
        (lambda: ProductBall(()), "balls must have at least one ball"),
        (lambda: ProductBall((BOX, BOX), ((0, 1), (2,))), "index must have parts of lengths"),
        (lambda: ProductBall((BOX, BOX), ((0, 1), (1, 2))), "index must contain each of 0, ..., 3"),
        (lambda: ProductBall((BOX,)).gauge([1.0]), "v must have 2 numbers on its last axis"),
        (lambda: ProductBall((LpBall(1),) * 17).extreme_points(), "number at most 65536"),
        (lambda: SumBall((BOX, BOX), (1.0,)), "weights must have one entry for each of 2"),
        (lambda: SumBall((BOX,), (0.0,)), "weights must be a finite number > 0"),
        (
            lambda: MappedBall(BOX, [1.0] * 2).support([1.0]),
            "w must have 2 numbers on its last axis",
        ),
        (lambda: RadialMomentBall(MomentLayout(2, (0,), ((1,),)), 1.0), "of numbers and a target"),
        (
            lambda: RadialMomentBall(MomentLayout(2, (0, 1), target=False), 1.0),
            "of numbers and a target",
        ),
        (lambda: RadialMomentBall(MomentLayout(1, (0,)), 0.0), "radius must be"),
        (lambda: RadialMomentBall(MomentLayout(1, (0,)), math.inf), "radius must be"),
    ],
)
def test_wrong_arguments_are_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()
