"""Standard errors and intervals from released moments."""

from __future__ import annotations

import numpy as np

from skdp._checks import fail
from skdp.linear_model._inference.estimate import NoisyEquations, estimate, user_units
from skdp.linear_model._inference.inference import Inference
from skdp.linear_model._inference.reported import REMEDY
from skdp.linear_model._moments.moments import Moments
from skdp.linear_model._shared.design import Design
from skdp.mechanisms.matrix import MatrixNoise
from skdp.privacy import Guarantee

NOTES = (
    "Method: least squares from noisy moments. coef_ of the model is shrunk; the coefficients of"
    " this table are not.",
    "The intervals contain the sampling error and the noise. They assume that the errors have one"
    " variance, that rows are independent and that the bounds of the domain clip hardly any value.",
)


def equations_of(moments: Moments, intercept: bool) -> NoisyEquations:
    """Return the equations of a release, of which all moments are in the domain's units."""
    n, own = moments.n_records, moments.own_square
    matrix, deviation = moments.gram / n, moments.deviation / n
    if not intercept:
        matrix, deviation, own = matrix[1:, 1:], deviation[1:, 1:], np.zeros_like(own[1:])
    # Of w'Nu for the difference of two Wishart matrices, which have d + 1 degrees of freedom.
    return NoisyEquations(matrix, deviation**2, own, n, 6 / (moments.layout.n_rows + 1))


def inference_of(moments: Moments | None, design: Design, guarantee: Guarantee) -> Inference:
    """Return the standard errors of a regression on moments.

    Raises
    ------
    ValueError
        If the moments are scaled, their noise is correlated or rows are not independent.
    """
    if guarantee.unit == "person":
        rule = "have standard errors: they need moments of rows, not of persons"
        raise fail("the model", rule, remedy=REMEDY)
    if moments is None or moments.is_scaled or not isinstance(moments.noise, MatrixNoise):
        rule = (
            "have standard errors: they need moments in the units of the domain, with"
            " uncorrelated noise"
        )
        remedy = (
            'Fit with inference_share=0.8, or with mechanism="matrix", which is for models of'
            " from_moments, too."
        )
        raise fail("the model", rule, remedy=remedy)
    found = estimate(equations_of(moments, design.intercept))
    units = user_units(design.domain, design.intercept)
    known = None if moments.layout.adds else round(moments.n_records)
    return Inference.of(found, *units, design.domain, NOTES, n_records=known)
