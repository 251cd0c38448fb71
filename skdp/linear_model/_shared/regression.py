"""Base of the regressors: a target with public bounds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain import Domain
from skdp.linear_model._inference.reported import Reported
from skdp.linear_model._shared.base import PrivateLinearModel
from skdp.linear_model._shared.batches import Score, for_any_rows, score_by
from skdp.linear_model._shared.sources import NumberCoder
from skdp.linear_model.validation import check_target


class PrivateRegressor(RegressorMixin, Reported, PrivateLinearModel):  # type: ignore[misc]
    """Base of the regressors: the target is scaled to [-1, 1], predictions are in its bounds."""

    intercept_: float

    def _public_domain(self, n_columns: int) -> Domain:
        domain = super()._public_domain(n_columns)
        if self.domain is None:
            return Domain.unit_box(n_columns, target=(-1.0, 1.0))
        if domain.target_bounds is None:
            remedy = "Write target=(lower, upper). A list declares the labels of a classifier."
            raise fail("domain", "declare the target's bounds", domain.target, remedy)
        return domain

    def _target(self, y: Any, n: int) -> tuple[FloatArray, tuple[int, ...], dict[str, Any]]:
        domain = self._public_domain(self.n_features_in_)
        return domain.encode_target(check_target(self, y, n)), (), {}

    def _coder(self) -> tuple[NumberCoder, tuple[int, ...], dict[str, Any]]:
        """Return the coder of a target that is not in memory."""
        return NumberCoder(self._public_domain(self.n_features_in_)), (), {}

    def _set_coefficients(self) -> None:
        encoded = self._encoded_coef, self._encoded_intercept
        coef, intercept = self._design.domain.decode_coef(*encoded, regression=True)
        self.coef_, self.intercept_ = coef[0], float(intercept[0])

    @for_any_rows
    def predict(self, X: Any) -> FloatArray:
        """Return predictions in the target's units, clipped to its bounds, (n,)."""
        scaled = self._predictor(X)[:, 0]
        # Clipped in the target's units: decoding rounds, which could pass the bounds.
        domain = self._design.domain
        lower, upper = domain.target_bounds or (-np.inf, np.inf)
        return np.clip(domain.decode_target(scaled), lower, upper)

    score: ClassVar[Score] = score_by(r2_score, "R^2")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's test requires R^2 > .5 on 200 records without a domain, at epsilon = 1.
        tags.regressor_tags.poor_score = True
        return tags
