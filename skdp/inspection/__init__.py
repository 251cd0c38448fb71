"""Displays that draw privacy guarantees, costs and noise. They need matplotlib."""

from skdp._lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
