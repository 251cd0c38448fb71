"""Private logistic regression by objective perturbation."""

from __future__ import annotations

from typing import Any, ClassVar

from skdp.linear_model._objective.advice import (
    ModelTask,
    Reference,
    logistic_moments,
    usual_normalizer,
)
from skdp.linear_model._objective.solve import ObjectiveEstimator, ObjectivePerturbation
from skdp.linear_model._shared.base import Algorithm, PrivateClassifier, with_parameters
from skdp.linear_model.losses import LogisticLoss, Loss, SharpLogistic, Softmax
from skdp.trusted.checks import fail

LOSSES: dict[str, Loss] = {"logistic": LogisticLoss(), "sharp": SharpLogistic(0.75)}
CANDIDATES = (LogisticLoss(), *(SharpLogistic(middle) for middle in (0.6, 0.75, 0.8)))


@with_parameters
class DPLogisticRegression(PrivateClassifier, ObjectiveEstimator):
    """Private logistic regression. Use it when you need a single model.

    The method is objective perturbation: the released coefficients minimise the logistic loss
    plus a ridge and a random linear term. The random term has K-norm noise (Awan & Slavkovic
    2020, section 4) or, with a delta, Gaussian noise. Statements and proofs:
    ``docs/proofs/objective_perturbation.md``, Theorems 1 to 5,
    ``docs/proofs/gaussian_objective.md``, Theorems 1 to 4, and for more than two labels
    ``docs/proofs/softmax.md``, Theorems 1 to 4.

    ``fit`` and ``predict`` clip numbers to the bounds of the public ``domain``, or to narrower
    bounds that are estimated privately.

    Other Parameters
    ----------------
    loss : {"auto", "logistic", "sharp"}, Loss or Softmax, default="auto"
        The loss that is minimised. "logistic" is the usual negative log-likelihood. "sharp" has the
        same minimiser in expectation, and needs less noise but has a larger sampling error
        (:class:`~skdp.linear_model.losses.SharpLogistic`). "auto" chooses between them by the size
        of the noise. With more than two labels "auto" and "logistic" fit one joint model
        (:class:`~skdp.linear_model.losses.Softmax`); "sharp", and a ``mechanism`` that is an object
        with a method ``calibrate``, fit one model for each label with a part of epsilon. A loss
        that you define needs ``target = "labels"``: see docs/development/add_a_loss.md.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated clipping bounds. Narrower bounds need less
        noise. 0 uses the bounds of the domain. "auto" spends a twentieth to a fifth of epsilon, or
        nothing with few records, with a domain that bounds the length of rows, or with a given
        ``mechanism``.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_encoded) or (n_classes, n_encoded)
        Coefficients per unit of the numeric columns, and of the indicators of all levels but the
        first. In a joint model their sum over the labels is 0, up to noise.

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.datasets import load_breast_cancer
    >>> X, y, domain = load_breast_cancer()  # 569 patients, with public bounds
    >>> model = DPLogisticRegression(epsilon=1.0, domain=domain).fit(X, y)
    >>> print(model.predict(X[20:22]))
    ['benign' 'benign']
    >>> print(model.guarantee_.epsilon)
    1.0
    """

    _reference: ClassVar = Reference(
        "labels", logistic_moments, signal=0.5, level_signal=0.15, intercept=60.0, most_signal=0.2
    )

    loss: Any = "auto"

    def _algorithm(self) -> Algorithm:
        return ObjectivePerturbation(self._reference, (self._losses,), self._params())

    def _losses(self, task: ModelTask) -> tuple[Any, ...]:
        if not isinstance(self.loss, str):
            return (self.loss,)
        if task.n_classes > 1:
            normalizer = 1.0 if self.loss == "logistic" else usual_normalizer(task)
            return (Softmax(task.n_classes, normalizer),)
        if self.loss == "auto":
            return CANDIDATES
        if self.loss not in LOSSES:
            raise fail("loss", f"be 'auto', one of {sorted(LOSSES)} or a Loss", self.loss)
        return (LOSSES[self.loss],)
