"""Public declarations of columns and targets, and the encoding that they define."""

from skdp.domain.domain import Domain, DomainEncoder
from skdp.domain.splines import Spline

__all__ = ["Domain", "DomainEncoder", "Spline"]
