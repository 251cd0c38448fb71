"""Releases, their theorems, and the checker of guarantees."""

from skdp.trusted.certify import Line, NoisySum, certify, overview
from skdp.trusted.statement import NotPrivate, Public, Statement

__all__ = ["Line", "NoisySum", "NotPrivate", "Public", "Statement", "certify", "overview"]
