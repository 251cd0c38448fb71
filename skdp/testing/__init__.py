"""Checks of third-party laws, balls, losses and mechanisms.

The checks need no test framework. They raise AssertionError with a message that gives the member
and the rule that it breaks. The tests of this package use the same functions. The checks of laws,
balls and losses are made at the first use of a part, so they import nothing that uses one.
"""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.testing.audit import epsilon_lower_bound
    from skdp.testing.ball import check_ball
    from skdp.testing.law import check_law
    from skdp.testing.loss import check_loss
    from skdp.testing.mechanism import check_mechanism, check_release
    from skdp.testing.recording import replay
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "audit": "epsilon_lower_bound",
            "ball": "check_ball",
            "law": "check_law",
            "loss": "check_loss",
            "mechanism": "check_mechanism check_release",
            "recording": "replay",
        },
    )

__all__ = [
    "check_ball",
    "check_law",
    "check_loss",
    "check_mechanism",
    "check_release",
    "epsilon_lower_bound",
    "replay",
]
