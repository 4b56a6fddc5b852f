from html.parser import HTMLParser

import pytest

from pyspark_qmgr.reports import page
from pyspark_qmgr.reports.depth import DEPTH
from pyspark_qmgr.reports.registry import REPORTS
from pyspark_qmgr.reports.run import Found, Outcome
from tests.pyspark_qmgr.reports import made

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&amp;\n\x1b'
VOID = {"meta", "img", "link", "br"}


class Parsed(HTMLParser):
    """A page as a browser parses it: balanced elements with their text and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def row(queue: str, depth: int = 3) -> dict[str, object]:
    of = {column.name: None for column in DEPTH.parts[0].columns}
    return {
        **of,
        "queue_manager": "NYC",
        "queue": queue,
        "depth": depth,
        "oldest_age_ms": 61_000.0,
        "oldest_put_at": made.START,
        "ready": 1_234,
    }


def made_page(queue: str = "Q", error: str = "", rows_total: int = 1) -> str:
    part = DEPTH.parts[0]
    found = Found(
        part, "depth.parquet", rows_total, [row(queue)], f"{queue} is deep", "<svg></svg>"
    )
    outcomes = [
        Outcome(DEPTH, (found,), "", 5),
        Outcome(REPORTS["sizes"], (), error or "it broke", 5),
        Outcome(REPORTS["hops"], (Found(REPORTS["hops"].parts[0], "h", 0, [], "", ""),), "", 5),
    ]
    snapshots = ({"queue_manager": queue, "directory": "/snapshots/a"},)
    facts = page.Facts("now", (queue,), snapshots, {"path": queue}, {"spark": "4"})
    return page.page(facts, outcomes)


def test_page_is_well_formed_and_needs_nothing_else() -> None:
    parsed = Parsed(made_page())
    assert parsed.open == []
    names = {tag for tag, _ in parsed.elements}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    assert not [a for _, attrs in parsed.elements for a in attrs if a in ("src", "srcset")]
    hrefs = [attrs["href"] for tag, attrs in parsed.elements if tag == "a"]
    ids = [attrs["id"] for _, attrs in parsed.elements if "id" in attrs]
    assert hrefs == ["#depth", "#sizes", "#hops"]
    assert {str(href)[1:] for href in hrefs} <= set(ids)
    assert len(ids) == len(set(ids))
    policies = [attrs.get("content") for tag, attrs in parsed.elements if tag == "meta"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in policies


def test_name_of_a_hostile_producer_is_text() -> None:
    harmless, hostile = Parsed(made_page()), Parsed(made_page(HOSTILE, error=HOSTILE))
    assert [tag for tag, _ in harmless.elements] == [tag for tag, _ in hostile.elements]
    assert not [a for _, attrs in hostile.elements for a in attrs if a.startswith("on")]
    assert '"><script>alert(1)</script>' in "".join(hostile.texts)


def test_rows_are_shown_as_people_read_them() -> None:
    told = Parsed(made_page()).texts
    assert {"1 min 1 s", "1,234", "2024-05-06 10:00:00", "it broke", "oldest age"} <= {
        text.removeprefix("failed: ") for text in told
    }


@pytest.mark.parametrize(("total", "words"), [(1, "1 row, all in "), (99, "99 rows, 98 more in ")])
def test_page_says_where_the_rest_is(total: int, words: str) -> None:
    assert f"each row is a queue of a snapshot; {words}depth.parquet" in made_page(rows_total=total)


def test_report_without_rows_says_so() -> None:
    assert "No rows: a link" in made_page()
    assert "no rows" in made_page()


def test_many_queue_managers_are_counted() -> None:
    names = tuple(f"QM{n}" for n in range(200))
    text = page.page(page.Facts("now", names, (), {}, {}), [])
    assert "<h1>Queues of QM0, QM1, QM2, 197 more</h1>" in text
    assert Parsed(text).open == []
