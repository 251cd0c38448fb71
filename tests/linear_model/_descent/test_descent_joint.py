"""Joint models of several classes by coordinate descent: which are joint, and what they are."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from descent_runs import undithered

from skdp import Domain, DPCoordinateDescentClassifier
from skdp.linear_model import SKOPS_TYPES, from_json
from skdp.linear_model._descent import algorithm as _algorithm
from skdp.linear_model._descent.gradients import Moves, SoftmaxSlope
from skdp.linear_model._descent.plan import joint_slope, may_be_joint
from skdp.linear_model.losses import Softmax
from skdp.mechanisms.independent.noise import Independent
from skdp.mechanisms.independent.repeated import RepeatedNoise
from skdp.noise import Gaussian, Laplace
from skdp.rows import streamed


def three(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = np.array([[-0.6, 0.0], [0.6, 0.0], [0.0, 0.8]])[y] + 0.15 * rng.normal(size=(n, 2))
    return X.clip(-1, 1), y


BOX = Domain.unit_box(2, target=[0, 1, 2])
CASES = [
    ({}, True),
    ({"delta": 1e-6}, True),
    ({"mechanism": "laplace"}, True),
    ({"mechanism": "logistic"}, True),
    ({"mechanism": "gaussian", "delta": 1e-6}, True),
    ({"mechanism": Gaussian(), "delta": 1e-6}, True),
    ({"mechanism": Independent("gaussian"), "delta": 1e-6}, True),
    ({"clip": None}, True),
    ({"clip": None, "delta": 1e-6}, True),
    ({"order": "random"}, True),
    ({"scaling_share": 0, "neighbors": "add_remove"}, True),
    ({"mechanism": "laplace", "delta": 1e-6}, False),
    ({"mechanism": Laplace(), "delta": 1e-6}, False),
    ({"mechanism": "flipped_huber", "delta": 1e-6}, False),
    ({"order": "greedy"}, False),
    ({"clip": 0.5}, False),
    ({"clip": 0.5, "delta": 1e-6}, False),
]


@pytest.mark.parametrize(("parameters", "joint"), CASES, ids=str)
def test_models_are_joint_where_the_norm_of_slopes_bounds_the_loss(parameters, joint):
    X, y = three()
    model = DPCoordinateDescentClassifier(
        epsilon=20, domain=BOX, n_passes=4, random_state=0, **parameters
    ).fit(X, y)
    assert hasattr(model, "normalizer_") == joint
    assert ("3 classes together" in model.guarantee_.mechanism) == joint
    assert model.coef_.shape == (3, 2)
    assert model.intercept_.shape == (3,)
    assert len(model.history_) == (4 if joint else 12)
    shape = (3, 2) if joint else (2,)
    assert all(np.shape(p.coef) == shape for p in model.history_)
    assert all(p.n_models == (1 if joint else 3) for p in model.history_)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(X))
    if joint:
        assert 0 < model.normalizer_ <= 1
        assert np.abs(model.coef_.sum(axis=0)).max() < 1e-9
        assert model.score(X, y) > 0.8
        wanted = Softmax(3, model.normalizer_).log_probabilities(model.decision_function(X))
        np.testing.assert_array_equal(model.predict_log_proba(X), wanted)


def test_a_joint_model_needs_less_noise_than_separate_ones(monkeypatch):
    """Squared shifts of K models add up for Gaussian noise, shifts for Laplace noise."""
    X, y = three()
    for delta, name, models in ((0.0, "laplace", 3.0), (1e-6, "gaussian", math.sqrt(3.0))):
        facts = {"delta": delta, "mechanism": name, "n_passes": 5, "scaling_share": 0, "clip": None}
        joint = DPCoordinateDescentClassifier(domain=BOX, **facts).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(_algorithm, "may_be_joint", lambda *_: False)
            separate = DPCoordinateDescentClassifier(domain=BOX, **facts).fit(X, y)
        size = SoftmaxSlope(3, joint.normalizer_, 2 if delta else 1).size
        ratio = joint.noise_.law.scale / separate.noise_.law.scale
        assert ratio == pytest.approx(size / models, rel=1e-3)


def test_the_normalizer_grows_with_the_information():
    for delta in (0.0, 1e-6):
        found = [joint_slope(5, 2.0**k, delta).normalizer for k in range(-10, 30)]
        assert (np.diff(found) >= 0).all()
        assert found[-1] == 1
        assert 0.1 < found[0] < 0.5


def test_the_choice_depends_on_public_facts_only():
    assert may_be_joint("cyclic", "auto", 0.0)
    assert not may_be_joint("greedy", "auto", 0.0)
    assert not may_be_joint("cyclic", Laplace(), 1e-6)


def test_a_refit_forgets_the_joint_model():
    X, y = three()
    model = DPCoordinateDescentClassifier(epsilon=20, random_state=0).set_params(domain=BOX)
    assert hasattr(model.fit(X, y), "normalizer_")
    two = model.set_params(domain=Domain.unit_box(2, target=[0, 1])).fit(X, y % 2)
    assert not hasattr(two, "normalizer_")
    assert two.coef_.shape == (1, 2)
    model.set_params(domain=BOX, clip=0.5).fit(X, y)
    assert not hasattr(model, "normalizer_")


def test_a_start_is_where_a_joint_descent_begins(monkeypatch):
    """Coefficients of three classes in the user's units; without noise or steps it stays there."""
    monkeypatch.setattr(RepeatedNoise, "publication_for", undithered)
    domain = Domain({"a": (0, 10), "b": list("uvw")}, target=[0, 1, 2])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(0, 10, 300), "b": rng.choice(list("uvw"), 300)})
    y = rng.integers(0, 3, 300)
    coef, intercept = rng.normal(size=(3, 3)), rng.normal(size=3)
    for scaling_share in (0, 0.3):
        model = DPCoordinateDescentClassifier(
            domain=domain,
            start=(coef, intercept),
            step_size=1e-30,
            penalty=None,
            scaling_share=scaling_share,
            n_passes=2,
        ).fit(X, y)
        np.testing.assert_allclose(model.coef_, coef, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-8)
    with pytest.raises(ValueError, match="start"):
        model.set_params(start=(coef[:2], intercept[:2])).fit(X, y)


def test_a_callback_sees_all_classes_and_may_end_it():
    X, y = three()
    seen = []

    def callback(progress):
        seen.append(progress)
        return progress.n_pass == 2

    model = DPCoordinateDescentClassifier(
        domain=BOX, n_passes=6, callback=callback, average=False
    ).fit(X, y)
    assert (model.n_iter_, model.converged_) == (2, False)
    assert model.history_ == seen
    np.testing.assert_array_equal(seen[-1].coef, model.coef_)
    np.testing.assert_array_equal(seen[-1].intercept, model.intercept_)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("most_kept", [0, 2**30], ids=["streamed", "kept"])
def test_batches_give_what_the_table_gives(delta, most_kept, monkeypatch):
    """Also where predictors are lost between the blocks, and computed again from all moves."""
    monkeypatch.setattr(streamed, "MOST_KEPT", most_kept)
    X, y = three(3000)
    facts = {"domain": BOX, "delta": delta, "random_state": 0, "n_passes": 3}
    whole = DPCoordinateDescentClassifier(**facts).fit(X, y)
    batches = [(X[i:j], y[i:j]) for i, j in itertools.pairwise([0, 1, 700, 701, 3000])]
    found = DPCoordinateDescentClassifier(**facts).fit(lambda: iter(batches))
    np.testing.assert_array_equal(whole.coef_, found.coef_)
    np.testing.assert_array_equal(whole.intercept_, found.intercept_)


def test_moves_are_sent_with_their_classes():
    changes = [(0, np.ones((1, 3))), (2, np.arange(12.0).reshape(4, 3))]
    sent = pickle.loads(pickle.dumps(Moves(7, changes, (3,))))
    assert (sent.model, sent.classes) == (7, (3,))
    for (block, change), (other, copy) in zip(changes, sent.changes, strict=True):
        assert block == other
        np.testing.assert_array_equal(change, copy)
    assert pickle.loads(pickle.dumps(Moves(8, [], (3,)))).classes == (3,)


def test_persons_are_fitted():
    X, y = three()
    model = DPCoordinateDescentClassifier(epsilon=20, domain=BOX, random_state=0)
    model.fit(X, y, groups=np.arange(len(y)) // 2)
    assert hasattr(model, "normalizer_")
    assert model.guarantee_.unit == "person"
    assert model.score(X, y) > 0.8


def test_a_file_keeps_the_joint_model():
    X, y = three()
    model = DPCoordinateDescentClassifier(epsilon=20, domain=BOX, random_state=0).fit(X, y)
    again = from_json(model.to_json())
    assert again.normalizer_ == model.normalizer_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_skops_reads_a_joint_model():
    skops = pytest.importorskip("skops.io")
    X, y = three()
    model = DPCoordinateDescentClassifier(delta=1e-6, domain=BOX, random_state=0).fit(X, y)
    again = skops.loads(skops.dumps(model), trusted=[*SKOPS_TYPES])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
