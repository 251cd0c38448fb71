"""Checks of third-party laws, balls, losses and mechanisms.

The checks need no test framework. They raise AssertionError with a message that gives the member
and the rule that it breaks. The tests of this package use the same functions.
"""

from skdp.testing.audit import epsilon_lower_bound
from skdp.testing.ball import check_ball
from skdp.testing.law import check_law
from skdp.testing.loss import check_loss
from skdp.testing.mechanism import check_mechanism, check_release
from skdp.testing.recording import replay

__all__ = [
    "check_ball",
    "check_law",
    "check_loss",
    "check_mechanism",
    "check_release",
    "epsilon_lower_bound",
    "replay",
]
