"""Tables that are read in batches of rows: from files, and from functions that return batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from skdp._checks import converted, fail
from skdp.domain.cells import arrow_frame, plain
from skdp.domain.tables import Columns

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
_BATCHES = "return an iterable of DataFrames, or of pairs of a table and a target"
_INSTALL = "Install it: pip install 'skdp[arrow]'."


class Stream(Protocol):
    """A table that can be read several times, in batches of rows."""

    @property
    def names(self) -> list[str] | None:
        """Names of the columns; None for batches of arrays."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    def batches(self, columns: list[str] | None, as_arrays: bool = False) -> Iterator[Any]:
        """Yield DataFrames with some columns, or arrays."""

    @property
    def n(self) -> int:
        """The number of rows; it may be private."""


class ArrowStream:
    """A dataset of pyarrow: files of Parquet, CSV or Feather.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.dataset.schema.names)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    def batches(self, columns: list[str] | None, as_arrays: bool = False) -> Iterator[Any]:
        """Yield DataFrames with some of the columns, or `Columns` where arrays are enough."""
        self._check_files(self.names if columns is None else columns)
        limits = self._limits(len(self.names if columns is None else columns))
        batches = self.dataset.to_batches(columns=columns, **limits)
        while (batch := _read(lambda: next(batches, None))) is not None:
            if batch.num_rows:
                found = _arrays_of(batch) if as_arrays else None
                yield _read(partial(arrow_frame, batch)) if found is None else found

    def _limits(self, n_columns: int) -> dict[str, Any]:
        """Return options of pyarrow with which a few batches are in memory."""
        size = max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, n_columns)))
        limits: dict[str, Any] = {"batch_size": size, "batch_readahead": 2}
        limits["fragment_readahead"] = 1
        own = getattr(getattr(self.dataset, "format", None), "default_extname", None)
        if own == "parquet":
            from pyarrow.dataset import ParquetFragmentScanOptions

            # Otherwise whole row groups are read ahead.
            limits["fragment_scan_options"] = ParquetFragmentScanOptions(pre_buffer=False)
        return limits

    def _check_files(self, columns: list[str]) -> None:
        """Raise an error if a file lacks a column: pyarrow would fill it with nulls."""
        for fragment in self.dataset.get_fragments():
            own = _read(partial(getattr, fragment, "physical_schema")).names
            missing = [name for name in columns if name not in own]
            if missing:
                raise fail("every file of X", f"have the columns {missing}")

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
        self.spelled: dict[str, dict[str, Any]] = {}

    def batches(self, columns: list[str] | None, as_arrays: bool = False) -> Iterator[Any]:
        """Yield DataFrames with some of the columns, of texts or of levels."""
        for batch in super().batches(columns):
            for name in self.spelled.keys() & set(batch.columns):
                batch[name] = _levels_of(batch[name], self.spelled[name])
            yield batch


def _arrays_of(batch: Any) -> Columns | None:
    """Return the columns of a batch of pyarrow without a copy, or None if that is impossible."""
    from pyarrow import types

    names = set(batch.schema.names)
    if len(names) < batch.num_columns or any(own.null_count for own in batch.columns):
        return None
    if not all(_is_plain(own.type, types) for own in batch.columns):
        return None
    arrays = [own.to_numpy(zero_copy_only=True) for own in batch.columns]
    return Columns(dict(zip(batch.schema.names, arrays, strict=True)))


def _is_plain(kind: Any, types: Any) -> bool:
    """Return whether a column of a type of pyarrow is an array of numbers of numpy."""
    return bool(types.is_integer(kind) or types.is_float64(kind) or types.is_float32(kind))


def spellings(levels: Collection[Any]) -> dict[str, Any]:
    """Return the texts that spell levels that are numbers or truth values."""
    found: dict[str, Any] = {}
    for level in levels:
        if isinstance(level, bool):
            found |= dict.fromkeys([str(level), str(level).lower(), str(level).upper()], level)
        elif isinstance(level, int):
            found |= dict.fromkeys([str(level), f"{level}.0"], level)
        elif isinstance(level, float):
            found |= dict.fromkeys([repr(level), repr(level).removesuffix(".0")], level)
    # A level that is a text stands for itself.
    return {text: level for text, level in found.items() if text not in levels}


def _levels_of(texts: Any, spelled: dict[str, Any]) -> Any:
    """Return a column of texts with those that spell a level replaced by it, cell by cell."""
    codes, different = texts.factorize(use_na_sentinel=False)
    levels = np.array([spelled.get(text, text) for text in different] or [""], dtype=object)
    return type(texts)(levels[codes], index=texts.index, dtype=object)


def _read(function: Callable[[], Any]) -> Any:
    """Return what a function of pyarrow returns. Its errors may quote cells and are not shown."""
    rule = "be files that pyarrow can read, with one type for each column"
    return converted(function, "X", rule, "Convert them by a public rule, for instance to Parquet.")


def _batch(function: Callable[[], Any]) -> Any:
    """Return what code of the user returns. Its errors may quote cells and are not shown."""
    remedy = "Its own error is not shown, because it may quote a cell: call it to see the error."
    return converted(function, "X", "be a function that returns batches without an error", remedy)


class FactoryStream:
    """Batches of a function that returns a new iterator each time.

    Parameters
    ----------
    factory : callable
        Returns an iterable of DataFrames, or of pairs of a table and a target.
    """

    def __init__(self, factory: Callable[[], Iterable[Any]]) -> None:
        self.factory = factory
        self._last: Any = None

    @cached_property
    def _first(self) -> Any:
        for batch in self._tables():
            return batch
        raise fail("X", "return at least one batch of rows")

    @cached_property
    def names(self) -> list[str] | None:
        """Names of the columns of the first batch; None if it is an array."""
        return list(self._first.columns) if hasattr(type(self._first), "columns") else None

    @property
    def n_columns(self) -> int:
        """Number of columns of the first batch."""
        return int(self._first.shape[1])

    def batches(self, columns: list[str] | None, as_arrays: bool = False) -> Iterator[Any]:
        """Yield the batches that have rows, with some of the columns, as they are."""
        found = self._called()
        batches = _batch(lambda: iter(found))
        while (batch := _batch(lambda: next(batches, _END))) is not _END:
            table, *rest = batch if isinstance(batch, tuple) else (batch,)
            table = plain(table)
            if len(rest) > 1 or len(table.shape) != 2:
                raise fail("X", _BATCHES)
            names = list(table.columns) if hasattr(type(table), "columns") else None
            if names is not None and "names" in vars(self) and names != self.names:
                raise fail("X", "return batches with the same columns in the same order")
            if len(table):
                table = table if columns is None else table[columns]
                yield (table, *rest) if rest else table

    def _called(self) -> Iterable[Any]:
        """Return what the function returns; raise unless it is an iterable of its own."""
        found: Iterable[Any] = _batch(self.factory)
        kind = type(found)
        if not issubclass(kind, Iterable) or hasattr(kind, "columns"):
            raise fail("X", _BATCHES, kind.__name__)
        if issubclass(kind, Iterator) and found is self._last:
            raise fail("X", "return a new iterator for every pass", kind.__name__)
        self._last = found
        return found

    def _tables(self) -> Iterator[Any]:
        for batch in self.batches(None):
            yield batch[0] if isinstance(batch, tuple) else batch

    @cached_property
    def n(self) -> int:
        """The number of rows; all batches are read."""
        return sum(map(len, self._tables()))


def stream_of(X: Any) -> Stream | None:
    """Return the stream that ``X`` describes, or None for a table in memory.

    Parameters
    ----------
    X : object
        A path of a file or folder, a dataset of pyarrow, or a function that returns an iterable of
        DataFrames or arrays.

    Raises
    ------
    ValueError
        For objects that can be read only once.
    """
    # Everything is asked of the type: the code of a foreign object may raise any error.
    kind = type(X)
    if issubclass(kind, str | os.PathLike):
        if not os.fspath(X):
            raise fail("X", "be the path of a file or folder", "")
        return _stream_at(Path(os.fspath(X)))
    pyarrow = sys.modules.get("pyarrow.dataset")  # if there is a dataset, it was imported
    if pyarrow is not None and issubclass(kind, pyarrow.Dataset):
        _refuse_inferred_types(X)
        return ArrowStream(X)
    if kind.__module__.partition(".")[0] == "pyarrow" and not hasattr(kind, "to_pandas"):
        remedy = "Give the path of the file, or pyarrow.dataset.dataset(path)."
        raise fail("X", "be a path or a dataset of pyarrow", kind.__name__, remedy)
    if issubclass(kind, Iterator):
        remedy = "Give a path, or a function that returns a new iterator for every pass."
        raise fail("X", "be readable several times", kind.__name__, remedy)
    if callable(X) and not hasattr(kind, "__array__") and not hasattr(kind, "columns"):
        return FactoryStream(X)
    return None


def _refuse_inferred_types(dataset: Any) -> None:
    """Raise an error for texts: one record could change the types that pyarrow infers for all."""
    for part in getattr(dataset, "children", [dataset]):
        kind = getattr(getattr(part, "format", None), "default_extname", "")
        if kind in ("csv", "json"):
            remedy = "Give the path of the CSV files, or convert them to Parquet."
            raise fail("X", "be a dataset whose files state their types", kind, remedy)


def _stream_at(path: Path) -> ArrowStream:
    """Return the stream of a file or a folder."""
    try:
        from pyarrow import dataset
    except ImportError:
        raise ImportError(f"Reading files needs pyarrow. {_INSTALL}") from None
    if not path.exists():
        raise fail("X", "be the path of a file or a folder", str(path))
    suffix = path.suffix if path.is_file() else _suffix_within(path)
    if suffix not in _FORMATS:
        remedy = "Give pyarrow.dataset.dataset(path, format=...) for other names."
        raise fail("X", f"be a file with a suffix of {sorted(_FORMATS)}", suffix, remedy)
    if _FORMATS[suffix] == "csv":
        return CsvStream(path)
    return ArrowStream(_read(lambda: dataset.dataset(path, format=_FORMATS[suffix])))


def _suffix_within(folder: Path) -> str:
    """Return the suffix of the first file of a folder."""
    files = sorted(
        p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(("_", "."))
    )
    return files[0].suffix if files else ""
