"""Parameters of estimators: an instance that lacks one is never fitted with a default."""

import pickle

import pytest
from public_estimators import ESTIMATORS

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression, Ledger
from skdp.noise import Laplace

X, Y = [[0.1], [-0.3], [0.5], [0.2]], [0, 1, 0, 1]
DOMAIN = Domain.unit_box(1, target=[0, 1])


@pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_missing_parameter_is_an_error_and_no_default(kind):
    """A class holds no defaults, so that a lost ledger cannot become None."""
    for name in kind().get_params():
        assert not hasattr(kind, name)
        model = kind()
        delattr(model, name)
        with pytest.raises(AttributeError, match=name):
            model.fit(X, Y)


def test_a_pickle_that_drops_its_ledger_is_not_fitted_without_one():
    ledger = Ledger(1.0)
    model = DPLogisticRegression(domain=DOMAIN, ledger=ledger).fit(X, Y)
    del model.ledger
    with pytest.raises(AttributeError, match="ledger"):
        pickle.loads(pickle.dumps(model)).fit(X, Y)
    assert ledger.spent.epsilon == 1.0


class Configured(DPLogisticRegression):
    """Takes its parameters from elsewhere."""

    def __init__(self, settings):
        self.settings = settings

    def __getattr__(self, name):
        if name.startswith("__") or name.endswith("_") or name == "settings":
            raise AttributeError(name)
        return getattr(self.settings, name)


def test_a_subclass_that_looks_parameters_up_is_asked_for_them():
    ledger = Ledger(1.0)
    model = Configured(DPLogisticRegression(epsilon=0.25, domain=DOMAIN, ledger=ledger)).fit(X, Y)
    assert model.guarantee_.epsilon == 0.25
    assert ledger.spent.epsilon == 0.25


class Unusual(DPCoordinateDescentClassifier):
    """Cannot be copied."""

    def __copy__(self):
        raise RuntimeError("no copies")

    def __getstate__(self):
        raise RuntimeError("no pickles")


def test_a_descent_is_fitted_without_a_copy_of_the_estimator():
    seen = []
    model = Unusual(domain=DOMAIN, n_passes=3, callback=seen.append)
    assert len(model.fit(X, Y).history_) == len(seen) == 3


@pytest.mark.parametrize("kind", [DPCoordinateDescentClassifier, skdp.DPCoordinateDescentRegressor])
def test_a_change_of_parameters_during_a_fit_has_no_effect(kind):
    """Of a callback: the passes, and who is told of them, are those of the beginning."""
    seen = []

    def callback(progress):
        seen.append(progress.n_pass)
        model.callback, model.n_passes, model.ledger = None, 50, None

    ledger, domain = Ledger(1.0), DOMAIN if kind is DPCoordinateDescentClassifier else None
    model = kind(domain=domain, n_passes=3, callback=callback, ledger=ledger)
    model.fit(X, Y)
    assert seen == [1, 2, 3]
    assert ledger.spent.epsilon == 1.0


class Short(Laplace):
    """Has a constructor of its own."""

    def __init__(self, width):
        super().__init__(width)


def test_a_law_with_its_own_constructor_is_scaled():
    assert Short(2.0).scaled(3.0).scale == 6.0
    assert type(Short(2.0).scaled(3.0)) is Short
