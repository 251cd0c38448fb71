"""Private search over hyper-parameters, private scores, and curves of a score against epsilon."""

from skdp._lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
