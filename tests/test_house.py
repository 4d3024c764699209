"""The house is as docs/architecture.md says: imports, sizes, docstrings, kernels, boundaries."""

import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = ("models", "service")
BASE = "models.types models.verbs models.kernels*"
FILE_LINES = 400
JITTERS = ("njit", "jit", "vectorize", "guvectorize")
FUNCTION_LINES = 50
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
SILENT |= {tokenize.ENCODING, tokenize.ENDMARKER}
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One source file, parsed."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def parse(path: Path) -> Module:
    """Read one file; a package is named by its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, ast.parse(path.read_text(), str(path)))


SOURCES = {
    module.name: module
    for package in PACKAGES
    for module in map(parse, sorted((ROOT / package).rglob("*.py")))
}
TESTS = [parse(path) for path in sorted((ROOT / "tests").rglob("*.py"))]
EVERYTHING = [*SOURCES.values(), *TESTS]


def listed(heading: str) -> dict[str, list[str]]:
    """Read a block of `left <- right right` lines below a heading of the architecture page."""
    block = re.search(rf"^## {heading}\n.*?^```\n(.*?)^```", ARCHITECTURE, re.M | re.S)
    assert block, f"docs/architecture.md has no block under {heading!r}"
    pairs = [line.split("<-") for line in block[1].splitlines() if line.strip()]
    return {left.strip(): right.replace("base", BASE).split() for left, right in pairs}


def imports(module: Module) -> set[str]:
    """Every module that is imported, wherever in the file; ours without the package's name."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module.name} imports relatively"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            short = {name: name.removeprefix("kaboost.") for name in whole}
            parent = str(node.module).removeprefix("kaboost.")
            found |= {short[name] if short[name] in SOURCES else parent for name in whole}
    return found


def ours(module: Module) -> set[str]:
    """What is imported from this package, but for the module's own folder."""
    own = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
    named = {name for name in imports(module) if name.split(".")[0] in ("kaboost", *PACKAGES)}
    return {name for name in named if "." not in own or name.rpartition(".")[0] != own}


def libraries(module: Module) -> set[str]:
    """The third-party packages that are imported."""
    tops = {name.split(".")[0] for name in imports(module)}
    return tops - {"kaboost", "tests", *PACKAGES} - sys.stdlib_module_names


def matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@pytest.mark.parametrize("name", SOURCES)
def test_imports_are_allowed(name: str) -> None:
    """Each module imports of ours only what its line on the architecture page allows."""
    rules = listed("Who may import whom")
    found = next(((left, right) for left, right in rules.items() if fnmatchcase(name, left)), None)

    assert found is not None, f"{name} has no line in docs/architecture.md"
    own, allowed = found
    assert [] == sorted(each for each in ours(SOURCES[name]) if not matches(each, [own, *allowed]))


def test_import_list_names_what_exists() -> None:
    """A line about a module that is gone is a line nobody reads."""
    rules = listed("Who may import whom")
    named = [*rules, *(each for right in rules.values() for each in right)]

    known = [*SOURCES, "kaboost", "nothing"]

    assert [] == [each for each in named if not any(fnmatchcase(s, each) for s in known)]


def test_no_cycles() -> None:
    """Imports go one way."""
    graph = {name: imports(module) & SOURCES.keys() - {name} for name, module in SOURCES.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as err:
        pytest.fail(f"import cycle: {' -> '.join(err.args[1])}")

    assert len(order) >= len(SOURCES)


def test_libraries_stay_in_their_rooms() -> None:
    """Each third-party library is imported only where the architecture page says."""
    rooms = listed("Which library lives where")
    astray = {
        f"{module.name} imports {library}"
        for module in SOURCES.values()
        for library in libraries(module)
        if not matches(module.name, rooms.get(library, []))
    }

    assert set() == astray


def test_models_know_no_outer_world() -> None:
    """Arithmetic has no clock, no log, no network, no process, and one lock."""
    outer = {"asyncio", "datetime", "http", "logging", "random", "socket", "subprocess", "time"}
    outer |= {"multiprocessing", "pickle", "threading", "urllib"}
    models = [module for name, module in SOURCES.items() if name.split(".")[0] == "models"]

    lock = {"models.features.predicted_rows": {"threading"}}
    assert lock == {each.name: used for each in models if (used := outer & imports(each))}


def test_no_pickle_anywhere() -> None:
    """Loading a file never runs code."""
    loaders = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}

    assert {} == {each.name: used for each in EVERYTHING if (used := loaders & imports(each))}


@pytest.mark.parametrize("module", EVERYTHING, ids=lambda module: module.name)
def test_sizes(module: Module) -> None:
    """A file fits in a head, a function on a screen."""
    long = {each.name: lines(each) for each in module.functions if lines(each) > FUNCTION_LINES}

    assert {} == long
    assert code_lines(module) <= FILE_LINES


def code_lines(module: Module) -> int:
    """Lines that hold code: no blank ones, no comments, no docstrings."""
    with module.path.open("rb") as file:
        tokens = [each for each in tokenize.tokenize(file.readline) if each.type not in SILENT]
    code = {n for each in tokens for n in range(each.start[0], each.end[0] + 1)}
    return len(code - docstring_lines(module))


def docstring_lines(module: Module) -> set[int]:
    """Lines of every string that stands as a statement."""
    return {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def lines(function: Function) -> int:
    """Lines from `def` to the end, the docstring left out."""
    assert function.end_lineno is not None
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - docstring


@pytest.mark.parametrize("module", EVERYTHING, ids=lambda module: module.name)
def test_docstrings(module: Module) -> None:
    """Each file says what it is; each public class, function and test says what it does."""
    named = [each for each in module.tree.body if isinstance(each, Function | ast.ClassDef)]
    public = [each for each in named if not each.name.startswith("_")]
    if module in TESTS:
        public = [each for each in public if each.name.startswith("test_")]

    assert ast.get_docstring(module.tree) or not module.tree.body
    assert [] == [each.name for each in public if not ast.get_docstring(each)]


def test_kernels_are_cached_and_free_of_the_lock() -> None:
    """Whatever Numba compiles is kept for the next process and lets other threads run."""
    calls = [
        (module.name, node)
        for module in SOURCES.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call | ast.Attribute) and jitted(node)
    ]
    called = [(name, node) for name, node in calls if isinstance(node, ast.Call)]
    flagged = [{each.arg: ast.unparse(each.value) for each in node.keywords} for _, node in called]

    assert called
    assert len(calls) == 2 * len(called), "a bare @njit: neither cached nor free of the lock"
    assert all(each.get("cache") == each.get("nogil") == "True" for each in flagged)


def test_kernels_that_make_no_arrays_count_no_references() -> None:
    """A kernel that names NumPy counts references to every array it is given: one that only casts a
    number spent half of its time on that. It takes no arrays, or makes some.
    """
    kernels = [
        (f"{module.name}.{each.name}", each)
        for module in SOURCES.values()
        for each in module.functions
        if {"kernel", "inlined"} & {ast.unparse(mark) for mark in each.decorator_list}
    ]
    named = [(name, each, set(re.findall(r"\bnp\.(\w+)", body(each)))) for name, each in kernels]
    takes = {"float", "int", "bool"}
    guilty = [
        name
        for name, each, words in named
        if words and not words & {"empty", "zeros", "ones", "arange"}
        if not {ast.unparse(one.annotation) for one in each.args.args if one.annotation} <= takes
    ]

    assert len(kernels) > 100
    assert [] == guilty


def body(function: Function) -> str:
    """Return the statements of a function as text."""
    return "\n".join(map(ast.unparse, function.body))


def jitted(node: ast.Call | ast.Attribute) -> bool:
    name = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(name) in {f"numba.{kind}" for kind in JITTERS}


def test_broad_handlers_stand_at_doors() -> None:
    """`except Exception` swallows bugs: it stands only in the files the architecture page names."""
    boundaries = listed("Where everything is caught")
    broad = {
        module.name
        for module in SOURCES.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    }

    assert set(boundaries) == broad


def catches_all(handler: ast.ExceptHandler) -> bool:
    names = {node.id for node in ast.walk(handler.type or handler) if isinstance(node, ast.Name)}
    return handler.type is None or bool(names & {"Exception", "BaseException"})


def test_test_files_have_names_of_their_own() -> None:
    """A file of tests is found, and named in a report, by its name alone."""
    names = Counter(module.path.name for module in TESTS if module.path.name.startswith("test_"))

    assert [] == [name for name, count in names.items() if count > 1]


def test_nothing_is_skipped() -> None:
    """A test runs or it is not there."""
    ways = {"skip", "skipif", "importorskip", "xfail"}
    found = {
        f"{module.name}:{node.lineno}"
        for module in TESTS
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in ways
    }

    assert set() == found
