"""Differentially private linear models for scikit-learn, with a guarantee that is true."""

from skdp._lazy import lazily

_find, __dir__, __all__ = lazily(
    __name__,
    submodules="bounds datasets domain durations geometry inspection linear_model mechanisms"
    " model_selection noise privacy testing trusted",
)


def __getattr__(name: str) -> object:
    if name != "__version__":
        return _find(name)
    from skdp._codec import package_version

    return package_version()
