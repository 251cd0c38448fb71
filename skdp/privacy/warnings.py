"""Warnings about what was not declared."""


class PrivacyLeakWarning(UserWarning):
    """Warning for a value taken from the private data that no guarantee covers."""


class UndeclaredDomainWarning(UserWarning):
    """Warning for a fit without a domain, whose cells are clipped to [-1, 1].

    It does not depend on the data: whether a cell lies outside of [-1, 1] is private.
    """
