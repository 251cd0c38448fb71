"""The guarantee of a release, its equivalents and its card."""

from skdp.privacy.guarantee.guarantee import NEIGHBORS, Guarantee, compose

__all__ = ["NEIGHBORS", "Guarantee", "compose"]
