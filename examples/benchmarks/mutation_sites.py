"""Where a mutation can change a bound, a scale or a sign, and what it is changed to."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDERS = ("mechanisms", "privacy", "linear_model", "model_selection")

# Modules in which nothing is a promise, and why.
EXCLUDED = {
    "mechanisms/independent/_sketch.py": "a rough look, whose results are certified by others",
    "mechanisms/law_map.py": "a table for readers, which calibrates nothing itself",
    "privacy/guarantee/_card.py": "display",
    "privacy/composition/plan.py": "what it leaves out is counted where it is left out",
    "linear_model/_descent/rules.py": "rules: accuracy, not privacy",
    "linear_model/_objective/families.py": "what the rules compare: accuracy, not privacy",
    "linear_model/_moments/rules.py": "rules: accuracy, not privacy",
    "linear_model/_moments/postprocess.py": "works on what is released, with rules",
    "linear_model/_shared/progress.py": "display",
    "linear_model/_objective/rules.py": "rules: accuracy, not privacy",
    "linear_model/_objective/solve.py": "a search; how flat its end is, the certificate proves",
    "linear_model/_objective/task.py": "what the rules take for granted",
    "model_selection/curve.py": "scores of public or private data for the user: no promise",
}
# Functions, classes and constants of other modules that are excluded, and why. Shares of a budget
# that is spent, OUTPUT_SHARE and those of the ledger, are not: other parts rely on the rest.
NAMES = {
    "display": r"__repr__|__str__|_repr_html_|summary",
    "rules of accuracy": r"more|_within|_greedy_steps|_reach|row_lengths|AVERAGED"
    r"|averaged|known|strength|information|passes|USUAL_\w+|PURE_\w+|PASSES\w*|STEPS_RANGE|STEEP"
    r"|(?!OUTPUT_|_)\w*SHARE\w*|SCARCE|MOST_PRECISE|\w*REACH\w*|\w*_PRECISION|LEAST_\w+|MOST_\w+|SMALL|POWER|MANY"
    r"|GREATEST|LEAST|PUT_BACK|FEW|CENTRE|CAUTION|FIRST_NOISE|NOISE_IN_SCALE|\w*GRID|CANDIDATES"
    r"|_VARIANCE|_EXPONENTS|_PROBED|TIE|_COARSE|APART_Q|_DEARER|_ASIDE|usual_square",
    "how long or how finely is searched, from a safe end": r"_share|_wider|_straddle|last_passing"
    r"|_TOLERANCE|TOLERANCE|COARSE|_GOLDEN|_STEPS|_HALVINGS|_POINTS|_PIECES|_CORNERS|_CELLS|CELLS"
    r"|_SEARCHED|_TRIES|_DEEP|FOLD|BLOCK\w*|_CHUNK|_SHRINK|_BESIDE|_STEP|_SKETCH|_WIDE|_NEAR",
}
_NAMED = re.compile("|".join(NAMES.values()))
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


def drawn(package: Path, count: int, rng: np.random.Generator) -> list[Mutation]:
    """Return mutations on lines spread evenly over all modules, at most one on a line."""
    by_line: dict[str, list[Mutation]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((package / folder).glob("*.py")):
            module = path.relative_to(package).as_posix()
            if module not in EXCLUDED:
                for mutation in Sites(package, module).all():
                    by_line[mutation.at].append(mutation)
    lines = list(by_line.values())
    count = min(count, len(lines))
    places = ((np.arange(count) + rng.random(count)) * len(lines) / count).astype(int)
    return [lines[k][rng.integers(len(lines[k]))] for k in dict.fromkeys(places.tolist())]


class Sites:
    """All the mutations of one module."""

    def __init__(self, package: Path, module: str) -> None:
        self.package, self.module = package, module
        self.source = (package / module).read_bytes()
        rows = self.source.splitlines(keepends=True)
        self.starts = np.cumsum([0, *map(len, rows)])
        self.rows = [row.decode().strip() for row in rows]

    def all(self) -> Iterator[Mutation]:
        """Look through the module."""
        for statement in ast.parse(self.source).body:
            yield from self._of_statement(statement, None)

    def _of_statement(self, statement: ast.stmt, inside: str | None) -> Iterator[Mutation]:
        named = [getattr(statement, "name", "")]
        if isinstance(statement, ast.Assign) and inside is None:
            named += [
                n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)
            ]
        if any(map(_NAMED.fullmatch, named)) or isinstance(statement, ast.Raise | ast.Assert):
            return
        if isinstance(statement, ast.FunctionDef):
            inside = statement.name
        places = self._places(statement, named if inside is None else [])
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
        paths = [self.package / self.module] if private else self.package.glob("*/*.py")
        for path in paths:
            for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if word.search(row) and not row.startswith(("from", "import", name)):
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
