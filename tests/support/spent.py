"""What the checker says that a release spends, and errors before anything is spent."""

from contextlib import contextmanager

import pytest

from skdp.trusted import Public


@contextmanager
def refused(message, ledger=None):
    """Expect an error with this message before anything is spent, which says so."""
    before = ledger and ledger.spent
    with pytest.raises((ValueError, TypeError), match=message) as error:
        yield error
    assert error.value.__notes__ == ["No budget was spent and no noise was drawn."]
    assert before == (ledger and ledger.spent)


def spent(release):
    """Return the bound on the privacy loss of a noisy sum, and losses that dominate it."""
    return release.spent(Public(1.0, neighbors=release.change.neighbors))


def part(release):
    """Return the epsilon of a noisy sum."""
    return spent(release).epsilon


def mu(release):
    """Return the mu of a noisy sum with Gaussian noise."""
    ((loss, count),) = spent(release).losses
    assert count == 1
    return loss.mu
