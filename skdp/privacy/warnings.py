"""The warning for values read from private data because no public ones were given."""


class PrivacyLeakWarning(UserWarning):
    """Warning for a value taken from the private data that no guarantee covers."""
