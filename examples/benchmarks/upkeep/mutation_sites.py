"""Where a mutation can change a bound, a scale or a sign, and what it is changed to."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

# Folders and modules of the package.
FOLDERS = ("trusted", "noise", "geometry", "domain", "mechanisms", "privacy", "rows", "bounds")
FOLDERS += ("linear_model", "model_selection", "testing")
# The name of all modules with the mark "Trusted" beside the folder ``trusted``.
MARKED = "marked"

# Modules on which no guarantee depends, and why.
EXCLUDED = {
    "linear_model/_moments/solve.py": "works on what is released, with rules",
    "linear_model/_objective/advice.py": "rules: accuracy, not privacy",
    "linear_model/_objective/solve.py": "a search; the certificate bounds the end",
    "model_selection/curve.py": "scores for the user, which no guarantee covers",
}
# Functions, classes and constants of other modules that are excluded, by their names. They are
# rules of accuracy, or say how long or how finely is searched from a safe end. Shares of a budget
# are not excluded: other parts rely on the rest.
NAMES = {
    "linear_model/_descent/advice.py": "USUAL_INFORMATION PASSES PASSES_POWER PASSES_RANGE"
    " STEPS_RANGE PURE_PASSES PURE_POWER PURE_RANGE PURE_STAGE_SHARE STAGE_SHARE"
    " MOST_STAGE_NOISE STEEP SCARCE SHARE_OF_SQUARE LABEL_PRECISION INTERCEPT_PRECISION"
    " LEVEL_PRECISION MOST_PRECISE MOST_RADIUS AVERAGED averaged strength usual_passes more"
    " row_lengths _radius usual_square",
    "linear_model/_descent/solve.py": "USUAL_TARGET CAUTION SKIPPED joint_kind curvatures"
    " _mean_weight penalties roughness residual_bound",
    "linear_model/_moments/advice.py": "SIGNAL SIGNAL_AT LEAST_SIGNAL MOST_SIGNAL CENTRE UNUSED"
    " MOST_NOISE LEAST_NOISE MUCH_WORK WORTH_WORK USUAL_STRENGTH plan_moments strength importance"
    " feature_noise named_noise GOOD_NOISE SCALED_SIGNAL SCALED_AT"
    " NOISES MOST_CROSS_NOISE RADIUS ROW_RADIUS TARGET_RADIUS RADIUS_FROM RADIUS_POWER"
    " _radii cross_noise",
    "linear_model/_objective/solve.py": "LEAST_RIDGE APART_Q MOST_NOISE MOST_POOLED MAINLY"
    " TARGET_SHARE TARGET_NOISE TARGET_ALONE FARTHER",
    "linear_model/_objective/profiles.py": "rough_shifts _rough_splits _rough_removed _ROUGH _CELLS"
    " _EACH _LEVELS _SEARCHED",
    "linear_model/_shared/task.py": "n_assumed Progress",
    "linear_model/_objective/problem.py": "noise hessian _chooser MOST_CORE MOST_JOINT"
    " curvature_sums pairs_of assembled _assembled _core_columns _centred"
    " _core _gram",
    "linear_model/_shared/scaling.py": "LEAST_SHARE MOST_SHARE GOOD_NOISE usual_share SpreadRule"
    " Scaler",
    "linear_model/_moments/theorem.py": "RowScaler",
    "linear_model/huber.py": "SMALL POWER MANY MANY_POWER GREATEST LEAST",
    "mechanisms/calibrate.py": "TIE _error",
    "mechanisms/ellipsoid.py": "TOLERANCE COARSE MOST_ROUNDS _SHRINK _BESIDE _STEP",
    "mechanisms/independent.py": "SHARE _EXPONENTS _SHARP _COARSE"
    " _COARSE_GAP _GRID _FINE_GRID law_of _lowest",
    "mechanisms/statistics.py": "MOST_CHOICES MOST_LIFTED MOST_CORNERS",
    "trusted/composition.py": "_ROUGH_CELLS _MOST_CELLS _MOST_WINDOW _CHEAP _FAR _LEAST _SPARE _GAP"
    " _LONGEST_STEP _STEEPEST GridPlan plan _width _extent _log_bound _tilt _cells ends_on"
    " _log_share _share_of_each _lowered _rough _step _lattice _aligned",
    "trusted/fold.py": "_DEEP _TRIES",
    "privacy/guarantee.py": "_INDENT _DELTAS to_html _rows _profile_row _meaning"
    " _equivalent_rows _near _digits",
    "privacy/profile.py": "_PIECES _CORNERS",
    "privacy/ledger_rules.py": "_ASIDE _DEARER",
    "privacy/ledger_file.py": "_POINTS",
    "trusted/radial.py": "_POINTS MOST_SHIFT _CHUNK",
    "noise/independent.py": "MOST_SIZES MOST_GROUPS of_equal_sizes",
    "rows/memory.py": "CELLS _AHEAD",
    "rows/cluster.py": "_FAN_IN",
    "rows/tables.py": "MOST_KEPT BATCH_ROWS BATCH_CELLS",
}
_DISPLAY = {"__repr__", "__str__", "_repr_html_"}
# Calls in which numbers are shapes, messages or settings.
_PLAIN_CALLS = {
    *("fail", "check_positive", "check_interval", "check_count", "check_choice", "warn"),
    *("range", "reshape", "zeros", "ones", "empty", "full", "eye", "arange", "roots_legendre"),
    *("errstate", "getattr", "isinstance", "round", "field"),
}
# Five percent of less is nothing, and more stands for "far".
_SLACK, _FAR = 1e-6, 1e6
_OPERATORS: dict[type, tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}
_COMPARISONS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", ">"),
    ast.Gt: (">", "<"),
    ast.LtE: ("<=", ">="),
    ast.GtE: (">=", "<="),
}
_CALLS = {"max": "min", "min": "max", "ceil": "floor", "floor": "ceil"}
_CALLS |= {"maximum": "minimum", "minimum": "maximum", "sqrt": ""}


@dataclass(frozen=True)
class Mutation:
    """A change of a few bytes of a module, and the places whose tests are to notice it.

    ``places`` are (module, first line, last line) in the map of tests.
    """

    module: str
    line: int
    start: int
    stop: int
    old: str
    new: str
    text: str
    places: tuple[tuple[str, int, int], ...]

    @property
    def at(self) -> str:
        """Module and line."""
        return f"{self.module}:{self.line}"

    @property
    def key(self) -> str:
        """What results are kept under."""
        return f"{self.module}:{self.start}:{self.old}:{self.new}"

    def applied(self, source: bytes) -> bytes:
        """Return the changed module."""
        return source[: self.start] + self.new.encode() + source[self.stop :]


def drawn(
    package: Path, count: int, rng: np.random.Generator, places: Sequence[str] = FOLDERS
) -> list[Mutation]:
    """Return mutations on lines spread evenly over all modules, at most one on a line."""
    by_line: dict[str, list[Mutation]] = defaultdict(list)
    for folder in places:
        place = package / folder
        found = [place] if place.is_file() else sorted(place.rglob("*.py"))
        for path in marked(package) if folder == MARKED else found:
            module = path.relative_to(package).as_posix()
            if module not in EXCLUDED:
                for mutation in Sites(package, module).all():
                    by_line[mutation.at].append(mutation)
    lines = list(by_line.values())
    count = min(count, len(lines))
    chosen = ((np.arange(count) + rng.random(count)) * len(lines) / count).astype(int)
    return [lines[k][rng.integers(len(lines[k]))] for k in dict.fromkeys(chosen.tolist())]


def marked(package: Path) -> list[Path]:
    """Return the modules that begin with the mark."""
    modules = sorted(package.rglob("*.py"))
    return [path for path in modules if _text(path).lstrip("r").startswith('"""Trusted. ')]


class Sites:
    """All the mutations of one module."""

    def __init__(self, package: Path, module: str) -> None:
        self.package, self.module = package, module
        self.source = (package / module).read_bytes()
        rows = self.source.splitlines(keepends=True)
        self.starts = np.cumsum([0, *map(len, rows)])
        self.rows = [row.decode().strip() for row in rows]
        self.excluded = _DISPLAY | set(NAMES.get(module, "").split())

    def all(self) -> Iterator[Mutation]:
        """Look through the module."""
        for statement in ast.parse(self.source).body:
            yield from self._of_statement(statement, None)

    def _of_statement(self, statement: ast.stmt, inside: str | None) -> Iterator[Mutation]:
        named = defined(statement) if inside is None else [getattr(statement, "name", "")]
        if self.excluded & set(named) or isinstance(statement, ast.Raise | ast.Assert):
            return
        if isinstance(statement, ast.FunctionDef):
            inside = statement.name
        # A field of a class is used in too many lines.
        is_used = inside is None and not isinstance(statement, ast.AnnAssign)
        places = self._places(statement, named if is_used else [])
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                yield from self._of_statement(child, inside)
            elif isinstance(child, ast.expr) and not isinstance(statement, ast.FunctionDef):
                yield from self._of_expression(child, statement, places)

    def _places(self, statement: ast.stmt, names: list[str]) -> tuple[tuple[str, int, int], ...]:
        """Return the lines of a statement; for one at the top those that use what it names."""
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if isinstance(body, list) else statement.end_lineno
        own = (self.module, statement.lineno, max(last or 0, statement.lineno))
        return (own, *(place for name in names if name for place in self._uses(name)))

    def _uses(self, name: str) -> Iterator[tuple[str, int, int]]:
        word = re.compile(rf"\b{name}\b")
        private = name.startswith("_")
        paths = [self.package / self.module] if private else _modules(self.package)
        for path in paths:
            text = _text(path)
            for number, row in enumerate(text.splitlines(), 1) if name in text else ():
                if (
                    name in row
                    and word.search(row)
                    and not row.startswith(("from", "import", name))
                ):
                    yield path.relative_to(self.package).as_posix(), number, number

    def _of_expression(
        self, node: ast.expr, parent: ast.AST, places: tuple[tuple[str, int, int], ...]
    ) -> Iterator[Mutation]:
        if isinstance(node, ast.JoinedStr) or _called(node) in _PLAIN_CALLS:
            return
        for start, stop, new in self._changes(node, parent):
            line = int(np.searchsorted(self.starts, start, side="right"))
            old, text = self.source[start:stop].decode(), self.rows[line - 1]
            yield Mutation(self.module, line, start, stop, old, new, text, places)
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.Subscript) and child is node.slice:
                continue  # an index
            if isinstance(child, ast.expr):
                yield from self._of_expression(child, node, places)

    def _changes(self, node: ast.expr, parent: ast.AST) -> Iterator[tuple[int, int, str]]:
        start, stop = self._span(node)
        if isinstance(node, ast.Constant):
            yield from ((start, stop, new) for new in _numbers(node.value, parent))
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            if not any(
                isinstance(n, ast.Constant | ast.JoinedStr) and not _is_number(n)
                for n in (node.left, node.right)
            ):
                yield self._between(node.left, node.right, *_OPERATORS[type(node.op)])
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            if isinstance(parent, ast.IfExp) or _called(parent) == "where":
                signs = _COMPARISONS[type(node.ops[0])]
                yield self._between(node.left, node.comparators[0], *signs)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield start, start + 1, ""
        elif isinstance(node, ast.Call) and _called(node) in _CALLS:
            name, stop = _called(node), self._span(node.func)[1]
            if name != "sqrt":
                yield stop - len(name), stop, _CALLS[name]
            elif len(node.args) == 1 and not node.keywords:
                yield start, stop, ""

    def _span(self, node: ast.expr) -> tuple[int, int]:
        """Return where a node begins and ends in the bytes of the module."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        end = node.end_col_offset or 0
        return int(self.starts[first]) + node.col_offset, int(self.starts[last]) + end

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> tuple[int, int, str]:
        after, before = self._span(left)[1], self._span(right)[0]
        start = self.source.index(old.encode(), after, before)
        return start, start + len(old), new


@cache
def _modules(package: Path) -> list[Path]:
    return list(package.rglob("*.py"))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def defined(statement: ast.stmt) -> list[str]:
    """Return the names that a statement defines: of a function, a class or variables."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return [getattr(statement, "name", ""), *names]


def _numbers(value: object, parent: ast.AST) -> list[str]:
    """Return what a number may be changed to."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return []
    settled = isinstance(parent, ast.BinOp | ast.Return | ast.IfExp) or _called(parent) in _CALLS
    if not _SLACK < abs(value) < _FAR or (isinstance(value, int) and not settled):
        return []
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.FloorDiv | ast.Mod | ast.Pow):
        return ["1"] if value == 2 else []
    return [f"{1.05 * value:.6g}", f"{0.95 * value:.6g}", *(["1"] if value == 2 else [])]


def _called(node: ast.AST) -> str:
    """Return the last name of what is called, or nothing."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
