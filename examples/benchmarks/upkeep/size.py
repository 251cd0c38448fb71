"""How large the package is, and how much of it one fit executes.

    python -m examples.benchmarks.upkeep.size

The first table has lines, files, lines with `Any` and class names that occur twice. Stubs list the
names of packages, and are counted apart. The second one
has, for a small fit of each estimator, the files of the package in which a function runs, the
classes of which a method runs, the functions, and the lines of these functions. Imports and
earlier fits are not counted. Needs no data files.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import skdp
from examples.benchmarks.shared import report
from skdp import Domain

PACKAGE = Path(skdp.__file__).parent
ROOT = Path(__file__).parents[3]
ESTIMATORS = (
    "DPLogisticRegression",
    "DPHuberRegressor",
    "DPLinearRegression",
    "DPCoordinateDescentClassifier",
    "DPCoordinateDescentRegressor",
)


def sizes() -> dict[str, int]:
    """Return what the first table has."""
    package, tests = (sorted((ROOT / name).rglob("*.py")) for name in ("skdp", "tests"))
    texts = {path: path.read_text(encoding="utf-8") for path in (*package, *tests)}
    stubs = sorted((ROOT / "skdp").rglob("*.pyi"))
    trees = [ast.parse(texts[path]) for path in package]
    return {
        "lines of skdp": sum(texts[path].count("\n") for path in package),
        "lines of stubs": sum(path.read_text(encoding="utf-8").count("\n") for path in stubs),
        "files of skdp": len(package),
        "lines of tests": sum(texts[path].count("\n") for path in tests),
        "lines with Any": sum(len(re.findall(r"(?m)^.*\bAny\b.*$", texts[p])) for p in package),
        "lines of imports": sum(map(import_lines, trees)),
        "class names that occur twice": len(names_twice(trees)),
    }


def import_lines(tree: ast.Module) -> int:
    """Return the lines of all imports of a module."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or 0) - node.lineno + 1 for node in nodes)


def names_twice(trees: list[ast.Module]) -> list[str]:
    """Return the names of classes that are defined at several places."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def executed(call: Callable[[], Any]) -> dict[str, int]:
    """Return the files, classes, functions and lines of the package that a call executes."""
    codes: set[CodeType] = set()

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            codes.add(frame.f_code)

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    whole = [code for code in codes if code.co_name != "<module>"]
    named = [code for code in whole if not code.co_name.startswith("<")]
    inner = re.compile(r"\.<locals>\..*")
    classes = {
        (code.co_filename, inner.sub("", code.co_qualname).rpartition(".")[0])
        for code in named
        if "." in inner.sub("", code.co_qualname)
    }
    lines = {
        (code.co_filename, line)
        for code in named
        for line in range(code.co_firstlineno, max(n or 0 for *_, n in code.co_lines()) + 1)
    }
    return {
        "files": len({code.co_filename for code in whole}),
        "classes": len(classes),
        "functions": len(named),
        "lines of functions": len(lines),
    }


def fit_of(name: str) -> Callable[[], Any]:
    """Return a small fit with default parameters, a delta for coordinate descent."""
    is_classifier = name in ("DPLogisticRegression", "DPCoordinateDescentClassifier")
    columns = {"age": (17, 90), "hours": (0, 80), "job": ["clerk", "craft", "sales"]}
    domain = Domain(columns, target=["no", "yes"] if is_classifier else (0.0, 1.0))
    X = domain.sample(500, random_state=0)
    score = X["age"] / 90 + np.random.default_rng(0).random(500)
    y = np.where(score > 1.1, "yes", "no") if is_classifier else np.clip(score / 2, 0, 1)
    options = {"delta": 1e-6} if name.startswith("DPCoordinate") else {}
    model = getattr(skdp, name)(domain=domain, **options)
    return lambda: model.fit(X, y)


def fits() -> list[report.Row]:
    """Return a row for each estimator."""
    for name in ESTIMATORS:  # what runs once only, such as imports
        fit_of(name)()
    return [{"fit": name, **executed(fit_of(name))} for name in ESTIMATORS]


def main() -> None:
    """Print both tables."""
    print(report.table([{"what": what, "number": number} for what, number in sizes().items()]))
    print(report.table(fits()))


if __name__ == "__main__":
    main()
