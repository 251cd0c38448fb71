"""Positions of levels are those of a Python dict, whatever the type of the column."""

import math

import numpy as np
import pandas as pd
import pytest
from inner_package import repeated, wide_rows

from skdp import Domain
from skdp.domain.columns import Levels
from skdp.domain.layout import compact_blocks, encode_compactly, read_once
from skdp.domain.tables import EncodedRows, as_cells
from skdp.linear_model.validation import check_labels

LEVELS = {
    "words": ["b", "a", "", "a\0b", "a\0", "\ud800", "é", "longer than others", "1"],
    "bytes": [b"b", b"a", b"", b"a\0", b"1"],
    "integers": [3, -2, 0, 1, 250, 2**53 + 1],
    "far integers": [-(2**63), 2**63 - 1, 2**64 - 1, 0, 10**30],
    "bools": [True, False],
    "floats": [0.5, 1.0, -0.0, math.inf, 0.1, 2.0**53],
    "mixed": ["1", 1, b"1", 2.5, "True", None, (1, 2)],
    "own code": [1 + 0j, "1", 2.0],
    "one": ["a"],
}
VALUES = [0, 1, -2, 3, 250, 2, 127, 255]
FLOATS = [*VALUES, 1e4, 0.5, 0.1, -0.0, math.inf, -math.inf, math.nan, 2.0**53]
WORDS = ["a", "b", "", "1", "2.5", "True", "a\0b", "é", "longer than others", "c", "\ud800"]
CELLS = {
    **{f"int, {t}": np.array([v for v in VALUES if v <= 127], t) for t in ("b", "<h", ">i", "q")},
    **{f"uint, {t}": np.array([v for v in VALUES if v >= 0], t) for t in ("B", ">H", "Q")},
    "far": np.array([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0]),
    "far, unsigned": np.array([2**64 - 1, 2**63, 0, 2**53 + 1], np.uint64),
    "bool": np.array([True, False]),
    **{f"float, {t}": np.array(FLOATS).astype(t) for t in ("f", ">d", "d", "g")},
    "float, e": np.array([v for v in FLOATS if v != 2.0**53], "e"),
    "words": np.array(WORDS),
    "swapped words": np.array(WORDS).astype(">U18"),
    "short words": np.array(["a", "b", "1"]),
    "words of any length": np.array(WORDS[:-1], np.dtypes.StringDType()),
    "bytes": np.array([b"a", b"b", b"", b"1", b"c"]),
    "objects": np.array([*WORDS, *FLOATS, None, True, b"a", (1, 2), [1]], object),
    "none": np.zeros(0),
}


def by_dict(cells, levels):
    places = {level: k for k, level in enumerate(levels)}
    found = []
    for cell in cells:
        try:
            found.append(places.get(cell, len(levels) - 1))
        except TypeError:
            found.append(len(levels) - 1)
    return found


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("levels", LEVELS)
def test_arrays_are_read_as_by_a_dict(levels, cells):
    levels, cells = LEVELS[levels], CELLS[cells]
    column = Levels(tuple(levels), levels[-1])
    expected = by_dict(cells.tolist(), levels)
    for some in (cells, np.repeat(cells, 2)[::2]):  # a column of an array is not contiguous
        assert column.positions_in(some).tolist() == expected
    assert column.positions_in(cells).dtype == np.uint8


SERIES = {
    "str": pd.Series(["a", None, "b", "1", "c", ""], dtype="str"),
    "string": pd.Series(["a", None, "b", "1", "c", ""], dtype="string"),
    "python": pd.Series(["a", None, "b", "1", "c", ""], dtype=pd.StringDtype("python")),
    "objects": pd.Series(["a", None, 1, True, math.nan, [1], 2.5], dtype=object),
    "categories": pd.Series(["a", None, "b", "1", "c", "b"], dtype="category"),
    "numbers as categories": pd.Series([1, 3, None, 7, 0], dtype="category"),
    "bools as categories": pd.Series([True, None, False], dtype="category"),
    "odd categories": pd.Series([(1, 2), 1 + 0j, "a", None, 3], dtype="category"),
    "dates as categories": pd.Series(pd.to_datetime(["1986-01-01", None])).astype("category"),
    "dates": pd.Series(pd.to_datetime(["1986-01-01", None])),
    "nullable": pd.Series([1, None, 3], dtype="Int64"),
    "nullable bools": pd.Series([True, None, False], dtype="boolean"),
    "floats": pd.Series([1.0, None, 3.0, 2.5]),
    "bools": pd.Series([True, False]),
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("levels", ["words", "integers", "bools", "floats", "mixed", "own code"])
def test_columns_of_frames_are_read_as_by_a_dict(levels, name):
    """Whole, and in parts; missing and unknown cells are the other level."""
    cells, levels = SERIES[name], [x for x in LEVELS[levels] if x is not None]
    # Levels of two kinds: columns of another kind than that of all levels would be an error.
    levels.append(-77 if isinstance(levels[0], str) else "of another kind")
    domain = Domain({"x": levels}, other={"x": levels[-1]})
    expected = by_dict(cells.tolist(), levels)
    frame = pd.DataFrame({"x": cells})
    assert encode_compactly(domain, frame).levels[0].tolist() == expected
    kept = read_once(domain, frame)
    np.testing.assert_array_equal(domain.encode(kept), domain.encode(frame))
    alone = [encode_compactly(domain, frame[k : k + 1]).levels[0].item() for k in range(len(cells))]
    assert alone == expected
    assert encode_compactly(domain, kept.taken(slice(1, 2))).levels[0].tolist() == expected[1:2]


def test_categories_may_be_more_than_the_codes_of_a_block():
    """The first and the last rows of several blocks."""
    n = 300_000
    codes = np.random.default_rng(0).integers(-1, 20_000, n)
    column = pd.Categorical.from_codes(codes, categories=range(20_000))
    domain = Domain({"a": (0, 1), "x": [5, 19_999, -1]}, other={"x": -1})
    found = encode_compactly(domain, pd.DataFrame({"a": np.zeros(n), "x": column})).levels[0]
    np.testing.assert_array_equal(found, np.select([codes == 5, codes == 19_999], [0, 1], 2))


def test_frames_of_plain_columns_are_not_kept():
    """Reading them again runs no foreign code; others are kept as small integers."""
    domain = Domain({"a": (0, 1), "b": ["u", "v"], "c": [True, False]}, target=[0, 1])
    n = 10
    frame = pd.DataFrame({"a": np.linspace(0, 1, n), "b": ["u", "v"] * 5, "c": [True] * n})
    kept = read_once(domain, frame)
    assert isinstance(kept, EncodedRows)
    assert [positions.dtype for positions in kept.levels] == [np.uint8, np.uint8]
    plain = read_once(domain, frame.astype({"a": "float32", "b": "category"}))
    assert not isinstance(plain, EncodedRows)
    np.testing.assert_array_equal(encode_compactly(domain, plain).levels[0], kept.levels[0])


def test_blocks_are_those_of_the_whole_table():
    rng = np.random.default_rng(0)
    domain = Domain({"a": (0, 1), "x": [0, 1, 2], "b": (-1, 1), "y": [0], "z": ["u", "v"]})
    frame = pd.DataFrame({name: rng.integers(-1, 4, 50_000) for name in domain.names})
    frame["z"] = np.array(["u", "v", "w"])[rng.integers(3, size=50_000)]
    whole = encode_compactly(domain, frame)
    for rows, block in compact_blocks(domain, frame):
        np.testing.assert_array_equal(block.numbers, whole.numbers[rows])
        for ours, all_rows in zip(block.levels, whole.levels, strict=True):
            np.testing.assert_array_equal(ours, all_rows[rows])
        block.numbers[...] = 7.0  # the memory of the table is another one
    np.testing.assert_array_equal(whole.numbers, encode_compactly(domain, frame).numbers)


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (1, 2000), (2000, 1), (777, 20), (1, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_wide_rows_are_all_rows(shape, order):
    block, values = np.zeros(shape, order=order), np.arange(shape[1]) * 1.0
    for rows in wide_rows(block):
        rows += repeated(values)[: rows.shape[1]]
    np.testing.assert_array_equal(block, np.tile(values, (shape[0], 1)))


@pytest.mark.parametrize(
    "labels",
    [[0, 1], [False, True], ["no", "yes"], [-5, 0, 10**6], [0.5, 1.0], list(range(300))],
    ids=str,
)
def test_positions_of_labels_are_small_integers(labels):
    y = np.array(labels)[np.random.default_rng(0).integers(len(labels), size=500)]
    small = np.uint8 if len(labels) < 257 else np.uint16
    for target in (y, y.astype(object)):
        found, places = check_labels(target, labels)
        np.testing.assert_array_equal(found[places], y)
        assert places.dtype == small
        with pytest.raises(ValueError, match="only declared labels"):
            check_labels(target, labels[1:] + labels[:0] if len(labels) > 2 else [7, 8])


@pytest.mark.parametrize("other", ["1", b"1", np.str_("1")])
@pytest.mark.parametrize("wrap", [list, tuple, lambda y: [[label] for label in y]])
def test_a_label_of_another_type_changes_no_other_one(other, wrap):
    """As texts all numbers would be labels, and as numbers they are positions."""
    for cells in ([1] * 5 + [other], [True] * 5 + [other], ["1"] * 5 + [b"1"], [b"1"] * 5 + ["1"]):
        found = as_cells(wrap(cells), "y", one_type=True)
        assert [type(cell) for cell in found.ravel().tolist()] == [type(cell) for cell in cells]
        with pytest.raises(ValueError, match="only declared labels"):
            check_labels(found.ravel(), ["1", "2"])
