"""Norm balls: sets of the changes that one record can make."""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.geometry.combined import MappedBall, ProductBall, ScaledBall, ShearedBall, SumBall
    from skdp.geometry.comparison import (
        Comparison,
        compare,
        conditional_variance,
        depth,
        entropy,
        knorm_covariance,
    )
    from skdp.geometry.containment import contains, greatest_gauge_over
    from skdp.geometry.encoded_rows import EncodedRowsBall, SimplexBall, rows_ball
    from skdp.geometry.hull import Hull
    from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall, SquaresBall
    from skdp.trusted.ball import LpBall, NormBall
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "skdp.trusted.ball": "LpBall NormBall",
            "combined": "MappedBall ProductBall ScaledBall ShearedBall SumBall",
            "comparison": "Comparison compare conditional_variance depth entropy knorm_covariance",
            "containment": "contains greatest_gauge_over",
            "encoded_rows": "EncodedRowsBall SimplexBall rows_ball",
            "hull": "Hull",
            "moments": "MomentBall MomentLayout RadialMomentBall SquaresBall",
        },
    )

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
    "conditional_variance",
    "contains",
    "depth",
    "entropy",
    "greatest_gauge_over",
    "knorm_covariance",
    "rows_ball",
]
