"""Private estimates of the bounds and levels of a domain.

The rules that choose bounds use only released and public numbers, so the privacy proof does not
depend on them. Their constants are those of least loss on simulated columns
(``docs/mathematics/automatic_choices.md``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp.bounds._counts import (
    NOTHING,
    OCTAVES,
    CountNoise,
    IntArray,
    LevelCounts,
    Magnitudes,
    Steps,
    counts,
)
from skdp.domain import Domain
from skdp.domain.tables import (
    Frame,
    NotNumbers,
    RawTable,
    as_column,
    as_table,
    in_memory,
    kind_of_dtype,
    read_numbers,
    read_target,
)
from skdp.linear_model.validation import RECORDS, UNSEEN, check_ledger, spent_note, without_column
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.guarantee import guarantee_of
from skdp.rows.persons import WHOLE, Persons, Shares
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import Release
from skdp.trusted.checks import check_choice, check_epsilon, check_interval, fail
from skdp.trusted.randomness import RandomStateLike, as_generator, is_cryptographic
from skdp.trusted.statement import NEIGHBORS, Public

# In standard deviations of the noise of a count: the mean count above which a cell belongs to a
# run of cells; the excess of the greatest run; the excess of other runs.
CELL, GREATEST, OTHER = 1.3, 1.0, 5.0
# A lower bound nearer to zero than this share of the upper bound becomes zero.
NEAR_ZERO = 1 / 8
# Equal steps have this many records each, in standard deviations, if records are spread evenly.
STEP_RECORDS, FEWEST, MOST = 2.0, 16, 64
# Records outside the bounds: this share of all, or as many standard deviations if that is less.
# Squared errors are greatest for targets far out, so fewer of them are left out.
OUTSIDE, OUTSIDE_TARGET, UNCLEAR = 0.01, 0.002, 2.0


def outer_bounds(counts: FloatArray, deviation: float, grid: Magnitudes) -> tuple[float, float]:
    """Return bounds between powers of two, from noisy counts by magnitude.

    On each side of zero the run of neighbouring cells with the greatest excess over ``CELL``
    standard deviations a cell is found. The greatest of the two runs and of the cell of zero is
    taken, and the others if their excess is clear. Bounds are the least that hold them.
    They are the limits if no excess is above ``GREATEST`` standard deviations, and (0, 1), or less
    if the limit is less, if all records seem to be zero. ``deviation`` is the standard deviation
    of the noise in each count.
    """
    excess = counts / deviation - CELL
    positive, negative = _run(excess[OCTAVES + 1 :]), _run(excess[OCTAVES - 1 :: -1])
    best = max(positive[0], negative[0], float(excess[OCTAVES]))
    if best <= GREATEST:
        return -grid.limit, grid.limit
    up, down, zero = (
        score == best or score > OTHER for score in (positive[0], negative[0], excess[OCTAVES])
    )
    if not (up or down):
        return 0.0, min(1.0, grid.limit)
    ends = grid.ends
    # Cell k of a side has magnitudes from ends[k] to ends[k + 1].
    upper = ends[positive[2] + 1] if up else 0.0 if zero else -ends[negative[1]]
    lower = -ends[negative[2] + 1] if down else 0.0 if zero else ends[positive[1]]
    if 0 < lower < upper * NEAR_ZERO:
        lower = 0.0
    if 0 > upper > lower * NEAR_ZERO:
        upper = 0.0
    return float(lower), float(upper)


def record_count(
    counts: Sequence[FloatArray],
    deviations: Sequence[float],
    grids: Sequence[Magnitudes],
    bounds: Sequence[tuple[float, float]],
) -> float:
    """Return an estimate of the number of records, at least 1, from counts by magnitude.

    It is the mean of the sums between the bounds of each column, with weights inverse to their
    variances.
    """
    sums, weights = [], []
    for own, deviation, grid, pair in zip(counts, deviations, grids, bounds, strict=True):
        first, last = grid.cells(np.array(pair))
        sums.append(own[first : last + 1].sum())
        weights.append(1 / ((last + 1 - first) * deviation**2))
    return max(1.0, float(np.average(sums, weights=weights)))


def step_count(n: float, deviation: float) -> int:
    """Return the number of equal steps, a power of two, for about ``n`` records."""
    steps = FEWEST
    while 2 * steps <= MOST and n / (2 * steps) >= STEP_RECORDS * deviation:
        steps *= 2
    return steps


def inner_bounds(
    counts: FloatArray, deviation: float, grid: Steps, n: float, outside: float
) -> tuple[float, float]:
    """Return narrower bounds, from noisy counts in equal steps.

    They are the ends of the shortest run of steps that seems to hold all but few of the records.
    ``n`` is the number of records with a number in the column, or an estimate, and ``outside`` the
    greatest share of them outside.
    """
    most = min(outside * n, UNCLEAR * deviation)
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for length in range(1, grid.n):
        within = sums[length:] - sums[:-length]
        first = int(np.argmax(within))
        if n - within[first] <= most:
            return grid.end(first), grid.end(first + length)
    return grid.lower, grid.upper


def _run(excess: FloatArray) -> tuple[float, int, int]:
    """Return the greatest sum of neighbouring entries, and the first and the last of them."""
    best, start, total = (-math.inf, 0, 0), 0, 0.0
    for k, value in enumerate(excess.tolist()):
        if total <= 0:
            start, total = k, 0.0
        total += value
        best = max(best, (total, start, k))
    return best


_PUBLIC = "declared bounds, levels and limits and all parameters were chosen without the data"
_SEEDED = "the noise came from random_state and not from the operating system"
LIMIT = 1e6
TARGET = "target"


@dataclass(frozen=True, eq=False)
class Data:
    """What is read of a table of n records or persons; n may be private.

    A share is that of a row in its record or person, in parts of `WHOLE`. Of the columns that are
    estimated there are the numbers, the target last, with NaN for missing ones, and how many
    records or persons have each string.
    """

    n: int
    shares: IntArray
    numbers: list[FloatArray]
    strings: list[Counter[str]]


@dataclass(frozen=True, eq=False)
class Request:
    """Declared columns, and those to be estimated; public information only.

    In the place of a declaration, that of the target included, "bounds" or "levels" is to be
    estimated. There is a limit for each column, and one for the target.
    """

    names: tuple[str, ...] | None
    columns: tuple[object, ...]
    target: object
    other: dict[str, object]
    missing: object
    limits: tuple[float, ...]

    @classmethod
    def of(
        cls,
        X: Frame,
        columns: Mapping[str, object] | None,
        target: object,
        other: Mapping[str, object] | None,
        missing: object,
        limit: object,
    ) -> Request:
        """Return the request for a table; raise an error if a declaration is not valid."""
        if columns is None:
            names = tuple(X.columns) if hasattr(X, "columns") else None
            kinds: tuple[object, ...] = ("bounds",) * X.shape[1]
        elif isinstance(columns, Mapping) and columns:
            names = tuple(columns)
            kinds = tuple("bounds" if own is None else own for own in columns.values())
            for own in kinds:
                if isinstance(own, str) and own not in ("bounds", "levels"):
                    words = 'be a tuple of bounds, a list of levels, "bounds" or "levels"'
                    raise fail("a column", words, own)
        else:
            remedy = 'Write columns={"age": (17, 90), "income": "bounds"}.'
            raise fail("columns", "be a dict with at least one column, or None", columns, remedy)
        limits = _limits(limit, names, len(kinds))
        found = cls(names, kinds, target, dict(other or {}), missing, limits)
        for name in found.other:
            if name in map(found._key, found.places("levels")):
                raise fail("other", "name only columns with declared levels", name)
        for place in found.places("bounds"):
            # A number in place of missing ones may be out of the bounds.
            rule, name, key = missing, "missing", found._key(place)
            if isinstance(rule, Mapping):
                rule, name = rule.get(key), f"missing[{key!r}]"
            if not (rule is None or _is(rule, "indicator") or _is(rule, "middle")):
                words = 'be "indicator" or "middle" for a column of estimated bounds'
                raise fail(name, words, rule, "Or declare the bounds.")
        found.domain([(-1.0, 1.0)] * len(found.counted), [[NOTHING]] * len(found.places("levels")))
        return found

    def places(self, what: str) -> list[int]:
        """Return the positions of the columns whose bounds, or levels, are estimated."""
        return [k for k, column in enumerate(self.columns) if _is(column, what)]

    @property
    def counted(self) -> list[int]:
        """Positions of the columns of numbers that are estimated; -1 is the target, the last."""
        return self.places("bounds") + [-1] * self.has_target

    @property
    def has_target(self) -> bool:
        return _is(self.target, "bounds")

    def domain(self, bounds: list[tuple[float, float]], levels: list[list[str]]) -> Domain:
        """Return the domain with estimates in the order of `counted` and of `places`."""
        target = bounds[-1] if self.has_target else self.target
        columns = list(self.columns)
        for place, pair in zip(self.places("bounds"), bounds, strict=False):
            columns[place] = pair
        if self.names is None:
            lower, upper = zip(*columns, strict=True)
            return Domain.box(lower, upper, target, missing=self.missing)
        for place in self.places("levels"):
            columns[place] = [NOTHING]
        kept = dict(zip(self.names, columns, strict=True))
        for place, found in zip(self.places("levels"), levels, strict=True):
            name = self.names[place]
            taken = set(Domain(kept, missing=self.missing).encoded_names())
            first, *others = found
            kept[name] = [first, *(level for level in others if f"{name}_{level}" not in taken)]
        return Domain(kept, target, self.other, self.missing)

    def is_ruled(self, place: int) -> bool:
        """Return whether a column has a rule for missing cells; the target has none."""
        if place < 0 or self.missing is None:
            return False
        if isinstance(self.missing, Mapping):
            return self._key(place) in self.missing
        return not _is(self.columns[place], "levels") or _is(self.missing, "indicator")

    def read(self, X: Frame, y: object, groups: object) -> Data:
        """Return what is read of a table and of a target. Errors in the data are raised here."""
        table: Any = as_table(X, self.names, len(self.columns))
        n = n_rows = len(X)
        shares: IntArray = np.full(n, WHOLE)
        persons: Sequence[int] | None = None
        if groups is not None:
            groups = as_column(groups, "groups")
            known = Persons.of_table(groups, n_rows)
            shares = Shares(known, 1).members(groups).shares
            n, persons = len(known), known.codes(groups).tolist()
        numbers = [self._number(table, place, n_rows) for place in self.places("bounds")]
        if self.has_target:
            if y is None:
                remedy = "Or declare target=(lower, upper)."
                raise fail("y", 'be given if target="bounds"', None, remedy)
            numbers.append(read_target(y, "the target"))
            if len(numbers[-1]) != n_rows:
                raise fail("y", "have as many entries as X has rows")
        strings = [self._strings(X, place, persons) for place in self.places("levels")]
        return Data(n, shares, numbers, strings)

    def _key(self, place: int) -> Hashable:
        return place if self.names is None else self.names[place]

    def _label(self, place: int) -> str:
        return f"column {self._key(place)!r}"

    def _number(self, table: RawTable, place: int, n: int) -> FloatArray:
        out, column = np.empty((n, 1)), slice(place, place + 1)
        ruled = np.array([True]) if self.is_ruled(place) else None
        try:
            read_numbers(table, slice(0, n), column, out, self._label, ruled)
            return out[:, 0]
        except NotNumbers as found:
            error = found  # raised again below, without a context
        # Remedies follow from the type of the column alone.
        kind, key = kind_of_dtype(table.dtype(place)), self._key(place)
        remedies = [str(error)]
        if kind in (None, "strings"):
            every: dict[str, object] = {"name": "levels"}
            if self.names is not None:  # all columns, where none were named
                every = dict(zip(self.names, self.columns, strict=True)) | {str(key): "levels"}
            wanted = f"columns={every}"
            remedies += [f"If it holds strings, declare levels, or give {wanted} with delta > 0."]
        if kind in (None, "numbers") and not self.is_ruled(place):
            remedies += [f'For missing cells give missing={{{key!r}: "indicator"}} or "middle".']
        raise NotNumbers(" ".join(remedies))

    def _strings(self, X: Frame, place: int, persons: Sequence[int] | None) -> Counter[str]:
        """Return the number of records or persons with each string; other cells are no levels."""
        own = X.loc[:, self.names[place]] if hasattr(X, "columns") else X[:, place]  # type: ignore[index]
        # Under a rule an empty text is missing, and "missing" is the name of this level.
        cells, omitted = own.tolist(), ("", "missing") if self.is_ruled(place) else ()
        kept = [type(cell) in (str, np.str_) and cell not in omitted for cell in cells]
        texts = map(str, compress(cells, kept))
        if persons is None:
            return Counter(texts)
        # Of each person the string that it has most often, and of several the last in order.
        best: dict[int, tuple[int, str]] = {}
        pairs = zip(compress(persons, kept), texts, strict=True)
        for (person, cell), times in Counter(pairs).items():
            best[person] = max(best.get(person, (0, "")), (times, cell))
        return Counter(cell for _, cell in best.values())


def _is(value: object, what: str) -> bool:
    return isinstance(value, str) and value == what


def _limits(limit: object, names: tuple[str, ...] | None, n: int) -> tuple[float, ...]:
    if not isinstance(limit, Mapping):
        return (check_interval("limit", limit, 1e-100, 1e100),) * (n + 1)
    found = dict.fromkeys([*(names or ()), TARGET], LIMIT)
    for key, value in limit.items():
        if key not in found:
            raise fail("limit", f"have keys among {list(found)}", key)
        found[key] = check_interval(f"limit[{key!r}]", value, 1e-100, 1e100)
    columns = (LIMIT,) * n if names is None else tuple(found[name] for name in names)
    return (*columns, found[TARGET])


@dataclass(frozen=True)
class BoundsPlan:
    """Noise for the counts of numbers and of strings of a request; None where there are none.

    If ``is_counted``, the number of all records or persons is private.
    """

    request: Request
    numbers: CountNoise | None
    strings: LevelCounts | None
    is_counted: bool

    @classmethod
    def of(cls, request: Request, epsilon: float, delta: float, neighbors: str) -> BoundsPlan:
        """Return the plan; the budget is divided by the numbers of columns."""
        counted, levels = request.counted, len(request.places("levels"))
        if levels and delta == 0:
            names = [request._key(place) for place in request.places("levels")]
            remedy = f"Pass delta > 0, such as 1e-6, or list the levels of {names}."
            raise fail("delta", 'be > 0 for columns of "levels"', delta, remedy)
        weights = (1,) * len(counted)
        if request.has_target:  # it counts for several of d columns, sqrt(d)
            weights = (*weights[1:], max(1, round(math.sqrt(len(counted) - 1))))
        share = levels / (levels + sum(weights)) if levels else 0.0
        spent = epsilon * share
        halved = delta / 2 if counted and levels else delta
        numbers = CountNoise(epsilon - spent, halved, neighbors, weights) if counted else None
        strings = LevelCounts(spent, delta - halved or delta, neighbors, levels) if levels else None
        plan = cls(request, numbers, strings, neighbors == "add_remove")
        for release in plan.releases:
            _ = release.publication  # an error if 53-bit floats cannot keep the guarantee
        return plan

    @property
    def releases(self) -> tuple[Release, ...]:
        """The counts of numbers, and the levels."""
        numbers = self.numbers.releases((Magnitudes(1.0).n, MOST)) if self.numbers else ()
        return numbers if self.strings is None else (*numbers, self.strings)

    def guarantee(self, public: Public) -> Guarantee | None:
        """Return the guarantee of all releases together, or None if there are none."""
        if not self.releases:
            return None
        words, columns = [], len(self.request.counted)
        if self.numbers is not None:
            law = "Gaussian" if self.numbers.is_gaussian else "Laplace"
            words.append(f"bounds of {columns} columns from counts with {law} noise")
        if self.strings is not None:
            words.append(self.strings.description)
        return guarantee_of(self.releases, public, " and ".join(words))

    def release(
        self, data: Data, rng: Generator
    ) -> tuple[list[tuple[float, float]], list[list[str]]]:
        """Draw noise and return the bounds and the levels."""
        bounds = [] if self.numbers is None else self._bounds(self.numbers, data, rng)
        levels = [] if self.strings is None else self.strings.release(data.strings, rng)
        return bounds, levels

    def _bounds(self, noise: CountNoise, data: Data, rng: Generator) -> list[tuple[float, float]]:
        limits = [Magnitudes(self.request.limits[k]) for k in self.request.counted]
        noisy, deviations = noise.release(0, _table(limits, data), rng)
        outer = list(map(outer_bounds, noisy, deviations, limits))
        sizes = self._sizes(data.n, [list(noisy), deviations, limits, outer])
        cells = step_count(max(sizes), noise.deviation(1))
        steps = [Steps(lower, upper, cells) for lower, upper in outer]
        noisy, deviations = noise.release(1, _table(steps, data), rng)
        outside = [OUTSIDE if k >= 0 else OUTSIDE_TARGET for k in self.request.counted]
        return list(map(inner_bounds, noisy, deviations, steps, sizes, outside))

    def _sizes(self, n: int, found: Sequence[Sequence[Any]]) -> list[float]:
        """Return for each column how many records or persons have a number, or an estimate.

        Columns without a rule for missing cells have as many, which is public or estimated from all
        of them. With a rule the number of the other cells is private, and estimated one by one.
        Under replace-one none has more than ``n``.
        """
        ruled = list(map(self.request.is_ruled, self.request.counted))
        sizes = [float(n)] * len(ruled)
        alone = [[k] for k, own in enumerate(ruled) if own]
        full = [k for k, own in enumerate(ruled) if not own]
        for places in [*alone, full] if self.is_counted and full else alone:
            own = record_count(*([facts[k] for k in places] for facts in found))
            for k in places:
                sizes[k] = own if self.is_counted else min(own, n)
        return sizes


def _table(grids: Sequence[Magnitudes | Steps], data: Data) -> IntArray:
    columns = zip(grids, data.numbers, strict=True)
    return np.array([counts(grid, own, data.shares) for grid, own in columns])


def estimate_domain(
    X: Frame,
    y: object = None,
    columns: Mapping[str, object] | None = None,
    *,
    target: object = None,
    other: Mapping[str, object] | None = None,
    missing: object = None,
    groups: object = None,
    limit: float | Mapping[str, float] = 1e6,
    epsilon: float | None = None,
    delta: float = 0.0,
    neighbors: str = "replace_one",
    random_state: RandomStateLike = None,
    ledger: Ledger | None = None,
) -> Domain:
    """Return a domain whose unknown bounds are estimated with a part of the privacy budget.

    Use it for columns whose order of magnitude is not known. Declared bounds cost nothing and are
    more accurate: see ``docs/privacy/choosing_bounds.md``. Statements and proofs:
    ``docs/proofs/estimated_bounds.md``.

    Parameters
    ----------
    X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_columns)
        A table in memory.
    y : array-like of shape (n,), default=None
        Target. It is read only if ``target="bounds"``.
    columns : dict of str to tuple, list, "bounds" or "levels", default=None
        As in `Domain`, a tuple of bounds or a list of levels for each column, in order. They are
        kept as they are. "bounds" or None asks for estimated bounds of a column of numbers, and
        "levels" for the frequent strings of a column of strings. Without ``columns``, all are
        estimated: "levels" of columns whose type is a string, and "bounds" of the others.
    target : tuple, list, "bounds" or None, default=None
        Bounds or labels as in `Domain`, or "bounds" for estimated bounds of ``y``.
    other : dict of str to level, default=None
        As in `Domain`, for declared levels.
    missing : "indicator", "middle", float, or dict of str or int to these, default=None
        Rule for missing cells, as in `Domain`: of all columns, or by name, or by position where
        columns have no names. Numbers are for declared bounds only. Missing cells are not counted.
        Without a rule a missing number is an error.
    groups : array-like of shape (n,) or str, default=None
        The person of each row, as hashable identifiers or as the name of a column of ``X``. Then
        the guarantee protects persons, with all their rows. Each person has the same weight.
    limit : float in [1e-100, 1e100] or dict of str to float, default=1e6
        Greatest absolute value that is told apart from greater ones, in the units of each column.
        The key "target" stands for the target; columns that a dict lacks have 1e6. Absolute
        values below about 1e-12 of it count as zero.
    epsilon : float in [1e-12, 1e12]
        Budget of all estimates together. It is not a part of the epsilon of an estimator.
    delta : float in [0, 1), default=0
        With delta > 0 Gaussian noise is used for bounds if its variance is less. "levels" need
        delta > 0.
    neighbors, random_state, ledger
        As in `DPLogisticRegression`.

    Returns
    -------
    Domain
        Its attribute ``estimated`` is the guarantee of the estimates. It is None, and nothing
        is spent, if there was nothing to estimate.

    Raises
    ------
    BudgetExceeded
        If the budget does not fit the ledger. Then no noise was drawn and nothing was spent.
    ValueError
        If parameters, columns or the target are not valid. A note on each error says whether the
        budget was spent. No message contains a value of the table.

    Notes
    -----
    Bounds are chosen to be useful and do not hold for all records: about one record in a hundred
    is clipped on each side, more in columns with heavy tails, or if records are few. Where counts
    are hidden by noise, bounds are arbitrary: estimate few columns, or spend more. The target has
    a greater weight than a column.

    A person with m rows counts as 1/m in each of them, so that the noise is that of records. For
    "levels" a person counts once, for the string of most of its rows: strings that no person has
    most often are not found.

    Unlisted strings of a column are read as its most frequent level. The level "other" stands
    alone if no string is frequent enough. With a rule for missing cells, empty strings and
    "missing" are no levels.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import estimate_domain
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(1990, 2021, 20_000), rng.exponential(2e-3, 20_000)])
    >>> estimate_domain(X, epsilon=0.2, random_state=0)  # use no seed: it voids the guarantee
    Domain.box([1984.0, 0.0], [2032.0, 0.008056640625]), estimated with epsilon = 0.2, delta = 0
    """
    with np.errstate(all="ignore"), spent_note() as spent:
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        check_choice("neighbors", neighbors, tuple(NEIGHBORS))
        check_ledger("ledger", ledger, getattr(X := in_memory(X), "columns", None))
        if isinstance(groups, str):
            X, groups = without_column(X, "groups", groups, "Pass an array of identifiers.")
        if X.shape[1] == 0 or (len(X) == 0 and neighbors != "add_remove"):
            raise fail("X", "have records and columns")
        if columns is None and hasattr(X, "columns"):
            texts = {name for name, own in X.dtypes.items() if kind_of_dtype(own) == "strings"}
            columns = {name: "levels" if name in texts else "bounds" for name in X.columns}
        remedy = "Smaller is more private; 0.2 is common for bounds."
        if epsilon is None:
            remedy = f"Write estimate_domain(X, columns={columns}, epsilon=0.2, delta=1e-6)."
        epsilon = check_epsilon(epsilon, remedy)
        request = Request.of(X, columns, target, other, missing, limit)
        plan = BoundsPlan.of(request, epsilon, delta, neighbors)
        unit = "row" if groups is None else "person"
        seeded = () if is_cryptographic(random_state) else (_SEEDED,)
        sentences = (_PUBLIC, RECORDS[unit], UNSEEN), seeded
        guarantee = plan.guarantee(Public(epsilon, delta, neighbors, unit, False, *sentences))
        data = request.read(X, y, groups)
        if guarantee is None:
            return request.domain([], [])
        rng = as_generator(random_state)
        if ledger is not None:
            ledger.spend(guarantee, note="estimate_domain")
        spent.append(guarantee)
        found = request.domain(*plan.release(data, rng))
        return Domain._build(*found._key(), guarantee)
