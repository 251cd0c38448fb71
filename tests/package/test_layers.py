"""The house rules that can be read off the source: who imports whom."""

import ast
import importlib
from pathlib import Path

import pytest
from programs import output_of

import skdp

ROOT = Path(skdp.__file__).parent
TOP = {"bounds", "model_selection", "inspection", "datasets", "testing", "__main__"}
BASE = {"_compiled", "_codec", "_estimators", "_lazy", "_search", "trusted"}
# Checks of a part from outside the package when it is first used.
CHECKS = {f"skdp.testing.{name}" for name in ("_require", "ball", "law", "loss")}
MIDDLE = BASE | {"domain", "privacy", "noise", "geometry"}
ALLOWED = {
    "trusted": set(),  # everything on which each guarantee depends, and nothing else
    "_compiled": {"_kernels"},
    "_kernels": set(),
    "_codec": {"trusted"},
    "checks": {"trusted", "noise"},
    "_first_use": {"trusted", "noise", "checks"},
    "_lazy": set(),
    "_estimators": set(),
    "_search": {"trusted"},
    "domain": BASE,
    "privacy": BASE,
    "noise": BASE | {"privacy", "geometry"},
    "geometry": BASE,
    "mechanisms": MIDDLE | {"_first_use"},
    "rows": BASE | {"domain"},
    "linear_model": MIDDLE | {"_first_use", "mechanisms", "rows"},
    **{room: MIDDLE | {"checks", "mechanisms", "linear_model", ""} | TOP for room in [*TOP, ""]},
    "durations": BASE | {"domain", "linear_model"},
    "bounds": MIDDLE | {"mechanisms", "linear_model", "rows"},
}
FILES = sorted(ROOT.rglob("*.py"))


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def room_of(module):
    """The first part below skdp; the package itself is the room ''."""
    return "checks" if module in CHECKS else (module.split(".") + [""])[1]


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


class AtImport(ast.NodeTransformer):
    """Drop what does not run when a module is imported."""

    def visit_FunctionDef(self, node):
        return None

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node):
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


def parsed(path):
    """Return the code of a module; that of a lazy package ends with its stub."""
    found, stub = ast.parse(path.read_text(encoding="utf-8")), path.with_suffix(".pyi")
    if stub.exists():
        found.body += ast.parse(stub.read_text(encoding="utf-8")).body
    return found


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


@pytest.mark.parametrize("module", MODULES)
def test_private_modules_are_imported_from_their_own_folder(module):
    """What another folder needs is public there."""
    hidden = [used for used in imported(parsed(MODULES[module])) if hidden_from(module, used)]
    assert not hidden


def test_tests_stand_in_folders_of_the_package_names():
    """So that the tests of a part are found."""
    tests = Path(__file__).parents[1]
    others = {"package", "support", "docs"}  # the package as a whole, and beyond it
    for folder in {path.parent.relative_to(tests) for path in tests.rglob("*.py")}:
        of_a_file = (ROOT / folder).with_suffix(".py")  # tests of one file may fill a folder
        assert {*folder.parts} & others or (ROOT / folder).is_dir() or of_a_file.is_file(), folder


def reaches_inside(module):
    """Whether a name of a module, or of a folder above it, is private."""
    return module.startswith("skdp.") and "._" in module


def test_tests_reach_private_modules_through_one_place():
    """``tests/support/inner_*.py`` import them, so a module that moves changes a line there."""
    tests = Path(__file__).parents[1]
    for path in tests.rglob("*.py"):
        if not path.name.startswith("inner_"):
            found = [module for module in imported(parsed(path)) if reaches_inside(module)]
            assert not found, path.relative_to(tests)
    assert reaches_inside("skdp._codec.encode")
    assert reaches_inside("skdp.linear_model._objective.solve")
    assert not reaches_inside("skdp.linear_model.losses")


def test_no_import_circle():
    """Between modules, counting what runs when they are imported."""
    graph = {m: set(imported(AtImport().visit(parsed(p)))) - {m} for m, p in MODULES.items()}
    done = set()
    while ready := {m for m, used in graph.items() if m not in done and used <= done}:
        done |= ready
    assert done == set(graph), f"in or above a circle: {sorted(set(graph) - done)}"


LAZY = [module for module, path in MODULES.items() if path.with_suffix(".pyi").exists()]


@pytest.mark.parametrize("module", LAZY)
def test_names_of_a_lazy_package_are_those_of_its_stub(module):
    """Each in the module that is named there, in ``dir``, and the same object every time."""
    package = importlib.import_module(module)
    stub = ast.parse(MODULES[module].with_suffix(".pyi").read_text(encoding="utf-8"))
    declared = {
        alias.asname: node.module  # without it type checkers do not export a name
        for node in stub.body
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
    return output_of(code).split()


def test_importing_the_package_imports_no_part_of_it():
    """Parts are imported when they are used: the import takes milliseconds."""
    code = "import skdp, sys; print(*[m for m in sys.modules if m.startswith(('skdp', 'numpy.'))])"
    assert set(in_a_new_process(code)) == {"skdp", "skdp._lazy"}


def test_parts_are_attributes_of_the_package():
    """Without an import of their own; so are modules of parts, the version and all names."""
    names = [
        "skdp.mechanisms", "skdp.trusted.randomness", "skdp.linear_model.losses",
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
import skdp, skdp.geometry, skdp.mechanisms, skdp.privacy, skdp.trusted.randomness
import skdp.inspection, skdp.geometry.comparison
for name in skdp.__all__:
    getattr(skdp, name)
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    new = set(in_a_new_process(code))
    assert {"skdp", "randomgen"} <= new
    assert not new & {"cvxpy", "matplotlib", "pandas", "dask", "IPython", "torch"}


def test_the_drawing_shows_the_imports_of_today():
    """Run ``python docs/_architecture.py`` after a change of folders."""
    docs = Path(__file__).parents[2] / "docs"
    code = f"import sys; sys.path.insert(0, {str(docs)!r}); import _architecture as a"
    code += "; print(a.drawing(a.imports()), end='')"
    stored = docs / "development" / "architecture.svg"
    assert output_of(code) == stored.read_text(encoding="utf-8")
