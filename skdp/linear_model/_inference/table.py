"""Standard errors, intervals and tests of a fitted model, and the table that prints them."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._codec import to_text
from skdp._estimators import html_table, text_lines
from skdp.domain import Domain
from skdp.domain.columns import Levels
from skdp.domain.splines import Interaction
from skdp.linear_model._inference.estimate import NoisyEquations, NoisyEstimate
from skdp.linear_model.export import InferenceFile, entries_of
from skdp.privacy import Guarantee
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.certify import Listed
from skdp.trusted.checks import check_entries, check_interval, check_numbers, fail, optional_module
from skdp.trusted.statement import Public

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
    >>> table = DPLinearRegression(domain=domain).fit(X, y).infer(X, y, epsilon=4.0)
    >>> test = table.wald_test("job")  # both coefficients of the column together
    >>> print(test.n_restrictions)
    2
    """

    statistic: float
    n_restrictions: int
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Estimates of coefficients, with standard errors, confidence intervals and tests.

    The method ``infer`` of a fitted model returns it. Everything in it follows from released
    numbers and needs no further budget. It estimates the coefficients of the population. The
    estimates are not shrunk, unlike ``coef_`` of most models. Standard errors account for the
    sampling error and the privacy noise.

    A coefficient is a quotient of two noisy sums. Its interval has the values that a test does not
    reject, and the test uses the variance that the noise has if the coefficient has this value
    (Fieller). If the noise hides the lower sum, this interval is unbounded, and no other. Intervals
    and tests do not account for a choice of the model, columns or parameters.

    Attributes
    ----------
    names : tuple of str
        The coefficients: "intercept" first, if there is one, then the encoded columns
        (:meth:`skdp.domain.Domain.encoded_names`). All arrays have this order.
    estimate : object
        The estimate in the units of the encoded columns. Its parts may change between versions.
    rows, constants : ndarray of shape (n_names, n_encoded) and (n_names,)
        The map from the encoded columns to the user's units.
    notes : tuple of str
        Sentences about the method and its assumptions.
    domain : Domain
        The domain of the coefficients.
    equations : object or None
        The released sums of a whole table, from which :meth:`without` and :meth:`merge` compute.
    r_squared : float or None
        The share of the variance that the model explains, estimated from the same sums; None for
        labels and counts, for some ``effects``, without an intercept, and where units overflow.
    slope : float
        The mean change of predictions for a unit of the linear predictor: 1 for a regression, the
        mean of p (1 - p) at the model for labels, and that of means up to a bound for counts.
    guarantee : Guarantee or None
        The guarantee of the releases.
    fit : Guarantee or None
        The guarantee of the fit of the model. It must be added to ``guarantee``, because the
        estimates use the fitted coefficients. None if the table uses the releases of the fit.
    releases, public : tuple of releases, :class:`~skdp.trusted.Public`
        The releases, and the public facts with which ``certify`` proves the guarantee.
    records : Domain
        The domain of the records whose sums were released.
    n_records : int or None
        The number of records; None if it is private.
    model : str
        Name of the class of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(50_000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=50_000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> model = DPLinearRegression(epsilon=0.2, domain=domain).fit(X, y)
    >>> table = model.infer(X, y, epsilon=0.8)
    >>> print(table.names, table.coef.round(1) + 0)
    ('intercept', 'x0', 'x1') [ 0.  3. -1.]
    >>> print(table.conf_int()[1].round(1))
    [3. 3.]
    >>> print(f"{table.wald_test(['x0', 'x1']).p_value:.3f}")
    0.000
    """

    names: tuple[str, ...]
    estimate: NoisyEstimate
    rows: FloatArray
    constants: FloatArray
    notes: tuple[str, ...]
    domain: Domain
    equations: NoisyEquations | None = None
    r_squared: float | None = None
    slope: float = 1.0
    guarantee: Guarantee | None = None
    fit: Guarantee | None = None
    releases: tuple[Listed, ...] = ()
    public: Public | None = None
    records: Domain | None = None
    n_records: int | None = None
    model: str = ""

    @classmethod
    def of(
        cls,
        estimate: NoisyEstimate,
        at: NDArray[np.intp],
        rows: FloatArray,
        constants: FloatArray,
        domain: Domain,
        notes: Sequence[str],
    ) -> Inference:
        """Return the inference of an estimate.

        ``rows``, (n_encoded + 1, k), and ``constants`` map it to the intercept and the slopes. An
        intercept that is a constant is left out.
        """
        names = INTERCEPT, *domain.encoded_names()
        others = np.setdiff1d(np.arange(rows.shape[1]), at)
        # Those that depend on estimated coefficients only.
        shown = np.flatnonzero(rows.any(axis=1) & ~rows[:, others].any(axis=1))
        names, rows = tuple(names[j] for j in shown), rows[np.ix_(shown, at)]
        return cls(names, estimate, rows, constants[shown], tuple(notes), domain)

    def __repr__(self) -> str:
        return f"Inference({len(self.names)} coefficients; {self.is_hidden.sum()} hidden)"

    @property
    def columns(self) -> tuple[str, ...]:
        """The declared column of each coefficient, "" for the intercept."""
        known = dict(zip(self.domain.encoded_names(), _columns_of(self.domain), strict=True))
        return tuple(known.get(name, "") for name in self.names)

    @property
    def coef(self) -> FloatArray:
        """The estimates, which are not shrunk, (n_names,)."""
        return np.asarray(self.rows @ self.estimate.theta + self.constants)

    @property
    def std_error(self) -> FloatArray:
        """Standard errors, (n_names,); the root of the sum of the squares of both parts.

        Exact to first order in the noise. Infinite where the noise hides it.
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
    def is_hidden(self) -> NDArray[np.bool_]:
        """Whether the noise hides a coefficient, (n_names,): its interval is unbounded."""
        return np.asarray((self.rows != 0) @ self.estimate.is_hidden(0.025))

    @property
    def p_values(self) -> FloatArray:
        """P-values of the tests that a coefficient is 0, (n_names,).

        ``p_values[j] >= 1 - level`` if and only if ``conf_int(level=level)[j]`` contains 0.
        """
        return np.asarray([own[1] for own in self._tests()])

    @property
    def z_values(self) -> FloatArray:
        """Estimates in standard deviations, (n_names,).

        The standard deviations are those of the tests that a coefficient is 0, which are close to
        ``std_error`` if the noise is small. A value is 0 where the noise hides the coefficient.
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
            The share of releases in which an interval contains the value of the population.

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

        Standard errors of combinations assume the correlations of errors with one variance.

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

    def margins(self, *, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return average marginal effects: coefficients times ``slope``.

        For labels they are changes of the probability, for counts of the mean. ``slope`` has noise,
        too, which is not in the intervals.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        effects : ndarray of shape (n_names,)
        intervals : ndarray of shape (n_names, 2)
        """
        return self.combine(self.slope * np.eye(len(self.names)), level=level)

    def without(self, *names: str) -> Inference:
        """Return the table of the model without some coefficients, at no cost.

        It follows from the released sums of a regression. Where the noise hides a coefficient,
        those of correlated columns can have shorter intervals without it. A smaller model of labels
        or counts has other curvatures: call ``infer`` of a model without the column.

        Parameters
        ----------
        *names : str
            Coefficients or columns to leave out.

        Returns
        -------
        Inference

        Raises
        ------
        ValueError
            If a name is not one of the table's, if none is left, or if the table is one of labels,
            of counts or of some ``effects`` only.

        Examples
        --------
        >>> from skdp import Domain, DPLinearRegression
        >>> domain = Domain({"age": (17, 90), "job": ["clerk", "craft", "sales"]}, target=(0, 100))
        >>> X, y = domain.sample(5000, random_state=0, with_target=True)  # artificial rows
        >>> table = DPLinearRegression(domain=domain).fit(X, y).infer(X, y, epsilon=4.0)
        >>> table.without("age").names
        ('intercept', 'job_craft', 'job_sales')
        >>> table.merge("job", ["craft", "sales"]).names
        ('intercept', 'age', 'job_craft | job_sales')
        """
        dropped = {j for name in names for j in self._named(name)}
        kept = [j for j in range(len(self.names)) if j not in dropped]
        if not kept:
            raise fail("names", "leave a coefficient in the table")
        return self._restricted(np.eye(len(self.names))[:, kept], [self.names[j] for j in kept])

    def merge(self, column: str, levels: Sequence[str]) -> Inference:
        """Return the table of the model in which some levels are one, at no cost.

        Parameters
        ----------
        column : str
            A column of levels.
        levels : list of str
            At least two of its levels. With the reference level, the others are left out.

        Returns
        -------
        Inference
            See :meth:`without`.
        """
        places = dict(zip(self.names, range(len(self.names)), strict=True))
        kinds = dict(zip(self.domain.names or (), self.domain._columns, strict=False))
        kind = kinds.get(column) if isinstance(column, str) else None
        if not isinstance(kind, Levels) or column not in self.columns:
            raise fail("column", "be a column of levels in the table", column)
        every = dict(zip(kind.levels, kind.corners(column), strict=False))
        given = () if isinstance(levels, str) else check_entries("levels", levels)
        chosen = [name for own, name in every.items() if own in given]
        if len(chosen) < 2 or any(own not in [*every] for own in given):
            raise fail("levels", f"be two or more of {[*every]}", levels)
        if chosen[0] not in places:  # the first level, whose coefficient is 0
            return self.without(*chosen[1:])
        matrix, names = np.eye(len(self.names)), [*self.names]
        first, *others = (places[name] for name in chosen)
        matrix[:, first] += matrix[:, others].sum(axis=1)
        names[first] = " | ".join(chosen)
        kept = [j for j in range(len(names)) if j not in others]
        return self._restricted(matrix[:, kept], [names[j] for j in kept])

    def _restricted(self, matrix: FloatArray, names: Sequence[str]) -> Inference:
        """Return the inference of gamma, where the coefficients are ``matrix @ gamma``."""
        if self.equations is None or len(self.rows) != self.rows.shape[1]:
            rule = "be of a regression that is linear, with an intercept and all coefficients"
            raise fail("the table", rule, remedy="Name all in one call, or infer a smaller model.")
        back = np.linalg.inv(self.rows)
        found = self.equations.restricted(back @ matrix, -back @ self.constants, self.estimate)
        unit = np.eye(len(names))
        return replace(
            self,
            names=(*names,),
            estimate=found,
            equations=None,
            r_squared=None,
            rows=unit,
            constants=np.zeros(len(names)),
        )

    def wald_test(self, columns: Any, value: ArrayLike = 0.0) -> WaldTest:
        """Return the test that several coefficients, or combinations of them, have given values.

        The statistic is the squared distance between the combinations R theta of the estimates and
        the values r, in the metric of their covariance. For one coefficient it is that of
        ``p_values``, with the variance under the null. For several it is that of Wald, to first
        order in the noise. The statistic is compared with chi-square, or with F if the variances
        are estimated from noisy sums. The p-value is 1 where the noise hides a coefficient.

        Parameters
        ----------
        columns : str, sequence of str, dict or array-like of shape (m, n_names)
            Names of coefficients or of declared columns, which stand for all their coefficients;
            or a dict of names and values; or the matrix R, whose rows are linearly independent.
        value : float or array-like, default=0
            The values r under the null: one for all, or one for each name or row of R, in their
            order. The value of a column is that of all its coefficients.

        Returns
        -------
        WaldTest
        """
        if isinstance(columns, Mapping):
            columns, value = [*columns], [*columns.values()]
        values = check_numbers("value", value)
        weights, sizes = self._restrictions(columns, is_one=values.ndim == 0)
        if values.shape not in ((), (len(sizes),)) or not np.isfinite(values).all():
            rule = f"be a finite number, or one for each of the {len(sizes)} names or rows"
            raise fail("value", rule, values.tolist())
        values = values.repeat(sizes) if values.ndim else values
        rows = weights @ self.rows
        size = np.abs(rows).max(axis=1, keepdims=True)
        if not size.all() or np.linalg.matrix_rank(rows / size) < len(rows):
            rule = "be linearly independent combinations of estimated coefficients"
            raise fail("columns", rule, remedy="Leave out those that follow from the others.")
        found = self.estimate.test(rows, values - weights @ self.constants)
        return WaldTest(found[0], len(rows), found[1])

    def summary(self, *, level: float = 0.95) -> CoefficientTable:
        """Return a table of the coefficients, which prints itself.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Of the intervals.

        Returns
        -------
        CoefficientTable
        """
        return CoefficientTable(self, check_interval("level", level, 0.0, 1.0, "neither"))

    def to_dict(self) -> dict[str, Any]:
        """Return the inference as a dict of strings, numbers, bools, lists and None.

        Like the file of a model, it contains only released and public values. `skdp.load_model`
        reads it, and ``python -m skdp certify`` proves its guarantee.

        Raises
        ------
        ValueError
            If a level or a label is not a string, a finite number or a bool, or if a released sum
            is not finite.
        """
        return entries_of(InferenceFile.of(self), "Inference")

    def to_json(self) -> str:
        """Return the inference as JSON text; see :meth:`to_dict`."""
        return to_text(self.to_dict()) + "\n"

    def _named(self, name: str) -> list[int]:
        """Return the positions of a coefficient, or of those of a column."""
        pairs = enumerate(zip(self.names, self.columns, strict=True))
        if name and (found := [j for j, own in pairs if name in own]):
            return found
        known = [*dict.fromkeys([*self.names, *self.columns])]
        raise fail(
            "columns", f"be names of coefficients or columns, {sorted({*known} - {''})}", name
        )

    def _restrictions(self, columns: Any, is_one: bool) -> tuple[FloatArray, list[int]]:
        """Return the combinations that names or a matrix stand for, and how many each entry has.

        With one value for all, those of a name that is given again are left out.
        """
        given = [columns] if isinstance(columns, str) else columns
        if not isinstance(given, Sequence) or not any(isinstance(name, str) for name in given):
            return (found := self._weights(given)), [1] * len(found)
        places = [self._named(name) for name in given]
        chosen = [j for own in places for j in own]
        chosen = [*dict.fromkeys(chosen)] if is_one else chosen
        return np.eye(len(self.names))[chosen], [*map(len, places)]

    def _weights(self, weights: Any) -> FloatArray:
        """Return a matrix of weights of the coefficients as floats."""
        rule = f"be names, or a matrix of finite numbers with {len(self.names)} columns"
        try:
            found: Array = np.atleast_2d(np.asarray(weights, dtype=np.float64))
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


def check_names(domain: Domain, intercept: bool) -> None:
    """Raise an error if the name of a column is also that of another coefficient."""
    pairs = [*zip(domain.encoded_names(), _columns_of(domain), strict=True)]
    pairs += [(INTERCEPT, "")] * intercept
    columns = {column for _, column in pairs}
    if both := sorted(name for name, column in pairs if name != column and name in columns):
        raise fail("columns", "have other names than coefficients", both, "Rename the columns.")


def positions_of(domain: Domain, effects: Sequence[str] | None, intercept: bool) -> tuple[int, ...]:
    """Return the encoded coefficients of some columns; 0 is the intercept. None stands for all."""
    if effects is None:
        return tuple(range(int(not intercept), domain.n_encoded + 1))
    names, columns = domain.encoded_names(), _columns_of(domain)
    known = sorted({*names, *columns} - {""})
    names_given = isinstance(effects, Collection) and not isinstance(effects, str)
    if not names_given or not all(isinstance(name, str) for name in effects):
        raise fail("effects", "be a list of names", effects, f"Choose of {known}.")
    if strangers := [name for name in effects if name not in known]:
        raise fail("effects", f"be names of coefficients or columns, {known}", strangers)
    if not len(effects):
        raise fail("effects", "name at least one column", remedy=f"Choose of {known}.")
    pairs = zip(names, columns, strict=True)
    return tuple(j for j, own in enumerate(pairs, 1) if not {*own}.isdisjoint(effects))


_WIDTH = 78
_HIDDEN = (
    "The noise hides {}: the intervals of {} coefficients of {} are unbounded. A larger epsilon,"
    " more records, narrower declared bounds, delta=1e-6 or fewer `effects` would help."
)
_VOID = "THE GUARANTEE DOES NOT HOLD: {}."
_GUARANTEE = (
    "Guarantee: differential privacy with epsilon = {0.epsilon:g} and delta = {0.delta:g}. The"
    " attribute guarantee tells all of it."
)
_FIT = (
    "The fit of the model has a guarantee of its own, which adds to this one: epsilon ="
    " {0.epsilon:g} and delta = {0.delta:g}."
)
_FOOT = "max-width:46em;text-align:left;line-height:1.4;opacity:0.8;margin:0.2em 0"


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientTable:
    """Coefficients with standard errors, tests and intervals; ``print`` and notebooks show it.

    The columns are the estimate (``coef``, not shrunk), its standard error (``std err``), the parts
    of it that are due to the sample (``sampling``) and to the noise (``privacy``), the test that
    the coefficient is 0 (``z`` and ``P>|z|``), and the ends of the interval. The square of the
    standard error is the sum of the squares of its parts. Everything in it was released or is
    public.

    Parameters
    ----------
    inference : Inference
    level : float in (0, 1), default=0.95
        Of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(20_000, 1))
    >>> domain = Domain({"hours": (0, 10)}, target=(0, 30))
    >>> model = DPLinearRegression(epsilon=0.2, domain=domain).fit(X, 3 * X[:, 0])
    >>> table = model.infer(X, 3 * X[:, 0], epsilon=0.8).summary()
    >>> table.to_dict()["names"]
    ['intercept', 'hours']
    """

    inference: Inference
    level: float = 0.95

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of the table as lists, and what is above and below them.

        Returns
        -------
        dict
            ``names``, ``coef``, ``std_error``, ``sampling_error``, ``privacy_error``, ``z``,
            ``p_value``, ``lower`` and ``upper`` are lists with an entry for each coefficient.
            ``level`` is a number, ``head`` a dict of str and ``notes`` a list of str. Errors and
            ends may be infinite.
        """
        own, ends = self.inference, self.inference.conf_int(level=self.level)
        return {
            "names": list(own.names),
            "coef": own.coef.tolist(),
            "std_error": own.std_error.tolist(),
            "sampling_error": own.sampling_error.tolist(),
            "privacy_error": own.privacy_error.tolist(),
            "z": own.z_values.tolist(),
            "p_value": own.p_values.tolist(),
            "lower": ends[:, 0].tolist(),
            "upper": ends[:, 1].tolist(),
            "level": self.level,
            "head": self._head(),
            "notes": self._notes(ends),
        }

    def to_frame(self) -> Any:
        """Return the table as a ``pandas.DataFrame`` with the names as index; needs pandas."""
        pandas = optional_module("pandas", "for a DataFrame", "pandas")
        found = self.to_dict()
        names = found.pop("names")
        columns = {name: value for name, value in found.items() if isinstance(value, list)}
        columns.pop("notes")
        return pandas.DataFrame(columns, index=pandas.Index(names, name="coefficient"))

    def __repr__(self) -> str:
        found = self.to_dict()
        header, cells = self._cells(found)
        lines = text_lines([header, *cells])
        width = max(_WIDTH, len(lines[0]))
        notes = [line for note in found["notes"] for line in textwrap.wrap(note, width)]
        # Two entries in each line, which are read from the left to the right.
        half = width // 2 - 2
        pairs = [
            f"{name}:{value.rjust(half - len(name) - 1)}" for name, value in found["head"].items()
        ]
        pairs += [""] * (len(pairs) % 2)
        head = [f"{a}    {b}".rstrip() for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
        double = "=" * width
        return "\n".join(
            [self._title().center(width).rstrip(), double, *head, double, lines[0], "-" * width,
             *lines[1:], double, *notes]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        """Return the table as HTML.

        All styles are inline and no colours are set: it has the colours of the page.
        """
        found = self.to_dict()
        header, cells = self._cells(found)
        head = "; ".join(f"{name}: {value}" for name, value in found["head"].items())
        foot = "".join(f'<p style="{_FOOT}">{html.escape(note)}</p>' for note in found["notes"])
        return (
            f'<div class="skdp-coefficients"><b>{html.escape(self._title())}</b>'
            f'<p style="{_FOOT}">{html.escape(head)}</p>{html_table(header, *cells)}{foot}</div>'
        )

    def _title(self) -> str:
        model = self.inference.model
        return f"Coefficients of {model}" if model else "Coefficients"

    def _head(self) -> dict[str, str]:
        n, own = self.inference.n_records, self.inference.guarantee
        counted = "No. persons" if own is not None and own.unit == "person" else "No. records"
        found = {counted: "private" if n is None else str(n), "Level": f"{self.level:g}"}
        if own is not None:
            found |= {"Epsilon": f"{own.epsilon:g}", "Delta": f"{own.delta:g}"}
            found |= {"Neighbours": own.neighbors, "Unit": own.unit}
        if self.inference.r_squared is not None:
            found["R-squared"] = f"{self.inference.r_squared:.3f}"
        return found

    def _notes(self, ends: FloatArray) -> list[str]:
        own = self.inference.guarantee
        hidden = [
            name
            for name, end in zip(self.inference.names, ends, strict=True)
            if np.isinf(end).any()
        ]
        found = [_HIDDEN.format(", ".join(hidden), len(hidden), len(ends))] if hidden else []
        if hidden and self.inference.equations is not None:
            found[0] += " At no cost, `without` and `merge` show the model with fewer coefficients."
        if own is not None:
            found += [_VOID.format(why) for why in own.void_because]
            found += [_GUARANTEE.format(own)]
        if (fit := self.inference.fit) is not None:
            found += [_FIT.format(fit)]
        return [*found, *self.inference.notes]

    def _cells(self, found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
        tail = (1 - self.level) / 2
        ends = f"[{tail:.4g}", f"{1 - tail:.4g}]"
        header = ["", "coef", "std err", "sampling", "privacy", "z", "P>|z|", *ends]
        numbers = ["coef", "std_error", "sampling_error", "privacy_error", "lower", "upper"]
        columns = {name: list(map(digits, found[name])) for name in numbers}
        columns |= {name: [f"{value:.3f}" for value in found[name]] for name in ("z", "p_value")}
        # Names are on one line.
        names = [own if own.isprintable() else repr(own)[1:-1] for own in found["names"]]
        shown: list[Sequence[str]] = [names]
        shown += [columns[name] for name in (*numbers[:4], "z", "p_value", *numbers[4:])]
        return header, [list(row) for row in zip(*shown, strict=True)]


def digits(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:#.4g}".rstrip(".")
