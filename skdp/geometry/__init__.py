"""Norm balls: sets of the changes that one record can make."""

from skdp.geometry.ball import NormBall
from skdp.geometry.combined import MappedBall, ProductBall, ScaledBall, ShearedBall, SumBall
from skdp.geometry.comparison import Comparison, compare
from skdp.geometry.containment import contains, greatest_gauge_over
from skdp.geometry.encoded_rows import EncodedRowsBall, SimplexBall, rows_ball
from skdp.geometry.hull import Hull
from skdp.geometry.ball import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.geometry.moments import SquaresBall

__all__ = [
    "Comparison",
    "EncodedRowsBall",
    "Hull",
    "LpBall",
    "MappedBall",
    "MomentBall",
    "MomentLayout",
    "NormBall",
    "ProductBall",
    "RadialMomentBall",
    "ScaledBall",
    "ShearedBall",
    "SimplexBall",
    "SquaresBall",
    "SumBall",
    "compare",
    "contains",
    "greatest_gauge_over",
    "rows_ball",
]
