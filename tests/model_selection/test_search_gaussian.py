"""A search whose parts have Gaussian noise: squared mu add up, with the exponential mechanism."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from inner_package import exponential_mechanism
from inner_package import selection_module as _selection
from inner_package import theorem_module as _theorem
from scipy.special import softmax
from scipy.stats import norm

from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression, Ledger
from skdp.model_selection import PrivateSearchCV
from skdp.privacy import Guarantee, SelectionLoss
from skdp.privacy.conversions import gaussian_delta, gaussian_mu, pure_of_mu
from skdp.privacy.ledger import Budget
from skdp.trusted import NotPrivate, Public, certify
from skdp.trusted.losses import FiniteLoss, PairLoss

DOMAIN = Domain.unit_box(3, target=["no", "yes"])
GRID = {"alpha": [1e-4, 0.1]}
EPSILON, DELTA = 1.0, 1e-6


def records(n=1500):
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    return X, np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


def search(model=None, grid=GRID, **options):
    model = model or DPCoordinateDescentClassifier(domain=DOMAIN)
    budget = {"epsilon": EPSILON, "delta": DELTA, "random_state": 0}
    return PrivateSearchCV(model, grid, **budget | options)


# The choice


def is_sum(guarantee):
    """Whether a guarantee is made of epsilons and deltas alone, and not of Gaussian losses."""
    return all(type(loss) is PairLoss for loss, _ in guarantee.losses)


@pytest.mark.parametrize("scores", [[3], [0, 4], [2, 0, 3, 3]], ids=str)
def test_draws_of_the_exponential_mechanism_have_its_law(scores):
    """Shares of 4000 draws are within five deviations, and not for a rate a third greater."""
    rng, rate, n = np.random.default_rng(0), Fraction(3, 5), 4000
    drawn = [exponential_mechanism(scores, rate, rng) for _ in range(n)]
    shares = np.bincount(drawn, minlength=len(scores)) / n
    law, other = softmax(0.6 * np.array(scores)), softmax(0.8 * np.array(scores))
    assert (np.abs(shares - law) <= 5 * np.sqrt(law * (1 - law) / n)).all()
    if len(scores) > 1:
        assert (np.abs(shares - other) > 5 * np.sqrt(other * (1 - other) / n)).any()


def test_the_width_of_the_choice_is_that_of_its_log_probabilities():
    """Over all scores to 6 and moves by 1 of three candidates; a rate 5 % greater exceeds it."""
    width, worst = 0.9, 0.0
    for scores in itertools.product(range(0, 7, 2), repeat=3):
        for move in itertools.product([-1, 0, 1], repeat=3):
            one, other = np.array(scores), np.add(scores, move)
            loss = np.log(softmax(width / 2 * one) / softmax(width / 2 * other))
            worst = max(worst, float(np.ptp(loss)))
    assert width * (1 - 1e-9) < worst <= width * (1 + 1e-12)
    assert 1.05 * worst > width


# The parts


@pytest.fixture
def planned(monkeypatch):
    """The parts of the searches that are made, and the mu that their dry runs found."""
    kept, found = [], []
    parts, run = _selection.gaussian_parts, _selection.dry_run

    def noting(*args):
        kept.append(parts(*args))
        return kept[-1]

    def running(*args):
        found.append(run(*args))
        return found[-1]

    monkeypatch.setattr("skdp.model_selection.search.gaussian_parts", noting)
    monkeypatch.setattr(_selection, "dry_run", running)
    return kept, found


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("share", ["auto", 0.3])
def test_squares_of_mu_add_up_to_that_of_the_budget(planned, neighbors, share):
    X, y = records()
    model = DPCoordinateDescentClassifier(domain=DOMAIN, neighbors=neighbors, n_public=1500)
    ledger = Ledger(EPSILON, DELTA)
    made = search(model, refit_share=share, ledger=ledger).fit(X, y)
    ((_, choosing, _),), found = planned
    fits, last = found[-1]
    choice = Guarantee(1.0, 0.9, losses=((SelectionLoss(choosing.amount), 1),)).mu
    whole = math.hypot(max(fits, choice), last)
    assert whole <= made.guarantee_.mu <= gaussian_mu(EPSILON, DELTA)
    assert gaussian_delta(made.guarantee_.mu, EPSILON) <= DELTA
    assert gaussian_delta(made.guarantee_.mu / 0.95, EPSILON) > DELTA  # the twin: 5 % less noise
    part = 0.75 if share == "auto" else share
    assert last == pytest.approx(math.sqrt(part) * gaussian_mu(EPSILON, DELTA), rel=1e-6)
    assert (made.guarantee_.epsilon, made.guarantee_.delta) == (EPSILON, DELTA)
    assert ledger.spent.epsilon == EPSILON
    assert "exponential mechanism" in made.guarantee_.mechanism
    assert made.best_estimator_.guarantee_ == made.guarantee_
    # The last fit has more of the budget than a share of epsilon.
    assert made.best_estimator_.epsilon > part * EPSILON


def test_the_choice_has_the_rate_of_its_width(planned, monkeypatch):
    rates = []

    def noting(totals, rate, rng):
        rates.append(rate)
        return exponential_mechanism(totals, rate, rng)

    monkeypatch.setattr(_theorem, "exponential_mechanism", noting)
    monkeypatch.setattr(_theorem, "permute_and_flip", None)
    X, y = records()
    search().fit(X, y)
    ((task, choosing, _),), _ = planned
    (rate,) = rates
    assert float(2 * task.sensitivity * rate) == pytest.approx(choosing.amount, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "grid", "options"),
    [
        (None, GRID, {"delta": 0.0}),
        (None, GRID, {"refit_share": 0}),
        (DPLogisticRegression(domain=DOMAIN), {"regularization": [1.0, 10.0]}, {}),
        (None, {"mechanism": ["gaussian", "laplace"], "n_passes": [2]}, {}),
    ],
    ids=["pure", "no last fit", "unknown mu", "laplace"],
)
def test_other_searches_add_epsilons(model, grid, options):
    X, y = records(600)
    made = search(model, grid, **options).fit(X, y)
    assert "exponential mechanism" not in made.guarantee_.mechanism
    assert is_sum(made.guarantee_)
    part = made.best_estimator_.epsilon
    assert part <= 0.75 * EPSILON + 1e-12 or options.get("refit_share") == 0


def test_what_an_estimator_of_somebody_else_claims_is_not_used():
    class Mine(DPCoordinateDescentClassifier):
        pass

    X, y = records(600)
    made = search(Mine(domain=DOMAIN)).fit(X, y)
    assert is_sum(made.guarantee_)


# Attack


def test_the_worst_search_keeps_delta_and_5_percent_less_noise_does_not():
    """Exactly: a choice of two or a fit on a part, whichever is worse, then a Gaussian last fit."""
    mu = gaussian_mu(EPSILON, DELTA)
    first, last = mu / 2, mu * math.sqrt(0.75)
    width = 2 * math.log(norm.cdf(first / 2) / norm.sf(first / 2))

    def by_choice():
        """The greatest delta, over the scores of two candidates, of a choice and the last fit."""
        worst = 0.0
        for gap in np.linspace(-width, width, 41):
            one = softmax([gap / 2 + width / 4, -width / 4])
            loss = FiniteLoss.between(one, softmax([gap / 2 - width / 4, width / 4]))
            rest = [gaussian_delta_at(last, EPSILON - step) for step in loss.losses]
            worst = max(worst, float(np.exp(loss.log_p) @ rest))
        return worst

    assert by_choice() <= DELTA
    assert gaussian_delta(math.hypot(first, last), EPSILON) <= DELTA * (1 + 1e-6)
    assert gaussian_delta(math.hypot(first, last) / 0.95, EPSILON) > 1.2 * DELTA


def gaussian_delta_at(mu, epsilon):
    """For any real epsilon."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_parts_beyond_their_goals_are_refused(monkeypatch):
    """If a dry run finds more mu than is asked for each time, epsilons are added."""
    X, y = records(600)
    run = _selection.dry_run
    monkeypatch.setattr(_selection, "dry_run", lambda *args: tuple(1.1 * np.array(run(*args))))
    assert not is_sum(search().fit(X, y).guarantee_)  # asked for less
    monkeypatch.setattr(_selection, "dry_run", lambda *args: (1.0, 1.0))
    assert is_sum(search().fit(X, y).guarantee_)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_parts_of_a_search_are_certified_and_5_percent_more_is_refused(delta):
    """Of the fits and the choice, under the relation and for the unit that are stated."""
    budget, last = Budget(0.25, delta / 4), Budget(0.75, 3 * delta / 4)
    about = "replace_one", "row"

    def parts(amount):
        choice = _theorem.SearchChoice(amount)
        fits = _theorem.PrivateFits("fits", budget, *about, choice=choice)
        return [fits, _theorem.PrivateFits("last fit", last, *about)]

    assert certify(parts(0.25), Public(1.0, delta)).epsilon == 1.0
    for amount, public in (
        (0.25 * 1.05, Public(1.0, delta)),
        (0.25, Public(0.95, delta)),
        (0.25, Public(1.0, delta, "add_remove")),
        (0.25, Public(1.0, delta, unit="person")),
    ):
        with pytest.raises(NotPrivate):
            certify(parts(amount), public)


def test_gaussian_parts_and_their_choice_keep_their_mu():
    mus = gaussian_mu(EPSILON, DELTA) * np.array([0.5, math.sqrt(0.75)]) * (1 - 1e-9)
    width = 2 * pure_of_mu(float(mus[0]))

    def parts(width, factor=1.0):
        about = Budget(1.0, DELTA), "replace_one", "row"
        choice = _theorem.SearchChoice(width, tuple(mus.tolist()))
        fits = _theorem.PrivateFits("fits", *about, float(mus[0]), choice)
        return [fits, _theorem.PrivateFits("last fit", *about, factor * float(mus[1]))]

    public = Public(EPSILON, DELTA)
    assert certify(parts(width), public).delta == DELTA
    for wrong in (parts(1.05 * width), parts(width, 1.05)):
        with pytest.raises(NotPrivate):
            certify(wrong, public)
