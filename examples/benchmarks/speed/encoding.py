"""Time of encoding, predictions and checks of labels against scikit-learn's and numpy's.

Each pair of functions is called by turns in one process, and the shortest time of each counts.
The same rows are given to both. Needs no data files.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder
from threadpoolctl import threadpool_limits

from examples.benchmarks.shared import report
from skdp import Domain, DPLogisticRegression
from skdp.domain.layout import encode_compactly
from skdp.linear_model.validation import check_labels

OURS, THEIRS = "skdp", "peer"
NUMBERS, LEVELS = 8, (5, 8, 12, 20, 30, 40)
WIDTH = 20
N_FITTED = 20_000
# Cells of a block of the reference for tables of numbers, and targets of the ratios.
BLOCK = 2**15
Case = tuple[str, float, Callable[[], Any], Callable[[], Any]]


def mixed_domain(kind: type) -> Domain:
    """Return the domain of the mixed table, with levels of a type."""
    numbers = {f"x{k}": (-2.0, 3.0 + k) for k in range(NUMBERS)}
    levels = {f"c{k}": levels_of(m, kind) for k, m in enumerate(LEVELS)}
    return Domain(numbers | levels, target=[0, 1])


def levels_of(m: int, kind: type) -> list[Any]:
    return [f"level {k}" for k in range(m)] if kind is str else list(range(m))


def mixed_table(n: int, kind: type, dtype: Any, rng: np.random.Generator) -> pd.DataFrame:
    columns: dict[str, Any] = {f"x{k}": rng.normal(size=n) for k in range(NUMBERS)}
    for k, m in enumerate(LEVELS):
        levels = np.array(levels_of(m, kind), dtype=object if kind is str else int)
        columns[f"c{k}"] = pd.Series(levels[rng.integers(m, size=n)], dtype=dtype)
    return pd.DataFrame(columns)


def transformer(domain: Domain, sparse: bool) -> Any:
    names = list(domain.names or ())
    encoder = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=sparse)
    numbers = (MinMaxScaler((-1, 1), clip=True), names[:NUMBERS])
    return make_column_transformer(numbers, (encoder, names[NUMBERS:]), sparse_threshold=sparse)


def mixed_cases(n: int, rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases of a mixed table, for each storage of the levels."""
    for name, kind, dtype in (
        ("strings", str, "str"),
        ("objects", str, object),
        ("categories", str, "category"),
        ("integers", int, int),
    ):
        domain, X = mixed_domain(kind), mixed_table(n, kind, dtype, rng)
        for sparse in (False, True):
            theirs = transformer(domain, sparse).fit(X)
            what = f"mixed, {name}, against {'sparse' if sparse else 'dense'} ColumnTransformer"
            yield what, 1.0, lambda d=domain, X=X: d.encode(X), lambda t=theirs, X=X: t.transform(X)
        yield (
            f"mixed, {name}, encoded compactly, against sparse ColumnTransformer",
            1.0,
            lambda d=domain, X=X: encode_compactly(d, X),
            lambda t=theirs, X=X: t.transform(X),
        )
        y = rng.integers(2, size=n)
        ours = DPLogisticRegression(domain=domain, random_state=0)
        ours.fit(X[:N_FITTED], y[:N_FITTED])
        pipeline = make_pipeline(transformer(domain, True), LogisticRegression())
        pipeline.fit(X[:N_FITTED], y[:N_FITTED])
        yield (
            f"mixed, {name}: predict, against a pipeline",
            1.0,
            lambda m=ours, X=X: m.predict(X),
            lambda m=pipeline, X=X: m.predict(X),
        )


def clipped_by_blocks(X: Any, lower: Any, scale: Any) -> Any:
    """Return np.clip((X - lower) * scale - 1, -1, 1), computed in the cache."""
    out, step = np.empty(X.shape), BLOCK // X.shape[1]
    for start in range(0, len(X), step):
        block = out[start : start + step]
        np.subtract(X[start : start + step], lower, out=block)
        block *= scale
        block -= 1
        np.clip(block, -1, 1, out=block)
    return out


def number_cases(n: int, rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases of a table of floats."""
    X, y = rng.normal(size=(n, WIDTH)), rng.integers(2, size=n)
    lower, upper = np.full(WIDTH, -2.0), 2 + np.arange(WIDTH)
    box = Domain.box(lower, upper, target=[0, 1])
    scale = 2 / (upper - lower)
    for name, table in (("array", X), ("frame", pd.DataFrame(X))):
        yield (
            f"floats, {name}, against numpy by blocks",
            1.3,
            lambda t=table: box.encode(t),
            lambda: clipped_by_blocks(X, lower, scale),
        )
        for what, domain in (("box", box), ("unit box", Domain.unit_box(WIDTH, target=[0, 1]))):
            ours = DPLogisticRegression(domain=domain, random_state=0).fit(
                X[:N_FITTED], y[:N_FITTED]
            )
            theirs = LogisticRegression().fit(
                table[:N_FITTED] if name == "array" else table.iloc[:N_FITTED], y[:N_FITTED]
            )
            yield (
                f"floats, {name}, {what}: predict",
                1.5,
                lambda m=ours, t=table: m.predict(t),
                lambda m=theirs, t=table: m.predict(t),
            )


def label_cases(n: int, rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases of declared labels."""
    places = rng.integers(3, size=n)
    words = np.array(["no", "maybe", "yes"])
    for name, labels, y in (
        ("strings", words, words[places]),
        ("objects", words, words.astype(object)[places]),
        ("integers", np.array([0, 1, 2]), places),
        ("bools", np.array([False, True]), places > 0),
    ):
        yield (
            f"labels, {name}, against np.unique",
            1.0,
            lambda y=y, labels=labels: check_labels(y, labels.tolist()),
            lambda y=y: np.unique(y, return_inverse=True),
        )


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def row_of(case: Case, repeats: int) -> report.Row:
    what, most, ours, theirs = case
    times = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    own, other = map(min, zip(*times, strict=True))
    ratio = own / other
    row = {"what": what, OURS: own, THEIRS: other, "ratio": ratio}
    print(f"{what:64} {own:8.3f} {other:8.3f} s, ratio {ratio:5.2f} (at most {most})", flush=True)
    return row | report.judged(ratio, (most,), higher=False)


def main() -> None:
    parser = report.parser_for(__doc__, repeats=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        rows = [
            row_of(case, arguments.repeats)
            for cases in (number_cases, label_cases, mixed_cases)
            for case in cases(arguments.rows, rng)
        ]
    report.publish("encoding", rows, arguments)


if __name__ == "__main__":
    main()
