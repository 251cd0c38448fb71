"""The methods of a search that its chosen model answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._sklearn import Documented

Method = TypeVar("Method", bound=Callable[..., Any])


def _if_best_has(name: str) -> Callable[[Method], Method]:
    """Offer a method if the chosen model has it, or, before a fit, if the estimator has it."""

    def has(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)  # names what is missing
        return True

    return cast(Callable[[Method], Method], available_if(has))


class ChosenModel(Documented, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of a search that predicts by ``best_estimator_``."""

    @_if_best_has("predict")
    def predict(self, X: Any) -> Any:
        """Return the chosen model's predictions, for the same tables as the model."""
        return self._best().predict(X)

    @_if_best_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Return the chosen model's probabilities of the labels."""
        return self._best().predict_proba(X)

    @_if_best_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of :meth:`predict_proba`."""
        return self._best().predict_log_proba(X)

    @_if_best_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Return the chosen model's log-odds."""
        return self._best().decision_function(X)

    @_if_best_has("score")
    def score(self, X: Any, y: Any) -> float:
        """Return the chosen model's accuracy or R^2. On private data this is a release."""
        return float(self._best().score(X, y))

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of the chosen model, if it is a classifier."""
        return np.asarray(self._best().classes_)

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.input_tags.sparse = False  # a pipeline may accept it, the search does not
        tags.target_tags.required = True
        return tags
