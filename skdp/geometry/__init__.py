"""Norm balls: sets of the changes that one record can make."""

from skdp.geometry._direct_sum import ProductBall, SumBall
from skdp.geometry._simplex import SimplexBall
from skdp.geometry.ball import MappedBall, NormBall, ScaledBall
from skdp.geometry.encoded_rows import EncodedRowsBall, rows_ball
from skdp.geometry.hull import Hull
from skdp.geometry.lp import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.geometry.order.comparison import Comparison, compare
from skdp.geometry.order.containment import contains, greatest_gauge_over
from skdp.geometry.sheared import ShearedBall
from skdp.geometry.squares import SquaresBall

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
