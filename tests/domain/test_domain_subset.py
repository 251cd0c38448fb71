"""The domain of some columns, with any column of numbers as the target."""

import numpy as np
import pytest

from skdp import Domain
from skdp.domain.domain import subset

COLUMNS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1), "one": ["k"], "sex": ["f", "m"]}
DOMAIN = Domain(COLUMNS, target=(-2.0, 5.0))


@pytest.mark.parametrize(
    ("columns", "target", "places", "place"),
    [
        (None, None, [0, 1, 2, 3, 4], None),
        (["b", "job"], None, [1, 2, 3], None),
        (["b", "job"], "a", [1, 2, 3], 0),
        (None, "b", [0, 1, 2, 4], 3),
        (["one", "a"], "b", [0], 3),
        (("sex",), "b", [4], 3),
    ],
)
def test_places_are_those_of_the_encoded_columns(columns, target, places, place):
    """In the domain's order, whatever the order asked for: encoded values are found there."""
    domain, found, own = subset(DOMAIN, columns, target)
    assert (found, own) == (places, place)
    whole = DOMAIN.encoded_names()
    assert domain.encoded_names() == tuple(whole[p] for p in places)
    bounds = (-2.0, 5.0) if target is None else tuple(map(float, COLUMNS[target]))
    assert domain.target_bounds == bounds
    rows = np.array([[2.5, "z", 0.5, "k", "m"], [0.1, "y", -1.0, "k", "f"]], dtype=object)
    kept = [list(COLUMNS).index(name) for name in domain.names]
    np.testing.assert_array_equal(domain.encode(rows[:, kept]), DOMAIN.encode(rows)[:, places])


def test_encoded_columns_and_nameless_ones_are_chosen_too():
    """Indicators of a block go together; columns without names are x0, x1, ..."""
    domain, places, place = subset(DOMAIN.encoded, ["job_z", "job_y", "b"], "a")
    assert (places, place) == ([1, 2, 3], 0)
    assert domain.encoded_names() == ("job_y", "job_z", "b")
    assert domain.target_bounds == (-1.0, 1.0)
    nameless, places, place = subset(Domain.box([0, 1, 2], [1, 2, 3], target=(0, 1)), ["x2"], "x0")
    assert (places, place) == ([2], 0)
    assert nameless.names is None
    assert nameless.target_bounds == (0.0, 1.0)
    assert nameless == Domain.box([2], [3], target=(0, 1))


def test_rows_in_a_ball_keep_their_radius():
    ball = Domain.l2_ball(3, 2.0, target=(0.0, 1.0))
    domain, places, place = subset(ball, ["x0", "x2"], None)
    assert domain == Domain.l2_ball(2, 2.0, target=(0.0, 1.0))
    assert (places, place) == ([0, 2], None)


@pytest.mark.parametrize(
    ("domain", "columns", "target", "text"),
    [
        (DOMAIN, "a", None, r"list of names, got 'a'. Write \['a'\]"),
        (DOMAIN, ["a", "c"], None, r"be declared columns, got \['c'\].*domain has \['a', 'job'"),
        (DOMAIN, ["a", 3], None, r"be declared columns, got \['3'\]"),
        (DOMAIN, None, "c", r"be declared columns, got \['c'\]"),
        (DOMAIN, ["job_y"], None, "be declared columns"),
        (DOMAIN, [], None, "contain a column other than the target"),
        (DOMAIN, ["a"], "a", "contain a column other than the target"),
        (DOMAIN, ["a"], "job", "be a numeric column, got 'job'"),
        (DOMAIN.encoded, ["job_y"], None, r"all indicators of a block.*'job_y', 'job_z'"),
        (DOMAIN.encoded, ["b"], "sex_m", "be a numeric column"),
        (Domain({"a": (0, 1)}, target=(0, 1)), None, "a", "contain a column other than the target"),
        (Domain.l2_ball(2, 1.0, target=(0, 1)), None, "x0", "be None for rows in a ball"),
    ],
)
def test_what_cannot_be_chosen_is_refused(domain, columns, target, text):
    with pytest.raises(ValueError, match=text):
        subset(domain, columns, target)
