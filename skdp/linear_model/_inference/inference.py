"""The inference of a fitted model: standard errors, intervals and tests in the user's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_interval, fail
from skdp.domain import Domain
from skdp.domain.splines import Interaction
from skdp.linear_model._inference.estimate import Estimate
from skdp.privacy import Guarantee

if TYPE_CHECKING:
    from skdp.linear_model._inference.table import CoefficientTable

INTERCEPT = "intercept"


@dataclass(frozen=True)
class WaldTest:
    """The test of several coefficients together.

    Attributes
    ----------
    statistic : float
        Squared distance of the estimate from the tested values, in standard deviations. It is 0 if
        the noise hides the coefficients.
    n_restrictions : int
        Number of tested combinations of coefficients: the degrees of freedom of the statistic.
    p_value : float

    Examples
    --------
    >>> from skdp import Domain, DPLinearRegression
    >>> domain = Domain({"age": (17, 90), "job": ["clerk", "craft", "sales"]}, target=(0, 100))
    >>> X, y = domain.sample(5000, random_state=0, with_target=True)  # artificial rows
    >>> model = DPLinearRegression(epsilon=4.0, domain=domain, inference_share=0.8).fit(X, y)
    >>> test = model.wald_test("job")  # both coefficients of the column together
    >>> test.n_restrictions, bool(0 <= test.p_value <= 1)
    (2, True)
    """

    statistic: float
    n_restrictions: int
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Standard errors, confidence intervals and tests of the coefficients of a fitted model.

    A fitted model has it as ``inference_``. It is computed from released numbers and costs no
    privacy. The coefficients are those of the population. Their estimates are not shrunk, unlike
    ``coef_`` of most models. Errors contain the sampling error and the privacy noise.

    The method of intervals and tests is that of Fieller and of Anderson and Rubin: a test of a
    value uses the variance of the noise if the coefficient has this value. An interval has the
    values that the test does not reject. It is unbounded, and p-values are large, if the noise
    hides the coefficients. An interval and a test do not account for a choice of the model, of
    columns or of parameters.

    Attributes
    ----------
    names : tuple of str
        The coefficients: "intercept" first, if there is one, then the encoded columns
        (:meth:`skdp.domain.Domain.encoded_names`). All arrays have this order.
    columns : tuple of str
        The declared column of each coefficient, "" for the intercept.
    estimate : object
        The estimate in the units of the encoded columns. Its parts may change between versions.
    rows, constants : ndarray of shape (n_names, n_encoded) and (n_names,)
        The map from the encoded columns to the user's units.
    notes : tuple of str
        Sentences on the method and its assumptions.
    guarantee : Guarantee or None
        The guarantee of the fit.
    n_records : int or None
        The number of records; None if it is private.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(50_000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=50_000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> # The seed repeats this page's interval, of which one in twenty is wrong. Use none.
    >>> model = DPLinearRegression(domain=domain, mechanism="matrix", random_state=0).fit(X, y)
    >>> found = model.inference_
    >>> found.names
    ('intercept', 'x0', 'x1')
    >>> low, high = found.conf_int()[1]
    >>> bool(low < 3 < high)
    True
    >>> bool(found.wald_test(["x0", "x1"]).p_value < 0.001)
    True
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    estimate: Estimate
    rows: FloatArray
    constants: FloatArray
    notes: tuple[str, ...] = ()
    guarantee: Guarantee | None = None
    n_records: int | None = None

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        rows: FloatArray,
        constants: FloatArray,
        domain: Domain,
        notes: Sequence[str],
        **facts: Any,
    ) -> Inference:
        """Return the inference of an estimate.

        ``rows``, (n_encoded + 1, k), and ``constants`` map it to the intercept and the slopes. An
        intercept that is a constant is left out.
        """
        names, columns = (INTERCEPT, *domain.encoded_names()), ("", *_columns_of(domain))
        first = int(not rows[0].any())
        own = rows[first:], constants[first:]
        return cls(names[first:], columns[first:], estimate, *own, tuple(notes), **facts)

    def __repr__(self) -> str:
        return f"Inference({len(self.names)} coefficients; is_usable={self.is_usable})"

    @property
    def coef(self) -> FloatArray:
        """The estimates, which are not shrunk, (n_names,)."""
        return np.asarray(self.rows @ self.estimate.theta + self.constants)

    @property
    def std_error(self) -> FloatArray:
        """Standard errors, (n_names,); the root of the sum of the squares of both parts.

        They are to first order in the noise. They are infinite if the inference is not usable.
        """
        return self.estimate.standard_errors(self.rows)

    @property
    def sampling_error(self) -> FloatArray:
        """The part of the standard errors without privacy: other records of the population."""
        return self.estimate.standard_errors(self.rows, self.estimate.sampling)

    @property
    def privacy_error(self) -> FloatArray:
        """The part of the standard errors that the privacy noise causes."""
        return self.estimate.standard_errors(self.rows, self.estimate.privacy)

    @property
    def is_usable(self) -> bool:
        """Whether the noise leaves equations with a unique solution.

        Otherwise all errors are infinite, intervals are unbounded and p-values are 1.
        """
        return self.estimate.is_usable

    @property
    def least_known(self) -> str:
        """Name of the slope that the noise hides most.

        It has the greatest part in the direction of which the equations have the least information.
        """
        equations = self.estimate.equations.matrix[:-1, :-1]
        least = np.linalg.eigh(equations)[1][:, 0]
        # The slopes come last in both. Nobody would leave out the intercept.
        slopes = self.names[int(self.names[0] == INTERCEPT) :]
        return slopes[int(np.argmax(np.abs(least[-len(slopes) :])))]

    @property
    def p_values(self) -> FloatArray:
        """P-values of the tests that a coefficient is 0, (n_names,).

        ``p_values[j] >= 1 - level`` if and only if ``conf_int(level=level)[j]`` holds 0.
        """
        return np.asarray([own[1] for own in self._tests()])

    @property
    def z_values(self) -> FloatArray:
        """Estimates in standard deviations, (n_names,).

        The deviations are those of the tests that a coefficient is 0. They are ``std_error`` if
        the noise is small. Values are 0 if the inference is not usable.
        """
        sizes = np.sqrt([own[0] for own in self._tests()])
        return np.asarray(np.sign(self.coef) * sizes + 0.0)  # no -0

    def _tests(self) -> list[tuple[float, float]]:
        pairs = zip(self.rows[:, None], -self.constants[:, None], strict=True)
        return [self.estimate.test(row, value) for row, value in pairs]

    def conf_int(self, *, level: float = 0.95) -> FloatArray:
        """Return confidence intervals of the coefficients.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            The share of releases in which an interval holds the value of the population.

        Returns
        -------
        ndarray of shape (n_names, 2)
            The lower and the upper ends; infinite where the noise hides the coefficient.
        """
        level = check_interval("level", level, 0.0, 1.0, "neither")
        return self._intervals(self.rows, self.constants, level)

    def _intervals(self, rows: FloatArray, constants: FloatArray, level: float) -> FloatArray:
        """Return intervals; they are unbounded where units overflow."""
        ends = self.estimate.intervals(rows, level) + constants[:, None]
        return np.where(np.isnan(ends), [-np.inf, np.inf], ends)

    def combine(self, weights: ArrayLike, *, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return estimates and confidence intervals of combinations of coefficients.

        Parameters
        ----------
        weights : array-like of shape (m, n_names)
            For example differences of levels, or the values of encoded columns in a row.
        level : float in (0, 1), default=0.95

        Returns
        -------
        estimates : ndarray of shape (m,)
        intervals : ndarray of shape (m, 2)
        """
        level = check_interval("level", level, 0.0, 1.0, "neither")
        weights = self._weights(weights)
        ends = self._intervals(weights @ self.rows, weights @ self.constants, level)
        return weights @ self.coef, ends

    def wald_test(self, columns: Any, value: ArrayLike = 0.0) -> WaldTest:
        """Return the test that several coefficients, or combinations of them, have given values.

        The statistic is the squared distance of the combinations R theta of the estimates from the
        values r, in the metric of their covariance. The covariance is not that at the estimate, as
        in Wald's test, but that at the null: the noise of the equations at the coefficients that
        satisfy R theta = r and are nearest to the estimate (the form of Anderson and Rubin). So
        the test holds for noise of any size, and it is the test of ``p_values`` for one
        coefficient. Where the noise is small both are the same. The statistic is compared with
        chi-square, or with F if the sampling error is estimated from noisy sums. The p-value is 1
        if the inference is not usable.

        Parameters
        ----------
        columns : str, sequence of str or array-like of shape (m, n_names)
            Names of coefficients or of declared columns, which stand for all their coefficients;
            or the matrix R, whose rows are linearly independent.
        value : float or array-like of shape (m,), default=0
            The values r under the null.

        Returns
        -------
        WaldTest
        """
        weights = self._restrictions(columns)
        values = np.asarray(value, dtype=np.float64)
        if values.shape not in ((), (len(weights),)) or not np.isfinite(values).all():
            rule = f"be a finite number, or {len(weights)} of them"
            raise fail("value", rule, values.tolist())
        rows = weights @ self.rows
        size = np.abs(rows).max(axis=1, keepdims=True)
        if not size.all() or np.linalg.matrix_rank(rows / size) < len(rows):
            rule = "be linearly independent combinations of estimated coefficients"
            raise fail("columns", rule, remedy="Leave out those that follow from the others.")
        found = self.estimate.test(rows, values - weights @ self.constants)
        return WaldTest(found[0], len(rows), found[1])

    def summary(self, *, level: float = 0.95, model: str = "") -> CoefficientTable:
        """Return a table of the coefficients, which prints itself.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Of the intervals.
        model : str, default=""
            Name of the model in the title.

        Returns
        -------
        CoefficientTable
        """
        from skdp.linear_model._inference.table import CoefficientTable

        return CoefficientTable(self, check_interval("level", level, 0.0, 1.0, "neither"), model)

    def _restrictions(self, columns: Any) -> FloatArray:
        """Return the matrix of the combinations that names or a matrix stand for."""
        given = [columns] if isinstance(columns, str) else columns
        if not isinstance(given, Sequence) or not any(isinstance(name, str) for name in given):
            return self._weights(given)
        known = [*dict.fromkeys([*self.names, *self.columns]).keys() - {""}]
        if strangers := [name for name in given if name not in known]:
            raise fail(
                "columns", f"be names of coefficients or columns, {sorted(known)}", strangers
            )
        pairs = zip(self.names, self.columns, strict=True)
        chosen = [j for j, own in enumerate(pairs) if not {*own}.isdisjoint(given)]
        return np.asarray(np.eye(len(self.names))[chosen])

    def _weights(self, weights: Any) -> FloatArray:
        """Return a matrix of weights of the coefficients as floats."""
        rule = f"be names, or a matrix of finite numbers with {len(self.names)} columns"
        try:
            found: NDArray[Any] = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        except (TypeError, ValueError):
            raise fail("columns", rule) from None
        if found.ndim != 2 or not len(found) or found.shape[1] != len(self.names):
            raise fail("columns", rule, found.shape)
        if not np.isfinite(found).all():
            raise fail("columns", rule)
        return found


def _columns_of(domain: Domain) -> list[str]:
    """Return the declared column, or "a x b" for an interaction, of each encoded column."""
    found = []
    for column, read, write in domain._layout.placed:
        own = domain._labels[read]
        # A block of indicators that were encoded before has no name of its own.
        is_block = len(own) > 1 and not isinstance(column, Interaction)
        names = column.names_out(own) if is_block else [" x ".join(own)] * column.n_out
        found += names[: write.stop - write.start]
    return found
