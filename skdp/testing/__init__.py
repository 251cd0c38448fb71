"""Checks of third-party laws, balls, losses and mechanisms.

The checks need no test framework. They raise AssertionError with a message that gives the member
and the rule that it breaks. The tests of this package use the same functions. The checks of laws,
balls and losses are made at the first use of a part, so they import nothing that uses one.
"""

from skdp._lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
