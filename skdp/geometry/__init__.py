"""Norm balls: sets of the changes that one record can make."""

from skdp._lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
