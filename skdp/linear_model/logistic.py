"""Private logistic regression by objective perturbation."""

from __future__ import annotations

from skdp._checks import fail
from skdp.linear_model._objective.perturbed import ObjectivePerturbation
from skdp.linear_model._objective.rules import logistic_moments
from skdp.linear_model._objective.task import Reference
from skdp.linear_model._shared.classification import PrivateClassifier
from skdp.linear_model.losses import Logistic, SharpLogistic

LOSSES = {"logistic": Logistic(), "sharp": SharpLogistic(0.75)}
CANDIDATES = (
    Logistic(),
    *(SharpLogistic(middle) for middle in (0.6, 0.75, 0.8)),
)


class DPLogisticRegression(PrivateClassifier, ObjectivePerturbation):
    """Logistic regression under differential privacy.

    Objective perturbation with K-norm noise (Awan & Slavkovic 2020, section 4) or, where delta is
    allowed, Gaussian noise, calibrated for gradient and curvature jointly; the statements and
    their proofs are in ``docs/proofs/objective_perturbation.md``, Theorems 1 to 5, and
    ``docs/proofs/gaussian_objective.md``, Theorems 1 to 4. All bounds come from the public
    ``domain``, and windows inside them from a first look's noisy sums: records outside are
    clipped, in ``fit`` and in ``predict``.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``.
    delta : float in [0, 1), default=0.0
        Allowed failure probability. Where K-norm noise promises less error the guarantee is the
        stronger one with delta = 0, whatever is allowed here.
    neighbors : {"replace_one", "add_remove"}, default="replace_one"
        Whose data sets are to look alike: with one record replaced, the number of records being
        public; or with one record more or less, the number being private.
    n_public : int, default=None
        Under "add_remove", a public order of magnitude of the number of records for the
        automatic choices. Without it they assume a middling one.
    domain : Domain, default=None
        Public bounds and levels of the columns. None: every column is clipped to [-1, 1].
    mechanism : str, NormBall, KNorm or object, default="auto"
        "l1", "l2", "linf", "hull" or a norm ball shape K-norm noise: "hull" is the hull of all
        possible rows. "gaussian" and "elliptic" need delta > 0: normal noise of one variance, or
        of one for each group of columns. "auto" takes what promises the least error, K-norm noise
        on a weighted combination of the hull's parts or elliptic noise, from public things only.
        The name of a law of `skdp.noise`, or any other object with
        ``calibrate(sensitivity, *, epsilon, delta)``, gets q epsilon for its noise, 0.8 epsilon
        by default, and the curvature the rest; with delta > 0 its noise must be log-concave.
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is covered by the proof like any other coefficient.
    classes : list of labels, default=None
        The public label set. None takes the labels of ``domain.target``, or else reads them off
        ``y`` with a :class:`~skdp.privacy.PrivacyLeakWarning`. With K > 2 labels one model per
        label is fitted, with noise of its own: epsilon / K each, or for Gaussian noise what the
        composition of their privacy losses allows.
    random_state : None, int or Generator, default=None
        None draws from the operating system's entropy. Anything else is for tests, and the
        guarantee then says that it does not hold.
    ledger : Ledger, default=None
        Charged before any noise is drawn.
    q : float in (0, 1) or "auto", default="auto"
        Share of epsilon that the perturbation of the gradient may use up; what the steepest
        record leaves of it covers the curvature.
    regularization : float >= 0 or "auto", default="auto"
        Ridge added to the least that privacy needs, on the scale of the summed loss. "auto"
        chooses one for each group of columns, and down-weights rows of high leverage.
    loss : {"auto", "logistic", "sharp"} or Loss, default="auto"
        "logistic" is the negative log-likelihood. "sharp" has the same minimiser in expectation
        and more curvature for the same noise, which pays when the noise is large
        (:class:`~skdp.linear_model.losses.SharpLogistic`). "auto" chooses. A Loss works on
        targets 0 and 1, and says so by ``target = "labels"``.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated clipping bounds. Numbers are clipped to
        these bounds, in ``fit`` and in ``predict``. They hold most records, and narrower bounds
        need less noise. 0 uses the bounds of the domain. "auto" spends a twentieth to a fifth. It
        spends nothing on few records, in a domain that bounds the length of rows, or where
        ``mechanism`` is given.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_encoded) or (n_classes, n_encoded)
        Coefficients of the bounded numbers in the user's units and of the indicators of all
        levels but the first.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    bounds_ : ndarray of shape (n_numbers, 2)
        To what the numbers are clipped, in the user's units: windows that a first look found,
        or the domain's own bounds. Released, like the coefficients.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X had column names.
    guarantee_ : Guarantee
    noise_ : KNormNoise, GaussianNoise or what the mechanism makes
        The law of the perturbation of the objective, never the draw.
    n_iter_ : int
        Always 1, the one minimisation: the solver's steps depend on the data and are not told.
    converged_ : bool
        Always True: a fit that cannot certify its solution raises.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> domain = Domain.box([0, 0], [10, 10], target=["no", "yes"])
    >>> model = DPLogisticRegression(epsilon=1.0, domain=domain, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    # Numbers add .5 each to the predictor's variance, p of them .4 sqrt(p) where little can be
    # learnt, and columns of levels .15.
    _reference = Reference(signal=0.5, level_signal=0.15, intercept=60.0, most_signal=0.4)
    _moments = staticmethod(logistic_moments)
    _target = "labels"

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=0.0,
        neighbors="replace_one",
        n_public=None,
        domain=None,
        mechanism="auto",
        fit_intercept=True,
        classes=None,
        random_state=None,
        ledger=None,
        q="auto",
        regularization="auto",
        loss="auto",
        scaling_share="auto",
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.neighbors = neighbors
        self.n_public = n_public
        self.domain = domain
        self.mechanism = mechanism
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.ledger = ledger
        self.q = q
        self.regularization = regularization
        self.loss = loss
        self.scaling_share = scaling_share

    def fit(self, X, y, **unsupported):
        """Fit the model, once, for ``epsilon``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
        y : array-like of shape (n,)
            Labels; undeclared ones raise.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the ledger has less than epsilon left; nothing was drawn or spent.
        ValueError
            If parameters, columns or labels break a rule. The note of every error says whether
            the budget was spent.
        """
        return self._fit(X, y, unsupported)

    def _losses(self, task):
        if isinstance(self.loss, str):
            if self.loss == "auto":
                return CANDIDATES
            if self.loss not in LOSSES:
                raise fail("loss", f"be 'auto', one of {sorted(LOSSES)} or a Loss", self.loss)
            return (LOSSES[self.loss],)
        return (self.loss,)
