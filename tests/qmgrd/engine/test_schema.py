"""Tests of the tables of a journal: their creation, the rights they need, their format."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import psycopg
import pytest

from qmgrd.engine.schema import FORMAT, Place, create_segment, open_place, segments
from qmgrd.engine.server import ServerAway, ServerUnusable, connect
from tests.postgres import Postgres
from tests.qmgrd.engine.journals import Journal

MEMBERS = 6


@pytest.fixture
def role(postgres: Postgres) -> Iterator[str]:
    """Yields a role without rights."""
    name = "plain"
    with postgres.connect() as connection:
        connection.execute("CREATE ROLE plain LOGIN")
    yield name
    with postgres.connect() as connection:
        connection.execute("DROP OWNED BY plain; DROP ROLE plain")


def of_role(url: str, role: str) -> str:
    return re.sub("//[^@]*@", f"//{role}@", url)


def opened(url: str, name: str = "QM") -> Place:
    with closing(connect(url, "test")) as connection:
        return open_place(connection, name)


def drop_schema(url: str) -> None:
    """Lets the role of a test be dropped, which owns tables in another database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS qmgrd CASCADE; DROP OWNED BY plain")


def test_place_is_created_once_and_found_later(journal_url: str) -> None:
    place = opened(journal_url)
    assert opened(journal_url) == place
    other = opened(journal_url, "OTHER")
    assert other.manager != place.manager
    assert other.log_id != place.log_id
    assert len(place.log_id) == 8


def test_members_that_start_at_the_same_time_find_the_same_place(journal_url: str) -> None:
    ready = Barrier(MEMBERS)

    def start(number: int) -> Place:
        with closing(connect(journal_url, f"member {number}")) as connection:
            ready.wait()
            return open_place(connection, "QM" if number % 2 else "OTHER")

    with ThreadPoolExecutor(MEMBERS) as threads:
        found = list(threads.map(start, range(MEMBERS)))
    assert len(set(found)) == 2
    assert len(set(found[1::2])) == 1


def test_role_without_rights_is_for_an_operator(journal_url: str, role: str) -> None:
    with pytest.raises(ServerUnusable, match=r"permission denied.*GRANT CREATE ON DATABASE"):
        opened(of_role(journal_url, role))


def test_role_that_may_not_create_a_schema_can_use_an_existing_one(
    journal_url: str, role: str
) -> None:
    with psycopg.connect(journal_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA qmgrd; GRANT USAGE, CREATE ON SCHEMA qmgrd TO plain")
    try:
        place = opened(of_role(journal_url, role))
        assert opened(of_role(journal_url, role)) == place
    finally:
        drop_schema(journal_url)


@pytest.mark.parametrize(
    ("grant", "words"),
    [
        ("GRANT USAGE ON SCHEMA qmgrd TO plain", "permission denied for table"),
        (
            "GRANT USAGE ON SCHEMA qmgrd TO plain;GRANT ALL ON ALL TABLES IN SCHEMA qmgrd TO plain",
            "CREATE ON SCHEMA qmgrd",
        ),
        ("SELECT", "permission denied for schema qmgrd"),
    ],
)
def test_role_that_may_not_use_the_tables_is_for_an_operator(
    journal_url: str, role: str, grant: str, words: str
) -> None:
    opened(journal_url)
    with psycopg.connect(journal_url, autocommit=True) as connection:
        connection.execute(grant.encode())
    try:
        with pytest.raises(ServerUnusable, match=words):
            opened(of_role(journal_url, role))
    finally:
        drop_schema(journal_url)


def test_newer_format_is_refused(journal: Journal) -> None:
    journal.change(f"format = {FORMAT + 1}")
    with pytest.raises(ServerUnusable, match=f"has format {FORMAT + 1}, but .* reads {FORMAT}"):
        open_place(journal.admin, journal.name)


def test_lost_connection_is_away(journal: Journal) -> None:
    connection = journal.connect()
    journal.admin.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(ServerAway):
        open_place(connection, journal.name)


def test_segments_are_in_order_and_those_of_one_journal(journal: Journal) -> None:
    other = Journal(journal.url, f"{journal.name} OTHER")
    for number in (10, 9, 2):
        journal.create(number)
        other.create(number + 1)
    longer = Place(journal.place.manager * 10_000 + 1, b"")
    journal.admin.execute(create_segment(longer, 3))
    assert segments(journal.admin, journal.place) == [2, 9, 10]
    assert segments(journal.admin, other.place) == [3, 10, 11]
    other.close()


def test_segment_that_exists_is_kept_and_not_locked(journal: Journal) -> None:
    journal.write(1, [1, 2])
    with psycopg.connect(journal.url) as reader:
        reader.execute(f"select count(*) from {journal.place.segment(1)}")
        journal.admin.execute("set lock_timeout = 500")
        journal.create(1)
    assert [record.number for record in journal.records()] == [1, 2]


def test_content_is_not_compressed(journal: Journal) -> None:
    journal.write(1, [1], size=1 << 16)
    size = journal.admin.execute(
        f"select pg_column_size(content) from {journal.place.segment(1)}"
    ).fetchone()
    assert size == (1 << 16,)
