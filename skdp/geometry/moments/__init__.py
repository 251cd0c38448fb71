"""Norm balls around the changes that one record can make in the moments of a regression."""

from skdp.geometry.moments import MomentBall, NumbersBall, RadialMomentBall
from skdp.geometry.moment_layout import MomentLayout

__all__ = ["MomentBall", "MomentLayout", "NumbersBall", "RadialMomentBall"]
