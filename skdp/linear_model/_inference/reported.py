"""What a fitted model tells of its inference; every private linear model inherits it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.linear_model._inference.inference import INTERCEPT, Inference, WaldTest
from skdp.linear_model._inference.table import CoefficientTable
from skdp.linear_model.fitted import FittedModel

REMEDY = "Fit with inference_share=0.8."


class Reported(FittedModel):
    """Standard errors, intervals and tests of a fitted model.

    Properties are absent, and methods raise an error, if the fit released nothing to compute them
    from. They cost no privacy.
    """

    @property
    def inference_(self) -> Inference:
        """Standard errors, intervals and tests of all coefficients: an :class:`Inference`."""
        try:
            return self._checked_inference()
        except ValueError as error:
            raise AttributeError(str(error)) from error

    @property
    def coef_std_error_(self) -> FloatArray:
        """Standard errors of the slopes, an ndarray of the shape of ``coef_``.

        They contain the sampling error and the noise. They are those of the estimates in
        ``inference_``, which are not shrunk.
        """
        return np.asarray(np.reshape(self._slopes(self.inference_.std_error), self.coef_.shape))

    @property
    def intercept_std_error_(self) -> Any:
        """Standard error of the intercept, of the shape of ``intercept_``.

        It is 0 for an intercept that is a constant.
        """
        found = self.inference_
        has_intercept = found.names[0] == INTERCEPT
        error = np.full(np.shape(self.intercept_), found.std_error[0] if has_intercept else 0.0)
        return error if error.ndim else float(error)

    @property
    def p_values(self) -> FloatArray:
        """P-values of the tests that a slope is 0, an ndarray of shape (n_encoded,)."""
        return self._slopes(self.inference_.p_values)

    def conf_int(self, *, level: float = 0.95) -> FloatArray:
        """Return confidence intervals of the slopes of the population, at no cost.

        They contain the sampling error and the noise. They are not centred at ``coef_``, which is
        shrunk, but at the estimates in ``inference_``, whose notes tell what they assume. They are
        unbounded where the noise hides the slope.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        ndarray of shape (n_encoded, 2)
            The lower and the upper ends, in the units of ``coef_``.

        Raises
        ------
        ValueError
            If the fit released nothing to compute them from.
        """
        return self._slopes(self._checked_inference().conf_int(level=level))

    def wald_test(self, columns: Any, value: ArrayLike = 0.0) -> WaldTest:
        """Return the test that several coefficients have given values, at no cost.

        Parameters
        ----------
        columns : str, sequence of str or array-like
            Names of coefficients or of declared columns. A column of levels or a curve stands for
            all its coefficients. Or a matrix of combinations; see :meth:`Inference.wald_test`.
        value : float or array-like, default=0

        Returns
        -------
        WaldTest
        """
        return self._checked_inference().wald_test(columns, value)

    def summary(self, *, level: float = 0.95) -> CoefficientTable:
        """Return a table of coefficients, errors, tests and intervals, at no cost.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Of the intervals.

        Returns
        -------
        CoefficientTable
            Print it, or show it in a notebook.
        """
        return self._checked_inference().summary(level=level, model=type(self).__name__)

    def _checked_inference(self) -> Inference:
        check_is_fitted(self)
        # A search may have put its own guarantee in the place of that of the fit.
        return replace(self._found_inference(), guarantee=self.guarantee_)

    def _found_inference(self) -> Inference:
        """Return the inference of the fit, or raise a ValueError."""
        found = getattr(self, "_inference", None)
        if found is None:
            rule = "have standard errors: its fit released no sums for them"
            raise fail("the model", rule, remedy=REMEDY)
        return found  # type: ignore[no-any-return]

    def _slopes(self, values: FloatArray) -> FloatArray:
        """Return the entries of the slopes, which come last."""
        return values[len(values) - np.shape(self.coef_)[-1] :]
