"""Tests that our texts avoid the phrases that the word list in docs/STYLE.md replaces."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.english import PATTERNS, REPO, Hit, files, hits, hits_in, name_of, texts

FILES_MIN = 1_550
LINES_MIN = 49_000
# Phrases in their plain sense: the file, the pattern, and a part of the line.
ALLOWED = [("tests/qmgr_tools/test_queue_kinds.py", "is no", "exclusive is no, requested yes")]
# Rows of the word list that depend on the context, so that no pattern can find them.
DEPEND_ON_CONTEXT = {
    "says",
    "was said",
    "have X done",
    "has it be done",
    "goes",
    "takes (a message)",
    "keep in mind (a UID)",
    "to hold X against Y",
}
EXAMPLES = {
    "clause as subject": "What is answered is on disk.",
    "stands, lies": "The row lies below the key.",
    "tells": "It tells how it went.",
    "have it done": "Have the daemon stopped.",
    "is no": "This is no queue.",
    "is there": "The queue is there already.",
    "beside": "It is kept beside the row.",
    "anew": "The daemon starts anew.",
    "put back": "A store that was put back.",
    "mend": "Mend it first.",
    "unless said": "5 unless said otherwise",
    "as ever": "It works as ever.",
    "who puts": "It depends on who puts.",
    "what waits": "It counts what waits.",
    "is gone": "The message is gone.",
    "of its own": "It has a thread of its own.",
    "must not be none": "X must not be none.",
    "consecutive": "5 dials in a row led nowhere",
    "invalid": "The row makes no sense.",
}


class Search(NamedTuple):
    """The phrases in the repository, and how much text was searched for them."""

    hits: list[Hit]
    files: int
    lines: int


@cache
def search() -> Search:
    """Returns the result for the repository."""
    paths, lines, found = files([]), 0, list[Hit]()
    for path in paths:
        of_file = list(texts(path))
        lines += len(of_file)
        found += hits_in(name_of(path), of_file)
    return Search(found, len(paths), lines)


def allows(entry: tuple[str, str, str], hit: Hit) -> bool:
    """Returns whether *entry* of ALLOWED covers *hit*."""
    return (hit.path, hit.name) == entry[:2] and entry[2] in hit.text


def words_replaced() -> list[str]:
    """Returns the phrases in the left column of the word list."""
    page = (REPO / "docs/STYLE.md").read_text()
    table = page.partition("### Words")[2].partition("### ")[0]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", table, re.MULTILINE)[1:]
    return [phrase for row in rows for phrase in row.split(", ")]


def test_texts_use_the_standard_words() -> None:
    extra = [hit for hit in search().hits if not any(allows(entry, hit) for entry in ALLOWED)]
    assert [f"{hit.path}:{hit.line}: {hit.name}: {hit.text[:90]}" for hit in extra] == []


def test_enough_texts_are_searched() -> None:
    _, count, lines = search()
    assert (count >= FILES_MIN, lines >= LINES_MIN) == (True, True), f"{count} files, {lines} lines"


@pytest.mark.parametrize("entry", ALLOWED, ids=lambda entry: entry[0])
def test_allowed_phrase_still_occurs(entry: tuple[str, str, str]) -> None:
    assert any(allows(entry, hit) for hit in search().hits)


@pytest.mark.parametrize("name", PATTERNS)
def test_planted_phrase_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.english.REPO", tmp_path)
    for file, text in (("page.md", EXAMPLES[name]), ("code.py", f"x = 1  # {EXAMPLES[name]}\n")):
        path = tmp_path / file
        path.write_text(text)
        assert name in {hit.name for hit in hits(path)}


@pytest.mark.parametrize("phrase", words_replaced())
def test_each_phrase_of_the_word_list_has_a_pattern(phrase: str) -> None:
    if phrase not in DEPEND_ON_CONTEXT:
        text = f"{phrase.partition(' (')[0].replace('X', 'it')} "
        assert any(pattern.search(text) for pattern in PATTERNS.values())


def test_word_list_is_read() -> None:
    assert len(words_replaced()) >= 28
    assert set(words_replaced()) >= DEPEND_ON_CONTEXT
