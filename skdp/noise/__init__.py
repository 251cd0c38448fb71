"""One-dimensional noise: even laws with their tails in logs; canonical noise."""

from skdp._lazy import lazily

# No fit imports canonical noise. Files of ledgers hold the names of laws.
__getattr__, __dir__, __all__ = lazily(__name__)
