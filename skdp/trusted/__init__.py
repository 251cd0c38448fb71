"""What every guarantee depends on: releases, their theorems, and one checker."""

from skdp.trusted.certify import certify
from skdp.trusted.releases import NoisySum, NotPrivate, Public

__all__ = ["NoisySum", "NotPrivate", "Public", "certify"]
