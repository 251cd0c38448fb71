"""Fits and predictions of dask collections."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager

import numpy as np
import pytest
from inner_fits import Design
from inner_objective import ClippingBounds, finisher, row_builder
from test_streams import (
    BOUNDS,
    EXACT,
    FRAME,
    ROUNDED,
    SECRET,
    N,
    case_of,
    check_refused,
    check_same,
    made,
    target_of,
)

import skdp
from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression
from skdp.model_selection import PrivateSearchCV
from skdp.rows import cluster, memory
from skdp.rows.cluster import ClusterRows, WorkerStates
from skdp.rows.tables import Collection

dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
bag = pytest.importorskip("dask.bag")
dataframe = pytest.importorskip("dask.dataframe")

NUMBERS = ["a", "b"]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def collections(target: str):
    """Return the same rows as collections with different partitions."""
    whole = FRAME[[*BOUNDS, target]]
    yield {"X": dataframe.from_pandas(whole, npartitions=1), "target": target}
    yield {"X": dataframe.from_pandas(whole, npartitions=7), "target": target}
    frame = dataframe.from_pandas(whole, npartitions=3)
    yield {"X": frame[list(BOUNDS)], "y": frame[target]}
    empty = frame.map_partitions(lambda part: part[part.a > 2], meta=whole.iloc[:0])
    yield {"X": dataframe.concat([frame, empty]), "target": target}


@pytest.mark.parametrize("kind", [*EXACT, *ROUNDED])
def test_partitions_give_what_the_table_in_memory_gives(kind, monkeypatch):
    """A partition has several blocks, some of one length, which do not share what is kept."""
    monkeypatch.setattr(memory, "MOST_ROWS", 256)
    target, _, expected = case_of(kind)
    for given in collections(target):
        check_same(made(kind).fit(**given), expected)


def test_arrays_are_aligned_and_columns_joined():
    domain = Domain.box([-1, 0], [1, 5], target=(-1, 1))
    numbers = FRAME[NUMBERS].to_numpy()
    expected = made(DPLinearRegression, domain=domain).fit(numbers, FRAME.z)
    X = array.from_array(numbers, chunks=(800, 1))
    y = array.from_array(FRAME.z.to_numpy(), chunks=1100)
    model = made(DPLinearRegression, domain=domain).fit(X, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    predicted = model.predict(X)
    assert predicted.shape == (N,)
    np.testing.assert_array_equal(predicted.compute(), expected.predict(numbers))


@pytest.mark.parametrize("options", [{}, {"split_row_groups": True}, {"split_row_groups": 2}])
@pytest.mark.parametrize("kind", [DPLinearRegression, DPLogisticRegression])
def test_the_columns_of_one_collection_are_aligned(kind, options, tmp_path):
    """Alone, dask reads features and target in different partitions."""
    target = target_of(kind)
    whole = FRAME[[*BOUNDS, target]].sample(frac=1, random_state=0)  # an index in disorder
    for k in range(4):
        part = whole.iloc[k * N // 4 : (k + 1) * N // 4]
        part.to_parquet(tmp_path / f"{k}.parquet", row_group_size=100)
    expected = made(kind).fit(whole[list(BOUNDS)], whole[target])
    data = dataframe.read_parquet(tmp_path, **options).fillna({"a": 0.0})
    X, y = data[list(BOUNDS)], data[target]
    assert X.npartitions == y.npartitions
    assert options == {} or len(X.to_delayed()) != len(y.to_delayed())
    for own in (y, data[[target]]):
        model = made(kind).fit(X, own)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-7)


def test_predictions_are_dask_arrays():
    rows = FRAME[list(BOUNDS)]
    model = made(DPLogisticRegression).fit(rows, FRAME.y)
    lazy = dataframe.from_pandas(rows, npartitions=3)
    for name in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
        found = getattr(model, name)(lazy)
        assert isinstance(found, array.Array)
        expected = getattr(model, name)(rows)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)


@pytest.mark.parametrize("kind", ROUNDED)
def test_scores_are_those_of_the_table_in_memory(kind):
    """The sizes of the partitions of a DataFrame are not known to dask."""
    rows, y = FRAME[list(BOUNDS)], FRAME[target_of(kind)]
    model = made(kind).fit(rows, y)
    lazy = dataframe.from_pandas(FRAME, npartitions=3)
    for target in (y, lazy[target_of(kind)]):
        assert model.score(lazy, target) == model.score(rows, y)


def test_predictions_of_empty_partitions_are_empty():
    rows = FRAME[list(BOUNDS)]
    model = made(DPLogisticRegression).fit(rows, FRAME.y)
    lazy = dataframe.from_pandas(rows, npartitions=3)
    empty = lazy.map_partitions(lambda part: part[part.a > 2], meta=rows.iloc[:0])
    found = model.predict(dataframe.concat([empty, lazy])).compute()
    np.testing.assert_array_equal(found, model.predict(rows))
    with pytest.raises(ValueError, match="must have records"):
        made(DPLogisticRegression).fit(empty.assign(y="no"), target="y")


def frame(**changed):
    return dataframe.from_pandas(FRAME.assign(**changed)[[*BOUNDS, "z"]], npartitions=3)


REFUSED = {
    "neither": (lambda: {"X": frame()}, "either as a collection or as a column"),
    "both": (lambda: {"X": frame(), "y": frame().z, "target": "z"}, "either as a collection"),
    "y in memory": (lambda: {"X": frame(), "y": FRAME.z}, "be a dask collection"),
    "partitions": (
        lambda: {"X": frame()[list(BOUNDS)], "y": frame().z.repartition(npartitions=2)},
        'y must have the partitions of X, got 2. .*fit.X, target="name"',
    ),
    "columns": (
        lambda: {"X": frame()[list(BOUNDS)], "y": frame()[["z", "a"]]},
        "y must have one column, got 2",
    ),
    "no column": (
        lambda: {
            "X": frame()[list(BOUNDS)],
            "y": frame().z.map_partitions(lambda own: own.tolist(), meta=("z", float)),
        },
        "be a collection that can be computed",
    ),
    "lengths": (
        lambda: {"X": frame()[list(BOUNDS)], "y": frame()[frame().a > 0].z},
        "as many entries as X has rows, in each batch or partition",
    ),
    "bag": (lambda: {"X": bag.from_sequence([1, 2]), "target": "z"}, "got 'Bag'"),
    "bag, y": (lambda: {"X": bag.from_sequence([1, 2]), "y": FRAME.z}, "X must be a dask Data"),
    "delayed": (lambda: {"X": dask.delayed(FRAME), "target": "z"}, "X must be a dask DataFrame"),
    "one column": (lambda: {"X": frame()["a"], "y": frame().z}, "got 'Series'"),
    "one dimension": (lambda: {"X": array.ones(N), "y": frame().z}, "with two dimensions"),
    "no such column": (lambda: {"X": frame(), "target": "other"}, "be a column of X"),
    "bad number": (lambda: {"X": frame(a=np.nan), "target": "z"}, "'a' must contain only finite"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", [DPLinearRegression, DPHuberRegressor])
def test_bad_input_costs_nothing(kind, case):
    build, message = REFUSED[case]
    check_refused(made(kind), message, **build())


def test_predictions_need_a_table():
    model = made(DPHuberRegressor).fit(FRAME[list(BOUNDS)], FRAME.z)
    for X in (bag.from_sequence([1, 2]), dask.delayed(FRAME), frame()["a"], array.ones(N)):
        with pytest.raises(ValueError, match="X must be a dask DataFrame or a dask array with two"):
            model.predict(X)


def test_what_needs_a_table_in_memory_does_not_compute_a_collection():
    domain = Domain.unit_box(2, target=(-1, 1))
    lazy = array.from_array(FRAME[NUMBERS].to_numpy(), chunks=500)
    search = PrivateSearchCV(made(DPLinearRegression, domain=domain), {"fit_intercept": [True]})
    for call in (domain.encode, domain.encoder().transform, lambda X: search.fit(X, FRAME.z)):
        with pytest.raises(ValueError, match=re.escape("X.compute()")):
            call(lazy)


@pytest.mark.parametrize("kind", [DPLinearRegression, skdp.DPCoordinateDescentClassifier])
def test_a_partition_that_is_lost_or_repeated_is_found(kind, monkeypatch):
    target, own = target_of(kind), cluster._numbered
    for wrong in (lambda pair, k: own(pair, min(k, 1)), lambda pair, k: (*pair, [k] * (k != 1))):
        monkeypatch.setattr(cluster, "_numbered", wrong)
        model = made(kind)
        lazy = dataframe.from_pandas(FRAME[[*BOUNDS, target]], npartitions=3)
        with pytest.raises(RuntimeError, match="lost or repeated a partition"):
            model.fit(lazy, target=target)
        assert not hasattr(model, "coef_")


@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLinearRegression])
def test_another_number_of_rows_is_found_if_it_is_public(kind, monkeypatch):
    """As if a row had been lost after the rows were counted."""
    target = target_of(kind)
    lazy = dataframe.from_pandas(FRAME[[*BOUNDS, target]], npartitions=3)
    monkeypatch.setattr(Collection, "n", N + 1)
    with pytest.raises(ValueError, match="same rows at each reading") as caught:
        made(kind).fit(lazy, target=target)
    assert "300" not in str(caught.value)
    model = made(kind, neighbors="add_remove", n_public=N).fit(lazy, target=target)
    assert np.isfinite(model.coef_).all()


@contextmanager
def one_thread_worker():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        distributed.Client(**options, dashboard_address=None) as client,
        dask.config.set(scheduler=None),
    ):
        yield client


def test_states_that_are_finished_twice_are_the_same():
    """A worker may compute a task twice: finished rows must not replace those that they are of."""
    bounds = {"a": (-1.0, 1.0), "b": (-1.0, 1.0)}
    design = Design(Domain(bounds, target=(-1.0, 1.0)), True)
    half = ClippingBounds(design.domain.number_index, np.full(2, -0.5), np.full(2, 0.5))
    table = FRAME[["a", "b", "z"]]
    with one_thread_worker():
        data = Collection(dataframe.from_pandas(table, npartitions=3), target="z")
        rows = ClusterRows(design.domain, data, design.domain.encode_target, None)
        kept = rows.keep(row_builder(design), dtype=np.float32)
        assert isinstance(kept, WorkerStates)
        finish = finisher(half, None, kept.may_change)
        first, second = (kept.map(finish).sum(numbers_of) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    expected = (2 * table[["a", "b"]].clip(-0.5, 0.5)).sum()
    np.testing.assert_allclose(first, expected, atol=1e-2)


def numbers_of(rows):
    return rows.numbers.astype(float).sum(axis=1)


@contextmanager
def two_workers():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as workers,
        distributed.Client(workers),
        dask.config.set(scheduler=None),
    ):
        yield workers


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("kind", [*EXACT, *ROUNDED])
def test_workers_give_what_the_table_in_memory_gives(kind):
    """On two processes: sums of partitions, states on the workers, rounds of a descent."""
    target, whole, expected = case_of(kind)
    with two_workers():
        lazy = dataframe.from_pandas(whole, npartitions=5)
        check_same(made(kind).fit(lazy, target=target), expected)


@pytest.mark.slow("starts processes")
def test_a_fit_survives_a_worker_that_is_killed():
    """Its states are built again, and all moves are made again, with the same bits."""
    kind = skdp.DPCoordinateDescentClassifier
    whole = FRAME[[*BOUNDS, "y"]]
    expected = made(kind, n_passes=4).fit(whole, target="y")
    killed = []
    with two_workers() as workers:

        def kill(progress):
            if progress.n_pass == 2:
                (worker, *_) = workers.workers.values()
                killed.append(worker.process.pid)
                worker.process.process._process.kill()

        lazy = dataframe.from_pandas(whole, npartitions=5)
        model = made(kind, n_passes=4, callback=kill).fit(lazy, target="y")
    assert killed
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert len(model.ledger.entries) == 1


@contextmanager
def started_by_hand(folder):
    """A scheduler and two workers as `dask scheduler` and `dask worker` start them, by address."""
    distributed, file = pytest.importorskip("distributed"), folder / "scheduler.json"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    env["DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT"] = "2s"
    own = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", *own]
    worker = ["worker", "--no-nanny", "--nthreads", "1", *own]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{name}", *options],
            env=env,
            stderr=subprocess.DEVNULL,
        )
        for name, *options in (scheduler, worker, worker)
    ]
    try:
        while not file.exists() or not file.read_text():
            assert started[0].poll() is None
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        assert address.startswith("tcp://")
        with distributed.Client(address) as client, dask.config.set(scheduler=None):
            client.wait_for_workers(2, timeout=120)
            yield started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow("starts processes")
def test_what_travels_to_workers_and_back(tmp_path, monkeypatch):
    """Functions and coefficients go, sums come: no noise, seed, ledger or estimator is sent."""
    with started_by_hand(tmp_path):
        from distributed.protocol import pickle

        sent, sizes, dumps, checked = [], [], pickle.dumps, cluster._checked

        def dumped(*given, **options):
            sent.append(dumps(*given, **options))
            return sent[-1]

        def measured(*given):
            total, weight = checked(*given)
            sizes.append(len(dumps(total)))
            return total, weight

        monkeypatch.setattr(pickle, "dumps", dumped)
        monkeypatch.setattr(cluster, "_checked", measured)
        for kind in (DPLinearRegression, skdp.DPCoordinateDescentClassifier, DPLogisticRegression):
            target, whole, expected = case_of(kind)
            lazy = dataframe.from_pandas(whole, npartitions=5)
            check_same(made(kind).fit(lazy, target=target), expected)
        blob = b"".join(map(bytes, sent))
    assert b"Domain" in blob
    for name in (b"Ledger", b"Generator", b"DPLogistic", b"random_state", b"KNorm", b"NoisySum"):
        assert name not in blob
    # The solver of a logistic regression also asks for a sample of rows, once.
    assert sorted(sizes)[-2] < 2_000


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("charged", [0, 1], ids=["before the charge", "after it"])
@pytest.mark.parametrize("killed", [1, 2])
def test_a_fit_without_some_workers_ends_and_charges_at_most_once(
    charged, killed, tmp_path, monkeypatch
):
    """One that is left computes all again; with none, an error says what was spent."""
    kind, summed = DPLogisticRegression, WorkerStates._summed
    target, whole, expected = case_of(kind)
    with started_by_hand(tmp_path) as workers:
        model = made(kind)

        def after_a_kill(self, part):
            if len(model.ledger.entries) == charged:
                for worker in workers[:killed]:
                    worker.send_signal(signal.SIGKILL)
            return summed(self, part)

        monkeypatch.setattr(WorkerStates, "_summed", after_a_kill)
        lazy = dataframe.from_pandas(whole, npartitions=5)
        if killed == 1:
            check_same(model.fit(lazy, target=target), expected)
            assert len(model.ledger.entries) == 1
            return
        with pytest.raises(ValueError, match="X must be a collection that can be comp") as caught:
            model.fit(lazy, target=target)
    assert len(model.ledger.entries) == charged
    spent = "budget was spent" if charged else "No budget was spent"
    assert any(spent in note for note in caught.value.__notes__)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("places", ["aaaaaaab", "abababab", "bbbbbbbb", "cccc", "a"])
def test_threads_get_as_many_partitions_each(places):
    """Also where one worker has nearly all; what can stay at its worker does."""
    items, threads = list(range(len(places))), ["a", "a", "b"]
    lists = cluster._shared_out(items, list(places), threads)
    assert sorted(item for own in lists for item in own) == items
    most = -(-len(items) // len(threads))
    assert max(map(len, lists)) <= most
    stayed = sum(
        places[k] == worker for worker, own in zip(threads, lists, strict=True) for k in own
    )
    room = {worker: most * threads.count(worker) for worker in threads}
    assert stayed == sum(min(places.count(w), room[w]) for w in room)


def spelled(table, at):
    """A column as texts of which one is no number."""
    texts = table[at].astype(str).astype(object)
    return table.assign(**{at: [SECRET, *texts[1:]]})


@pytest.mark.parametrize("column", ["a", "z", "id"])
@pytest.mark.parametrize("source", ["collection", "function"])
def test_a_conversion_that_fails_shows_no_cell(column, source):
    """The user's own graph, or function, raises an error of numpy that quotes a cell."""
    people = FRAME[[*BOUNDS, "z"]].assign(id=np.arange(N))

    def converted(table):
        return spelled(table, column).astype({column: float})

    if source == "collection":
        meta = people.astype({column: float}).iloc[:0]
        X = dataframe.from_pandas(people, npartitions=3).map_partitions(converted, meta=meta)
    else:

        def X():
            yield people
            yield converted(people)

    model, message = made(DPHuberRegressor), r"X must be a .* without an error"
    error = check_refused(model, message, X, target="z", groups="id")
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "could not convert" not in "".join(traceback.format_exception(error))


def test_our_own_errors_of_a_partition_are_shown():
    people = FRAME[[*BOUNDS, "z"]].assign(a=SECRET)
    lazy = dataframe.from_pandas(people, npartitions=3)
    message = "column 'a' must contain only finite numbers"
    check_refused(made(DPHuberRegressor), message, lazy, target="z")


@pytest.mark.parametrize("kind", [DPHuberRegressor, skdp.DPCoordinateDescentClassifier])
def test_a_score_shows_no_entry_of_a_target(kind):
    """scikit-learn's errors quote texts, and labels of another type."""
    model = made(kind).fit(FRAME[list(BOUNDS)], FRAME[target_of(kind)])
    target = [SECRET, *["other"] * (N - 1)] if kind is DPHuberRegressor else np.full(N, 1986)
    with pytest.raises(ValueError, match="y must be a target of the kind") as caught:
        model.score(FRAME[list(BOUNDS)], target)
    told = "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert "1986" not in told
    assert caught.value.__context__ is None
