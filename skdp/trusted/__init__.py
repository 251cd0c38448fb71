"""Releases, their theorems, and the checker of guarantees."""

from skdp.trusted.certify import certify
from skdp.trusted.releases import Line, NoisySum, NotPrivate, Public, overview

__all__ = ["Line", "NoisySum", "NotPrivate", "Public", "certify", "overview"]
