"""The door of all tables, and rows of files and functions, which are read in batches.

`opened` alone looks at what ``X`` is. Everything is asked of its type: the code of a foreign object
may raise any error, and a delayed object has every attribute, each a delayed object. A reading in
batches needs the memory of a few batches.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from collections.abc import Collection as AnyCollection
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from skdp._compiled import load_kernels
from skdp.domain import Domain
from skdp.domain.tables import Frame, arrow_frame, as_table, in_memory, native
from skdp.rows.memory import (
    Block,
    Build,
    Encode,
    KeptBlocks,
    Run,
    T,
    block_slices,
    check_weight,
    columns_to_read,
    encoded_runs,
    one_by_one,
)
from skdp.rows.persons import Groups
from skdp.trusted.arrays import summed
from skdp.trusted.checks import converted, fail

# Greatest number of rows of a batch of a file, and of its cells: about 32 MB.
BATCH_ROWS, BATCH_CELLS = 2**18, 2**22
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".gz": "csv",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
}
_END = object()  # None may be a batch of the user's function by mistake
_STATED = "be a dataset whose files state their types"
_STATE = "Pass the path of the CSV files, or convert them to Parquet."
_BATCHES = "return an iterable of DataFrames, or of pairs of a table and a target"
# The column that a target becomes, beside those of the user.
_TARGET = "y of fit(X, y)"
_AS_COLUMN = 'Make the target a column of a DataFrame, and use fit(X, target="name").'


class ArrowStream:
    """A dataset of pyarrow: files of Parquet, CSV or Feather."""

    def __init__(self, dataset: Frame) -> None:
        self.dataset = dataset

    @property
    def names(self) -> list[str]:
        return list(self.dataset.schema.names)

    @property
    def n_columns(self) -> int:
        return len(self.names)

    def batches(self, columns: list[str] | None) -> Iterator[Frame]:
        """Yield DataFrames with some of the columns, of which a few are in memory."""
        wanted = self.names if columns is None else columns
        for fragment in self.dataset.get_fragments():
            own = _read(partial(getattr, fragment, "physical_schema")).names
            # Where a file lacks a column, pyarrow would fill it with nulls.
            if missing := [name for name in wanted if name not in own]:
                raise fail("every file of X", f"have the columns {missing}")
        size = max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, len(wanted))))
        limits: dict[str, object] = {"batch_size": size, "batch_readahead": 2}
        limits["fragment_readahead"] = 1
        if _format(self.dataset) == "parquet":
            from pyarrow.dataset import ParquetFragmentScanOptions

            # Otherwise whole row groups are read ahead.
            limits["fragment_scan_options"] = ParquetFragmentScanOptions(pre_buffer=False)
        batches = self.dataset.to_batches(columns=columns, **limits)
        while (batch := _read(lambda: next(batches, None))) is not None:
            if batch.num_rows:
                yield _read(partial(arrow_frame, batch))

    @cached_property
    def n(self) -> int:
        """The number of rows, for Parquet from the metadata of the files."""
        return int(_read(self.dataset.count_rows))


class CsvStream(ArrowStream):
    """A CSV file, or a folder of such files.

    All cells are read as text. The types that pyarrow infers would depend on all rows: one record
    could change how others are encoded. Numbers are texts that spell a number, and ``spelled``
    maps texts to levels and labels that are no texts.
    """

    def __init__(self, path: Path) -> None:
        from pyarrow import csv, dataset, string

        names = _read(lambda: dataset.dataset(path, format="csv").schema.names)
        types = csv.ConvertOptions(
            column_types=dict.fromkeys(names, string()), strings_can_be_null=False
        )
        texts = dataset.CsvFileFormat(convert_options=types)
        super().__init__(_read(lambda: dataset.dataset(path, format=texts)))
        self.spelled: dict[str, dict[str, object]] = {}

    def batches(self, columns: list[str] | None) -> Iterator[Frame]:
        """Yield DataFrames with some of the columns, of texts or of levels."""
        for batch in super().batches(columns):
            for name in self.spelled.keys() & set(batch.columns):
                texts, spelled = batch[name], self.spelled[name]
                codes, different = texts.factorize(use_na_sentinel=False)
                levels = [spelled.get(text, text) for text in different] or [""]
                cells = np.array(levels, dtype=object)[codes]
                batch[name] = type(texts)(cells, index=texts.index, dtype=object)
            yield batch


def spellings(levels: AnyCollection[object]) -> dict[str, object]:
    """Return the texts that spell levels that are numbers or truth values."""
    found: dict[str, object] = {}
    for level in levels:
        if isinstance(level, bool):
            found |= dict.fromkeys([str(level), str(level).lower(), str(level).upper()], level)
        elif isinstance(level, int):
            found |= dict.fromkeys([str(level), f"{level}.0"], level)
        elif isinstance(level, float):
            found |= dict.fromkeys([repr(level), repr(level).removesuffix(".0")], level)
    # A level that is a text stands for itself.
    return {text: level for text, level in found.items() if text not in levels}


def _read(function: Callable[[], T]) -> T:
    """Return what a function of pyarrow returns. Its errors may quote cells and are not shown."""
    rule = "be files that pyarrow can read, with one type for each column"
    return converted(function, "X", rule, "Convert them by a public rule, for instance to Parquet.")


def _batch(function: Callable[[], T]) -> T:
    """Return what code of the user returns. Its errors may quote cells and are not shown."""
    remedy = "Its own error is not shown, because it may quote a cell: call it to see the error."
    return converted(function, "X", "be a function that returns batches without an error", remedy)


class FactoryStream:
    """Batches of a function that returns a new iterable of tables, or of pairs, each time."""

    def __init__(self, factory: Callable[[], Iterable[Frame]]) -> None:
        self.factory = factory
        self._last: object = None

    @cached_property
    def _first(self) -> Frame:
        table = None
        with closing(self._all(None)) as batches:
            for batch in batches:
                table = batch[0] if isinstance(batch, tuple) else batch
                if len(table):
                    break
        if table is None:
            raise fail("X", "return at least one batch", None, "It may have no rows.")
        return table

    @cached_property
    def names(self) -> list[str] | None:
        """Names of the columns of the first batch; None if it is an array."""
        return list(self._first.columns) if hasattr(type(self._first), "columns") else None

    @property
    def n_columns(self) -> int:
        return int(self._first.shape[1])

    def batches(self, columns: list[str] | None) -> Iterator[Frame]:
        """Yield the batches that have rows, with some of the columns, as they are."""
        for batch in self._all(columns):
            if len(batch[0] if isinstance(batch, tuple) else batch):
                yield batch

    def _all(self, columns: list[str] | None) -> Generator[Frame, None, None]:
        found: Iterable[Frame] = _batch(self.factory)
        kind = type(found)
        if not issubclass(kind, Iterable) or hasattr(kind, "columns"):
            raise fail("X", _BATCHES, kind.__name__)
        if issubclass(kind, Iterator) and found is self._last:
            raise fail("X", "return a new iterator for every pass", kind.__name__)
        self._last = found
        batches: Any = _batch(lambda: iter(found))
        try:
            while (batch := _batch(lambda: next(batches, _END))) is not _END:
                table, *rest = batch if isinstance(batch, tuple) else (batch,)
                table = in_memory(table)
                if len(rest) > 1:
                    raise fail("X", _BATCHES)
                names = list(table.columns) if hasattr(type(table), "columns") else None
                if names is not None and "names" in vars(self) and names != self.names:
                    raise fail("X", "return batches with the same columns in the same order")
                table = table if columns is None else table[columns]
                yield (table, *rest) if rest else table
        finally:
            # A database takes no new query while the result of an earlier one is open.
            if hasattr(type(batches), "close"):
                _batch(batches.close)

    @cached_property
    def n(self) -> int:
        """The number of rows; all batches are read."""
        tables = (own[0] if isinstance(own, tuple) else own for own in self.batches(None))
        found = sum(map(len, tables))
        check_weight(found, None, not len(self._first))
        return found


Stream: TypeAlias = ArrowStream | FactoryStream


def _stream_at(place: str) -> ArrowStream:
    path = Path(place)
    if not (place and path.exists()):
        rule = "be the path of a file or a folder, and there is none at this path"
        raise FileNotFoundError(str(fail("X", rule, place)))
    try:
        from pyarrow import dataset
    except ImportError:
        install = "Install it: pip install 'skdp[arrow]'."
        raise ImportError(f"Reading files needs pyarrow. {install}") from None
    files = sorted(own for own in path.rglob("*") if own.is_file())
    first = next((own for own in files if not own.name.startswith(("_", "."))), path)
    suffix = path.suffix if path.is_file() else first.suffix
    if suffix not in _FORMATS:
        remedy = "Pass pyarrow.dataset.dataset(path, format=...) for other names."
        raise fail("X", f"be a file with a suffix of {sorted(_FORMATS)}", suffix, remedy)
    if _FORMATS[suffix] == "csv":
        return CsvStream(path)
    return ArrowStream(_read(lambda: dataset.dataset(path, format=_FORMATS[suffix])))


class Collection:
    """A table of dask with its target, which is a column or an array with the rows of the table.

    If X and y are DataFrames or columns of them, y becomes a column of X: dask may read two
    collections in different partitions.
    """

    def __init__(self, X: Frame, y: Frame = None, target: str | None = None) -> None:
        if not hasattr(type(X), "ndim") or X.ndim != 2:
            rule = "be a dask DataFrame or a dask array with two dimensions"
            remedy = "Use X.to_dataframe() for a bag, X.to_frame() or X[:, None] for a column."
            raise fail("X", rule, type(X).__name__, remedy)
        if y is not None and not is_collection(y):
            raise fail("y", "be a dask collection, as X is", type(y).__name__)
        if y is not None and hasattr(type(X), "columns") and hasattr(type(y), "map_partitions"):
            X, y, target = _joined(X, y), None, _TARGET
        self.X, self.y, self.target = X, y, target

    def with_target(self, y: Frame, target: str | None) -> Collection:
        """Return the table with its target, which is given in one of two ways."""
        if (y is None) == (target is None):
            remedy = 'Pass y, or the name of a column: fit(X, target="name").'
            raise fail("y", "be given either as a collection or as a column", None, remedy)
        return Collection(self.X, y, target)

    @property
    def names(self) -> list[str] | None:
        """Names of the columns; None for an array."""
        return list(self.X.columns) if hasattr(self.X, "columns") else None

    @property
    def n_columns(self) -> int:
        return len(self.X.columns) if hasattr(self.X, "columns") else int(self.X.shape[1])

    def only(self, columns: list[str] | None) -> Collection:
        """Return the same rows with some columns, or with all of them for None."""
        return self if columns is None else Collection(self.X[columns], self.y, self.target)

    def partitions(self) -> list[tuple[Frame, Frame]]:
        """Return pairs of delayed partitions of X, with all columns, and of y or None."""
        tables, y = delayed_parts(self.X), self.y
        if hasattr(y, "chunks") and hasattr(self.X, "chunks"):
            y = y.rechunk((self.X.chunks[0], *y.chunks[1:]))
        targets = [None] * len(tables) if y is None else delayed_parts(y)
        if len(targets) != len(tables):
            raise fail("y", "have as many partitions as X", len(targets), _AS_COLUMN)
        return list(zip(tables, targets, strict=True))

    def entries(self, column: str) -> list[Frame]:
        """Return a column, computed, one array for each of `partitions`.

        Of the column alone dask may read other partitions than of all columns.
        """
        import dask

        take = dask.delayed(operator.getitem, pure=False)
        parts = [take(part, column) for part, _ in self.partitions()]
        return list(computed(lambda: dask.compute(*parts)))

    @cached_property
    def n(self) -> int:
        """The number of rows; it is computed unless the chunks of an array are known."""
        if hasattr(self.X, "chunks") and not np.isnan(self.X.shape[0]):
            return int(self.X.shape[0])
        import dask

        sizes = [dask.delayed(len)(part) for part in delayed_parts(self.X)]
        return int(sum(computed(lambda: dask.compute(*sizes))))


def computed(call: Callable[[], T]) -> T:
    """Return what a computation returns. Errors of the user's graph are not shown."""
    remedy = "Its own error is not shown, because it may quote a cell: X.compute() shows it."
    return converted(call, "X", "be a collection that can be computed without an error", remedy)


def _joined(X: Frame, y: Frame) -> Frame:
    from dask import dataframe

    if y.npartitions != X.npartitions:
        raise fail("y", "have the partitions of X", y.npartitions, _AS_COLUMN)
    if y.ndim == 2:
        if len(y.columns) != 1:
            raise fail("y", "have one column", len(y.columns), "One target is fitted at a time.")
        y = y[y.columns[0]]
    meta = _with_target(X._meta, y._meta)
    return dataframe.map_partitions(_with_target, X, y, meta=meta, align_dataframes=False)


def _with_target(table: Frame, y: Frame) -> Frame:
    if len(table) != len(y):
        rule = "have as many entries as X has rows, in each batch or partition"
        raise fail("y", rule, remedy=_AS_COLUMN)
    return table.assign(**{_TARGET: y.array})


def predictions(
    predict: Callable[[Frame], Any], data: Collection, columns: list[str] | None, example: Any
) -> Frame:
    """Return a dask array of the predictions for all rows; ``example`` are those for one row."""
    import dask
    from dask import array

    def of_part(table: Frame) -> Frame:
        return predict(table) if len(table) else example[:0]

    task = dask.delayed(of_part, pure=False)
    known = getattr(data.X, "chunks", None)
    parts = [table for table, _ in data.only(columns).partitions()]
    sizes = known[0] if known else [np.nan] * len(parts)
    arrays = [
        array.from_delayed(task(part), shape=(size, *example.shape[1:]), dtype=example.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return array.concatenate(arrays, allow_unknown_chunksizes=True)


def is_collection(X: object) -> bool:
    return "dask" in sys.modules and hasattr(type(X), "__dask_graph__")


def delayed_parts(X: Frame) -> list[Frame]:
    """Return the delayed partitions of a collection, with all columns each."""
    if hasattr(X, "chunks") and X.ndim == 2:
        X = X.rechunk({1: -1})
    parts = X.to_delayed()
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)


def _refuse_inferred(dataset: object) -> None:
    """Raise an error for text files: one record could change the types inferred for all."""
    for part in getattr(dataset, "children", ()):
        _refuse_inferred(part)
    if _format(dataset) in ("csv", "json"):
        raise fail("X", _STATED, _format(dataset), _STATE)


def _format(dataset: object) -> str | None:
    return getattr(getattr(dataset, "format", None), "default_extname", None)


def opened(X: Frame) -> Any:
    """Return a table in memory as a DataFrame or an array, any other as a `Stream` or `Collection`.

    What can be read only once is an error, unless it is a stream of Arrow: that is read into
    memory, if it is small enough.
    """
    X = native(X)
    kind = type(X)
    if is_collection(X):
        return Collection(X)
    if issubclass(kind, str | os.PathLike):
        return _stream_at(os.fspath(X))
    pyarrow = sys.modules.get("pyarrow.dataset")  # if there is a dataset, it was imported
    if pyarrow is not None and issubclass(kind, pyarrow.Dataset):
        _refuse_inferred(X)
        return ArrowStream(X)
    if kind.__module__ in ("pyarrow._csv", "pyarrow._json"):
        raise fail("X", _STATED, kind.__name__, _STATE)
    if hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__array__"):
        return in_memory(X)
    if kind.__module__.partition(".")[0] == "pyarrow" and not hasattr(kind, "to_pandas"):
        remedy = "Pass the path of the file, or pyarrow.dataset.dataset(path)."
        raise fail("X", "be a path or a dataset of pyarrow", kind.__name__, remedy)
    if issubclass(kind, Iterator):
        remedy = "Pass a path, or a function that returns a new iterator for every pass."
        raise fail("X", "be readable several times", kind.__name__, remedy)
    if callable(X) and not hasattr(kind, "columns"):
        return FactoryStream(X)
    return in_memory(X)


# Rows that need at most so many bytes are kept in memory.
MOST_KEPT = 3 * 2**27


class StreamedRows:
    """Rows of a stream; see `skdp.rows.Rows`.

    The target is the name of a column, or None if the batches are pairs of a table and a target.
    The weight is the number of rows, or the sum of their shares, if it is public: then an error is
    raised if a reading has another one.
    """

    def __init__(
        self,
        domain: Domain,
        stream: Stream,
        target: str | None,
        encode: Encode,
        weight: int | None,
        groups: Groups | None = None,
    ) -> None:
        self.domain, self.stream, self.target = domain, stream, target
        self.encode, self.weight, self.groups = encode, weight, groups
        # All weights may be 0: then no reading has a sum of shares.
        self._is_read = groups is not None and groups.are_weighted

    @property
    def n(self) -> int:
        return self.stream.n

    def sum(self, part: Callable[[Block], T], blocks: int = 1, dtype: type | None = None) -> T:
        total: T = summed(self._blocks(part, blocks, dtype, at_once=True))
        self._is_read = True
        return total

    def keep(
        self, build: Build, blocks: int = 1, caches: bool = False, dtype: type | None = None
    ) -> StreamedStates | KeptBlocks:
        """Return the states, built anew at each sum unless they are small or have caches."""
        # About the memory of a row of states.
        row_bytes = 4 * self.domain.n_numbers + 2 * len(self.domain.block_sizes) + 16
        if caches or self.n * row_bytes <= MOST_KEPT:
            kept = KeptBlocks(list(self._blocks(build, blocks, dtype)))
            self._is_read = True
            return kept
        return StreamedStates(self, build, blocks, dtype)

    def _blocks(
        self, function: Callable[[Block], T], blocks: int, dtype: type | None, at_once: bool = False
    ) -> Iterator[T]:
        load_kernels(self.n * self.domain.n_columns)
        domain = self.domain

        def encoded() -> Iterator[Block]:
            has_rows = False
            for run in self._runs():
                has_rows = True
                slices = block_slices(domain, len(run.target), blocks)
                yield from run.blocks(domain, slices, dtype, {} if at_once else None)
            if not has_rows:  # sums over no row are zeros
                table = as_table(np.empty((0, domain.n_columns)), domain.names, domain.n_columns)
                run = Run(table, self.encode(np.empty(0, object)))
                yield from run.blocks(domain, [slice(0, 0)], dtype)

        # The threads of the reader work at the same time.
        return one_by_one(function, encoded())

    def _runs(self) -> Iterator[Run]:
        domain, weight, groups = self.domain, 0, self.groups
        # A pair has no column that is a target.
        names = None if self.target is None else self.stream.names
        others = () if groups is None else groups.columns
        columns = columns_to_read(domain, names, self.target, *others)
        shares = None if groups is None else groups.shares(groups.parts[0])
        for batch in self.stream.batches(columns):
            for run in encoded_runs(domain, batch, self.target, self.encode, shares):
                weight += run.weight
                yield run
        check_weight(weight, self.weight, self._is_read or not self.n)


@dataclass(frozen=True, eq=False)
class StreamedStates:
    """States that are built anew at each sum; see `skdp.rows.Kept`."""

    rows: StreamedRows
    build: Build
    blocks: int
    dtype: type | None
    is_read_again: ClassVar[bool] = True
    may_change: ClassVar[bool] = True

    def sum(self, part: Callable[[Any], T]) -> T:
        build = self.build
        return self.rows.sum(lambda block: part(build(block)), self.blocks, self.dtype)

    def map(self, function: Callable[[Any], object]) -> StreamedStates:
        build = self.build
        return replace(self, build=lambda block: function(build(block)))
