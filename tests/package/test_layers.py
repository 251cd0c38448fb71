"""The house rules that can be read off the source: who imports whom."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import skdp

ROOT = Path(skdp.__file__).parent
TOP = {"bounds", "model_selection", "inspection", "datasets", "testing", "__main__"}
BASE = {
    "_arrays",
    "_checks",
    "_compiled",
    "_draws",
    "_identity",
    "_codec",
    "_lazy",
    "_progress",
    "_search",
    "_sklearn",
}
GROUND = BASE | {"randomness"}
MIDDLE = GROUND | {"domain", "privacy", "noise", "geometry"}
ALLOWED = {
    "_arrays": set(),
    "_checks": set(),
    "_compiled": {"_kernels"},
    "_kernels": set(),
    "_draws": {"_arrays"},
    "_identity": set(),
    "_codec": {"_arrays", "_checks"},
    "_lazy": set(),
    "_progress": set(),
    "_search": {"_checks"},
    "_sklearn": set(),
    "randomness": BASE,
    "domain": BASE,
    "privacy": BASE,
    "noise": GROUND | {"privacy"},
    "geometry": GROUND,
    "mechanisms": MIDDLE,
    "rows": BASE | {"domain"},
    "linear_model": MIDDLE | {"mechanisms", "rows"},
    **{room: MIDDLE | {"mechanisms", "linear_model", ""} | TOP for room in [*TOP, ""]},
    "bounds": MIDDLE | {"mechanisms", "linear_model", "rows"},
}
PUBLIC = {
    "skdp": [
        "DPCoordinateDescentClassifier",
        "DPCoordinateDescentRegressor",
        "DPHuberRegressor",
        "DPLinearRegression",
        "DPLogisticRegression",
        "Domain",
        "Guarantee",
        "Ledger",
        "estimate_domain",
        "load_model",
    ],
    "skdp.bounds": ["estimate_domain"],
    "skdp.datasets": [
        "DataNotFound",
        "Dataset",
        "domain_of",
        "fetch",
        "fetch_adult",
        "load_breast_cancer",
        "load_diabetes",
        "names",
    ],
    "skdp.geometry": ["EncodedRowsBall", "Hull", "LpBall", "MomentBall", "NormBall", "compare"],
    "skdp.inspection": [
        "CoefficientDisplay",
        "EpsilonCurveDisplay",
        "LawMapDisplay",
        "NormBallDisplay",
        "PrivacyProfileDisplay",
    ],
    "skdp.mechanisms": [
        "Auto",
        "EllipticGaussian",
        "EllipticKNorm",
        "Independent",
        "KNorm",
        "MatrixLaplace",
        "Sensitivity",
        "calibrate",
        "law_map",
        "release",
    ],
    "skdp.model_selection": ["EpsilonCurve", "PrivateSearchCV", "RecordScore", "epsilon_curve"],
    "skdp.noise": [
        "CanonicalNoise",
        "FlippedHuber",
        "Gaussian",
        "Laplace",
        "Logistic",
        "OffsetGaussian",
        "Staircase",
        "Subbotin",
        "TruncatedLaplace",
        "Tulap",
    ],
    "skdp.privacy": [
        "BudgetExceeded",
        "Composition",
        "Guarantee",
        "Ledger",
        "PrivacyLeakWarning",
        "UndeclaredDomainWarning",
        "compose",
        "conversions",
        "tradeoff",
    ],
    "skdp.testing": [
        "check_ball",
        "check_law",
        "check_mechanism",
        "check_private_estimator",
        "check_release",
        "epsilon_lower_bound",
    ],
    "skdp.domain": ["Domain"],
    "skdp.randomness": ["Lattice", "as_generator"],
    "skdp.rows": ["Block", "Kept", "KeptBlocks", "MemoryRows", "Rows"],
    "skdp.linear_model": [
        "CoefficientTable",
        "DPHuberRegressor",
        "DPLinearRegression",
        "DPLogisticRegression",
        "Inference",
        "SKOPS_TYPES",
        "Stage",
        "WaldTest",
        "load_model",
    ],
}
# Imports that no statement shows. Lazy packages repeat theirs for type checkers, which a test below
# compares; optional modules are those of other packages.
HIDDEN = {
    # The types that a file may name.
    "skdp._codec": ["import_module", "getattr(import_module(TYPES[name]), name)"],
    "skdp.domain.tables": ['sys.modules.get("pandas")'],
    "skdp.rows.cluster": ['sys.modules.get("distributed")'],
    "skdp.rows.tables": ["sys.modules", 'sys.modules.get("pyarrow.dataset")'],
    "skdp._checks": ["import_module", "import_module(name)"],
    "skdp._lazy": [
        "import_module",
        'import_module(f"{package}.{name}")',
        'getattr(import_module(f"{package}.{homes[name]}"), name)',
        "setattr(sys.modules[package], name, value)",
        "vars(sys.modules[package])",
    ],
}
FILES = sorted(ROOT.rglob("*.py"))


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def room_of(module):
    """The first part below skdp; the package itself is the room ''."""
    return (module.split(".") + [""])[1]


def imported(tree):
    """Modules of the package that a piece of source names in its import statements."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            found = name
            while found and found not in MODULES:
                found = found.rpartition(".")[0]
            if found:
                yield found


def is_lazy(node):
    """Whether an ``if TYPE_CHECKING`` declares names that ``__getattr__`` imports."""
    return any("__getattr__" in ast.unparse(part) for part in node.orelse)


class AtImport(ast.NodeTransformer):
    """Drop what does not run when a module is imported."""

    def visit_FunctionDef(self, node):
        return None

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node):
        if ast.unparse(node.test) != "TYPE_CHECKING":
            return node
        # The names of a lazy package: their modules are imported when they are used.
        return node.body if is_lazy(node) else None


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_down(module):
    """Also those inside functions and for types."""
    room = room_of(module)
    assert room in ALLOWED, f"{room} is a new room: say here what it may import"
    for name in imported(parsed(MODULES[module])):
        used = room_of(name)
        assert used in ALLOWED[room] | {room}, f"{module} may not import {name}"


def hidden_from(module, used):
    """Whether a part of the used name has an underscore and lies in a folder that is not ours."""
    parts = used.split(".")
    return any(
        part.startswith("_") and not part.startswith("__")
        and not f"{module}.".startswith(".".join(parts[:place]) + ".")
        for place, part in enumerate(parts)
    )  # fmt: skip


def hidden_imports(tree):
    """Expressions that reach a module by other means than an import statement."""
    importers = {"__import__", "import_module", "find_spec", "find_loader", "exec", "eval"}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "attr", ""))
        if isinstance(node, ast.alias):
            name = node.name.rpartition(".")[2]
        if name in importers or (name == "modules" and not isinstance(node, ast.Name)):
            while isinstance(parents.get(node), ast.Attribute | ast.Call | ast.Subscript):
                node = parents[node]
            yield ast.unparse(node).replace("'", '"')


@pytest.mark.parametrize("module", MODULES)
def test_no_import_is_hidden(module):
    """Else the tests of layers and of circles would not see it."""
    assert list(hidden_imports(parsed(MODULES[module]))) == HIDDEN.get(module, [])


def test_optional_modules_are_not_those_of_the_package():
    """They are named by a literal wherever they are asked for."""
    for module, path in MODULES.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "optional_module":
                assert isinstance(node.args[0], ast.Constant), module
                assert not node.args[0].value.startswith("skdp"), module


def test_the_rule_on_hidden_imports_sees_every_form():
    for source in (
        "importlib.import_module('skdp.noise')",
        "load = importlib.import_module",
        "from importlib import import_module as load",
        "__import__('skdp.noise')",
        "sys.modules['skdp.noise'].Laplace",
        "getattr(sys.modules.get('skdp.noise'), name)",
        "from sys import modules as loaded",
        "exec('import skdp.noise')",
    ):
        assert list(hidden_imports(ast.parse(source))), source
    assert not list(hidden_imports(ast.parse("from importlib.metadata import version\nx.find(1)")))


@pytest.mark.parametrize("module", MODULES)
def test_private_modules_are_imported_from_their_own_folder(module):
    """What another folder needs is public there."""
    hidden = [used for used in imported(parsed(MODULES[module])) if hidden_from(module, used)]
    assert not hidden


def test_the_rule_on_private_modules_sees_a_private_folder():
    assert hidden_from("skdp.noise.canonical", "skdp.privacy._curves")
    assert hidden_from("skdp.model_selection.search", "skdp.linear_model._shared.base")
    assert not hidden_from("skdp.linear_model._objective.rules", "skdp.linear_model._shared.base")
    assert not hidden_from("skdp.noise.laplace", "skdp._checks")


def test_tests_stand_in_folders_of_the_package_names():
    """So that the tests of a part are found."""
    tests = Path(__file__).parents[1]
    others = {"package", "support", "docs", "benchmarks"}  # the package as a whole, and beyond it
    for folder in {path.parent.relative_to(tests) for path in tests.rglob("*.py")}:
        of_a_file = (ROOT / folder).with_suffix(".py")  # tests of one file may fill a folder
        assert {*folder.parts} & others or (ROOT / folder).is_dir() or of_a_file.is_file(), folder


def test_no_import_circle():
    """Between modules, counting what runs when they are imported."""
    graph = {m: set(imported(AtImport().visit(parsed(p)))) - {m} for m, p in MODULES.items()}
    done = set()
    while ready := {m for m, used in graph.items() if m not in done and used <= done}:
        done |= ready
    assert done == set(graph), f"in or above a circle: {sorted(set(graph) - done)}"


def test_the_reading_of_imports_sees_a_circle_and_a_climb():
    """The twin: imports of every form are found, and those that do not run are told apart."""
    source = """
import skdp.geometry.lp as lp
from skdp import domain
from skdp.linear_model._shared.base import PrivateLinearModel
if TYPE_CHECKING:
    from skdp.privacy import Guarantee
def f():
    import skdp.mechanisms.knorm.noise
class C:
    from skdp.randomness import Lattice
"""
    lazy = """
if TYPE_CHECKING:
    from skdp.noise.laplace import Laplace
else:
    __getattr__, __dir__ = lazily(__name__, {"laplace": "Laplace"})
"""
    at_import = [
        "skdp.geometry.lp",
        "skdp.domain",
        "skdp.linear_model._shared.base",
        "skdp.randomness",
    ]
    every = set(imported(ast.parse(source)))
    assert every == {*at_import, "skdp.privacy", "skdp.mechanisms.knorm.noise"}
    assert set(imported(AtImport().visit(ast.parse(source)))) == set(at_import)
    assert set(imported(AtImport().visit(ast.parse(lazy)))) == {"skdp.noise.laplace"}
    assert "linear_model" not in ALLOWED["geometry"]


LAZY = {
    module: node
    for module, path in MODULES.items()
    for node in parsed(path).body
    if isinstance(node, ast.If) and is_lazy(node)
}


@pytest.mark.parametrize("module", LAZY)
def test_lazy_names_are_those_declared_for_types(module):
    """Each in the module that is named there, in ``dir``, and the same object every time."""
    package = importlib.import_module(module)
    declared = {
        alias.name: node.module
        for node in LAZY[module].body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(package.__all__) == set(declared)
    for name, home in declared.items():
        assert package.__getattr__(name) is getattr(importlib.import_module(home), name)
        assert getattr(package, name) is package.__getattr__(name)
        assert name in dir(package)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        _ = package.nothing


def in_a_new_process(code):
    """Return the words that a piece of code prints where nothing was imported before."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_the_package_imports_no_part_of_it():
    """Parts are imported when they are used: the import takes milliseconds."""
    code = "import skdp, sys; print(*[m for m in sys.modules if m.startswith(('skdp', 'numpy.'))])"
    assert set(in_a_new_process(code)) == {"skdp", "skdp._lazy"}


def test_parts_are_attributes_of_the_package():
    """Without an import of their own; so are modules of parts, the version and all names."""
    names = [
        "skdp.mechanisms", "skdp.randomness", "skdp.linear_model.losses",
        "skdp.linear_model.validation",
    ]  # fmt: skip
    code = f"import skdp; print(skdp.__version__, {', '.join(f'{n}.__name__' for n in names)})"
    assert in_a_new_process(code)[1:] == names
    folders = {path.parent.name for path in ROOT.glob("[!_]*/__init__.py")}
    assert folders <= set(dir(skdp))


def test_heavy_packages_are_not_imported_at_the_top():
    """Beyond scikit-learn's own imports, skdp brings none of the heavy ones, nor do pictures."""
    code = """
import sys
import sklearn.linear_model
before = set(sys.modules)
import skdp, skdp.geometry, skdp.mechanisms, skdp.privacy, skdp.randomness
import skdp.inspection, skdp.geometry.comparison
for name in skdp.__all__:
    getattr(skdp, name)
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    new = set(in_a_new_process(code))
    assert {"skdp", "randomgen"} <= new
    assert not new & {"cvxpy", "matplotlib", "pandas", "dask", "IPython", "torch"}


@pytest.mark.parametrize(("module", "names"), PUBLIC.items(), ids=PUBLIC)
def test_public_names_are_there_and_documented(module, names):
    """They are in ``__all__`` where there is one, and have a docstring."""
    found = importlib.import_module(module)
    for name in names:
        assert getattr(found, name).__doc__
        assert name in getattr(found, "__all__", names)


def test_the_drawing_shows_the_imports_of_today():
    """Run ``python docs/_architecture.py`` after a change of folders."""
    docs = Path(__file__).parents[2] / "docs"
    code = "import _architecture as a; print(a.drawing(a.imports()), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=docs, capture_output=True, text=True, check=True
    )
    assert done.stdout == (docs / "development" / "architecture.svg").read_text(encoding="utf-8")
