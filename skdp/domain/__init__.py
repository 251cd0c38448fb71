"""Public declarations of columns and targets, and the encoding that they define."""

from skdp.domain.domain import Domain
from skdp.domain.encoder import DomainEncoder

__all__ = ["Domain", "DomainEncoder"]
