"""Attributes that ``fit`` sets, for type checkers and readers.

They are declared outside of the estimators, because the annotated names in the class of an
estimator are its parameters. Docstrings of the estimators say what the attributes mean, and which
are present.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.linear_model._shared.task import Stage
from skdp.privacy import Guarantee


class FittedModel:
    """Attributes of all fitted models."""

    coef_: FloatArray
    intercept_: Any
    domain_: Domain
    guarantee_: Guarantee
    stages_: tuple[Stage, ...]
    noise_: Any
    n_iter_: int
    converged_: bool
    n_features_in_: int
    feature_names_in_: NDArray[Any]


class FittedClassifier(FittedModel):
    """Attributes of fitted classifiers."""

    intercept_: FloatArray
    classes_: NDArray[Any]
    normalizer_: float
