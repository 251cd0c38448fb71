"""The guarantee of a release, its equivalents and its card."""

from skdp.privacy.guarantee.composed import compose
from skdp.privacy.guarantee.guarantee import NEIGHBORS, Guarantee

__all__ = ["NEIGHBORS", "Guarantee", "compose"]
