"""The base of the estimators that perturb an objective."""

from __future__ import annotations

from typing import Any

from skdp._arrays import FloatArray
from skdp.linear_model._shared.base import PrivateLinearModel, with_parameters
from skdp.linear_model.losses import AnyLoss


class FittedObjective:
    """Attributes that objective perturbation adds."""

    bounds_: FloatArray
    q_: float
    ridge_: FloatArray
    loss_: AnyLoss


@with_parameters
class ObjectiveEstimator(PrivateLinearModel, FittedObjective):
    """The parameters of both estimators.

    Parameters
    ----------
    delta : float in [0, 1), default=0.0
        The delta of the budget. If K-norm noise has a smaller expected error than Gaussian
        noise, it is used, and the guarantee has delta = 0.
    mechanism : str, NormBall, KNorm or object, default="auto"
        The noise. "l1", "l2", "linf", "hull" and norm balls give K-norm noise in that norm, where
        "hull" is the convex hull of all possible rows. "gaussian" and "elliptic" need delta > 0;
        they give normal noise with one variance, or with one variance per group of columns. "auto"
        chooses the noise with the least expected error by public information: K-norm noise on a
        weighted combination of the hull's parts, or elliptic noise. The name of a law of
        `skdp.noise`, or an object with ``calibrate(sensitivity, *, epsilon, delta)``, is calibrated
        with q epsilon (0.8 epsilon by default in a logistic regression), and the rest is spent on
        the curvature. With delta > 0 its noise must be log-concave.
    q : float in (0, 1) or "auto", default="auto"
        Share of epsilon spent on the noise; the rest is spent on the curvature of the loss.
    regularization : float >= 0 or "auto", default="auto"
        Ridge added to the least ridge that privacy needs, on the scale of the summed loss. "auto"
        chooses one ridge for each group of columns, and gives rows of high leverage smaller
        weights. For normal noise and "l2" these weights reduce the noise.
    additive : None, "auto" or int >= 1, default=None
        Whether numbers have curves instead of linear effects: smooth functions of one column each,
        whose terms add up. An int is the number of knots inside each column's bounds, which are
        privately estimated where ``scaling_share`` says so. "auto" chooses a number of knots, or no
        curves, from the number of records, epsilon and the number of coefficients; under
        "add_remove" give ``n_public``. Draw the curves with
        :class:`~skdp.inspection.ShapeDisplay`. A :class:`~skdp.domain.Spline` in the domain
        declares a curve with knots of your choice.

    Attributes
    ----------
    bounds_ : ndarray of shape (n_numbers, 2)
        Clipping bounds of the numbers without curves, in the user's units: privately estimated, or
        those of the domain. The guarantee covers them.
    domain_ : Domain
        The domain of the coefficients. Where ``additive`` gives numbers curves, they are columns
        :class:`~skdp.domain.Spline`, with knots between bounds that the guarantee covers.
        Otherwise it is ``domain``.
    q_ : float
        The share of epsilon that was spent on the noise.
    ridge_ : ndarray of shape (n_encoded + 1,), or (n_encoded,) without an intercept
        The ridge of each coordinate, the intercept first, for numbers whose clipping bounds are
        scaled to [-1, 1]. All models have the same.
    loss_ : Loss or Softmax
        The loss that was used.
    noise_ : KNormNoise, GaussianNoise or the noise of the given mechanism
        The law of the random linear term, without its draw.
    n_iter_ : int
        Always 1: the number of steps of the solver is not released.
    converged_ : bool
        Always True: if the solution cannot be certified, ``fit`` raises an error.
    """

    q: Any = "auto"
    regularization: Any = "auto"
    scaling_share: Any = "auto"
    additive: Any = None
