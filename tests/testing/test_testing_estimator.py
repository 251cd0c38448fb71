"""The check of private estimators: a good one passes, and each rule has a twin that breaks it."""

import warnings

import numpy as np
import pytest
from inner_package import picture
from inner_package import toy_module as _toy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from skdp import (
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Guarantee,
    Ledger,
    PrivacyLeakWarning,
)
from skdp.randomness import as_generator, is_cryptographic
from skdp.testing import check_private_estimator
from skdp.testing.estimator import (
    Drawn,
    NoDraws,
    check_audit,
    check_errors,
    check_guarantee,
    check_independence,
    check_interface,
    check_ledger,
)


class PrivateMean(RegressorMixin, BaseEstimator):
    """The mean of the target with Laplace noise: as plain as a private estimator can be."""

    share = 1.0  # of the noise that the proof asks for

    def __init__(
        self,
        *,
        epsilon=1.0,
        neighbors="replace_one",
        domain=None,
        random_state=None,
        ledger=None,
    ):
        self.epsilon = epsilon
        self.neighbors = neighbors
        self.domain = domain
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X, y):
        X, y = self._public_view(X, y)
        seeded = () if is_cryptographic(self.random_state) else ("seeded",)
        guarantee = self._promise(seeded)
        rng = as_generator(self.random_state)
        if self.ledger is not None:
            self.ledger.spend(guarantee)
        # One record moves a sum of numbers in [-1, 1] by 2, or by 1 where it comes or goes.
        width = 2.0 if self.neighbors == "replace_one" else 1.0
        noise = rng.laplace(scale=self.share * width / self.epsilon)
        self.guarantee_, self.n_iter_ = guarantee, 1
        self.coef_, self.intercept_ = np.zeros(X.shape[1]), float(y.sum() + noise)
        return self

    def _promise(self, seeded):
        return Guarantee(self.epsilon, neighbors=self.neighbors, void_because=seeded)

    def _public_view(self, X, y):
        try:
            X, y = np.array(X, dtype=float), np.array(y, dtype=float)
            finite = np.isfinite(X).all() and np.isfinite(y).all()
        except ValueError:
            finite = False
        if not finite or len(X) != len(y):
            raise ValueError("X and y must hold finite numbers.") from None
        return X, np.clip(y, -1, 1)

    def predict(self, X):
        return np.full(len(X), self.intercept_)


@pytest.mark.slow("an audit needs thousands of fits")
def test_a_plain_private_estimator_passes():
    """False alarms: the audit's, 1e-8."""
    check_private_estimator(PrivateMean(), n_fits=400)
    check_private_estimator(PrivateMean(neighbors="add_remove"), n_fits=400)


LINEAR = ("coef_", "intercept_", "moments_", "coef_std_", "coef_corr_", "intercept_std_")
LOOKED = ("coef_", "intercept_", "bounds_")
OWN = {
    "logistic": (DPLogisticRegression(epsilon=2.0), LOOKED),
    "logistic, records private": (DPLogisticRegression(neighbors="add_remove"), LOOKED),
    "huber": (DPHuberRegressor(), ()),
    "linear": (DPLinearRegression(), LINEAR),
}


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize("name", OWN)
def test_this_packages_estimators_pass(name):
    """With few fits, that is with an audit that sees a release without noise."""
    estimator, released = OWN[name]
    check_private_estimator(
        estimator, n_fits=40, released=released or ("coef_", "intercept_"), random_state=0
    )


# Audits


class HalfNoise(PrivateMean):
    share = 0.5


class NoNoise(PrivateMean):
    share = 1e-9


def pair(estimator, n=20):
    """Two data sets whose sums of targets differ as much as a record can make them."""
    first, second = np.zeros(n), np.zeros(n)
    first[0], second[0] = 1.0, -1.0
    X = np.zeros((n, 2))
    return (X, first), (X, second)


@pytest.mark.slow("an audit needs thousands of fits")
def test_half_the_noise_is_caught():
    """At epsilon = 2 by 3000 fits; the right noise passes the same audit. Seeded."""
    found = check_audit(PrivateMean(epsilon=2.0), pair(None), 3000, random_state=0)
    assert found > 1.2
    with pytest.raises(AssertionError, match=r"HalfNoise must be \(2, 0\)-private: an audit"):
        check_audit(HalfNoise(epsilon=2.0), pair(None), 3000, random_state=0)


def test_no_noise_is_caught_by_few_fits():
    with pytest.raises(AssertionError, match="audit must not show more"):
        check_private_estimator(
            NoNoise(), n_fits=200, neighbours=pair(None), outputs=lambda m: m.intercept_
        )


class Coarse(PrivateMean):
    """Enough noise, on a grid that is coarser than the sum's own last bits."""

    def fit(self, X, y):
        super().fit(X, y)
        sums = float(np.clip(np.asarray(y, dtype=float), -1, 1).sum())
        self.intercept_ = sums + np.round((self.intercept_ - sums) * 2.0**10) / 2.0**10
        return self


def test_last_bits_of_a_sum_are_caught_where_the_sum_is_known():
    """The noise is on a grid of 2^-10, and targets are multiples of 2^-20."""
    X, y = np.zeros((20, 2)), np.full(20, 3 / 2.0**20)
    other = y.copy()
    other[0] += 1 / 2.0**20
    options = {
        "n_fits": 40,
        "outputs": lambda model: model.intercept_,
        "noiseless": lambda model, X, y: y.sum(),
        "neighbours": ((X, y), (X, other)),
    }
    with pytest.raises(AssertionError, match=r"last bit|less table"):
        check_private_estimator(Coarse(), **options)
    with pytest.raises(AssertionError, match=r"last bit"):
        check_private_estimator(Coarse(), **{**options, "noiseless": None})
    check_private_estimator(PrivateMean(), **options)


def test_the_default_pair_differs_in_one_record():
    """By its place, or by its being there at all."""
    (X, y), (X2, y2) = _toy.neighbours(PrivateMean())
    assert len(X) == len(X2)
    assert (X != X2).any(axis=1).sum() + (y != y2).sum() == 1
    (X, y), (X2, y2) = _toy.neighbours(PrivateMean(neighbors="add_remove"))
    assert len(X) == len(X2) + 1
    np.testing.assert_array_equal(X[1:], X2)
    np.testing.assert_array_equal(y[1:], y2)


@pytest.mark.slow("an audit needs thousands of fits")
def test_half_the_noise_of_this_packages_own_is_caught(monkeypatch):
    """Five records: the mean alone is released. With its own noise it passes. Seeded."""
    from skdp.mechanisms.knorm import KNormNoise

    estimator, whole = DPLinearRegression(epsilon=1.5), KNormNoise.rvs
    check_audit(estimator, pair(None, 5), 200, random_state=0)
    monkeypatch.setattr(KNormNoise, "rvs", lambda self, rng: whole(self, rng) / 2)
    with pytest.raises(AssertionError, match="audit must not show more"):
        check_audit(estimator, pair(None, 5), 1200, random_state=0)


# Twins: each breaks one rule


def twin(name, **members):
    """Return a subclass with other members, which can be pickled."""
    globals()[name] = kind = type(name, (PrivateMean,), {"__module__": __name__, **members})
    return kind


def promising(name, make):
    """Return a twin with another promise, from its epsilon and the reasons for being void."""
    return twin(name, _promise=lambda self, seeded: make(self.epsilon, seeded))


def fitting(name, more):
    """Return a twin whose fit does something more at its end."""

    def fit(self, X, y):
        PrivateMean.fit(self, X, y)
        more(self, X, y)
        return self

    return twin(name, fit=fit)


def write_parameters(self, X, y):
    self.epsilon, self.domain = float(np.float64(self.epsilon) + 0.0), None


WritesParameter = fitting("WritesParameter", write_parameters)


class ReturnsNothing(PrivateMean):
    def fit(self, X, y):
        super().fit(X, y)


class Forgetful(PrivateMean):
    def __getstate__(self):
        return {**super().__getstate__(), "intercept_": 0.0}


PromisesMore = promising("PromisesMore", lambda e, seeded: Guarantee(1.1 * e, void_because=seeded))
PromisesDelta = promising("PromisesDelta", lambda e, s: Guarantee(e, 1e-3, void_because=s))
OtherRelation = promising("OtherRelation", lambda e, s: Guarantee(e, 0, "add_remove", "", (), s))
SeedIsFine = promising("SeedIsFine", lambda e, seeded: Guarantee(e))
NeverHolds = promising("NeverHolds", lambda e, s: Guarantee(e, void_because=("who knows",)))


class SeededInside(PrivateMean):
    def fit(self, X, y):
        if self.random_state is not None:
            return super().fit(X, y)
        self.random_state = 7
        super().fit(X, y)
        self.random_state, self.guarantee_ = None, self._promise(())
        return self


def keeping(name, attribute, value):
    """Return a twin that keeps something more of the data."""
    return fitting(name, lambda self, X, y: setattr(self, attribute, value(X, y)))


TellsTheMean = keeping("TellsTheMean", "offset_", lambda X, y: float(np.mean(np.clip(y, -1, 1))))
TellsTheNumber = keeping("TellsTheNumber", "n_samples_", lambda X, y: len(X))
StopsEarly = keeping("StopsEarly", "n_iter_", lambda X, y: int(np.ptp(y) > 0) + 1)
NarrowsFloats = keeping(
    "NarrowsFloats", "coef_", lambda X, y: np.zeros(2, np.float32 if np.ptp(y) > 0 else float)
)
LocksArrays = fitting(
    "LocksArrays", lambda self, X, y: self.coef_.setflags(write=bool(np.ptp(y) > 0))
)


class Warns(PrivateMean):
    def fit(self, X, y):
        if np.abs(X).max() > 1:
            warnings.warn("X was clipped.", PrivacyLeakWarning, stacklevel=2)
        return super().fit(X, y)


class Quotes(PrivateMean):
    def _public_view(self, X, y):
        if not np.isfinite(np.array(X, dtype=float)).all():
            raise ValueError(f"X must be finite, got {X[1].tolist()}.")
        return super()._public_view(X, y)


class HidesInContext(PrivateMean):
    def _public_view(self, X, y):
        try:
            np.array(X, dtype=float)
        except ValueError:
            raise ValueError("X must hold numbers.") from None
        return super()._public_view(X, y)


class TakesAnything(PrivateMean):
    def _public_view(self, X, y):
        return np.zeros((len(X), 2)), np.zeros(len(X))


class ChargesTwice(PrivateMean):
    def fit(self, X, y):
        if self.ledger is not None:
            self.ledger.spend(Guarantee(self.epsilon / 3))
        return super().fit(X, y)


class ChargesNothing(PrivateMean):
    def fit(self, X, y):
        ledger, self.ledger = self.ledger, None
        try:
            return super().fit(X, y)
        finally:
            self.ledger = ledger


class ChargesLess(PrivateMean):
    def fit(self, X, y):
        self.ledger, ledger = None, self.ledger
        if ledger is not None:
            ledger.spend(Guarantee(self.epsilon / 2))
        try:
            return super().fit(X, y)
        finally:
            self.ledger = ledger


class ChargesAfterwards(PrivateMean):
    def fit(self, X, y):
        as_generator(self.random_state).laplace()
        return super().fit(X, y)


class OwnNoise(PrivateMean):
    def fit(self, X, y):
        given, self.random_state = self.random_state, 3
        try:
            return super().fit(X, y)
        finally:
            self.random_state = given


TWINS = {
    WritesParameter: (check_interface, "write no parameter"),
    ReturnsNothing: (check_interface, "return the estimator"),
    Forgetful: (check_interface, "pickle of Forgetful must predict the same"),
    PromisesMore: (
        check_guarantee,
        r"guarantee_ must claim epsilon <= [\d.]+, the epsilon asked for",
    ),
    PromisesDelta: (check_guarantee, r"guarantee_ must claim delta <= \S+, the delta asked for"),
    OtherRelation: (check_guarantee, "be under neighbors='replace_one'"),
    SeedIsFine: (check_guarantee, "not hold where random_state is a seed"),
    NeverHolds: (check_guarantee, "guarantee_ must hold without a seed"),
    SeededInside: (check_guarantee, "draw new noise at every fit"),
    TellsTheMean: (check_independence, "TellsTheMean: offset_ must be the same for all data"),
    StopsEarly: (check_independence, "n_iter_ must be the same"),
    NarrowsFloats: (check_independence, "types, shapes and layouts that are the same"),
    LocksArrays: (check_independence, "types, shapes and layouts that are the same"),
    Warns: (check_independence, "warn of nothing that it read off the data"),
    Quotes: (check_errors, "tell no value of the data"),
    HidesInContext: (check_errors, "tell no value"),
    TakesAnything: (check_errors, "refuse missing values"),
    ChargesTwice: (check_ledger, "charge the ledger once"),
    ChargesNothing: (check_ledger, "charge the ledger once"),
    ChargesLess: (check_ledger, "charge the ledger once"),
    ChargesAfterwards: (check_ledger, "before noise is drawn"),
    OwnNoise: (check_ledger, "draw its noise from random_state"),
}


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_a_broken_rule_is_caught(kind):
    """By its own check, and by all of them together."""
    check, words = TWINS[kind]
    check(PrivateMean())
    with pytest.raises(AssertionError, match=words):
        check(kind())
    with pytest.raises(AssertionError):
        check_private_estimator(kind(), n_fits=40)


def test_the_number_of_records_is_private_where_the_relation_says_so():
    check_independence(TellsTheNumber())
    with pytest.raises(AssertionError, match="n_samples_ must be the same"):
        check_independence(TellsTheNumber(neighbors="add_remove"))
    check_independence(TellsTheNumber(neighbors="add_remove"), ("intercept_", "n_samples_"))


def test_an_estimator_without_a_ledger_is_checked_for_the_rest():
    class Lone(PrivateMean):
        def __init__(self, *, epsilon=1.0, random_state=None):
            self.epsilon, self.random_state = epsilon, random_state

        ledger, neighbors = None, "replace_one"

    check_errors(Lone())
    check_independence(Lone())
    assert "ledger" not in _toy.prepared(Lone(), ledger=Ledger(1.0)).get_params()


def test_toy_data_of_a_classifier_has_labels():
    class Labels(ClassifierMixin, BaseEstimator):
        pass

    assert _toy.domain_for(Labels()).target_labels == ("a", "b")
    assert {label for _, y in _toy.unlike(Labels()) for label in y} == {"a", "b"}


def test_a_generator_that_gives_nothing():
    rng = NoDraws(np.random.PCG64(0))
    for name in ("normal", "random", "gamma", "integers", "standard_exponential", "bytes"):
        with pytest.raises(Drawn):
            getattr(rng, name)(1)


def test_pictures_tell_objects_apart():
    """Arrays by content, shape and type; objects by their fields; caches do not count."""
    rows = np.arange(4.0)
    assert picture({"a": rows}) == picture({"a": rows.copy()})
    assert picture(rows) != picture(rows.reshape(2, 2))
    assert picture(rows) != picture(rows.astype(int))
    assert picture(Guarantee(1.0)) == picture(Guarantee(1.0))
    assert picture(Guarantee(1.0)) != picture(Guarantee(1.1))

    class Plain:
        def __init__(self, value):
            self.value = value

    assert picture(Plain([1, 2])) == picture(Plain([1, 2]))
    assert picture(Plain([1, 2])) != picture(Plain([1, 3]))
    # An estimator is a dataclass of its parameters: what it was fitted to counts too.
    models = [DPLogisticRegression(), DPLogisticRegression()]
    models[1].coef_ = rows
    assert picture(models[0]) != picture(models[1])
