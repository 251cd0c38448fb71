"""Norm balls around the changes that one record can make in the moments of a regression."""

from skdp.geometry.moments._added import AddedBall
from skdp.geometry.moments._bodies import DifferenceBall, NumbersBall
from skdp.geometry.moments._pair_hull import PairHull
from skdp.geometry.moments.ball import MomentBall
from skdp.geometry.moments.layout import MomentLayout
from skdp.geometry.moments.radial import RadialMomentBall

__all__ = [
    "AddedBall",
    "DifferenceBall",
    "MomentBall",
    "MomentLayout",
    "NumbersBall",
    "PairHull",
    "RadialMomentBall",
]
