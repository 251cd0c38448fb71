"""The functional mechanism: coefficients from noisy moments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_choice, fail
from skdp.domain import Domain
from skdp.linear_model._moments.moments import Moments
from skdp.linear_model._moments.postprocess import (
    RECIPES,
    SHRINK,
    SHRINK_IN_BALL,
    coefficient_covariance,
    solve,
)
from skdp.linear_model._moments.rules import check_mechanism, plan_moments
from skdp.linear_model._shared.base import Solution
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import row_unit
from skdp.linear_model._shared.records import Records
from skdp.linear_model._shared.task import Task

# The penalty on differences of neighbouring coefficients of a spline, in units of the domain's.
SMOOTH = 0.05


class FittedMoments:
    """Attributes that the release of moments adds."""

    moments_: Moments
    coef_std_: FloatArray
    intercept_std_: float
    coef_corr_: FloatArray


@dataclass(frozen=True, eq=False)
class FunctionalMechanism:
    """The functional mechanism with the parameters of :class:`DPLinearRegression`."""

    asked: Any

    def check(self, delta: float) -> None:
        """Raise an error unless the parameters are valid."""
        check_mechanism(self.asked.mechanism)
        if isinstance(self.asked.postprocess, str):
            check_choice("postprocess", self.asked.postprocess, RECIPES)
        elif not callable(self.asked.postprocess):
            rule = f"be one of {sorted(RECIPES)} or a function"
            raise fail("postprocess", rule, self.asked.postprocess)

    def plan(self, task: Task) -> Any:
        """Choose the moments, and calibrate their noise, from public information only."""
        return plan_moments(task, self.asked.mechanism)

    def sums(self, plan: Any, records: Records) -> Any:
        """Return the exact sums of the first stage, and the rows for a second stage."""
        return plan.sums(records.rows), records

    def release(self, plan: Any, sums: Any, rng: Generator) -> Solution:
        """Release the moments, and return the coefficients that they give."""
        exact, records = sums
        # The solver may call a function of the user. Its errors get the note on the budget.
        return self.solve(records.design, plan.release(exact, records.rows, rng))

    def solve(self, design: Design, moments: Moments) -> Solution:
        """Return the coefficients that moments give; 0 for columns without moments."""
        domain = design.domain
        shrink = SHRINK_IN_BALL if domain.is_ball else SHRINK
        noisy = moments.noisy(design.intercept or len(moments.names) == 2, shrink)
        if noisy.deviation is not None:
            noisy = replace(noisy, prior=_prior(design))
        found = solve(self.asked.postprocess, noisy)
        deviation = moments.deviation / moments.n_records
        spread = coefficient_covariance(noisy, deviation, moments.own_square, found)
        encoded, spread = moments.to_encoded(found.theta, spread)
        theta = np.zeros(domain.n_encoded + 1)
        theta[: len(encoded)] = encoded
        theta[1:] /= row_unit(domain)
        deviations, correlations = _deviations(domain, spread)
        attributes = {
            "moments_": moments,
            "intercept_std_": float(deviations[0]),
            "coef_std_": deviations[1:] / row_unit(domain),
            "coef_corr_": correlations[1:, 1:],
        }
        return Solution(theta[None, 1:], theta[:1], attributes)


def _prior(design: Design) -> FloatArray | None:
    """Return the covariance of coefficients before the release; None for the unit matrix.

    Neighbouring coefficients of a spline are similar. Their mean variance is 1.
    """
    found, shift = np.eye(design.domain.n_encoded), int(design.intercept)
    for block, penalty in zip(design.blocks, design.penalties, strict=True):
        if penalty is not None:
            own = np.linalg.inv((1 - SMOOTH) * np.eye(len(penalty)) + SMOOTH * penalty)
            at = slice(block.start - shift, block.stop - shift)
            found[at, at] = own * (len(own) / np.trace(own))
    return found if any(penalty is not None for penalty in design.penalties) else None


def _deviations(domain: Domain, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return standard deviations in the user's units, and correlations.

    ``spread`` is the covariance of the encoded (intercept, coefficients).
    """
    size = domain.n_encoded + 1
    zero, constant = domain.decode_coef(np.zeros(size - 1), 0.0, regression=True)
    units = np.eye(size)[:, : len(spread)].T
    slopes, intercepts = domain.decode_coef(units[:, 1:], units[:, 0], regression=True)
    # Decoding is affine: it maps differences linearly.
    rows = np.column_stack([intercepts - constant, slopes - zero])
    # With bounds such as 1e-300 the squares of the entries would overflow.
    greatest = np.abs(rows).max(axis=0)
    rows = rows / np.where(greatest > 0, greatest, 1.0)
    covariance = rows.T @ spread @ rows
    own = np.sqrt(np.diag(covariance))
    unit = np.where(own > 0, own, 1.0)
    correlations = covariance / unit / unit[:, None]
    np.fill_diagonal(correlations, 1.0)
    return greatest * own, correlations
