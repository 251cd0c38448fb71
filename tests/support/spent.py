"""What the checker says that a release spends."""

from skdp.trusted import Public


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
