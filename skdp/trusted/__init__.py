"""Releases, their theorems, and the checker of guarantees."""

from skdp.trusted.certify import certify
from skdp.trusted.releases import NoisySum, NotPrivate, Public

__all__ = ["NoisySum", "NotPrivate", "Public", "certify"]
