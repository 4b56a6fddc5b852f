"""Tests that the README and the pages show real output, and that a wrong page is detected."""

from pathlib import Path

import pytest

from tests.docs.examples import BadPage, blocks, matches, rewritten, run

REPO = Path(__file__).parents[2]
OWN_TESTS = {"PROTOCOL.md"}  # checked by tests/qmgr_protocol/test_protocol_document.py
LONG = {"benchmarks.md", "export.md", "history.md", "operating.md", "spark.md"}
PAGES = sorted(
    path
    for path in (REPO / "README.md", *REPO.glob("docs/**/*.md"))
    if path.name not in OWN_TESTS and "```" in path.read_text()
)
DOCS = sorted(REPO.glob("docs/**/*.md"))


def test_pages_have_examples_that_are_run() -> None:
    found = [block for page in PAGES for block in blocks(page.read_text())]
    commands = [block for block in found if block.kind in ("console", "python") and block.is_run]
    assert len(DOCS) >= 33, f"found only {len(DOCS)} pages"
    assert {page.name for page in PAGES} >= LONG
    assert len(PAGES) >= 14, f"found only {len(PAGES)} pages with blocks"
    assert len(commands) >= 75, f"found only {len(commands)} blocks that are run"


@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.spark, pytest.mark.long] if page.name in LONG else ())
        for page in PAGES
    ],
    ids=[page.relative_to(REPO).as_posix() for page in PAGES],
)
def test_page_shows_real_output(page: Path, pytestconfig: pytest.Config) -> None:
    """`--rewrite` updates the page to the current output of its commands."""
    if pytestconfig.getoption("rewrite"):
        page.write_text(rewritten(page.read_text()))
    faults = run(page.read_text())
    assert not faults, "\n\n".join(faults)


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.name)
def test_block_declares_its_kind(page: Path) -> None:
    list(blocks(page.read_text()))


def fenced(kind: str, text: str) -> str:
    return f"```{kind}\n{text}\n```\n"


@pytest.mark.parametrize(
    "page",
    [
        fenced("", "ls"),
        fenced("bash", "ls"),
        "text\n\n    ls\n",
        f"<!-- not run: -->\n{fenced('', 'ls')}",
        f"<!-- not run: of another -->\n\nwords\n\n{fenced('', 'ls')}",
    ],
)
def test_unmarked_block_is_refused(page: str) -> None:
    with pytest.raises(BadPage):
        list(blocks(page))


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (fenced("console", "$ echo one\ntwo"), "printed:\none"),
        (fenced("console", "$ false"), "exit code 1"),
        (fenced("python", "1 / 0"), "ZeroDivisionError"),
        (fenced("python", "print(1)") + fenced("output", "2"), "printed:\n1"),
        (fenced("toml", "[link]\nspeed = 1"), "link.speed: unknown key"),
        (fenced("console", "$ exit 0\n$ echo later"), "did not end"),
    ],
)
def test_example_with_other_output_is_found(page: str, fault: str) -> None:
    assert fault in "\n".join(run(page))


def test_page_can_be_rewritten() -> None:
    page = "words\n" + fenced("console", "$ echo one\ntwo\nthree\n$ echo four\nfour\n$ echo 5\n6")
    right = "words\n" + fenced("console", "$ echo one\none\n$ echo four\nfour\n$ echo 5\n5")
    assert rewritten(page) == right


def test_lines_omitted_from_a_page_stay_omitted_when_it_is_rewritten() -> None:
    page = fenced("console", "$ seq 7\n0\n...\n5\n6") + fenced("console", "$ seq 2\n0\n...\n9")
    right = fenced("console", "$ seq 7\n1\n...\n6\n7") + fenced("console", "$ seq 2\n1\n2")
    assert rewritten(page) == right


def test_context_of_a_page_overrides_the_environment() -> None:
    page = fenced("console", "$ qmctl context create here 127.0.0.1:7471 --use > /tmp/log")
    assert not run(page + fenced("console", "$ qmctl context show | grep -c 'context use'\n1"))


def test_session_continues_from_block_to_block() -> None:
    page = (
        fenced("console", "$ export A=1; echo $A > /tmp/file")
        + fenced("python", "import os\nprint(os.environ['A'], open('/tmp/file').read())")
        + fenced("output", "1 1")
        + f"<!-- not run: it would fail -->\n{fenced('console', '$ false')}"
        + fenced("console", "$ echo a \\\n  b; pwd\na b\n/tmp")
    )
    assert run(page) == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("put on Q: NYC.1790000000000000", "put on Q: NYC.1795265697240073", True),
        ("3 s ago", "now", True),
        ("nyc.crt ends 2027-11-28", "nyc.crt ends 2028-01-01", True),
        ("b", "retrying for up to 60 s: cannot connect\nb\n", True),
        ("qmctl.host7.4711  client", "qmctl.vm.a-b.12      client", True),
        ("ready 1", "ready 2", False),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nb\nc\ne", False),
        ("...\nd", "d", True),
        ("a.c", "abc", False),
    ],
)
def test_values_that_differ_between_runs_are_compared_by_their_form(
    shown: str, printed: str, same: bool
) -> None:
    assert matches(shown, printed) is same
