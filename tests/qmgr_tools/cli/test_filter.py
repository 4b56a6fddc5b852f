import pytest

from qmgr_tools.cli import filter as filters
from qmgr_tools.cli import output
from qmgr_tools.cli.failure import Exit, Failure

COLUMNS = (
    output.text("queue"),
    output.count("ready"),
    output.size("bytes"),
    output.duration("lease_ms"),
)
ROWS: list[output.Row] = [
    {"queue": "app.a", "ready": 5, "bytes": 2048, "lease_ms": 30_000},
    {"queue": "app.b", "ready": 0, "bytes": 100, "lease_ms": 500},
    {"queue": "b@NYC"},
    {"queue": "z", "ready": 7, "bytes": 0, "lease_ms": 30_000},
]


def names(where: list[str] | None = None, sort: str | None = None, limit: int | None = None) -> str:
    found = filters.rows(ROWS, COLUMNS, where or [], sort, limit)
    return " ".join(row["queue"] for row in found)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([], "app.a app.b b@NYC z"),
        (["ready>0"], "app.a z"),
        (["ready > 0", "bytes>1 KiB"], "app.a"),
        (["lease_ms=30 s"], "app.a z"),
        (["ready<=5"], "app.a app.b"),
        (["ready!=5"], "app.b b@NYC z"),
        (["queue=app.*"], "app.a app.b"),
        (["queue!=app.*"], "b@NYC z"),
        (["queue=APP.a"], ""),
        (["queue = 'app.a'"], "app.a"),
        (['queue!="app.*"'], "b@NYC z"),
    ],
)
def test_condition_keeps_what_fits(where: list[str], expected: str) -> None:
    assert names(where) == expected


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("ready", "app.b app.a z b@NYC"),
        ("-ready", "z app.a app.b b@NYC"),
        ("-queue", "z b@NYC app.b app.a"),
    ],
)
def test_rows_that_lack_the_column_are_sorted_last(sort: str, expected: str) -> None:
    assert names(sort=sort) == expected


def test_limit_comes_after_order() -> None:
    assert names(sort="-ready", limit=1) == "z"


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("ready", "not have the form COLUMN OPERATOR VALUE"),
        (">0", "not have the form COLUMN OPERATOR VALUE"),
        ("redy>0", r"keys -- did you mean ready\?"),
        ("ready>much", '"much" is not a whole number'),
        ("bytes>much", '"much" is not bytes'),
        ("ready=>0", "=> is not an operator -- did you mean >=\\? "),
        ("ready=!0", "did you mean !=\\? "),
        ("ready==0", "== is not an operator -- the operators are = != "),
        ("Lease-ms>0", "not have the form COLUMN OPERATOR VALUE"),
        ("lease_ms>5 GiB", "unknown unit"),
        ("queue>a", "queue is text"),
        (
            "ready >= 0 AND depth > 3",
            ("each --where accepts one condition -- repeat --where for each condition"),
        ),
    ],
)
def test_condition_that_cannot_be_is_explained(where: str, why: str) -> None:
    with pytest.raises(Failure, match=why) as refusal:
        names([where])
    assert refusal.value.exit_code is Exit.USAGE


def test_columns_are_those_named_in_that_order() -> None:
    assert filters.columns("bytes, queue", COLUMNS, ["queue"]) == [COLUMNS[2], COLUMNS[0]]
    assert filters.columns(None, COLUMNS, ["ready"]) == [COLUMNS[1]]
    assert filters.columns("all", COLUMNS, []) == list(COLUMNS)


def test_unknown_column_names_the_known_ones() -> None:
    with pytest.raises(Failure, match="queue, ready, bytes, lease_ms"):
        filters.columns("queue,x", COLUMNS, [])


def test_listing_tells_what_cannot_be_before_anybody_is_asked() -> None:
    for wanted, where, sort in (("frob", [], None), (None, ["frob>0"], None), (None, [], "frob")):
        with pytest.raises(Failure, match="frob") as failure:
            filters.Listing(COLUMNS, ["queue"], wanted, where, sort, None)
        assert failure.value.exit_code is Exit.USAGE


def test_listing_shows_the_rows_and_columns_that_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listing = filters.Listing(COLUMNS, ["queue"], "queue,ready", ["ready>0"], "-ready", 1)
    listing.show(listing.rows(ROWS))
    assert capsys.readouterr().out == "QUEUE\tREADY\nz\t7\n"
