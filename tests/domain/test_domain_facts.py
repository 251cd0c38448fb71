"""What a domain knows: its layout, equality, norms of rows, and units."""

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from declared import LARGEST, PEOPLE, domains, people
from hypothesis import given, settings

from skdp.domain import Domain
from skdp.domain.layout import number_units

# What a domain knows


def test_layout_of_the_encoded_columns():
    assert PEOPLE.names == ("age", "sex", "hours", "job")
    assert (PEOPLE.n_columns, PEOPLE.n_encoded, PEOPLE.n_numbers) == (4, 5, 2)
    assert PEOPLE.number_index.tolist() == [0, 2]
    assert PEOPLE.blocks == (slice(1, 2), slice(3, 5))
    assert PEOPLE.block_sizes == (1, 2)
    assert (PEOPLE.is_ball, PEOPLE.radius) == (False, None)
    encoded = PEOPLE.encoded
    assert encoded.names == encoded.encoded_names() == PEOPLE.encoded_names()
    assert (encoded.n_columns, encoded.n_encoded, encoded.target) == (5, 5, PEOPLE.target)
    assert encoded.block_sizes == PEOPLE.block_sizes
    assert encoded.number_index.tolist() == PEOPLE.number_index.tolist()


def test_nameless_domains():
    box, ball = Domain.box([0, 1], [2, 3]), Domain.l2_ball(3, 2.5)
    assert box.names is None
    assert box.encoded_names() == ("x0", "x1")
    assert box.encoded == Domain.unit_box(2)
    assert (ball.is_ball, ball.radius, ball.n_columns, ball.n_numbers) == (True, 2.5, 3, 3)
    assert ball.encoded == ball
    frame = pd.DataFrame({"p": [0, 9], "q": [2, 2]})
    np.testing.assert_array_equal(box.encode(frame), [[-1, 0], [1, 0]])


def test_target_comes_back_as_declared():
    assert PEOPLE.target == PEOPLE.target_bounds == (0.0, 50_000.0)
    assert PEOPLE.target_labels is None
    labels = Domain.unit_box(1, target=np.array([0, 1]))
    assert labels.target == [0, 1]
    assert labels.target_labels == (0, 1)
    assert labels.target_bounds is None
    assert Domain.unit_box(1).target is None
    for domain in (PEOPLE, labels):
        assert Domain.unit_box(1, target=domain.target).target == domain.target


@settings(max_examples=50, deadline=None)
@given(domains())
def test_copies_are_equal_and_nothing_can_be_changed(case):
    domain, columns = case
    for twin in (pickle.loads(pickle.dumps(domain)), copy.deepcopy(domain), copy.copy(domain)):
        assert twin == domain
        assert hash(twin) == hash(domain)
        assert repr(twin) == repr(domain)
    with pytest.raises(AttributeError, match="cannot be changed"):
        domain.names = ()
    with pytest.raises(AttributeError, match="cannot be changed"):
        del domain._names
    columns.clear()
    assert pickle.loads(pickle.dumps(domain)) == domain


def test_domains_that_differ_are_not_equal():
    base = {"x": (0, 1), "k": ["a", "b"]}
    different = [
        Domain(base),
        Domain(base, target=(0, 1)),
        Domain(base, target=[0, 1]),
        Domain(base, other={"k": "b"}),
        Domain({"k": ["a", "b"], "x": (0, 1)}),
        Domain({"x": (0, 1), "k": ["b", "a"]}),
        Domain({"x": (0, 2), "k": ["a", "b"]}),
        Domain(base).encoded,
        Domain.unit_box(2),
        Domain.l2_ball(2, 1),
        Domain.l2_ball(2, 2),
    ]
    for first, second in itertools.combinations(different, 2):
        assert first != second
    assert Domain(base) != base
    assert Domain({"x": (0, 1)}) == Domain.box([0], [1], names=["x"])


def test_encoding_leaves_nothing_in_the_domain():
    """All that is stored is the same whatever was encoded: no bound can come from the data."""

    def stored_after(frame):
        domain = copy.deepcopy(PEOPLE)._build(*PEOPLE._key())
        domain.encode(frame)
        domain.encode_target(frame["hours"])
        return pickle.dumps(vars(domain))

    assert stored_after(people()) == stored_after(people(age=[1.0, 2, 3, 4], job=["z"] * 4))


# Norms and units

SMALL = Domain({"a": (0, 5), "s": ["p", "q", "r"], "t": ["only"], "b": (0, 1), "u": [0, 1]})


def corners(domain, intercept):
    """Every extreme encoded row of a domain of numbers and levels."""
    parts = {int(k): [[-1.0], [1.0]] for k in domain.number_index}
    for block in domain.blocks:
        size = block.stop - block.start
        if size:
            parts[block.start] = [[0.0] * size, *np.eye(size).tolist()]
    choices = [parts[start] for start in sorted(parts)]
    rows = [list(itertools.chain(*choice)) for choice in itertools.product(*choices)]
    return [[1.0] * intercept + row for row in rows]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 40, 1e300, math.inf])
def test_row_norm_against_all_corners(p, intercept):
    for domain in (SMALL, SMALL.encoded, Domain.unit_box(3), Domain({"s": ["a", "b", "c"]})):
        greatest = max(np.linalg.norm(np.array(row), p) for row in corners(domain, intercept))
        assert greatest <= domain.row_norm(p, intercept) <= greatest * (1 + 1e-13)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf])
@pytest.mark.parametrize("radius", [0.3, 1.0, 7.0])
def test_row_norm_of_a_ball(p, intercept, radius):
    """It is attained at an axis or at the diagonal, and no direction goes beyond."""
    d = 4
    random = np.random.default_rng(0).normal(size=(2000, d))
    directions = np.vstack([np.eye(d)[:1], np.ones((1, d)), random])
    rows = radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    rows = np.hstack([np.ones((len(rows), int(intercept))), rows])
    norms = np.linalg.norm(rows, p, axis=1)
    found = Domain.l2_ball(d, radius).row_norm(p, intercept)
    assert norms.max() <= found * (1 + 1e-14)
    assert max(norms[:2]) == pytest.approx(found, rel=1e-13)


def test_row_norm_is_rounded_up():
    """Compared exactly: the square of the Euclidean norm is not below the number of ones."""
    for d in range(1, 200):
        assert Fraction(Domain.unit_box(d).row_norm(2)) ** 2 >= d
        assert Domain.unit_box(d).row_norm(1) == d
    assert Domain({"x": ["only"]}).row_norm(2) == 0
    assert Domain.l2_ball(3, 0.1).row_norm(2) == 0.1


def test_decoded_coefficients_predict_the_same():
    """On clipped raw rows in the user's units as on encoded rows, for several models at once."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.uniform(10, 100, 40), "hours": rng.uniform(0, 120, 40)})
    frame["sex"], frame["job"] = rng.choice(["Female", "Male"], 40), rng.choice(list("abcd"), 40)
    encoded = PEOPLE.encode(frame)
    raw = encoded.copy()
    raw[:, 0], raw[:, 2] = frame["age"].clip(17, 90), frame["hours"].clip(1, 99)
    coef, intercept = rng.normal(size=(3, 5)), rng.normal(size=3)
    inside = encoded @ coef.T + intercept

    user_coef, user_intercept = PEOPLE.decode_coef(coef, intercept)
    assert user_coef.shape == coef.shape
    np.testing.assert_allclose(raw @ user_coef.T + user_intercept, inside, atol=1e-12)

    user_coef, user_intercept = PEOPLE.decode_coef(coef, intercept, regression=True)
    np.testing.assert_allclose(
        raw @ user_coef.T + user_intercept, PEOPLE.decode_target(inside), rtol=1e-11, atol=1e-7
    )

    one_coef, one_intercept = PEOPLE.decode_coef(coef[0])
    assert one_intercept.shape == ()
    np.testing.assert_allclose(raw @ one_coef + one_intercept, encoded @ coef[0], atol=1e-12)


def test_the_units_of_numbers_map_their_bounds():
    """They are the ends of the bounds; for a ball of rows those of its box."""
    for domain, bounds in ((PEOPLE, [[17, 1], [90, 99]]), (Domain.l2_ball(2, 3.0), [[-3], [3]])):
        half, centre = number_units(domain)
        assert half.shape == centre.shape == (domain.n_numbers,)
        np.testing.assert_array_equal([centre - half, centre + half] - np.array(bounds), 0.0)


@pytest.mark.parametrize("domain", [PEOPLE.encoded, Domain.unit_box(2), Domain.l2_ball(2, 3)])
def test_encoded_units_are_their_own(domain):
    coef = np.arange(1.0, domain.n_encoded + 1)
    user_coef, user_intercept = domain.decode_coef(coef, 0.25)
    np.testing.assert_array_equal(user_coef, coef)
    assert user_intercept == 0.25


def test_target_is_clipped_scaled_and_brought_back():
    y = [-10, 0, 12_500, 50_000, 1e6]
    for shaped in (y, np.array(y)[:, None], pd.Series(y), pd.Series(y).astype("Float64")):
        scaled = PEOPLE.encode_target(shaped)
        np.testing.assert_array_equal(scaled, [-1, -1, -0.5, 1, 1])
    np.testing.assert_allclose(PEOPLE.decode_target(scaled), np.clip(y, 0, 50_000))
    wide = Domain.unit_box(1, target=(-LARGEST, LARGEST))
    assert wide.decode_target(wide.encode_target([LARGEST])) == LARGEST
