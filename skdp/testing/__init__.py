"""Checks that hold somebody else's part to the standard of this package's own.

They need no more than the package itself, and raise AssertionError with a sentence that says
what was wrong and what the rule is. This package's tests call the same functions.
"""

from skdp.testing.audit import epsilon_lower_bound
from skdp.testing.ball import check_ball
from skdp.testing.estimator import check_private_estimator
from skdp.testing.law import check_law
from skdp.testing.mechanism import check_mechanism
from skdp.testing.release import check_release

__all__ = [
    "check_ball",
    "check_law",
    "check_mechanism",
    "check_private_estimator",
    "check_release",
    "epsilon_lower_bound",
]
