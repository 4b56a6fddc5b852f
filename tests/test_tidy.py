"""The house rules that a program can check. docs/STYLE.md gives the reasons."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent
ROOTS = ("qmgrd", "protocol", "config", "tools", "spark")
SOURCES = sorted(path for root in ROOTS for path in (REPO / root).glob("*/**/*.py"))
FUNCTION_STATEMENTS_MAX = 45  # number of statements without the docstring
# A longer module may have two purposes. Do not split one only to stay below the limit.
MODULE_LINES_MAX = 450
MESSAGES = "protocol/qmgr_protocol/messages.py"
# A table has one entry after another, and readers read one at a time.
TABLES = {MESSAGES, "protocol/qmgr_protocol/error_code.py"}
PURE = ("qmgrd/qmgrd/core/", "protocol/qmgr_protocol/")
BANNED_IN_PURE = {"asyncio", "lmdb", "os", "random", "socket", "threading", "time", "uvloop"}
GENERATED = "# Generated from "  # The test of its generator also tests such a source.
IMPORTED_ONCE = ("msgpack", "uvloop")
COUNTERS = "qmgrd/qmgrd/core/layout/counters.py"
# Modules that may count changed rows of the store. Other modules call Context.count_read.
ROWS_COUNTED_IN = (
    "qmgrd/qmgrd/core/layout/",
    "qmgrd/qmgrd/core/queue/",
    "qmgrd/qmgrd/core/context/context.py",
    "qmgrd/qmgrd/store/",
)
# The asyncio class and its blocking counterpart share one name on purpose.
COUNTERPARTS = {"protocol/qmgr_client/blocking/work.py": {"Work"}}
CLASSES_MIN = 780  # minimum number of classes that the test of names must find
# Where the bytes of a record, an entry and a key have names; elsewhere no number stands for a place
# in them.
HOMES_OF_BYTES = (
    "protocol/qmgr_protocol/record.py",
    "qmgrd/qmgrd/core/layout/entry.py",
    "qmgrd/qmgrd/core/layout/keys.py",
)
BYTES_READ_IN = ("protocol/qmgr_protocol/", "qmgrd/qmgrd/", "spark/qmgr_tables/tables/")
NAMES_OF_BYTES = {
    "cursor",
    "front",
    "key",
    "place",
    "position",
    "prefix",
    "record",
    "start",
    "trailer",
    "uid",
}
ENTRIES_NAMED_VALUE_IN = "qmgrd/qmgrd/core/queue/"
KNOT_MAX = 3  # number of modules that import each other, directly or indirectly


def name_of(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the line and the top-level package of each import, anywhere in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


@cache
def libraries(path: Path) -> frozenset[str]:
    """Returns the top-level packages that the module at *path* imports."""
    return frozenset(imported for _, imported in imports(ast.parse(path.read_text())))


def imports_of(text: str, modules: Collection[str]) -> set[str]:
    """Returns the *modules* that a module imports, including imports for types only."""
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found.intersection(modules)


def knots(imported: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Returns the strongly connected components: modules that all lead to each other."""
    reached = {module: reach(imported, module) for module in imported}
    found = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in imported
        if module in reached[module]
    }
    return [list(knot) for knot in sorted(found)]


def reach(imported: Mapping[str, Collection[str]], start: str) -> set[str]:
    """Returns all modules to which *start* leads, including *start* if one leads back."""
    found, left = set[str](), [start]
    while left:
        new = set(imported[left.pop()]) - found
        found |= new
        left += new
    return found


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the number of statements in a function, independent of line breaks."""
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return count - (ast.get_docstring(function, clean=False) is not None)


def counters_set(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that assign to a counter of a queue, as in `queue.counters.depth += 1`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
            continue
        owner = node.value
        named = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if named.endswith("counters"):
            yield node.lineno


def rows_counted(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that assign to the rows that a transaction has used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            if node.attr == "rows_used" or (node.attr, owner.strip("_")) == ("rows", "context"):
                yield node.lineno


def offsets(name: str, tree: ast.AST) -> Iterator[str]:
    """Yields complaints about subscripts of records, entries and keys that contain a number."""
    named = NAMES_OF_BYTES | ({"value"} if name.startswith(ENTRIES_NAMED_VALUE_IN) else set())
    decoded = set(map(id, decoded_integers(tree)))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        numbers = [x.value for x in ast.walk(node.slice) if isinstance(x, ast.Constant)]
        if not any(type(number) is int for number in numbers):
            continue
        if id(node) in decoded or owner_of_bytes(node) & named or is_slice_of_bytes(node):
            shown = ast.unparse(node)
            yield f"{name}:{node.lineno}: {shown} has no name; {', '.join(HOMES_OF_BYTES)} do"


def owner_of_bytes(node: ast.Subscript) -> set[str]:
    """Returns the name of the object that has this subscript, as in `key` for `self._key[7]`."""
    return {getattr(node.value, "attr", getattr(node.value, "id", "")).strip("_")}


def is_slice_of_bytes(node: ast.Subscript) -> bool:
    """Returns whether a slice divides a key: of a row, as in `rows[0][0][5:]`, or a new key."""
    if not isinstance(node.slice, ast.Slice):
        return False
    makes_key = isinstance(node.value, ast.Call) and ast.unparse(node.value).startswith("keys.")
    return makes_key or isinstance(node.value, ast.Subscript)


def decoded_integers(tree: ast.AST) -> Iterator[ast.expr]:
    """Yields what `int.from_bytes` decodes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "int.from_bytes":
            yield from node.args[:1]


def has_bytes(name: str) -> bool:
    """Whether the offsets of a source are looked at."""
    return name.startswith(BYTES_READ_IN) and name not in HOMES_OF_BYTES


def set_by_hand(name: str, tree: ast.AST) -> Iterator[str]:
    """Yields complaints about assignments to numbers that belong to another module."""
    if name != COUNTERS:
        for line in counters_set(tree):
            yield f"{name}:{line}: sets a counter; call a method of Counters"
    if not name.startswith(ROWS_COUNTED_IN):
        for line in rows_counted(tree):
            yield f"{name}:{line}: counts rows by hand; call count_read"


def complaints(name: str, text: str) -> Iterator[str]:
    tree = ast.parse(text)
    if (lines := len(text.splitlines())) > MODULE_LINES_MAX and name not in TABLES:
        yield f"{name}: {lines} lines; the limit is {MODULE_LINES_MAX}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (count := statements(node)) > FUNCTION_STATEMENTS_MAX:
            yield f"{name}:{node.lineno}: {node.name} has {count} statements"
    yield from set_by_hand(name, tree)
    if has_bytes(name):
        yield from offsets(name, tree)
    if name.startswith(PURE):
        for line, imported in imports(tree):
            if imported in BANNED_IN_PURE:
                yield f"{name}:{line}: imports {imported}, but must do no I/O and read no clock"


def module_of(path: Path) -> str:
    """Returns the dotted name of a module, without its source root."""
    _, *packages, name = path.relative_to(REPO).parts
    return ".".join([*packages, name.removesuffix(".py")])


def own_test_of(path: Path) -> Path:
    """Returns tests/<package>/test_<name>.py, without the source root."""
    _, *packages, name = path.relative_to(REPO).parts
    return REPO.joinpath("tests", *packages, f"test_{name}")


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_source_is_tidy(path: Path) -> None:
    assert list(complaints(name_of(path), path.read_text())) == []


TESTED = [
    x for x in SOURCES if not x.name.startswith("__") and not x.read_text().startswith(GENERATED)
]


@pytest.mark.parametrize("path", TESTED, ids=name_of)
def test_source_has_a_test_file(path: Path) -> None:
    assert own_test_of(path).is_file(), f"{name_of(own_test_of(path))} is missing"


def test_each_kind_of_source_is_looked_at() -> None:
    """Without sources the rules above would hold, too."""
    names = [name_of(path) for path in SOURCES]
    assert len(names) > 600, f"looked at {len(names)} sources"
    assert len(TESTED) > 540, f"looked for {len(TESTED)} test files"
    for root in ROOTS:
        assert sum(name.startswith(root) for name in names) > 5, root
    assert {*HOMES_OF_BYTES, COUNTERS, *TABLES} <= set(names)
    assert sum(map(has_bytes, names)) > 250, f"looked for offsets in {sum(map(has_bytes, names))}"
    assert sum(name.startswith(PURE) for name in names) > 180
    assert sum(name.startswith(ROWS_COUNTED_IN) for name in names) > 50
    assert sum(name.startswith(ENTRIES_NAMED_VALUE_IN) for name in names) > 30


@pytest.mark.parametrize("root", ROOTS)
def test_source_root_holds_packages_only(root: str) -> None:
    """Such a module would be importable by its bare name everywhere."""
    assert [name_of(path) for path in (REPO / root).glob("*.py")] == []


def test_no_more_than_a_few_modules_import_each_other() -> None:
    """An import for types also counts, because readers must read both modules."""
    modules = {module_of(path): path for path in SOURCES if path.name != "__init__.py"}
    imported = {name: imports_of(path.read_text(), modules) for name, path in modules.items()}
    edges = sum(map(len, imported.values()))
    assert edges > 3_000, f"looked at {edges} imports"
    assert [knot for knot in knots(imported) if len(knot) > KNOT_MAX] == []


def test_knot_is_found_with_imports_into_it_and_out_of_it() -> None:
    text = "if TYPE_CHECKING:\n    from a.b import c\nfrom a import d\nimport e, os\n"
    assert imports_of(text, {"a.b", "a.d", "e", "f"}) == {"a.b", "a.d", "e"}
    imported = {"in": ["a"], "a": ["b"], "b": ["c"], "c": ["a", "out"], "out": ["out2"], "out2": []}
    assert knots(imported) == [["a", "b", "c"]]


def classes_of(text: str) -> list[str]:
    """Returns the names of the top-level classes of a module."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def shared_names(classes: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yields complaints about class names that another class already has.

    *classes* has the names of the classes of each source.
    """
    messages = set(classes.get(MESSAGES, ()))
    homes = dict[tuple[str, str], str]()
    for source, names in classes.items():
        package = source.split("/")[1]
        for name in set(names) - COUNTERPARTS.get(source, set()):
            first = homes.setdefault((package, name), source)
            if first != source:
                yield f"{source}: {name} is also a class of {first}"
            if package in ("qmgrd", "qmgr_client") and name in messages:
                yield f"{source}: {name} is also a message of the protocol"


def test_no_two_classes_of_a_package_have_one_name() -> None:
    """A daemon's or a client's class also has a different name than each protocol message."""
    texts = {name_of(path): path.read_text() for path in SOURCES}
    classes = {
        name: classes_of(text) for name, text in texts.items() if not text.startswith(GENERATED)
    }
    count = sum(map(len, classes.values()))
    assert count >= CLASSES_MIN, f"found only {count} classes"
    assert list(shared_names(classes)) == []


def test_shared_name_of_a_class_is_reported() -> None:
    found = shared_names(
        {
            MESSAGES: classes_of("class Put:\n    class Inner: ...\n"),
            "qmgrd/qmgrd/a.py": ["Pump", "Put"],
            "qmgrd/qmgrd/b.py": ["Pump", "Inner"],
            "tools/qmgr_bench/c.py": ["Put"],
        }
    )
    assert list(found) == [
        "qmgrd/qmgrd/a.py: Put is also a message of the protocol",
        "qmgrd/qmgrd/b.py: Pump is also a class of qmgrd/qmgrd/a.py",
    ]


@pytest.mark.parametrize("library", IMPORTED_ONCE)
def test_library_is_imported_in_one_module(library: str) -> None:
    importers = [name_of(path) for path in SOURCES if library in libraries(path)]
    assert len(importers) == 1, importers


def test_only_the_store_imports_lmdb() -> None:
    importers = {name_of(path) for path in SOURCES if "lmdb" in libraries(path)}
    assert all(name.startswith("qmgrd/qmgrd/store/") for name in importers), importers


def undocumented(names: list[str]) -> list[str]:
    words = set(re.findall(r"\w+", (REPO / "protocol/PROTOCOL.md").read_text()))
    return [name for name in names if name not in words]


def test_each_error_code_is_in_the_protocol() -> None:
    codes = list(import_module("qmgr_protocol.errors").ErrorCode.__members__)
    assert len(codes) >= 110, f"looked at {len(codes)} codes"
    assert undocumented(codes) == []


def test_each_message_is_in_the_protocol() -> None:
    """The messages are the classes in the source, so imports and decorators cannot hide one."""
    source = ast.parse((REPO / MESSAGES).read_text())
    messages = [
        node.name
        for node in source.body
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases)
    ]
    declared = import_module("qmgr_protocol.messages").OPERATIONS
    assert len(messages) == len(declared) >= 76, f"found only {len(messages)} messages"
    headings = re.findall(
        r"^#### \d+ `(\w+)`", (REPO / "protocol/PROTOCOL.md").read_text(), re.MULTILINE
    )
    assert sorted(headings) == sorted(messages)


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
        ("qmgrd/qmgrd/core/jobs/purge.py", "\nqueue.counters.depth -= 1\n", ":2: sets a counter"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "\nx = record[4:8]\n", ":2: record[4:8] has no name"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "x = a.front[7]\n", ":1: a.front[7] has no name"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "x = a._key[7]\n", ":1: a._key[7] has no name"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "x = record[-8 - n :]\n", ":1: record[-8 - n:] has no"),
        ("qmgrd/qmgrd/core/queue/take.py", "x = value[1] & 2\n", ":1: value[1] has no name"),
        ("spark/qmgr_tables/tables/keep.py", "x = position[0]\n", ":1: position[0] has no name"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "x = rows[i][4:8]\n", ":1: rows[i][4:8] has no name"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "x = rows[0][0][5:]\n", ":1: rows[0][0][5:] has no"),
        (
            "qmgrd/qmgrd/core/jobs/purge.py",
            "x = keys.a(b)[:-4]\n",
            ":1: keys.a(b)[:-4] has no name",
        ),
        (
            "qmgrd/qmgrd/core/jobs/purge.py",
            "x = int.from_bytes(at[-4:], 'big')\n",
            ":1: at[-4:] has no name",
        ),
        ("qmgrd/qmgrd/core/jobs/purge.py", "context.rows += 2\n", ":1: counts rows by hand"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "self._context.tx.rows_used = 2\n", ":1: counts rows"),
        ("qmgrd/qmgrd/core/jobs/purge.py", "counters.a = counters.b = 0\n", ":1: sets a counter"),
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
