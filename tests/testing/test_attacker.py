"""The parts of the attacker: what it reads of a fit, and what it makes of it."""

import math

import numpy as np
import pytest
from attacker import NO_BIT, attack, best_events, features, last_bits, of_differences

from skdp import Guarantee


class Fitted:
    """A fitted model with one attribute."""

    def __init__(self, value):
        self.value_ = value

    def __repr__(self):
        return "Fitted()"

    def get_params(self, deep):
        return {}


def wide(number):
    """Return three entries in the memory of one: their strides do not tell the type."""
    return np.broadcast_to(number, 3)


@pytest.mark.parametrize(
    ("one", "other", "feature"),
    [
        (True, 1, "type"),
        (1, 1.0, "type"),
        (np.float32(1), np.float64(1), "type"),
        (wide(np.int32(1)), wide(np.int64(1)), "layout:text"),
        (0.0, -0.0, "negative zeros"),
        (math.nan, -math.nan, "bits of nan"),
        (*np.array([0x7FF8000000000000, 0x7FF8000000000001]).view(float), "bits of nan"),
    ],
)
def test_each_difference_has_a_feature_of_its_own(one, other, feature):
    """And no other one, except the length of the pickle: nothing else would tell them apart."""
    found, others = (features(Fitted(value)) for value in (one, other))
    assert list(found) == list(others)
    moved = {name for name in found if found[name] != others[name]} - {"bytes of the pickle"}
    assert moved == {f"value_:{feature}"}


@pytest.mark.parametrize("turned", [False, True])
def test_an_event_is_likelier_under_the_first_table(turned):
    """The most telling event by its difference, and the rare one by its ratio."""
    often, seldom = np.repeat([1.0, 0.0], [30, 10]), np.repeat([1.0, 0.0], [12, 28])
    rare, never = np.repeat([1.0, 0.0], [5, 35]), np.zeros(40)
    for first, second in ((often, seldom), (rare, never)):
        x, y = (second, first) if turned else (first, second)
        for place, (score, event) in enumerate(best_events(x, y)):
            p, q = event.holds(x).mean(), event.holds(y).mean()
            assert p > q
            spare = 0.5 / 40
            ratio = max((p + spare) / (q + spare), (1 - q + spare) / (1 - p + spare))
            assert score == pytest.approx(ratio if place else p - q)


def test_a_promise_that_holds_is_kept_at_its_edge():
    """Randomised response at epsilon: the likeliest features of all that are allowed."""
    rng, promise = np.random.default_rng(0), Guarantee(1.0)
    for _ in range(40):
        odds = math.e / (1 + math.e)
        one, other = (
            [{"bit": float(rng.random() < p)} for _ in range(200)] for p in (odds, 1 - odds)
        )
        assert attack(one, other, promise) is None
    one, other = ([{"bit": float(rng.random() < p)} for _ in range(400)] for p in (0.9, 0.1))
    assert "bit shows which" in str(attack(one, other, promise))


def test_a_rare_event_that_gives_the_table_away_is_caught():
    """One fit in five: seldom enough that guesses are hardly better, and far more than delta."""
    rng = np.random.default_rng(0)
    one = [{"event": float(rng.random() < 0.2)} for _ in range(500)]
    other = [{"event": 0.0} for _ in range(500)]
    assert attack(one, other, Guarantee(0.5, 1e-6)) is not None
    assert attack(one, other, Guarantee(0.5, 0.3)) is None


def test_weak_evidence_adds_up():
    """A hundred entries, of which each tells little."""
    rng = np.random.default_rng(0)
    one, other = (
        [{f"x[{k}]": v for k, v in enumerate(rng.normal(m, 1, 100))} for _ in range(90)]
        for m in (0.0, 0.5)
    )
    assert "weighted" in str(attack(one, other, Guarantee(0.5)))


def test_last_bits_are_those_of_exact_numbers():
    values = np.array([1.0, 0.75, -6.0, 0.0, np.nan, np.inf, 5e-324, 2.0**-40 * 3])
    np.testing.assert_array_equal(last_bits(values), [0, -2, 1, NO_BIT, NO_BIT, NO_BIT, -1074, -40])
    read = features(Fitted(np.array([1 + 2.0**-40])))["value_[0]:last bit"]
    assert read == -40
    found = of_differences([12, 3], [[4, 3], [5, 1]])
    assert found["outputs less table 0[0]:last bit"] == 3
    assert found["outputs less table 0[1]:last bit"] == NO_BIT
    assert found["outputs less table 1[0]:last bit"] == 0
    assert found["outputs less table 1[1]:last bit"] == 1


def test_nothing_that_is_constant_counts():
    same = [{"x": 1.0, "y": 2.0}] * 40
    assert attack(same, same, Guarantee(0.1)) is None
