"""Tests of connections to the server of a journal: which errors an operator must act on."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from qmgr_bench.server import free_port
from qmgrd.engine.server import (
    ServerAway,
    ServerUnusable,
    connect,
    durability,
    explained,
    insecure_host,
    session,
)
from tests.postgres import Postgres

SECRET = "s3cr3t"
ROLE = "guarded"


def check(url: str) -> None:
    connect(url, "test").close()


def set_for_role(server: Postgres, name: str, value: str) -> str:
    """Returns the address of a new role for which a setting has a value."""
    role = f"with_{name}"
    with server.connect() as connection:
        connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(role)))
        connection.execute(
            SQL("ALTER ROLE {} SET {} = {}").format(
                Identifier(role), Identifier(name), Literal(value)
            )
        )
    return re.sub("//[^@]*@", f"//{role}@", server.url)


@pytest.fixture(scope="module")
def guarded(own_postgres: Postgres) -> Iterator[str]:
    """Yields the address of a role that needs a password. The address has none."""
    path = own_postgres.data / "pg_hba.conf"
    before = path.read_text()
    path.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{before}")
    with own_postgres.connect() as connection:
        connection.execute(
            SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(ROLE), Literal(SECRET))
        )
        connection.execute("SELECT pg_reload_conf()")
    yield f"postgresql://{ROLE}@127.0.0.1:{own_postgres.port}/postgres"
    path.write_text(before)


def test_session_has_a_name_and_commits_each_statement(postgres: Postgres) -> None:
    with closing(connect(postgres.url, "standby")) as connection:
        assert connection.autocommit
        name = connection.execute("select current_setting('application_name')").fetchone()
        assert name == ("qmgrd standby",)
        found = durability(connection)
        assert found.server.startswith(str(connection.info.server_version // 10_000))
        assert found[1:] == ("on", "", "off")


def test_options_of_the_url_win(postgres: Postgres) -> None:
    with closing(connect(f"{postgres.url}?application_name=mine", "standby")) as connection:
        name = connection.execute("select current_setting('application_name')").fetchone()
        assert name == ("mine",)


def test_server_that_does_not_listen_is_away() -> None:
    with pytest.raises(ServerAway, match="refused"):
        check(f"postgresql://u@127.0.0.1:{free_port()}/d")


def test_unknown_host_is_away() -> None:
    with pytest.raises(ServerAway, match=r"host\.invalid"):
        check("postgresql://u@host.invalid/d")


@pytest.mark.parametrize("password", ["", f":{SECRET}x"])
def test_wrong_password_is_for_an_operator(guarded: str, password: str) -> None:
    with pytest.raises(ServerUnusable, match="password") as caught:
        check(guarded.replace("@", f"{password}@"))
    assert SECRET not in repr(caught.value)


def test_right_password_is_accepted(guarded: str) -> None:
    check(guarded.replace("@", f":{SECRET}@"))


def test_unknown_database_or_role_is_for_an_operator(postgres: Postgres) -> None:
    with pytest.raises(ServerUnusable, match='database "nowhere" does not exist'):
        check(postgres.url_of("nowhere"))
    with pytest.raises(ServerUnusable, match='role "nobody" does not exist'):
        check(re.sub("//[^@]*@", "//nobody@", postgres.url))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}%zz@h/d",
        f"postgresql://u:{SECRET}@[::1/d",
        f"postgresql://u:{SECRET} x@h/d",
        f"postgresql://u:x@{SECRET}@h/d",
        f"postgresql://u:x/{SECRET}@h/d",
        f"postgresql://u:x:{SECRET}@h/d",
        f"postgresql://u:x?y@{SECRET}@h/d",
        f"postgresql://u@h/d?password=x&{SECRET}",
        f"postgresql://u@h/d?passwort={SECRET}&x=y",
        f"user=u password=x {SECRET}",
        f'user=u password=x "{SECRET}"',
        f"host=h user='u password={SECRET}",
        SECRET,
    ],
)
def test_invalid_url_is_for_an_operator_and_shows_no_password(url: str) -> None:
    for call in (check, insecure_host):
        with pytest.raises(ServerUnusable, match=r"journal\.url is not valid") as caught:
            call(url)
        chain: BaseException | None = caught.value
        while chain is not None:
            assert SECRET not in f"{chain} {chain!r}"
            chain = chain.__cause__


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/d?passfile=/a@b/c",
        f"postgresql://u:{SECRET}%40%2F@127.0.0.1:1,127.0.0.1:2/d",
        f"postgresql://127.0.0.1:1/d?user=u@tenant&password={SECRET}",
        f"host=127.0.0.1 port=1 user=u@x password='{SECRET} @/:'",
    ],
)
def test_valid_urls_are_accepted_and_show_no_password(url: str) -> None:
    with pytest.raises(ServerAway, match="refused") as caught:
        check(url)
    assert SECRET not in str(caught.value)


def test_synchronous_commit_off_is_for_an_operator(own_postgres: Postgres) -> None:
    url = set_for_role(own_postgres, "synchronous_commit", "off")
    with pytest.raises(ServerUnusable, match=r"ALTER ROLE \.\.\. SET synchronous_commit = on"):
        check(url)


def test_read_only_server_is_away(own_postgres: Postgres) -> None:
    url = set_for_role(own_postgres, "default_transaction_read_only", "on")
    with pytest.raises(ServerAway, match="target_session_attrs=read-write"):
        check(url)


def test_server_that_becomes_read_only_is_away(own_postgres: Postgres) -> None:
    sessions = ExitStack()
    connection = sessions.enter_context(session(own_postgres.create_database(), "test"))
    connection.execute("set default_transaction_read_only = on")
    with pytest.raises(ServerAway, match="the server of the journal is read-only"), sessions:
        connection.execute("create table t (a int)")
    assert connection.closed


def test_standby_is_away_and_the_primary_is_found_among_several_hosts() -> None:
    with Postgres() as server:
        copy = server.standby()
        with pytest.raises(ServerAway, match="read-only"):
            check(copy.url)
        both = f"postgresql://postgres@127.0.0.1:{copy.port},127.0.0.1:{server.port}/postgres"
        with closing(connect(both, "test")) as connection:
            assert connection.info.port == server.port
        server.kill()
        with pytest.raises(ServerAway):
            check(both)
        copy.promote()
        with closing(connect(both, "test")) as connection:
            assert connection.info.port == copy.port


def test_pooler_is_for_an_operator(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 1)
    with pytest.raises(ServerUnusable, match="PgBouncer"):
        check(postgres.url)


def test_old_server_is_for_an_operator(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", 120_009)
    with pytest.raises(ServerUnusable, match="PostgreSQL 12, but a journal needs PostgreSQL 13"):
        check(postgres.url)


def test_text_is_text_in_a_database_without_an_encoding(postgres: Postgres) -> None:
    with postgres.connect() as connection:
        connection.execute(
            "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
        )
    with closing(connect(postgres.url_of("ascii"), "test")) as connection:
        assert connection.execute("select 'Zürich'::text").fetchone() == ("Zürich",)
    postgres.drop_database(postgres.url_of("ascii"))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("postgresql://u@db.example/d", "db.example"),
        ("postgresql://u@db.example/d?sslmode=require", "db.example"),
        ("postgresql://u@db.example/d?sslmode=verify-ca", "db.example"),
        ("postgresql://u@db.example/d?sslmode=verify-full", None),
        ("postgresql://u@localhost/d", None),
        ("postgresql://u@127.0.0.1,db.example/d", "db.example"),
        ("postgresql://u@127.0.0.9,[::1]/d", None),
        ("postgresql://u@10.0.0.1/d", "10.0.0.1"),
        ("postgresql:///d?host=/run/postgresql", None),
        ("postgresql:///d?host=@abstract", None),
        ("postgresql:///d", None),
        ("host=localhost hostaddr=10.0.0.1 user=u", "10.0.0.1"),
    ],
)
def test_host_without_a_checked_certificate_is_found(url: str, host: str | None) -> None:
    assert insecure_host(url) == host


def test_lost_connection_is_away(postgres: Postgres) -> None:
    with closing(connect(postgres.url, "test")) as connection:
        postgres.value("select pg_terminate_backend(%s)", connection.info.backend_pid)
        with pytest.raises(ServerAway):
            durability(connection)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SSL error: certificate verify failed", ServerUnusable),
        ("SSL error: sslv3 alert certificate unknown", ServerUnusable),
        ("SSL error: tlsv1 alert unknown ca", ServerUnusable),
        ("server does not support SSL, but SSL was required", ServerUnusable),
        ("SSL error: unexpected eof while reading", ServerAway),
        ("FATAL: the database system is starting up", ServerAway),
        ("FATAL: sorry, too many clients already", ServerAway),
        ("session is read-only", ServerAway),
    ],
)
def test_errors_without_a_code_are_told_apart(text: str, kind: type[Exception]) -> None:
    assert type(explained(psycopg.OperationalError(text))) is kind
