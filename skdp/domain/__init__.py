"""What is publicly known about the columns, and the encoding that follows from it alone."""

from skdp.domain.domain import Domain
from skdp.domain.encoder import DomainEncoder

__all__ = ["Domain", "DomainEncoder"]
