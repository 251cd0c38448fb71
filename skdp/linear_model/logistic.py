"""Private logistic regression by objective perturbation."""

from __future__ import annotations

from typing import Any, ClassVar

from skdp._checks import fail
from skdp.linear_model._inference.release import with_inference
from skdp.linear_model._objective.algorithm import ObjectivePerturbation
from skdp.linear_model._objective.families import FittedObjective, ModelTask, Reference
from skdp.linear_model._objective.rules import logistic_moments, usual_normalizer
from skdp.linear_model._shared.base import Algorithm, PrivateClassifier, with_parameters
from skdp.linear_model.losses import Logistic, Loss, SharpLogistic, Softmax

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "sharp": SharpLogistic(0.75)}
CANDIDATES = (Logistic(), *(SharpLogistic(middle) for middle in (0.6, 0.75, 0.8)))


@with_parameters
class DPLogisticRegression(PrivateClassifier, FittedObjective):
    """Private logistic regression. Use it when you need a single model.

    The method is objective perturbation: the released coefficients minimise the logistic loss
    plus a ridge and a random linear term. The random term has K-norm noise (Awan & Slavkovic
    2020, section 4) or, with a delta, Gaussian noise. Statements and proofs:
    ``docs/proofs/objective_perturbation.md``, Theorems 1 to 5,
    ``docs/proofs/gaussian_objective.md``, Theorems 1 to 4, and for more than two labels
    ``docs/proofs/softmax.md``, Theorems 1 to 4.

    Numbers are clipped, in ``fit`` and in ``predict``, to the bounds of the public ``domain`` or
    to narrower bounds that are estimated privately.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``.
    delta : float in [0, 1), default=0.0
        The delta of the budget. If K-norm noise has a smaller expected error than Gaussian
        noise, it is used, and the guarantee has delta = 0.
    neighbors : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation. "replace_one": one record is replaced, and the number of
        records is public. "add_remove": one record is added or removed, and the number of records
        is private. With ``fit(..., groups=ids)`` a record is a person with all its rows, and the
        number of rows is private under both relations.
    n_public : int, default=None
        A public order of magnitude of the number of records (of persons, with ``groups``), for the
        automatic choices under "add_remove". None assumes a medium number.
    domain : Domain, default=None
        Public bounds and levels of the columns. With None every column is clipped to [-1, 1], and
        an :class:`~skdp.privacy.UndeclaredDomainWarning` says so.
    mechanism : str, NormBall, KNorm or object, default="auto"
        The noise. "l1", "l2", "linf", "hull" and norm balls give K-norm noise in that norm, where
        "hull" is the convex hull of all possible rows. "gaussian" and "elliptic" need delta > 0;
        they give normal noise with one variance, or with one variance per group of columns. "auto"
        chooses the noise with the least expected error by public information: K-norm noise on a
        weighted combination of the hull's parts, or elliptic noise. The name of a law of
        `skdp.noise`, or an object with ``calibrate(sensitivity, *, epsilon, delta)``, is
        calibrated with q epsilon (0.8 epsilon by default), and the rest is spent on the curvature.
        With delta > 0 its noise must be log-concave.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The guarantee covers it like the coefficients.
    classes : list of labels, default=None
        The public labels. None uses the labels of ``domain.target``; if there are none, the labels
        are read from ``y`` with a :class:`~skdp.privacy.PrivacyLeakWarning`. With more than two
        labels one joint model is fitted, which has coefficients for each label.
    class_weight : dict, default=None
        Public weights of the losses of rows, from labels to finite numbers > 0. Other labels have
        weight 1. They must be chosen without the data, so there is no "balanced": for publicly
        known shares of the labels give ``{label: 1 / (n_labels * share)}``. They are divided by the
        greatest weight, so a record counts at most as without weights, and the noise is the same.
    random_state : None, int or Generator, default=None
        With None the noise comes from a cryptographic generator, seeded by the operating system.
        Anything else is for tests, and the guarantee says that it does not hold.
    ledger : Ledger, default=None
        A ledger that is charged before any noise is drawn.
    rows_per_person : int in [1, 1e9], default=1
        Only with ``fit(..., groups=ids)``. Each row of a person with m rows has the weight
        ``1 / max(m, rows_per_person)``. With 1 every person has the same weight. With a larger
        value persons with more rows have more weight, up to this number of rows. Then the sum of
        the weights is private, and "replace_one" is planned as a removal and an addition with half
        of epsilon each.
    inference_share : float in (0, 1), default=None
        Share of epsilon for standard errors, confidence intervals and tests of the coefficients:
        see :meth:`summary`. The rest is spent on a first model, with at most half of delta. Then
        sums of the scores and of the curvatures at this model are released, from which an estimate
        without shrinkage follows. ``coef_`` is the first model moved towards this estimate as far
        as the change exceeds its noise; sparse models of coordinate descent are not moved. Give
        0.8 for a table of coefficients, and None for predictions only. It needs two labels, and
        neither ``class_weight`` nor ``additive``. Proof: ``docs/proofs/inference.md``.
    q : float in (0, 1) or "auto", default="auto"
        Share of epsilon spent on the noise; the rest is spent on the curvature of the loss.
    regularization : float >= 0 or "auto", default="auto"
        Ridge added to the least ridge that privacy needs, on the scale of the summed loss. "auto"
        chooses one ridge for each group of columns, and gives rows of high leverage smaller
        weights. For normal noise and "l2" these weights reduce the noise.
    loss : {"auto", "logistic", "sharp"}, Loss or Softmax, default="auto"
        "logistic" is the negative log-likelihood. "sharp" has the same minimiser in expectation
        and more curvature for the same noise, which is better if the noise is large
        (:class:`~skdp.linear_model.losses.SharpLogistic`). "auto" chooses one of the two. A Loss
        must have ``target = "labels"`` and accept targets 0 and 1. With more than two labels
        "auto" chooses a :class:`~skdp.linear_model.losses.Softmax`, whose normalizer is smaller if
        the noise is large, and "logistic" is the one with normalizer 1. "sharp", a Loss, and
        mechanisms with a calibration of their own give K separate models, one for each label, with
        epsilon / K each.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated clipping bounds. Narrower bounds need less
        noise. 0 uses the bounds of the domain. "auto" spends a twentieth to a fifth, and nothing
        with few records, in a domain that bounds the length of rows, or if ``mechanism`` is given.
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
    coef_ : ndarray of shape (1, n_encoded) or (n_classes, n_encoded)
        Coefficients of the bounded numbers in the user's units and of the indicators of all
        levels but the first. In a joint model their sum over the labels is 0, up to noise.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    bounds_ : ndarray of shape (n_numbers, 2)
        Clipping bounds of the numbers without curves, in the user's units: privately estimated, or
        those of the domain. The guarantee covers them.
    domain_ : Domain
        The domain of the coefficients. Where ``additive`` gives numbers curves, they are columns
        :class:`~skdp.domain.Spline`, with knots between bounds that the guarantee covers.
        Otherwise it is ``domain``.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Present only if X had column names.
    guarantee_ : Guarantee
    inference_ : :class:`~skdp.linear_model.Inference`
        Present only with ``inference_share``: estimates without shrinkage, their standard errors,
        intervals and tests. The next three attributes are parts of it.
    coef_std_error_ : ndarray of shape (1, n_encoded)
        Standard errors of the estimated coefficients.
    intercept_std_error_ : ndarray of shape (1,)
        Standard error of the estimated intercept.
    p_values : ndarray of shape (1, n_encoded)
        P-values of the tests that coefficients are 0.
    stages_ : tuple of :class:`~skdp.linear_model.Stage`
        What was released, with which noise and which part of the budget.
    q_ : float
        The share of epsilon that was spent on the noise.
    ridge_ : ndarray of shape (n_encoded + 1,), or (n_encoded,) without an intercept
        The ridge of each coordinate, the intercept first, for numbers whose clipping bounds are
        scaled to [-1, 1]. All models have the same.
    loss_ : Loss or Softmax
        The loss that was used.
    normalizer_ : float
        Present only for a joint model: the normalizer of its loss, from which probabilities are
        computed.
    noise_ : KNormNoise, GaussianNoise or the noise of the given mechanism
        The law of the random linear term, without its draw.
    n_iter_ : int
        Always 1: the number of steps of the solver is not released.
    converged_ : bool
        Always True: if the solution cannot be certified, ``fit`` raises an error.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> domain = Domain.box([0, 0], [10, 10], target=["no", "yes"])
    >>> model = DPLogisticRegression(epsilon=1.0, domain=domain).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.guarantee_.epsilon
    1.0
    >>> [stage.name for stage in model.stages_], model.ridge_.shape
    (['scaling', 'objective', 'output'], (3,))
    """

    _reference: ClassVar = Reference(
        "labels", logistic_moments, signal=0.5, level_signal=0.15, intercept=60.0, most_signal=0.4
    )

    q: Any = "auto"
    regularization: Any = "auto"
    loss: Any = "auto"
    scaling_share: Any = "auto"
    additive: Any = None

    def _algorithm(self) -> Algorithm:
        asked = self._asked()
        own = ObjectivePerturbation(self._reference, self._losses, asked)
        return with_inference(own, asked, is_regression=False)

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
