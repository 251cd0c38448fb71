"""Interactions of two columns: their encoding, their bounds, and models with joint effects."""

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from declared import SPLINES, check_simplex, whole
from inner_descent import Blocks, RowBound, keep_scaled, plain_scaling
from inner_fits import Design, exact_sums

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPLinearRegression, Spline
from skdp.domain.domain import subset
from skdp.domain.layout import encode_compactly
from skdp.domain.splines import GRID, MOST_ENTRIES, MOST_POSITIONS, STEPS
from skdp.rows.memory import MemoryRows

LEVELS = ["a", "b", "c"]
PAIRS = [
    (Spline(0, 1, knots=4), Spline(-5, 5, knots=3)),
    (Spline(0, 1, knots=8, degree=3), Spline(0, 9, knots=(1.0, 2.0), degree=2)),
    (Spline(0, 1, knots=2, missing="indicator"), Spline(0, 1, knots=1, missing="middle")),
    (LEVELS, Spline(0, 1, knots=5, degree=3)),
    (Spline(0, 1, knots=3, degree=0), Spline(0, 1, knots=0)),
    (["a", "b"], ["u", "v", "w"]),
    (LEVELS, (20, 80)),
    ((0, 1), (-5, 5)),
    (Spline(0, 1, knots=2), (1e-3, 1e3)),
]


def apart(pair):
    """Return the domain of two columns with numbers between and after them."""
    missing = {"p": "indicator"} if pair[0] is LEVELS else None
    return Domain({"p": pair[0], "w": (0, 1), "q": pair[1], "t": (0, 2)}, missing=missing)


def as_splines(pair):
    """Return the pair with a spline of the values at the bounds for each number."""
    return tuple(Spline(*own, knots=0) if isinstance(own, tuple) else own for own in pair)


def interaction(pair):
    return apart(pair).interact("q", "p")._layout.placed[0][0]


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_the_values_of_a_pair_of_nodes_are_a_point_of_the_simplex(pair):
    kind, domain = interaction(pair), apart(pair).interact("p", "q")
    if kind.table is None:
        assert domain.block_positions == (6,)
        return
    assert kind.table.size <= MOST_ENTRIES
    assert domain.block_positions == (len(kind.table),)
    assert len(kind.table) <= MOST_POSITIONS
    check_simplex(kind.table, 16)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_encoded_values_are_products_of_those_of_single_columns(pair):
    """At nodes; the greatest value of a row is changed such that all add up to 1."""
    kind, plain = interaction(pair), apart(as_splines(pair))
    joint, rng, rows = apart(pair).interact("p", "q"), np.random.default_rng(1), None
    rows = plain.sample(500, random_state=0)
    for name, column in (("p", kind.first), ("q", kind.second)):
        if isinstance(column, Spline) and column.degree:
            nodes = column.nodes[:: STEPS // kind.steps]
            drawn = nodes[rng.integers(0, len(nodes), len(rows))]
            rows[name] = rows[name].where(rows[name].isna(), drawn)
    encoded, single = joint.encode(rows), plain.encode(rows)
    p, _, q, _ = (whole(single[:, write]) for *_, write in plain._layout.placed)
    expected = (p[:, :, None] * q[:, None]).reshape(len(rows), -1)
    found = whole(encoded[:, joint.blocks[0]])
    np.testing.assert_allclose(found, expected, rtol=0, atol=8 * GRID)
    others = expected < expected.max(axis=1, keepdims=True)
    np.testing.assert_allclose(found[others], expected[others], rtol=0, atol=GRID / 2)
    np.testing.assert_array_equal(encoded[:, joint.number_index], single[:, plain.number_index])
    assert joint.n_encoded == p.shape[1] * q.shape[1] - 1 + 2


CODED = [apart(pair).interact("p", "q") for pair in PAIRS]
CODED += [Domain({"w": (0, 1), "x": own, "s": LEVELS}) for own in SPLINES]


@pytest.mark.parametrize("domain", CODED, ids=repr)
def test_encoding_again_changes_nothing_and_a_row_depends_on_no_other_row(domain):
    rows = domain.sample(400, random_state=0)
    encoded = domain.encode(rows)
    np.testing.assert_array_equal(domain.encoded.encode(encoded), encoded)
    alone = [domain.encode(rows.iloc[[k]])[0] for k in range(0, 400, 40)]
    np.testing.assert_array_equal(alone, encoded[::40])
    np.testing.assert_array_equal(domain.encode(rows[rows.columns[::-1]]), encoded)
    np.testing.assert_array_equal(domain.encode(rows.to_numpy(object)), encoded)
    assert encode_compactly(domain, rows).levels[0].dtype.itemsize <= 2


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_an_interaction_has_no_order(pair):
    domain = apart(pair).interact("q", "p")
    assert domain == apart(pair).interact("p", "q") != apart(pair)
    assert repr(domain).endswith("}).interact('p', 'q')") or pair[0] is LEVELS


@pytest.mark.parametrize("domain", CODED, ids=repr)
def test_a_domain_of_curves_and_interactions_is_copied_and_exported(domain):
    for own in (domain, domain.encoded):
        assert Domain.from_json(own.to_json()) == own
        assert pickle.loads(pickle.dumps(own)) == own
        assert len(pickle.dumps(own)) < 9000
        assert own.sample(5, random_state=0).shape == (5, own.n_columns)


def test_numbers_are_rounded_to_the_nearest_node():
    kind = interaction((Spline(0, 1, knots=9), Spline(0, 1, knots=9)))
    assert kind.steps == 8
    numbers = np.linspace(0, 1, 4001)
    own = kind.first.positions(numbers)
    near = kind.first.nodes[::4][kind.joined(own, 0 * own) // 81]
    # First to the nearest of 32 steps, and then to the nearest of 8.
    assert np.abs(near - numbers).max() <= 0.1 * (1 / 16 + 1 / 64) + 1e-12


def test_names_missing_cells_and_several_pairs_of_a_column():
    domain = Domain(
        {"a": Spline(0, 2, knots=1, missing="indicator"), "s": ["f", "m"], "z": ["u", "v"]}
    )
    one = domain.interact("a", "s")
    names = [f"a_{a} x s_{s}" for a in ("0", "1", "2", "missing") for s in "fm"][1:]
    assert one.encoded_names() == (*names, "z_v")
    expected = [[0, 0, 0, 0, 0, 0, 1, 1], [0.5, 0, 0.5, 0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(one.encode([[None, "m", "v"], [0.5, "m", "u"]]), expected)
    two = one.interact("s", "z")
    assert two.block_sizes == (7, 3)
    assert two.interact("z", "a").block_sizes == (7, 7, 3)
    assert two == domain.interact("s", "z").interact("s", "a")
    with pytest.raises(ValueError, match="column 'a' must contain only finite numbers"):
        one.encode([["x", "m", "v"]])


def test_the_columns_of_an_interaction_are_chosen_together():
    domain = apart(PAIRS[0]).interact("p", "q")
    found, places, _ = subset(domain, ["q", "t", "p"], None)
    assert found.names == ("p", "q", "t")
    assert found.encoded_names() == tuple(domain.encoded_names()[place] for place in places)
    with pytest.raises(ValueError, match="both columns of an interaction"):
        subset(domain, ["p", "t"], None)
    every = domain.additive(columns=["w"])
    assert every.block_sizes == (29, 11)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("a", "z", "must be names of columns with bounds or levels"),
        ("a", "a", "must be an undeclared pair of columns"),
        ("b", "a", "must be an undeclared pair of columns"),
        ("c", "d", "have at most 8192 pairs .* a table of 8192 rows"),
        ("k", "l", "have at most 8192 pairs of levels or B-splines"),
    ],
)
def test_invalid_interactions_are_errors(first, second, words):
    many = [f"l{k}" for k in range(100)]
    domain = Domain(
        {"a": Spline(0, 1), "b": ["u", "v"], "c": Spline(0, 1, knots=25),
         "d": Spline(0, 1, knots=25), "k": many, "l": many}
    ).interact("a", "b")  # fmt: skip
    with pytest.raises(ValueError, match=words):
        domain.interact(first, second)
    content = domain.to_dict()
    with pytest.raises(ValueError, match="interactions must be"):
        Domain.from_dict(content | {"interactions": [["a", "b", "c"]]})
    with pytest.raises(ValueError, match=words):
        Domain.from_dict(content | {"interactions": [["a", "b"], [first, second]]})


def test_encoded_columns_and_rows_in_a_ball_have_no_interaction():
    encoded = apart(PAIRS[5]).encoded
    with pytest.raises(ValueError, match=r"names of columns with bounds or levels.*\['w', 't'\]"):
        encoded.interact("w", "p_b")
    with pytest.raises(ValueError, match=r"bounds or levels, which are \[\]"):
        Domain.l2_ball(2, 1.0).interact("x0", "x1")
    with pytest.raises(ValueError, match="bounds must be at most 1e\\+300"):
        Domain({"a": (0, 1e301), "s": LEVELS}).interact("a", "s").encoded_names()


@pytest.mark.parametrize(
    ("missing", "names", "first", "last"),
    [
        ({"age": 35.0}, ["20", "80"], [0, 0.25, 0], [0, 0, 1]),
        ({"age": "indicator"}, ["20", "80", "missing"], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0]),
    ],
)
def test_a_number_is_encoded_as_the_shares_of_its_bounds_at_the_level(missing, names, first, last):
    """The cells are missing and beyond a bound."""
    domain = Domain({"age": (20, 80), "sex": ["f", "m"]}, missing=missing).interact("sex", "age")
    pairs = [f"age_{end} x sex_{level}" for end in names for level in "fm"]
    assert domain.encoded_names() == tuple(pairs[1:])
    rows = pd.DataFrame({"age": [np.nan, 95], "sex": ["f", "m"]})
    np.testing.assert_array_equal(domain.encode(rows), [first, last])


def test_a_line_for_each_level_is_that_of_ordinary_least_squares():
    """With a centred column, an indicator and their product, in the units of the user.

    The noise is negligible. ``infer`` has the same estimates, and the robust standard errors of its
    coefficients. Ages are values to which an interaction rounds.
    """
    rng, n = np.random.default_rng(0), 5000
    X = pd.DataFrame({"age": 20 + 60 * rng.integers(0, 33, n) / 32, "sex": rng.choice([*"fm"], n)})
    age, is_m = X["age"].to_numpy() - 50, (X["sex"] == "m").to_numpy()
    y = 5 + 0.05 * age + is_m - 0.08 * age * is_m + rng.uniform(-2, 2, n) * (1 + is_m)
    columns = np.column_stack([np.ones(n), age, is_m, age * is_m])
    bread = np.linalg.inv(columns.T @ columns)
    expected = bread @ columns.T @ y
    scores = columns * (y - columns @ expected)[:, None]
    domain = Domain({"age": (20, 80), "sex": ["f", "m"]}, target=(-5, 15)).interact("age", "sex")
    model = DPLinearRegression(domain=domain, epsilon=1e6, random_state=0).fit(X, y)
    table = model.infer(X, y, epsilon=1e6, random_state=0)
    assert table.names == ("intercept", "age_20 x sex_m", "age_80 x sex_f", "age_80 x sex_m")
    f, m = [1, 0, 0.5, 0], [1, 0.5, 0, 0.5]  # at the centre, then slopes
    f_slope, m_slope = np.array([[0, 0, 1, 0], [0, -1, 0, 1]]) / 60
    weights = np.array([f, f_slope, np.subtract(m, f), m_slope - f_slope])
    released = np.append(model.intercept_, model.coef_)
    np.testing.assert_allclose(weights @ released, expected, rtol=1e-4)
    np.testing.assert_allclose(table.combine(weights)[0], expected, rtol=1e-4)
    roots = np.linalg.solve(weights, bread @ scores.T)
    np.testing.assert_allclose(table.std_error, np.linalg.norm(roots, axis=1), rtol=1e-3)
    assert table.wald_test(weights[3:]).p_value < 1e-6  # the slopes differ


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("domain", CODED, ids=repr)
def test_bounds_of_the_design_hold_for_all_rows(domain, intercept):
    """No row is outside the hull, or longer or shorter than its group states."""
    design, rows = Design(domain, intercept), domain.sample(3000, random_state=2)
    matrix = design.matrix(rows, len(rows))
    assert design.hull.gauge(matrix).max() <= 1 + 1e-12
    assert np.linalg.norm(matrix, axis=1).max() <= design.row_norm
    for group in design.groups:
        part = matrix[:, list(group.index)]
        squares = (part**2).sum(axis=1)
        assert squares.max() <= group.square * (1 + 1e-12)
        assert squares.min() >= group.least * (1 - 1e-12)
        assert group.ball.gauge(part).max() <= 1 + 1e-12


@pytest.mark.parametrize("domain", CODED, ids=repr)
def test_contributions_to_sums_are_exact(domain):
    X = domain.sample(200, random_state=0)
    encoded = domain.encode(X)
    sums, squares, _ = exact_sums(MemoryRows(domain, X, np.zeros(200)))
    for block in domain.blocks:
        for own, power in ((sums, 1), (squares, 2)):
            columns = encoded[:, block].T.tolist()
            expected = [sum(Fraction(x) ** power for x in column) for column in columns]
            assert [Fraction(int(s), 2**40) for s in own[block]] == expected


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("domain", CODED, ids=repr)
def test_contributions_to_a_descent_are_those_of_dense_rows(domain, classes):
    """Exactly, and their sizes add up to at most the weight times the slope."""
    X, blocks = domain.sample(50, random_state=0), Blocks(domain, True, True)
    scaling = plain_scaling(blocks, 50.0, RowBound(np.ones(len(blocks))))
    (state,) = keep_scaled(MemoryRows(domain, X, np.zeros(50)), blocks, scaling).states
    rng, at = np.random.default_rng(0), blocks.first_levels
    slopes = np.rint(rng.uniform(-1, 1, (classes, 50)) / GRID) * GRID
    dense = whole(domain.encode(X)[:, domain.blocks[0]])
    own = slopes[0] if classes == 1 else slopes
    found = state.sums(at, None, slice(0, 50), own)
    np.testing.assert_array_equal(found, (slopes @ dense).T.squeeze())
    one = state.sums(at, None, slice(0, 1), own[..., :1])
    assert (np.abs(one).sum(axis=0) <= np.abs(slopes[:, 0]) * (1 + 1e-15)).all()
    change = rng.normal(size=(dense.shape[1], *(classes,) * (classes > 1)))
    np.testing.assert_allclose(state.along(at, change), (dense @ change).T, rtol=1e-12, atol=1e-14)


def crossed(n, seed):
    """Return a table and labels that follow neither column alone, as those of an XOR."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(0, 1, n), "s": rng.choice(["f", "m"], n)})
    X["b"] = rng.uniform(0, 1, n)
    odds = 3 * np.sign(X["a"] - 0.5) * np.sign(X["b"] - 0.5)
    return X, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int), odds


SURFACE = Domain(
    {"a": Spline(0, 1, knots=3), "s": ["f", "m"], "b": Spline(0, 1, knots=3)}, target=[0, 1]
)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", [skdp.DPLogisticRegression, DPCoordinateDescentClassifier])
def test_a_classifier_learns_what_no_sum_of_two_effects_can(kind, delta):
    X, y, _ = crossed(20_000, 0)
    other, labels, odds = crossed(4000, 1)
    own = {"epsilon": 1.0, "delta": delta, "random_state": 0}
    model = kind(domain=SURFACE.interact("a", "b"), **own).fit(X, y)
    assert model.score(other, labels) > np.mean((odds > 0) == labels) - 0.08
    assert kind(domain=SURFACE, **own).fit(X, y).score(other, labels) < 0.6
    read = model.predict_proba(other)
    for table in (other[["b", "a", "s"]], other.to_numpy(object)):
        np.testing.assert_array_equal(model.predict_proba(table), read)
    encoded = SURFACE.interact("a", "b").encoded
    again = kind(domain=encoded, **own).fit(SURFACE.interact("a", "b").encode(X), y)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-6)
