"""A guarantee converts soundly, composes upward, and says plainly what it is worth."""

import math
import pickle
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_worst import fits
from scipy.optimize import linprog

from skdp.privacy import Guarantee, Ledger, compose

epsilons = st.one_of(st.floats(0, 10), st.floats(0, 1500), st.just(0.0))
deltas = st.one_of(st.floats(0, 1), st.floats(1e-30, 1e-3), st.just(0.0))


def exact_delta_at(guarantee, epsilon):
    """The same closed form at 400 digits, the sums of exponentials taken as they stand."""
    with mpmath.workdps(400):
        own, asked = mpmath.mpf(guarantee.epsilon), mpmath.mpf(epsilon)
        delta = mpmath.mpf(guarantee.delta)
        if asked >= own:
            return delta
        return delta + (1 - delta) * (mpmath.exp(own) - mpmath.exp(asked)) / (1 + mpmath.exp(own))


def dominating_pair(epsilon, delta):
    """The two distributions on four outcomes that are the worst (epsilon, delta)-private pair."""
    odd = (1 - delta) / (1 + math.exp(epsilon))
    p = np.array([delta, math.exp(epsilon) * odd, odd, 0.0])
    return p, p[::-1]


@settings(deadline=None)
@given(epsilons, deltas, epsilons)
def test_delta_at_is_a_tight_upper_bound(epsilon, delta, asked):
    guarantee = Guarantee(epsilon, delta)
    exact = exact_delta_at(guarantee, asked)
    bound = guarantee.delta_at(asked)
    assert exact <= bound <= 1
    assert bound <= float(exact) * (1 + 1e-14) + 5e-324


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.3, 0.1), (3.0, 1e-5), (0.0, 0.2)])
def test_delta_at_is_the_hockey_stick_of_the_dominating_pair(epsilon, delta):
    """Summed over the four outcomes, a truth apart from the closed form."""
    p, q = dominating_pair(epsilon, delta)
    for asked in np.linspace(0, 1.5 * epsilon + 0.1, 12):
        hockey_stick = np.maximum(p - math.exp(asked) * q, 0).sum()
        assert Guarantee(epsilon, delta).delta_at(asked) == pytest.approx(hockey_stick, abs=1e-14)


@settings(deadline=None)
@given(epsilons, deltas, deltas)
def test_epsilon_at_inverts_delta_at(epsilon, delta, asked):
    """What it returns holds, and a little less does not."""
    guarantee = Guarantee(epsilon, delta)
    found = guarantee.epsilon_at(asked)
    if asked < delta:
        assert found == math.inf
        return
    assert exact_delta_at(guarantee, found) <= asked
    less = found * (1 - 1e-12) - 5e-324
    assert found == 0 or guarantee.delta_at(max(less, 0.0)) > asked


@pytest.mark.parametrize("epsilon", [5e-324, 1.5e-323, 1e-310, 1e-300])
def test_the_smallest_epsilons_are_inverted_too(epsilon):
    """Among subnormals a bisection to a relative width would never end."""
    guarantee = Guarantee(epsilon)
    assert guarantee.epsilon_at(0.0) == epsilon
    assert guarantee.epsilon_at(0.9) == 0.0
    assert 0 <= guarantee.epsilon_at(epsilon / 4) <= epsilon


def test_large_epsilon_does_not_overflow():
    guarantee = Guarantee(1000.0)
    assert guarantee.delta_at(0.0) == 1.0
    assert guarantee.delta_at(999.0) == pytest.approx(1 - math.exp(-1), rel=1e-12)
    assert guarantee.delta_at(math.inf) == 0.0
    assert guarantee.epsilon_at(1 - math.exp(-1)) == pytest.approx(999.0, rel=1e-12)
    np.testing.assert_array_equal(guarantee.tradeoff([0.0, 1e-300, 1.0]), [1.0, 0.0, 0.0])
    assert "e^epsilon." in str(guarantee)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.3, 0.1), (3.0, 1e-5), (0.0, 0.2)])
def test_tradeoff_is_that_of_the_best_test_between_the_dominating_pair(epsilon, delta):
    """The best test is found by linear programming, not by the formula."""
    p, q = dominating_pair(epsilon, delta)
    for alpha in (0.0, 0.01, 0.2, 0.5, 0.9, 1.0):
        best = linprog(-q, A_ub=[p], b_ub=[alpha], bounds=(0, 1))
        assert Guarantee(epsilon, delta).tradeoff(alpha) == pytest.approx(1 + best.fun, abs=1e-9)


def test_tradeoff_keeps_the_shape_of_alpha():
    guarantee = Guarantee(1.0, 0.1)
    assert np.ndim(guarantee.tradeoff(0.5)) == 0
    assert guarantee.tradeoff(np.full((2, 3), 0.5)).shape == (2, 3)
    np.testing.assert_allclose(guarantee.tradeoff([0.0, 1.0]), [0.9, 0.0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": "1"},
        {"epsilon": True},
        {"delta": -1e-9},
        {"delta": 1.1},
        {"neighbors": "both"},
        {"mechanism": None},
        {"assumptions": "one string"},
        {"assumptions": (1,)},
        {"void_because": None},
    ],
    ids=repr,
)
def test_wrong_parameters_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must"):
        Guarantee(**{"epsilon": 1.0, **wrong})


def test_conversions_refuse_what_is_out_of_range():
    guarantee = Guarantee(1.0)
    with pytest.raises(ValueError, match="epsilon must"):
        guarantee.delta_at(-0.1)
    with pytest.raises(ValueError, match="delta must"):
        guarantee.epsilon_at(1.1)
    for wrong in (-0.1, 1.1, math.nan, [0.5, 2.0]):
        with pytest.raises(ValueError, match="alpha must"):
            guarantee.tradeoff(wrong)


def test_guarantee_is_a_frozen_hashable_value():
    guarantee = Guarantee(np.float64(1.0), assumptions=["bounds are public"])
    assert type(guarantee.epsilon) is float
    assert guarantee == Guarantee(1.0, assumptions=("bounds are public",))
    assert hash(guarantee) == hash(pickle.loads(pickle.dumps(guarantee)))
    with pytest.raises(FrozenInstanceError):
        guarantee.epsilon = 0.1


def words(guarantee):
    return " ".join(str(guarantee).split())


def test_card_states_every_field_in_words():
    card = words(
        Guarantee(0.5, 1e-6, "add_remove", "gaussian", ("Bounds are public.", "Labels are public."))
    )
    assert "epsilon 0.5 delta 1e-06" in card
    assert "any one record added or removed; the number of records is private" in card
    assert "mechanism gaussian" in card
    assert "- Bounds are public. - Labels are public." in card
    assert "reveals this record with probability delta" in card
    assert "at most e^epsilon = 1.65" in card
    assert "DOES NOT HOLD" not in card
    replaced = words(Guarantee(0.5))
    assert "any one record replaced by any other; the number of records is public" in replaced
    assert "probability delta" not in replaced


def test_a_void_card_says_so_first_and_claims_nothing():
    card = words(Guarantee(0.5, void_because=("The noise was seeded.", "A bound was read.")))
    assert "THIS GUARANTEE DOES NOT HOLD: The noise was seeded." in card
    assert "THIS GUARANTEE DOES NOT HOLD: A bound was read." in card
    assert "means" not in card


@settings(max_examples=40, deadline=None)
@given(epsilons, deltas, st.lists(st.text(max_size=200), max_size=3))
def test_card_fits_78_columns(epsilon, delta, sentences):
    guarantee = Guarantee(epsilon, delta, "replace_one", "m" * 100, tuple(sentences))
    for card in (str(guarantee), str(replace(guarantee, void_because=("why " * 50,)))):
        assert max(len(line) for line in card.split("\n")) <= 78


@settings(deadline=None)
@given(st.floats(0, 600), deltas)
def test_figures_on_the_card_are_rounded_to_the_safe_side(epsilon, delta):
    """A factor is never printed too small, nor a sum of error rates too large."""
    card = words(Guarantee(epsilon, delta))
    factor = Fraction(card.split("e^epsilon = ")[1].split(". Any")[0])
    errors = Fraction(card.split("add up to at least ")[1].split(";")[0])
    assert factor >= Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**15))
    assert errors <= 1 - Fraction(Guarantee(epsilon, delta).delta_at(0.0)) + Fraction(1, 10**15)


def decimal_sum(values):
    """The sum of the shortest decimals, in fractions."""
    return sum((Fraction(repr(value)) for value in values), Fraction(0))


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=1, max_size=20))
def test_sums_are_the_least_floats_whose_decimals_are_no_less(pairs):
    """Exact in decimal, then rounded up by at most one step; delta stops at 1."""
    total = compose(*(Guarantee(epsilon, delta) for epsilon, delta in pairs))
    all_epsilons, all_deltas = zip(*pairs, strict=True)
    for found, exact in (
        (total.epsilon, decimal_sum(all_epsilons)),
        (total.delta, min(Fraction(1), decimal_sum(all_deltas))),
    ):
        assert Fraction(repr(found)) >= exact
        assert found == 0 or Fraction(repr(math.nextafter(found, 0.0))) < exact


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=5),
    st.sampled_from([0.01, 1e-17, 1 / 3]),
    st.integers(1, 100),
)
def test_the_whole_fits_a_ledger_just_when_its_parts_do(counts, unit, ceiling):
    """Also where sum and ceiling are a step apart, which these multiples often are."""
    parts = [Guarantee(count * unit) for count in counts]
    for limit in (ceiling * unit, sum(counts) * unit or unit):
        assert fits(Ledger(limit), *parts) == fits(Ledger(limit), compose(*parts))


def test_sentences_are_merged_in_order_without_repeats():
    first = Guarantee(1.0, mechanism="laplace", assumptions=("a", "b"))
    second = Guarantee(1.0, mechanism="gaussian", assumptions=("b", "c"), void_because=("seeded",))
    total = compose(first, second, first, Guarantee(1.0))
    assert total.assumptions == ("a", "b", "c")
    assert total.void_because == ("seeded",)
    assert not total.holds
    assert total.mechanism == "2 x laplace + gaussian"


def test_neighbouring_relations_are_never_mixed():
    with pytest.raises(ValueError, match=r"share one neighbouring relation.*same `neighbors`"):
        compose(Guarantee(1.0), Guarantee(1.0, neighbors="add_remove"))


@pytest.mark.parametrize("wrong", [(), (1.0,), (Guarantee(1.0), None)], ids=repr)
def test_compose_wants_guarantees(wrong):
    with pytest.raises(ValueError, match="guarantees must be one or more Guarantee"):
        compose(*wrong)


def test_a_sum_beyond_all_floats_is_refused():
    with pytest.raises(ValueError, match="epsilon must"):
        compose(*[Guarantee(1.7e308)] * 2)
