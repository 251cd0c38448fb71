"""The published methods for intervals give the figures that were published or follow from them."""

import numpy as np
import pytest

from examples.benchmarks.intervals import inference_peers, interval_peers
from examples.benchmarks.intervals.inference_peers import SETTINGS, exact
from examples.benchmarks.intervals.interval_peers import Bounds, binagg, binagg_mu
from skdp.privacy.conversions import gaussian_delta, mu_of_pure, rho_of_mu, rho_of_pure


def test_binagg_gives_the_published_standard_errors():
    """The authors' simulation draws one design with this seed, and 2000 targets."""
    published = [0.270, 0.285, 0.289, 0.330, 0.570]
    legacy = np.random.RandomState(42)
    X, slopes = legacy.uniform(0, 1, (1000, 5)), legacy.uniform(1, 2, 5)
    rng, lengths = np.random.default_rng(0), []
    for _ in range(300):
        y = X @ slopes + rng.normal(size=1000)
        low, high = binagg(X, y, Bounds((0, 1), (0, 7)), 1.0, rng).T
        lengths.append(high - low)
    # The standard error of these means is .016 to .021 of them.
    np.testing.assert_allclose(np.mean(lengths, axis=0) / 3.92, published, rtol=0.06)


def test_published_noise_of_binagg_spends_more_than_it_claims():
    """One row at the corner of a bin moves all sums of x by their scale over mu_s."""
    mu = interval_peers.BUDGET / np.linalg.norm(interval_peers.BUDGET)
    moved = np.concatenate([mu[:2], np.repeat(mu[2], 5), mu[3:]])
    assert binagg_mu(1.0, 5) == pytest.approx(np.linalg.norm(moved))
    assert binagg_mu(1.0, 1) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["nss n=10000", "bootstrap n=10000"])
@pytest.mark.parametrize("mended", [False, True])
def test_without_privacy_the_intervals_are_those_of_least_squares(name, mended):
    setting = SETTINGS[name]
    rng = np.random.default_rng(1)
    X, y = setting.draw(rng)
    known = [1e5, 1e-5] if setting.peer == "nss" else [1e5]
    method = getattr(interval_peers, setting.peer)
    found = method(X, y, setting.bounds, *known, rng, mended=mended)
    expected = exact(setting, X, y)
    length = np.diff(expected).max()
    # With 100 seeds the quantiles of 500 resamples were off by at most .107 lengths.
    np.testing.assert_allclose(found, expected, atol=0.15 * length)


def test_strict_epsilons_imply_what_the_peer_spends():
    for setting in SETTINGS.values():
        if setting.peer == "bootstrap":
            continue
        nss = setting.peer == "nss"
        claimed = (setting.epsilon, setting.delta)
        mu = interval_peers.nss_mu(*claimed) if nss else setting.epsilon
        privacies = setting.privacies()
        assert mu_of_pure(privacies["strict"][0]) <= mu
        assert rho_of_pure(privacies["zcdp"][0]) <= rho_of_mu(mu)
        epsilon, delta = privacies["nominal"]
        assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-9)


def test_a_repetition_has_a_row_for_each_method():
    name = "binagg"
    found = inference_peers.repetition(name, 0, 0)
    rows = len(inference_peers.methods_of(SETTINGS[name]))
    assert found["covered"].shape == found["length"].shape == (rows, SETTINGS[name].p)
