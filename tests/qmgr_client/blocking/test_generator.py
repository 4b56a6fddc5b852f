"""Tests that the generator gives the blocking client all methods of the asyncio client."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_client import aio, blocking
from qmgr_client.aio import processing as aio_processing
from qmgr_client.blocking import processing as blocking_processing
from tests.qmgr_client.blocking import generator

CLASSES = [
    (getattr(aio, name), getattr(blocking, generator.RENAMED.get(name, name)))
    for name in aio.__all__
    if inspect.isclass(getattr(aio, name)) and name in generator.wrapped_classes()
]
CLASSES.append((aio_processing.Processing, blocking_processing.Processing))


def public(kind: type) -> dict[str, Any]:
    """Returns the public methods and properties of *kind* and its base classes."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if name[0] != "_"}
    return {name: value for name, value in found.items() if name not in generator.INTERNAL}


def verbs() -> Iterator[Any]:
    for theirs, ours in [*CLASSES, (aio, blocking)]:
        for name, found in public(ours).items():
            if inspect.isfunction(found) and hasattr(theirs, name):
                yield pytest.param(getattr(theirs, name), found, id=f"{ours.__name__}.{name}")


@pytest.mark.parametrize("module", generator.MODULES)
def test_module_is_what_the_generator_makes(module: str, request: pytest.FixtureRequest) -> None:
    target, text = generator.target_of(module), generator.generate(module)
    if request.config.getoption("rewrite", default=False):
        target.write_text(text)
    assert target.read_text() == text, "run this test with --rewrite, then read the diff"


@pytest.mark.parametrize(("theirs", "ours"), CLASSES, ids=lambda kind: kind.__name__)
def test_class_has_the_members_of_the_asyncio_class(theirs: type, ours: type) -> None:
    assert public(ours).keys() == public(theirs).keys()


@pytest.mark.parametrize(("theirs", "ours"), list(verbs()))
def test_verb_has_the_parameters_of_the_asyncio_verb_and_a_docstring(
    theirs: Any, ours: Any
) -> None:
    mine, wanted = (inspect.signature(verb).parameters for verb in (ours, theirs))
    assert {name: x.default for name, x in mine.items()} == {
        name: x.default for name, x in wanted.items()
    }
    assert [x.kind for x in mine.values()] == [x.kind for x in wanted.values()]
    assert ours.__doc__
    assert "await " not in ours.__doc__
    assert "async with" not in ours.__doc__


def generated(source: str) -> str:
    """Returns the blocking class for the asyncio class in *source*, without imports."""
    module = generator.Module("fruit", source, {"Fruit": "fruit"})
    tree = ast.parse(module.text())
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return ast.unparse(kind)


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        (
            "async def eat(self, n: int = 1, *, raw: bool = False, **more: int) -> int: ...",
            "def eat(self, n: int=1, *, raw: bool=False, **more: int) -> int:\n"
            "return self._call(self._aio.eat(n, raw=raw, **more))",
        ),
        ("async def rot(self) -> None: ...", "def rot(self) -> None:\nself._call(self._aio.rot())"),
        (
            "async def soon(self) -> 'asyncio.Future[int]': ...",
            "def soon(self) -> Future[int]:\nreturn self._call(handed_over(self._aio.soon()))",
        ),
        (
            "async def pips(self) -> AsyncGenerator[int, None]: ...",
            "def pips(self) -> Iterator[int]:\nreturn pages(self._call, self._aio.pips())",
        ),
        (
            "def graft(self) -> Fruit: ...",
            "def graft(self) -> 'Fruit':\n"
            "return Fruit(self._thread, self._thread.make(lambda: self._aio.graft()))",
        ),
        (
            "async def put_many(self, items: Iterable[bytes | Outgoing]) -> None: ...",
            "def put_many(self, items: Iterable[bytes | Outgoing]) -> None:\n"
            "self._call(self._aio.put_many(collected(items)))",
        ),
        (
            "@property\n    def name(self) -> str: ...",
            "@property\ndef name(self) -> str:\nreturn self._aio.name",
        ),
        (
            "async def __aenter__(self) -> 'Fruit':\n"
            "        await self.open()\n        return self",
            "def __enter__(self) -> 'Fruit':\nself.open()\nreturn self",
        ),
    ],
)
def test_verb_is_forwarded(verb: str, text: str) -> None:
    source = f"class Fruit:\n    {verb}\n    async def x(self) -> None: ..."
    found = [line.strip() for line in generated(source).splitlines()]
    assert text in "\n".join(found)
    assert found[0] == "class Fruit(Bridge[aio_fruit.Fruit]):"
