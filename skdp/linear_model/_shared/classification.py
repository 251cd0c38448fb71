"""Base of the classifiers: public labels, a joint model or one per label, probabilities."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.linear_model._inference.reported import Reported
from skdp.linear_model._shared.base import PrivateLinearModel, with_parameters
from skdp.linear_model._shared.batches import Score, for_any_rows, score_by
from skdp.linear_model._shared.sources import LabelCoder, Source
from skdp.linear_model.fitted import FittedClassifier
from skdp.linear_model.losses import Softmax
from skdp.linear_model.validation import (
    check_class_weight,
    check_labels,
    check_target,
    label_weights,
    numbered,
    sorted_labels,
)

_INFERRED = "the set of labels in y is public: it was read off y, as none were declared"


@with_parameters
class PrivateClassifier(
    ClassifierMixin,  # type: ignore[misc]
    Reported,
    PrivateLinearModel,
    FittedClassifier,
):
    """Base of the classifiers. The linear predictor of a model is the log-odds of its label."""

    classes: Any = None
    class_weight: Any = None

    def _declared_labels(self) -> Any:
        inferred = getattr(self.domain, "target_labels", None)
        return inferred if self.classes is None else self.classes

    def _check_parameters(self) -> None:
        super()._check_parameters()
        bounds = None if self.domain is None else self.domain.target_bounds
        if bounds is not None and self.classes is None:
            remedy = "Write target=[first, second], or give classes. A tuple declares numbers."
            raise fail("the domain's target", "be a list of labels", bounds, remedy)
        check_class_weight(self.class_weight)

    def _assumptions(self, source: Source) -> tuple[str, ...]:
        found, declared = super()._assumptions(source), self._declared_labels()
        if declared is None:
            return (*found, _INFERRED)
        return found + numbered(declared, source.attributes["classes_"])

    def _target(self, y: Any, n: int) -> tuple[NDArray[Any], tuple[int, ...], dict[str, Any]]:
        labels, found = check_labels(check_target(self, y, n), self._declared_labels())
        found = found.astype(np.min_scalar_type(len(labels)))
        return found, _predicted(labels), {"classes_": labels}

    def _coder(self) -> tuple[LabelCoder, tuple[int, ...], dict[str, Any]]:
        """Return the coder of a target that is not in memory, whose labels are declared."""
        labels = sorted_labels(self._declared_labels())
        return LabelCoder(labels), _predicted(labels), {"classes_": labels}

    def _label_weights(self, attributes: dict[str, Any]) -> FloatArray | None:
        # Declared labels may be strings where those of y are their positions.
        declared = self._declared_labels()
        labels = attributes["classes_"] if declared is None else sorted_labels(declared)
        return label_weights(self.class_weight, labels)

    def _set_coefficients(self) -> None:
        encoded = self._encoded_coef, self._encoded_intercept
        self.coef_, self.intercept_ = self._design.domain.decode_coef(*encoded)

    @for_any_rows
    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-odds, (n,), for two classes.

        For more classes, (n, n_classes), they are the log-odds of each class against the rest, or
        the predictors of a joint model, whose differences are the log-odds of two classes.
        """
        z = self._predictor(X)
        return z[:, 0] if z.shape[1] == 1 else z

    @for_any_rows
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of every row, (n,)."""
        z = self.decision_function(X)
        best = (z > 0).astype(int) if z.ndim == 1 else np.argmax(z, axis=1)
        return np.asarray(self.classes_[best])

    @for_any_rows
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every class, (n, n_classes)."""
        z = self.decision_function(X)
        if z.ndim == 1:
            return np.column_stack([expit(-z), expit(z)])
        return np.exp(self._log_shares(z))

    @for_any_rows
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of :meth:`predict_proba`, (n, n_classes)."""
        z = self.decision_function(X)
        if z.ndim == 1:
            return np.column_stack([log_expit(-z), log_expit(z)])
        return self._log_shares(z)

    score: ClassVar[Score] = score_by(accuracy_score, "accuracy")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's test of class_weight has 50 records, of which the noise at epsilon = 1
        # decides. Of 300 records its test requires an accuracy of .83: coordinate descent has .88
        # in the median, and less than .83 with some seeds.
        tags.classifier_tags.poor_score = True
        labels = self._declared_labels()
        is_for_two = self.inference_share is not None
        with suppress(TypeError):  # of labels that `fit` refuses
            is_for_two |= labels is not None and len(labels) == 2
        tags.classifier_tags.multi_class = not is_for_two
        return tags

    def _log_shares(self, z: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities of more than two classes."""
        if hasattr(self, "normalizer_"):  # a joint model
            return Softmax(z.shape[1], self.normalizer_).log_probabilities(z)
        log_p = log_expit(z)
        return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)


def _predicted(labels: NDArray[Any]) -> tuple[int, ...]:
    """Return the positions of the labels that models predict: one of two, or all."""
    return (1,) if len(labels) == 2 else tuple(range(len(labels)))
