"""Norm balls: the shapes of what one record can change."""

from skdp.geometry.ball import MappedBall, NormBall, ScaledBall
from skdp.geometry.direct_sum import ProductBall, SumBall
from skdp.geometry.encoded_rows import EncodedRowsBall, rows_ball
from skdp.geometry.lp import LpBall
from skdp.geometry.simplex import SimplexBall

__all__ = [
    "EncodedRowsBall",
    "LpBall",
    "MappedBall",
    "NormBall",
    "ProductBall",
    "ScaledBall",
    "SimplexBall",
    "SumBall",
    "rows_ball",
]
