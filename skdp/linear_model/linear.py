"""Private linear regression from noisy moments: the functional mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdp.domain.domain import subset
from skdp.linear_model._inference.estimate import user_units
from skdp.linear_model._inference.table import Inference
from skdp.linear_model._moments.advice import NAMES, MomentPlan, ScaledMoments, plan_moments
from skdp.linear_model._moments.solve import (
    RECIPES,
    SHRINK,
    SHRINK_IN_BALL,
    Moments,
    coefficient_covariance,
    estimate_of,
    pooled,
    prior_of,
    row_scaler,
    solve,
    with_residuals,
)
from skdp.linear_model._shared.base import Algorithm, PrivateRegressor, Solution, with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import exact_cross, exact_moments, release_exact, row_unit
from skdp.linear_model._shared.scaling import Scaler
from skdp.linear_model._shared.task import Records, Task
from skdp.linear_model.validation import WEIGHTED
from skdp.noise.matrix import MatrixNoise
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import NormBall
from skdp.trusted.checks import check_choice, fail


@dataclass(frozen=True, eq=False)
class FunctionalMechanism:
    """The functional mechanism with the parameters of :class:`DPLinearRegression`."""

    params: Any

    def check(self, delta: float) -> None:
        mechanism, postprocess = self.params.mechanism, self.params.postprocess
        if isinstance(mechanism, str):
            check_choice("mechanism", mechanism, NAMES)
        elif isinstance(mechanism, type) or not (
            isinstance(mechanism, NormBall) or hasattr(mechanism, "calibrate")
        ):
            remedy = "Or a norm ball, or an object with calibrate(sensitivity, *, epsilon, delta)."
            raise fail("mechanism", f"be one of {sorted(NAMES)}", mechanism, remedy)
        if isinstance(postprocess, str):
            check_choice("postprocess", postprocess, RECIPES)
        elif not callable(postprocess):
            raise fail("postprocess", f"be one of {sorted(RECIPES)} or a function", postprocess)

    def plan(self, task: Task) -> MomentPlan:
        """Choose the releases and their noise, from public information only."""
        return plan_moments(task, self.params.mechanism)

    def sums(self, plan: MomentPlan, records: Records) -> Any:
        """Return the records, and the exact sums of the first release."""
        return records, plan.sums(records.rows)

    def release(self, plan: MomentPlan, sums: Any, rng: Generator) -> Solution:
        records, exact = sums
        rows, design = records.rows, records.design
        names = ("1", *design.domain.encoded_names(), "target")
        if isinstance(plan, ScaledMoments):
            scaling, every, products = plan.releases
            seen = plan.first.release(scaling, exact, rng)
            scaler = row_scaler(plan, seen)
            statistic = exact_moments(rows, plan.layout, scaler.place)
            moments = pooled(plan, seen, scaler, release_exact(every, statistic, rng), names)
            moments = with_residuals(
                plan,
                scaler,
                moments,
                prior_of(design),
                lambda box: release_exact(products, exact_cross(rows, box.place), rng),
            )
        else:
            released = release_exact(plan.releases[0], exact, rng)
            has_features = plan.layout.n_rows > 2
            moments = Moments.of(plan, released, names if has_features else ("1", "target"))
        # The solver may call a function of the user. Its errors get the note on the budget.
        return self.solve(design, moments)

    def solve(self, design: Design, moments: Moments) -> Solution:
        """Return the coefficients that moments give; 0 for columns without moments."""
        domain = design.domain
        shrink = SHRINK_IN_BALL if domain.is_ball else SHRINK
        noisy = moments.noisy(design.intercept or len(moments.names) == 2, shrink)
        noisy = replace(noisy, prior=prior_of(design))
        solution, *equations = solve(self.params.postprocess, noisy)
        spread = coefficient_covariance(noisy, solution, *equations)
        scaler = Scaler(moments.centre[1:], moments.scale[1:])
        coef, intercept = scaler.undo(solution[None, 1:], solution[:1])
        theta = np.zeros(domain.n_encoded)
        theta[: coef.shape[1]] = coef[0]
        # The covariance of the intercept and the coefficients in the user's units.
        rows = user_units(domain, True)[0][:, : len(spread)].T
        # With bounds such as 1e-300 the squares of the entries would overflow.
        greatest = np.abs(rows).max(axis=0)
        rows = rows / np.where(greatest > 0, greatest, 1.0)
        covariance = rows.T @ scaler.undo_covariance(spread) @ rows
        deviations = np.sqrt(np.diag(covariance))
        unit = np.where(deviations > 0, deviations, 1.0)
        correlations = covariance / unit / unit[:, None]
        np.fill_diagonal(correlations, 1.0)
        attributes = {
            "moments_": moments,
            "intercept_std_": float(greatest[0] * deviations[0]),
            "coef_std_": (greatest * deviations)[1:],
            "coef_corr_": correlations[1:, 1:],
        }
        return Solution(theta[None] / row_unit(domain), intercept, attributes)


NOTES = (
    "Method: least squares from noisy moments. The coefficients are not shrunk.",
    "The intervals contain the sampling error and the noise. They assume that the errors have one"
    " variance, that rows are independent and that the bounds of the domain clip hardly any value.",
)


@with_parameters
class DPLinearRegression(PrivateRegressor):
    """Regressor for several analyses of one release: least squares from private moments.

    The method is the functional mechanism. ``fit`` releases noisy sums of products of all columns
    once. This regression, regressions of any column on others (:meth:`from_moments`), and means and
    covariances (``moments_``) are computed from these sums and need no further budget. If you only
    need predictions, :class:`DPHuberRegressor` is more accurate for the same epsilon: the dimension
    of its noise is the number of coefficients rather than its square. Statement and proof:
    ``docs/proofs/moment_release.md``, ``docs/proofs/matrix_laplace.md`` and
    ``docs/proofs/moment_balls.md``.

    Parameters
    ----------
    delta : float in [0, 1), default=0.0
        The delta of the budget. Noise that is pure DP does not use it, and the guarantee then has
        delta = 0.

    Other Parameters
    ----------------
    mechanism : {"auto", "matrix", "hull", "l1", "l2", "linf", "gaussian", "elliptic", \
            "laplace", "logistic", "subbotin", "flipped_huber", "truncated_laplace", \
            "offset_gaussian"}, norm ball or object with ``calibrate``, default="auto"
        The noise. "matrix" is the difference of two Wishart matrices. "hull" is the K-norm
        mechanism on a :class:`~skdp.geometry.MomentBall`. "gaussian" and "elliptic" need ``delta``
        > 0. The last six names stand for independent noise of that law in every moment. Their
        calibration composes all moments, takes seconds, and seldom leads to less noise than the
        others. All of them but "laplace" and "logistic" need ``delta`` > 0.

        "auto" chooses the noise with the least expected error of predictions, from public facts
        (docs/mathematics/automatic_choices.md). If there is an intercept, it scales the columns: a
        share of epsilon is spent on means and scales. The rest is divided between all moments of
        the scaled columns, with smaller weights for records far from the centre, and the products
        of the features with the residuals of a regression on these moments. With fewer records, a
        greater share is spent on these products.
        With very few records, only the mean of the target is released, for any ``fit_intercept``.
        After a fit to rows with "matrix", :meth:`infer` without records computes standard errors
        from the released moments at no cost.
    postprocess : {"auto", "pinv", "ridge", "psd"} or callable, default="auto"
        The method that computes coefficients from the moments. "auto" computes a posterior mean if
        the columns were scaled. Otherwise it projects the moments onto the set of possible moments
        and shrinks directions in which the noise dominates. "psd" only projects. "ridge" adds a
        ridge of the size of the noise. "pinv" uses the pseudo-inverse (Awan & Slavkovic 2020,
        Equation 4).

    Attributes
    ----------
    coef_std_ : ndarray of shape (n_encoded,)
        Standard deviation of each coefficient that is due to the noise, to first order. It does not
        include the sampling error: see :meth:`infer`.
    coef_corr_ : ndarray of shape (n_encoded, n_encoded)
        Correlations of the noise in the coefficients, to first order.
    intercept_std_ : float
    moments_ : Moments
        The released moments, and with "add_remove" also the noisy number of records.
    noise_ : noise of the mechanism
        The law of the noise of the moments, without its draw.
    n_iter_ : int
        Always 1.
    converged_ : bool
        Always True.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(20_000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=20_000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> model = DPLinearRegression(epsilon=1.0, domain=domain).fit(X, y)
    >>> print(round(model.score(X, y), 1))
    1.0
    >>> from skdp.trusted import overview
    >>> [(line.name, round(line.epsilon, 2)) for line in overview(model.releases_, model.public_)]
    [('scaling', 0.05), ('moments', 0.55), ('cross', 0.4)]
    >>> other = model.from_moments(["x0"], target="x1")  # costs nothing
    >>> print(other.guarantee_.epsilon)
    1.0
    """

    postprocess: Any = "auto"
    moments_: Moments = field(init=False)
    coef_std_: FloatArray = field(init=False)
    intercept_std_: float = field(init=False)
    coef_corr_: FloatArray = field(init=False)

    def _algorithm(self) -> Algorithm:
        return FunctionalMechanism(self._params())

    def _store(
        self, plan: Any, solution: Solution, attributes: dict[str, Any], design: Design
    ) -> None:
        super()._store(plan, solution, attributes, design)
        self.moments_ = replace(solution.attributes["moments_"], noise=self.noise_)

    def _released_inference(self) -> Inference:
        """Return the inference that follows from the released moments.

        Raises
        ------
        ValueError
            If the moments are scaled, their noise is correlated or rows are not independent.
        """
        remedy = "Pass the records: infer(X, y, epsilon=1.0)."
        if self.guarantee_.unit == "person" or WEIGHTED in self.guarantee_.assumptions:
            rule = "be given: standard errors follow from moments of rows only, not of persons"
            rule += " or with weights"
            raise fail("X", rule, remedy=remedy)
        moments: Moments | None = getattr(self, "moments_", None)
        if moments is None or moments.is_scaled or not isinstance(moments.noise, MatrixNoise):
            rule = (
                "be given: standard errors follow only from moments in the units of the domain,"
                " with uncorrelated noise"
            )
            remedy += ' Or fit with mechanism="matrix", which is for models of from_moments, too.'
            raise fail("X", rule, remedy=remedy)
        n, design, own_square = moments.n_records, self._design, moments.own_square
        matrix, deviation = moments.gram / n, moments.deviation / n
        if not design.intercept:
            matrix, deviation = matrix[1:, 1:], deviation[1:, 1:]
            own_square = np.zeros_like(own_square[1:])
        # Of w'Nu for the difference of two Wishart matrices, which have d + 1 degrees of freedom.
        excess = 6 / (moments.layout.n_rows + 1)
        found = estimate_of(matrix, deviation**2, own_square, n, excess)
        rows, constants = user_units(design.domain, design.intercept)
        places = np.arange(len(found.start))
        return replace(
            Inference.of(found, places, rows, constants, design.domain, NOTES),
            n_records=None if moments.layout.adds else round(n),
            guarantee=self.guarantee_,
            releases=self.releases_,
            public=self.public_,
            records=self._records.domain,
            model=type(self).__name__,
        )

    def from_moments(
        self, columns: Sequence[str] | None = None, target: str | None = None
    ) -> DPLinearRegression:
        """Return the regression of one column on others from the same release, at no cost.

        Parameters
        ----------
        columns : list of str, or None for all features but ``target``
            Declared columns, with all or none of the indicators of a column. Columns without
            names are called x0, x1, ...
        target : str, or None for the target of the fit
            A column of numbers.

        Returns
        -------
        DPLinearRegression
            A fitted regressor of these columns, in their units.
        """
        check_is_fitted(self)
        if not hasattr(self, "moments_"):
            remedy = "Call it before the model is exported, or keep the model with pickle."
            rule = "find the released moments: the file of a model holds none"
            raise fail("from_moments", rule, remedy=remedy)
        whole = self._design.domain
        domain, places, place = subset(whole, columns, target)
        if len(self.moments_.names) != whole.n_encoded + 2:
            remedy = "Their noise would be too large: give more epsilon, or a mechanism by name."
            rule = "find moments of the features: none were released"
            raise fail("from_moments", rule, remedy=remedy)
        last = whole.n_encoded + 1
        chosen = [p + 1 for p in places]
        model: DPLinearRegression = clone(self).set_params(domain=domain, ledger=self.ledger)
        kept = "guarantee_", "public_", "releases_", "_records", "noise_", "n_iter_", "converged_"
        for name in kept:
            setattr(model, name, getattr(self, name))
        model.n_features_in_ = domain.n_columns
        if domain.names is not None:
            model.feature_names_in_ = np.array(domain.names, dtype=object)
        moments = self.moments_.subset(chosen, last if place is None else place + 1)
        design = Design(domain, bool(self.fit_intercept))
        solution = FunctionalMechanism(model._params()).solve(design, moments)
        model._store(None, solution, {}, design)
        return model
