"""The guarantee of a release, its equivalents and its card."""

from skdp.privacy.guarantee import compose
from skdp.privacy.guarantee import NEIGHBORS, Guarantee

__all__ = ["NEIGHBORS", "Guarantee", "compose"]
