"""Privacy guarantees, their composition, and the ledger that records them."""

from skdp._lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
