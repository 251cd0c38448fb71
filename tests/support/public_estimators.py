"""The public estimators of the package, found by walking through its modules."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module

import skdp

CLASSIFIERS = [skdp.DPLogisticRegression, skdp.DPCoordinateDescentClassifier]
REGRESSORS = [
    skdp.DPHuberRegressor,
    skdp.DPPoissonRegressor,
    skdp.DPGammaRegressor,
    skdp.DPLinearRegression,
    skdp.DPCoordinateDescentRegressor,
    skdp.DPQuantileRegressor,
]
ESTIMATORS = [*CLASSIFIERS, *REGRESSORS]
# Their targets start at 0.
COUNTS = [skdp.DPPoissonRegressor, skdp.DPGammaRegressor]


def is_private(name):
    """Whether a module or one of its folders has a leading underscore."""
    return any(part.startswith("_") for part in name.split("."))


@cache
def all_estimators():
    """Return every public class with ``fit`` or ``transform``, by its name."""
    found = {}
    for module in pkgutil.walk_packages(skdp.__path__, "skdp."):
        if not is_private(module.name):
            own = vars(import_module(module.name)).items()
            found |= {name: kind for name, kind in own if is_estimator(name, kind, module.name)}
    return found


def is_estimator(name, kind, module):
    return (
        inspect.isclass(kind)
        and not name.startswith("_")
        and kind.__module__ == module
        and (hasattr(kind, "fit") or hasattr(kind, "transform"))
    )
