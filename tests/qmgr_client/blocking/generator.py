"""Generates the modules of qmgr_client.blocking from the modules of qmgr_client.aio.

    pytest tests/qmgr_client/blocking/test_generator.py --rewrite

The generator turns each asyncio class into a class of the same name that wraps an object of the
asyncio class. Only QueueManager is renamed, to Client. Each public method keeps its signature and
docstring and forwards the call:

    async def f(...) -> T                     return self._call(self._aio.f(...))
    async def f(...) -> asyncio.Future[T]     the same, with a concurrent.futures.Future
    async def f(...) -> AsyncGenerator[T]     return pages(self._call, self._aio.f(...))
    def f(...) -> C, a class that is wrapped  return C(self._thread, self._thread.make(...))
    property                                  return self._aio.f
    async with, async for                     with, for

bridge.py and work.py are written by hand.
"""

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import TypeAlias

import qmgr_client

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

PACKAGE = Path(qmgr_client.__path__[0])
MODULES = (
    "admin",
    "consumer",
    "group_put",
    "groups",
    "groups_admin",
    "history",
    "links_admin",
    "messaging",
    "processing",
    "queue_manager",
    "reader",
    "replies",
    "settle",
    "subscription",
    "topics",
    "topics_admin",
    "unit",
    "users_admin",
)
BY_HAND = {"Work"}
RENAMED = {"QueueManager": "Client"}
BASES = {"Asker": "Bridge[aio_admin.Admin]", "Channel": "Bridge[aio_queue_manager.QueueManager]"}
INTERNAL = {
    "core_unit",
    "take_over",
    "work_until",
}  # Only modules of this package use these methods.
BUILT_ANYWHERE = {"Processing", "UnitOfWork"}  # Any thread can create objects of these classes.
ENDED_BY_CLOSE = {"cancel"}  # These methods do nothing after the client is closed.
STARTS_AND_ENDS = {  # These methods start and end the thread of the client.
    "open": "self._thread.start(self._aio.open())",
    "close": "self._thread.close(lambda: self._aio.close(timeout_ms))",
}
DUNDERS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
ITEMS = "Iterable[bytes | Outgoing]"
PARAMETERS = {  # for each type: the blocking type, and the argument that the asyncio method gets
    "UnitOfWork | None": ("UnitOfWork | None", "asyncio_object({})"),
    "Iterable[Message]": ("Iterable[Message]", "collected({})"),
    ITEMS: (ITEMS, "collected({})"),
    f"{ITEMS} | AsyncIterable[bytes | Outgoing]": (ITEMS, "items_of_caller(ask, {}, batch)"),
    "Handler": (
        "Callable[[Message, UnitOfWork], object]",
        "handler_of_caller(ask, {}, lambda unit: UnitOfWork(self._thread, unit))",
    ),
}
PROSE = (
    (r"\basync (with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r", for asyncio\b", ", without asyncio"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bQueueManager\b", "Client"),
    (r"\bSeveral\s+tasks\b", "Several threads"),
    (r"\bIf you cancel\b", "If Ctrl-C interrupts"),
    (r"\bA cancellation,\s+KeyboardInterrupt\b", "A KeyboardInterrupt"),
    (
        r"Use the object only on the event loop that opened it\.",
        "Threads may share the object. After a fork, the child process must connect again.",
    ),
)
CALLBACKS = """

        The callbacks of the future run on the client's thread. They must not call the client.

"""
HEADER = """\
# Generated from qmgr_client/aio/{module}.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite
"""
IMPORTS = """
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from qmgr_client.aio import {module} as aio_{module}
from qmgr_client.aio import admin as aio_admin
from qmgr_client.aio import queue_manager as aio_queue_manager
from qmgr_client.blocking.bridge import (
    Bridge, ClientThread, asyncio_object, collected, handed_over, handler_of_caller,
    items_of_caller, next_of, pages, run_with_callbacks,
)
from qmgr_client.message import Message
"""
FIRST_PARTY = "lint.isort.known-first-party=['qmgr_client', 'qmgr_protocol']"


def source_of(module: str) -> str:
    """Returns the source of an asyncio module."""
    return (PACKAGE / "aio" / f"{module}.py").read_text()


def target_of(module: str) -> Path:
    """Returns the path of the blocking module that is generated from *module*."""
    return PACKAGE / "blocking" / f"{module}.py"


def wrapped_classes() -> dict[str, str]:
    """Returns the module of each asyncio class that has a blocking counterpart."""
    trees = {module: ast.parse(source_of(module)) for module in MODULES}
    return {
        node.name: module
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and _is_wrapped(node)
    }


def _is_wrapped(node: ast.ClassDef) -> bool:
    """Returns whether a class has methods that wait. Other classes are not wrapped."""
    return not node.name.startswith("_") and any(
        isinstance(child, ast.AsyncFunctionDef) for child in node.body
    )


def generate(module: str) -> str:
    """Returns the text of the blocking module for an asyncio *module*."""
    return formatted(Module(module, source_of(module), wrapped_classes()).text())


def formatted(text: str) -> str:
    """Returns *text* formatted like the repository and without unused imports."""
    for command in (
        ["check", "--fix", "--quiet", "--select", "F401,F811,I", "--config", FIRST_PARTY],
        ["format"],
    ):
        command = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "blocking.py", "-"]
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


class Module:
    """The source text of one blocking module."""

    def __init__(self, module: str, source: str, wrapped: dict[str, str]) -> None:
        self._module = module
        self._tree = ast.parse(source)
        self._wrapped = wrapped

    def text(self) -> str:
        """Returns the source text of the module, which may contain unused imports."""
        parts = [HEADER.format(module=self._module), self._docstring(self._tree, "")]
        parts += self._imports()
        for node in self._tree.body:
            if isinstance(node, ast.ClassDef) and node.name in self._wrapped:
                parts += self._class(node)
            elif isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                parts += self._function(node)
        return "\n".join(parts)

    def _imports(self) -> Iterator[str]:
        for node in self._tree.body:
            if isinstance(node, ast.Import):
                yield ast.unparse(node)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    home = node.module or ""
                    if alias.name in self._wrapped or alias.name in BY_HAND:
                        home = home.replace(".aio.", ".blocking.")
                    yield f"from {home} import {ast.unparse(alias)}"
        yield IMPORTS.format(module=self._module)
        for name in self._names():
            if name not in self._wrapped and name[0] != "_":
                yield f"from qmgr_client.aio.{self._module} import {name}"
        if "UnitOfWork" not in self._names():
            yield "from qmgr_client.blocking.unit import UnitOfWork"

    def _names(self) -> list[str]:
        """Returns the names of the constants and classes in the asyncio module."""
        names: list[str] = []
        for node in self._tree.body:
            if isinstance(node, ast.Assign):
                names += [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.ClassDef):
                names.append(node.name)
        return names

    def _docstring(self, node: ast.Module | ast.ClassDef | FunctionNode, indent: str) -> str:
        text = ast.get_docstring(node, clean=False) or ""
        text = "\n\n".join(_reworded(paragraph, indent) for paragraph in text.split("\n\n"))
        return f'{indent}"""{text}"""'

    def _type(self, node: ast.expr | None) -> str:
        """Returns an annotation as text, with the names of the blocking classes."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        text = "None" if node is None else ast.unparse(node)
        for name, renamed in RENAMED.items():
            text = re.sub(rf"\b{name}\b", renamed, text)
        return text

    def _function(self, node: ast.FunctionDef) -> Iterator[str]:
        """Yields a function that returns an object of a wrapped class."""
        kind = self._type(node.returns)
        yield f"def {node.name}({self._parameters(node)}) -> {kind!r}:"
        yield self._docstring(node, "    ")
        call = f"aio_{self._module}.{node.name}({self._arguments(node.args)})"
        yield f"    return {kind}(ClientThread(), {call})"

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        bases = [BASES.get(base, base) for base in map(ast.unparse, node.bases)]
        bases = bases or [f"Bridge[aio_{self._module}.{node.name}]"]
        name = RENAMED.get(node.name, node.name)
        yield f"class {name}({', '.join(bases)}):"
        yield self._docstring(node, "    ")
        for child in node.body:
            if isinstance(child, FunctionNode) and child.name not in INTERNAL:
                yield from self._method(child, name)

    def _method(self, node: FunctionNode, class_name: str) -> Iterator[str]:
        name = DUNDERS.get(node.name, node.name)
        if name.startswith("_") and name == node.name:
            return
        if node.decorator_list:
            yield "    @property"
        result = self._result(node)
        shown = repr(result) if result == class_name else result
        yield f"    def {name}({self._parameters(node)}) -> {shown}:"
        if ast.get_docstring(node):
            text = self._docstring(node, "        ")
            yield text.replace("\n\n", CALLBACKS, 1) if result.startswith("Future[") else text
        yield from (f"        {line}" for line in self._body(node, name, result))

    def _result(self, node: FunctionNode) -> str:
        text = re.sub(r"^asyncio\.Future\b", "Future", self._type(node.returns))
        return re.sub(r"^AsyncGenerator\[(.*), None\]$", r"Iterator[\1]", text)

    def _parameters(self, node: FunctionNode) -> str:
        """Returns the parameters, with their blocking types."""
        arguments = deepcopy(node.args)
        for argument in (*arguments.args, *arguments.kwonlyargs):
            if (kind := self._type(argument.annotation)) in PARAMETERS:
                argument.annotation = ast.Name(PARAMETERS[kind][0])
        return ast.unparse(arguments)

    def _arguments(self, arguments: ast.arguments) -> str:
        """Returns the arguments for the call of the asyncio function."""

        def passed(argument: ast.arg) -> str:
            _, pattern = PARAMETERS.get(self._type(argument.annotation), ("", "{}"))
            return pattern.format(argument.arg)

        parts = [passed(argument) for argument in arguments.args if argument.arg != "self"]
        parts += [f"{argument.arg}={passed(argument)}" for argument in arguments.kwonlyargs]
        parts += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
        return ", ".join(parts)

    def _body(self, node: FunctionNode, name: str, result: str) -> list[str]:
        """Returns the lines that forward a call."""
        if node.decorator_list:
            found = f"self._aio.{name}"
            found = f"{result}(self._thread, {found})" if result in self._wrapped else found
            return [f"return {found}"]
        call = f"self._aio.{node.name}({self._arguments(node.args)})"
        if name.startswith("__"):
            return _protocol(node, name, call)
        if self._module == "queue_manager":
            return [STARTS_AND_ENDS[name]]
        if isinstance(node, ast.FunctionDef):
            made = call if result in BUILT_ANYWHERE else f"self._thread.make(lambda: {call})"
            return [f"return {result}(self._thread, {made})"]
        if result.startswith("Iterator["):
            return [f"return pages(self._call, {call})"]
        if "(ask, " in call:
            return [f"return run_with_callbacks(self._call, lambda ask: {call})"]
        if result.startswith("Future["):
            call = f"handed_over({call})"
        caller = "self._thread.call_unless_closed" if name in ENDED_BY_CLOSE else "self._call"
        return [f"{'' if result == 'None' else 'return '}{caller}({call})"]


def _protocol(node: FunctionNode, name: str, call: str) -> list[str]:
    """Returns the lines of a method that Python itself calls for a with or for statement."""
    lines = [ast.unparse(line).replace("await ", "") for line in node.body]
    if all(re.fullmatch(r"return self|self\.\w+\(\)", line) for line in lines):
        return lines
    if name == "__next__":
        return ["return next_of(self._thread, self._aio)"]
    if name == "__exit__":
        return [f"self._leave({call}, error)"]
    if lines[-1] == "return self":
        return [f"self._call({call})", "return self"]
    return [f"return self._call({call})"]


def _reworded(paragraph: str, indent: str) -> str:
    """Returns a docstring's paragraph, reworded without asyncio, and filled again if it changed."""
    text = paragraph
    for pattern, replacement in PROSE:
        text = re.sub(pattern, replacement, text)
    lines = text.split("\n")
    is_first = not lines[0].startswith(" ") and bool(indent)
    is_prose = all(re.match(rf"{indent}(\S|$)", line) for line in lines[is_first:])
    if text == paragraph or not is_prose:
        return text
    words, end = " ".join(text.split()), "\n" + indent if text.endswith(f"\n{indent}") else ""
    filled = textwrap.fill(
        words,
        100,
        initial_indent=indent + " " * 3 * is_first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return (filled.lstrip() if is_first else filled) + end
