"""Rows in blocks: each is read once and in order, by one thread or several; sums are exact."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from skdp import Domain
from skdp.rows import Block, KeptBlocks, MemoryRows
from skdp.rows import memory as memory_module
from skdp.rows.memory import MOST_ROWS, SHARED_THREADS, block_rows, in_order
from skdp.trusted.arrays import FOLD, summed

COLUMNS = {"a": (0, 3), "job": ["x", "y", "z"], "one": ["u"], "b": (-1, 1), "sex": ["f", "m"]}
DOMAIN = Domain(COLUMNS, target=(-1.0, 1.0))
NUMBERS = Domain.unit_box(3)


def table(n, seed: int = 0) -> pd.DataFrame:
    """Return rows in the domain and outside of it."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"a": rng.uniform(-1, 4, n), "job": rng.choice(["x", "y", "z", "?"], n)})
    return found.assign(one="u", b=rng.normal(size=n), sex=rng.choice(["f", "m"], n))


@pytest.fixture(params=[1, 2, 3], ids="{} threads".format)
def n_threads(request: Any) -> Iterator[int]:
    with threadpool_limits(request.param, user_api="blas"):
        assert blas_threads() == request.param
        with SHARED_THREADS:
            yield request.param
        assert blas_threads() == request.param  # restored


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in memory_module._blas().info())


# Totals


@pytest.mark.parametrize("count", [1, 2, FOLD - 1, FOLD, FOLD + 1, 3 * FOLD, 5 * FOLD + 7])
def test_integers_are_added_exactly_beyond_63_bits(count):
    """Entries of 2^55, the greatest, and of 1: no float and no int64 holds the sum."""
    assert FOLD * 2**55 < 2**63
    part = np.array([2**55, -(2**55), 2**55 - 1, 1, 0])
    found = summed([part] * count)
    assert found.tolist() == [count * int(v) for v in part]
    assert all(type(v) is int for v in found)
    assert part.tolist() == [2**55, -(2**55), 2**55 - 1, 1, 0]


def test_a_fold_that_is_too_long_is_caught(monkeypatch):
    """The twin: twice as many parts in int64 overflow."""
    monkeypatch.setattr("skdp.trusted.arrays.FOLD", 2 * FOLD)
    with np.errstate(all="ignore"):
        assert summed([np.array([2**55])] * (2 * FOLD)).tolist() != [2 * FOLD * 2**55]


def test_tuples_lists_and_numbers_are_added_part_by_part():
    """Tuples within tuples; lists are joined in order; the parts are not changed."""
    parts = [
        (np.array([2**55, k]), (np.array([0.5 * k]), [k, str(k)]), k, 0.25) for k in range(300)
    ]
    integers, (floats, joined), count, share = summed(parts)
    assert integers.tolist() == [300 * 2**55, 299 * 150]
    assert floats.tolist() == [0.5 * 299 * 150]
    assert joined == [v for k in range(300) for v in (k, str(k))]
    assert (count, share) == (299 * 150, 75.0)
    for k, (first, (second, words), *_) in enumerate(parts):
        assert first.tolist() == [2**55, k]
        assert second.tolist() == [0.5 * k]
        assert words == [k, str(k)]


def test_floats_are_added_in_a_fixed_order():
    """Folds of FOLD parts, one after the other; another order gives other last bits."""
    parts = list(np.random.default_rng(1).normal(size=(3 * FOLD + 5, 4)))
    whole = np.zeros(4)
    for start in range(0, len(parts), FOLD):
        fold = np.zeros(4)
        for part in parts[start : start + FOLD]:
            fold = fold + part
        whole = whole + fold
    assert summed(parts).tolist() == whole.tolist()
    assert summed(parts[::-1]).tolist() != whole.tolist()
    exact = [math.fsum(column) for column in np.transpose(parts).tolist()]
    np.testing.assert_allclose(whole, exact, rtol=1e-10)


def test_no_part_has_no_sum():
    assert summed([]) is None
    assert summed([(np.array([1]), [2])])[1] == [2]


# Rows in memory


def all_rows(block: Block) -> list[Any]:
    levels = np.array([codes.astype(int) for codes in block.levels]).reshape(-1, len(block)).T
    columns = block.numbers.tolist(), levels.tolist(), block.target.tolist()
    return [(*own, *codes, y) for own, codes, y in zip(*columns, strict=True)]


def expected_rows(domain: Domain, X: Any, target: Any) -> list[Any]:
    encoded = domain.encode(X)
    numbers = encoded[:, domain.number_index]
    codes = [
        encoded[:, block] @ np.arange(1, block.stop - block.start + 1)
        for block in domain.blocks
        if block.stop > block.start
    ]
    levels = np.array(codes, dtype=int).reshape(-1, len(encoded)).T
    triples = zip(numbers.tolist(), levels.tolist(), target.tolist(), strict=True)
    return [(*own, *codes, y) for own, codes, y in triples]


@pytest.mark.parametrize(("n", "most", "cells"), [
    (1, 2**13, 2**18), (1000, 7, 2**18), (1000, 1000, 2**18), (1000, 999, 2**18),
    (3000, 2**13, 1), (2**13 + 1, 2**13, 2**18),
])  # fmt: skip
def test_blocks_hold_every_row_once_and_in_order(n, most, cells, n_threads, monkeypatch):
    monkeypatch.setattr(memory_module, "MOST_ROWS", most)
    monkeypatch.setattr(memory_module, "CELLS", cells)
    X, target = table(n), np.random.default_rng(1).uniform(-1, 1, n)
    rows, expected = MemoryRows(DOMAIN, X, target), expected_rows(DOMAIN, X, target)
    assert rows.n == n
    assert rows.sum(all_rows) == expected
    assert rows.sum(all_rows) == expected  # the second reading
    sizes = rows.sum(lambda block: [len(block)])
    assert max(sizes) <= min(most, max(256, cells))
    kept = MemoryRows(DOMAIN, X, target).keep(all_rows)
    assert kept.sum(list) == expected
    assert [len(state) for state in kept.states] == sizes


@pytest.mark.parametrize("kind", ["floats", "objects", "frame"])
def test_states_may_keep_and_change_the_numbers_of_a_type(kind):
    """They are rounded once, and neither the table nor a later reading changes with them."""
    n = 2 * MOST_ROWS + 5
    X: Any = np.random.default_rng(0).uniform(-2, 2, (n, 3))
    cells: Any = X.copy()
    if kind == "objects":  # is encoded as a whole at the first reading
        cells = cells.astype(object)
    if kind == "frame":
        cells = pd.DataFrame(cells)
    rows = MemoryRows(NUMBERS, cells, np.zeros(n))
    kept = rows.keep(lambda block: block.numbers, dtype=np.float32)
    expected = X.clip(-1, 1)
    found = np.concatenate(kept.states)
    assert found.dtype == np.float32
    assert (found == expected.astype(np.float32)).all()
    for numbers in kept.states:
        numbers[...] = 7.0
    assert (np.concatenate(rows.keep(lambda block: block.numbers).states) == expected).all()
    assert (np.asarray(cells, dtype=float) == X).all()


def test_parts_of_a_block_are_its_rows_in_order():
    X, target = table(1500), np.arange(1500)
    (block,) = MemoryRows(DOMAIN, X, target).keep(lambda block: block).states
    for width in (1, 300, 2**18, 2**30):
        parts = list(block.parts(width))
        assert [row for part in parts for row in all_rows(part)] == all_rows(block)
        assert max(map(len, parts)) <= block_rows(width)
    assert next(block.parts(1)) is block


def test_arrays_frames_and_files_are_one_table(tmp_path, n_threads, monkeypatch):
    monkeypatch.setattr(memory_module, "MOST_ROWS", 800)  # three blocks
    numbers = np.random.default_rng(5).uniform(-1.2, 1.2, (2000, 3))
    target = np.arange(2000)
    stored = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=numbers.shape)
    stored[:] = numbers
    expected = expected_rows(NUMBERS, numbers, target)
    same = (
        numbers, stored, np.asfortranarray(numbers), np.repeat(numbers, 2, axis=0)[::2],
        pd.DataFrame(numbers), numbers.astype(object), numbers.tolist(),
    )  # fmt: skip
    for X in same:
        assert MemoryRows(NUMBERS, X, target).sum(all_rows) == expected


def test_numbers_of_an_array_stay_where_they_are():
    """A file may be larger than the memory."""
    X = np.zeros((100, 3))
    rows = MemoryRows(NUMBERS, X, np.zeros(100))
    for _ in range(2):
        rows.sum(len)
        assert np.shares_memory(rows._runs[0].table.cells, X)  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 999, 1999])
def test_a_bad_number_is_an_error_at_every_reading(bad, row, n_threads, monkeypatch):
    """The error names the column and not the row."""
    monkeypatch.setattr(memory_module, "MOST_ROWS", 800)  # each row is in a block of its own
    X, target = np.random.default_rng(6).uniform(-1, 1, (2000, 3)), np.arange(2000)
    changing = MemoryRows(NUMBERS, X, target)
    changing.sum(len)
    X[row, 1] = bad
    for rows in (MemoryRows(NUMBERS, X, target), changing):
        for read in (rows.sum, rows.keep, rows.sum):
            with pytest.raises(ValueError, match="column 1 must contain only finite") as caught:
                read(all_rows)
            assert str(row) not in str(caught.value) or row == 0


EXTREMES = [1e308, -1e308, 1e-308, 5e-324, -0.0, 1.7e308, 1.0, 1 + 2.0**-52, 0.5 - 2.0**-21]


@pytest.mark.parametrize("domain", [
    NUMBERS, Domain.box([-1e-300, 0.0, -1e300], [1e-300, 1e-306, 1e300]),
    Domain.l2_ball(3, 1e-150), Domain.l2_ball(3, 1e150), Domain.l2_ball(3, 0.3),
], ids=repr)  # fmt: skip
def test_whatever_the_data_numpy_does_not_warn(domain: Domain, n_threads):
    """Whether it warned would depend on private numbers; the bounds are public."""
    X = np.random.default_rng(7).choice(EXTREMES, (20_000, 3))

    def part(block: Block) -> Any:
        numbers = block.numbers
        found = np.exp(1000 * numbers) / (numbers - numbers[0]) * np.sqrt(-1 - numbers**2)
        return np.nan_to_num(found).astype(np.float32).sum(axis=0)

    rows = MemoryRows(domain, X, np.zeros(len(X)))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for _ in range(2):
            rows.sum(part)
        rows.keep(part).map(lambda state: 1 / (state * 0)).sum(np.log)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        np.float64(1.0) / np.zeros(1)  # the caller's own settings stay


# Kept states


def test_states_are_mapped_in_place_and_added_in_order(n_threads):
    kept = KeptBlocks([np.array([k, 2**54]) for k in range(50)])
    states = kept.states
    assert kept.sum(lambda state: state).tolist() == [49 * 25, 50 * 2**54]
    assert kept.sum(lambda state: [int(state[0])]) == list(range(50))
    mapped = kept.map(lambda state: state * 2)
    assert mapped.states is states
    assert [int(state[0]) for state in states] == list(range(0, 100, 2))
    assert mapped.sum(lambda state: state).tolist() == [49 * 50, 50 * 2**55]
    assert KeptBlocks([]).sum(len) is None


def test_a_map_frees_each_state_when_it_is_replaced():
    """In one thread no more than one old state is held beside the new ones."""
    alive: list[int] = []

    class State:
        def __init__(self):
            alive.append(1)

        def __del__(self):
            alive.pop()

    with threadpool_limits(1, user_api="blas"):
        kept = KeptBlocks([State() for _ in range(30)])
        seen: list[int] = []

        def replaced(_: Any) -> int:
            seen.append(len(alive))
            return 0

        kept.map(replaced)
    assert seen[0] == 30
    assert seen[-1] <= 3
    assert not alive


# Threads


def test_results_come_in_order_whichever_is_first(n_threads):
    delays = np.random.default_rng(8).uniform(0, 2e-3, 60)

    def slowly(k: int) -> int:
        time.sleep(delays[k])
        return k

    assert list(in_order(slowly, range(60))) == list(range(60))
    assert list(in_order(slowly, [5])) == [5]
    assert list(in_order(slowly, [])) == []


def test_several_threads_work_at_once_and_each_uses_blas_alone(n_threads):
    """As many as BLAS had before; the fixture checks that its own number is restored."""
    together = threading.Barrier(n_threads, timeout=30)
    used: list[int] = []

    def met(_: int) -> int:
        together.wait()
        used.append(blas_threads())
        return threading.get_ident()

    found = set(in_order(met, range(4 * n_threads)))
    assert len(found) == n_threads
    assert (threading.get_ident() in found) == (n_threads == 1)
    assert set(used) == {1}
    assert blas_threads() == 1


def test_an_error_is_that_of_the_first_bad_item_and_ends_the_work(n_threads):
    done: list[int] = []

    def failing(k: int) -> int:
        done.append(k)
        if k >= 10:
            raise KeyError(k)
        return k

    found: list[int] = []
    with pytest.raises(KeyError, match="10"):
        found.extend(in_order(failing, range(10_000)))
    # ``extend`` drops nothing that came before the error.
    assert len(done) <= 11 + 6 * n_threads
    time.sleep(0.01)
    assert len(done) <= 11 + 6 * n_threads
    assert blas_threads() == 1


def test_work_that_nobody_waits_for_ends(n_threads):
    done: list[int] = []
    results = in_order(lambda k: done.append(k) or k, range(10_000))
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert len(done) <= 2 + 6 * n_threads
    assert blas_threads() == 1


def test_blocks_do_not_pile_up(n_threads):
    done: list[int] = []
    for k, _ in enumerate(in_order(done.append, range(200))):
        assert len(done) <= k + 2 + 5 * n_threads
        if k % 50 == 0:
            time.sleep(2e-3)


SEEN: ContextVar[str] = ContextVar("SEEN", default="none")


def test_context_variables_of_the_caller_are_seen(n_threads):
    """Such as the settings of scikit-learn and of numpy; changes do not come back."""
    token = SEEN.set("mine")

    def look(_: int) -> str:
        seen = SEEN.get()
        if n_threads > 1:
            SEEN.set("theirs")
        return seen

    try:
        assert list(in_order(look, range(20))) == ["mine"] * 20
        assert SEEN.get() == "mine"
    finally:
        SEEN.reset(token)


def test_fits_at_the_same_time_share_the_limit_and_the_last_one_restores_it():
    with threadpool_limits(2, user_api="blas"):
        SHARED_THREADS.__enter__()
        SHARED_THREADS.__enter__()
        assert blas_threads() == 1
        SHARED_THREADS.__exit__(None, None, None)
        assert blas_threads() == 1
        assert len(set(in_order(lambda _: threading.get_ident(), range(50)))) <= 2
        SHARED_THREADS.__exit__(None, None, None)
        assert blas_threads() == 2
