"""Warnings about what was not declared."""


class PrivacyLeakWarning(UserWarning):
    """Warning for a value taken from the private data that no guarantee covers.

    Examples
    --------
    Labels that are not declared are read from ``y``. Make this an error where it must not happen:

    >>> import warnings
    >>> from skdp import Domain, DPLogisticRegression, PrivacyLeakWarning
    >>> model = DPLogisticRegression(domain=Domain({"age": (17, 90)}))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PrivacyLeakWarning)
    ...     model.fit([[25], [60]], ["no", "yes"])
    Traceback (most recent call last):
        ...
    skdp.privacy.guarantee.PrivacyLeakWarning: The labels were read off y, ...
    """


class UndeclaredDomainWarning(UserWarning):
    """Warning for a fit without a domain, whose cells are clipped to [-1, 1].

    It does not depend on the data: whether a cell lies outside of [-1, 1] is private.

    Examples
    --------
    If all columns are in [-1, 1], declare it. Then there is no warning:

    >>> import warnings
    >>> from skdp import Domain, DPHuberRegressor, UndeclaredDomainWarning
    >>> model = DPHuberRegressor(domain=Domain.unit_box(1, target=(-1, 1)))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UndeclaredDomainWarning)
    ...     _ = model.fit([[0.5], [-0.5]], [1.0, -1.0])
    """
