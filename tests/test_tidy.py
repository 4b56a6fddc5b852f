"""The house rules that a machine can check. docs/STYLE.md gives the reasons."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent
ROOTS = ("qmgrd", "protocol", "config", "tools", "spark")
SOURCES = sorted(path for root in ROOTS for path in (REPO / root).glob("*/**/*.py"))
FUNCTION_STATEMENTS_MAX = 45  # without the docstring
# A longer module may have two purposes. Do not split one only to stay below the limit.
MODULE_LINES_MAX = 450
PURE = ("qmgrd/qmgrd/core/", "protocol/qmgr_protocol/")
BANNED_IN_PURE = {"asyncio", "lmdb", "os", "random", "socket", "threading", "time", "uvloop"}
IMPORTED_ONCE = ("msgpack", "uvloop")


def name_of(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the line and the top-level package of each import, anywhere in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the number of statements in a function, however the formatter breaks its lines."""
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return count - (ast.get_docstring(function, clean=False) is not None)


def complaints(name: str, text: str) -> Iterator[str]:
    tree = ast.parse(text)
    if (lines := len(text.splitlines())) > MODULE_LINES_MAX:
        yield f"{name}: {lines} lines, at most {MODULE_LINES_MAX}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (count := statements(node)) > FUNCTION_STATEMENTS_MAX:
            yield f"{name}:{node.lineno}: {node.name} has {count} statements"
    if name.startswith(PURE):
        for line, imported in imports(tree):
            if imported in BANNED_IN_PURE:
                yield f"{name}:{line}: imports {imported}, but must do no I/O and read no clock"


def own_test_of(path: Path) -> Path:
    """Returns tests/<package>/test_<name>.py, without the source root."""
    _, *packages, name = path.relative_to(REPO).parts
    return REPO.joinpath("tests", *packages, f"test_{name}")


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_source_is_tidy(path: Path) -> None:
    assert list(complaints(name_of(path), path.read_text())) == []


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if not path.name.startswith("__")], ids=name_of
)
def test_source_has_its_test_file(path: Path) -> None:
    assert own_test_of(path).is_file(), f"{name_of(own_test_of(path))} is missing"


@pytest.mark.parametrize("root", ROOTS)
def test_source_root_holds_packages_only(root: str) -> None:
    """Such a module would be importable under its bare name everywhere."""
    assert [name_of(path) for path in (REPO / root).glob("*.py")] == []


@pytest.mark.parametrize("library", IMPORTED_ONCE)
def test_library_is_imported_in_one_module(library: str) -> None:
    importers = [
        name_of(path)
        for path in SOURCES
        if library in {imported for _, imported in imports(ast.parse(path.read_text()))}
    ]
    assert len(importers) <= 1


def test_only_the_store_imports_lmdb() -> None:
    importers = {
        name_of(path)
        for path in SOURCES
        if "lmdb" in {imported for _, imported in imports(ast.parse(path.read_text()))}
    }
    assert importers == {"qmgrd/qmgrd/store/lmdb_store.py", "qmgrd/qmgrd/store/image.py"}


def undocumented(names: list[str]) -> list[str]:
    words = set(re.findall(r"\w+", (REPO / "protocol/PROTOCOL.md").read_text()))
    return [name for name in names if name not in words]


def test_each_error_code_is_in_the_protocol() -> None:
    assert undocumented(list(import_module("qmgr_protocol.errors").ErrorCode.__members__)) == []


def test_each_message_is_in_the_protocol() -> None:
    module = import_module("qmgr_protocol.messages")
    messages = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and hasattr(value, "_fields")
        and value.__module__ == module.__name__
    ]
    assert messages
    assert undocumented(messages) == []


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "qmgrd/qmgrd/core/queue/queue.py",
            "def f():\n    from time import time\n",
            ":2: imports time",
        ),
        ("protocol/qmgr_protocol/frame.py", "import os.path\n", ":1: imports os"),
        ("tools/qmgr_tools/top/top.py", "x = 1\n" * 451, ": 451 lines"),
        (
            "tools/qmgr_tools/top/top.py",
            "def f():\n" + "    x = 1\n" * 46,
            ":1: f has 46 statements",
        ),
    ],
)
def test_broken_rule_is_reported(name: str, text: str, complaint: str) -> None:
    assert [line for line in complaints(name, text) if line.startswith(name + complaint)]


def test_docstring_does_not_count_as_body() -> None:
    text = 'def f():\n    """\n' + "    Words.\n" * 60 + '    """\n' + "    x = 1\n" * 45
    assert list(complaints("tools/qmgr_tools/top/top.py", text)) == []
