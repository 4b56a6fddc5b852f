"""Tests that the pages define each cited id, and that the tests named on the pages exist."""

import ast
import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

REPO = Path(__file__).parents[2]
BEHAVIOUR = REPO / "docs/behaviour.md"
PAGES = (BEHAVIOUR, REPO / "docs/design.md")
OWN_PATH = "tests/docs/test_behaviour_page.py"
ROOTS = ("qmgrd", "protocol", "config", "tools", "spark", "tests")
SHOWN_MAX = 2  # maximum number of tests named for each id
# The test fails if it finds fewer than these numbers.
FILES_LEAST = 150  # number of files that cite ids
CITED_LEAST = 120  # number of cited ids
DEFINED_LEAST = {"behaviour.md": 135, "design.md": 16}  # number of defined ids
ID = re.compile(r"(?<![A-Za-z0-9])([A-EG])(\d{1,2}b?)(?![A-Za-z0-9])(?:-\1(\d{1,2}))?")
DEFINED = re.compile(r"^\* \*\*([A-Z]\d{1,2}b?): ", re.MULTILINE)
ITEM = re.compile(r"^\* \*\*([A-Z]\d{1,2}): .*\n(?:  .*\n)*", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.(?:py|txt))(?:::(\w+))?`")
LABEL = "  Tests: "


class Citation(NamedTuple):
    """A citation of an id, and its location. The lowest rank names the id most directly."""

    rank: int
    path: str
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"`{self.path}::{self.function}`" if self.function else f"`{self.path}`"


def ids(text: str) -> Iterator[str]:
    """Yields the ids that *text* cites. C1-C3 cites three ids."""
    for letter, number, end in ID.findall(text):
        if end:
            yield from (f"{letter}{n}" for n in range(int(number), int(end) + 1))
        else:
            yield letter + number


def cited_in_python(path: str, text: str) -> Iterator[tuple[str, Citation]]:
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node) or ""
        if isinstance(node, ast.Module | ast.ClassDef) or not node.name.startswith("test_"):
            yield from ((found, Citation(6, path)) for found in ids(docstring))
            continue
        for found in {*ids(node.name), *ids(docstring)}:
            is_direct = docstring.startswith(found)
            rank = (1 if is_direct else 2) if found in ids(node.name) else (3 if is_direct else 4)
            yield found, Citation(rank, path, node.lineno, node.name)
    if not any("#" in line and ID.search(line) for line in text.splitlines()):
        return  # Parsing the tokens takes a long time.
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from ((found, Citation(6, path)) for found in ids(token.string))


def cited_in_conversation(path: str, text: str) -> Iterator[tuple[str, Citation]]:
    """Yields the ids in parentheses or before a colon in comments. Elsewhere, A1 is a message."""
    for line in re.findall(r"^# (.*)", text, re.MULTILINE):
        for cited in re.findall(r"^[A-G]\d[^:a-z]*:|\([^)a-z]*\)", line):
            yield from ((found, Citation(5, path)) for found in ids(cited))


@cache
def citations() -> dict[str, set[Citation]]:
    """Returns the citations of each id, in code and tests."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *ROOTS], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout.split()
    found: dict[str, set[Citation]] = defaultdict(set)
    for path in listed:
        if path == OWN_PATH:
            continue
        if path.endswith(".py"):
            cite = cited_in_python
        elif path.startswith("tests/conversations/"):
            cite = cited_in_conversation
        else:
            continue
        text = (REPO / path).read_text()
        if ID.search(text):
            for cited, citation in cite(path, text):
                found[cited].add(citation)
    return found


def shown_by(cited: str) -> list[str]:
    """Returns the tests to list for an id: those that cite it most directly."""
    chosen: list[Citation] = []
    for citation in sorted(citations()[cited]):
        is_test = citation.path.startswith("tests/") and "/test_" in citation.path
        if not is_test and not citation.path.startswith("tests/conversations/"):
            continue
        if citation.path not in {one.path for one in chosen}:
            chosen.append(citation)
    return [str(one) for one in chosen[:SHOWN_MAX]]


def rewritten(text: str) -> str:
    """Returns the page, updated with the current tests of each id."""

    def item(match: re.Match[str]) -> str:
        prose = match[0].partition(LABEL)[0]
        if "Not built" in prose:
            return prose
        tests = shown_by(match[1])
        return prose + (LABEL + ",\n  ".join(tests) + ".\n" if tests else "  No test cites it.\n")

    return ITEM.sub(item, text.replace("  No test cites it.\n", ""))


def test_each_cited_id_is_defined() -> None:
    files = {citation.path for found in citations().values() for citation in found}
    assert len(files) >= FILES_LEAST, f"found only {len(files)} files"
    assert len(citations()) >= CITED_LEAST, f"found only {len(citations())} ids"
    defined = {found for page in PAGES for found in DEFINED.findall(page.read_text())}
    places = {cited: min(found) for cited, found in citations().items() if cited not in defined}
    assert places == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_id_is_defined_once(page: Path) -> None:
    defined = DEFINED.findall(page.read_text())
    assert len(defined) == len(set(defined)) >= DEFINED_LEAST[page.name]


def test_page_names_the_tests_that_cite_an_id(pytestconfig: pytest.Config) -> None:
    """`--rewrite` updates the page."""
    if pytestconfig.getoption("rewrite"):
        BEHAVIOUR.write_text(rewritten(BEHAVIOUR.read_text()))
    text = BEHAVIOUR.read_text()
    assert len(ITEM.findall(text)) >= DEFINED_LEAST[BEHAVIOUR.name]
    assert text == rewritten(text), "pytest --rewrite tests/docs/test_behaviour_page.py"
    assert "No test cites it" not in text


def test_each_named_test_exists() -> None:
    named = [found for page in PAGES for found in NAMED.findall(page.read_text())]
    assert len(named) >= DEFINED_LEAST[BEHAVIOUR.name], f"found only {len(named)} tests"
    for path, function in named:
        text = (REPO / path).read_text()
        assert re.search(rf"def {function}\(", text) if function else text, (path, function)


def test_range_of_ids_is_read() -> None:
    assert list(ids("C1-C3, D2 of test_x_B16 and 4KiB, US 6,401,136 BX")) == [
        "C1",
        "C2",
        "C3",
        "D2",
        "B16",
    ]
