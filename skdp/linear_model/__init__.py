"""Private linear models for scikit-learn."""

from skdp._lazy import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    submodules="coordinate_descent huber linear logistic losses poisson quantile validation",
)
