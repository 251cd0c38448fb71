"""The warning for what is read off private data because nothing public was given."""


class PrivacyLeakWarning(UserWarning):
    """Something was learned from the private data that no guarantee covers."""
