"""Connects to the PostgreSQL server of a journal, and checks that a journal may live there.

Credentials follow the rules of libpq: in the URL, ``service``, ``passfile``, certificates. With
several hosts in the URL, libpq finds the one that accepts writes, also after a failover.
"""

import ipaddress
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

VERSION_LEAST = 130000
CONNECT_MAX_S = 5
# The connection ends if the server does not confirm the receipt of data for so long.
UNCONFIRMED_MAX_MS = 10_000
# Keepalives find a dead server on an idle connection.
_KEEPALIVES = {"keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
_UNUSABLE_STATES = {
    "28000",  # no entry in pg_hba.conf, or an unknown role
    "28P01",  # wrong password
    "3D000",  # unknown database
    "42501",  # missing privileges
}
# Words of errors that have no code. Names of hosts must not match.
_UNUSABLE_WORDS = (
    "no password supplied",
    "password authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "definition of service",
    "certificate ",
    "v1 alert ",  # TLS: the server refuses the certificate or the version
    "v3 alert ",
    "wrong version number",
    "does not support SSL",
    "invalid sslmode value",
    "invalid port number",
    "invalid integer value",
)
# A user or a password with a character that ends it too early.
_UNENCODED = re.compile(r"\w+://([^:/?@]*:[^?]*[@/:#\s\[\]][^?]*@|[^/@]*@[^/?]*@)")


class ServerUnusable(Exception):
    """The server, or its settings, must be changed before it can keep the journal."""


class ServerAway(Exception):
    """The server cannot be reached, or does not accept writes now. It may do so later."""


class Durability(NamedTuple):
    """The settings of the server that say what a commit survives."""

    server: str  # the version of the server
    synchronous_commit: str
    synchronous_standby_names: str
    fsync: str


def connect(url: str, purpose: str) -> psycopg.Connection:
    """Returns a checked connection, in which each statement is a transaction.

    Args:
        url: ``postgresql://...``, or another conninfo string of libpq.
        purpose: The name that the server's lists of connections show.

    Raises:
        ServerUnusable: An operator must change the URL, the rights or the server.
        ServerAway: The server cannot be reached, or is read-only.
    """
    try:
        connection = psycopg.connect(_conninfo(url, purpose), autocommit=True)
    except psycopg.Error as error:
        raise explained(error) from error
    try:
        _check(connection)
    except psycopg.Error as error:
        connection.close()
        raise explained(error) from error
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def session(url: str, purpose: str) -> Iterator[psycopg.Connection]:
    """Yields a connection as of :func:`connect`, and explains the errors of its statements.

    Raises:
        ServerUnusable, ServerAway: See :func:`connect`.
    """
    connection = connect(url, purpose)
    try:
        yield connection
    except psycopg.Error as error:
        raise explained(error) from error
    finally:
        connection.close()


def durability(connection: psycopg.Connection) -> Durability:
    """Returns what a commit on this server survives.

    Raises:
        ServerAway: The connection was lost.
    """
    names = "server_version", *Durability._fields[1:]
    try:
        row = connection.execute(
            "select " + ", ".join(f"current_setting('{name}')" for name in names)
        ).fetchone()
    except psycopg.Error as error:
        raise explained(error) from error
    assert row is not None
    return Durability(*row)


def insecure_host(url: str) -> str | None:
    """Returns the host of *url* whose certificate would not be checked, or None.

    Connections on this machine need no certificate.
    """
    options = conninfo_to_dict(_conninfo(url, ""))
    if options.get("sslmode") == "verify-full":
        return None
    hosts = str(options.get("hostaddr") or options.get("host") or "")
    remote = (host for host in hosts.split(",") if host and not _is_local(host))
    return next(remote, None)


def explained(error: psycopg.Error) -> ServerUnusable | ServerAway:
    """Returns *error* with words for an operator. Passwords never occur in it."""
    state, text = error.sqlstate or "", _words(error)
    if isinstance(error, pg.ReadOnlySqlTransaction) or "read-only" in text:
        return ServerAway(f"the server of the journal is read-only: {text}")
    if isinstance(error, psycopg.ProgrammingError) and not state:
        return ServerUnusable(f"journal.url is not valid: {text}")
    if state in _UNUSABLE_STATES:
        return ServerUnusable(f"the server of the journal refuses this queue manager: {text}")
    if not state and any(word in text for word in _UNUSABLE_WORDS):
        return ServerUnusable(f"the server of the journal cannot be used: {text}")
    return ServerAway(f"the server of the journal is away: {text}")


def _words(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:4]) or type(error).__name__


def _conninfo(url: str, purpose: str) -> str:
    if _UNENCODED.match(url):
        # libpq would read the rest of the password as a host or a port, and its errors show those.
        raise ServerUnusable(
            "journal.url is not valid: percent-encode characters such as @, / and : in the user "
            "and the password, for example @ as %40"
        )
    try:
        given = conninfo_to_dict(url)
        wanted: dict[str, str | int | None] = {
            "application_name": f"qmgrd {purpose}"[:63],
            "client_encoding": "UTF8",  # psycopg returns bytes if it is SQL_ASCII.
            "connect_timeout": CONNECT_MAX_S,
            "tcp_user_timeout": UNCONFIRMED_MAX_MS,
            "target_session_attrs": "read-write" if "," in str(given.get("host", "")) else None,
            **_KEEPALIVES,
        }
        return make_conninfo(
            url, **{key: value for key, value in wanted.items() if key not in given and value}
        )
    except psycopg.ProgrammingError as error:
        raise ServerUnusable(f"journal.url is not valid: {_hidden(_words(error))}") from None


def _hidden(text: str) -> str:
    """Returns *text* without what it quotes, which may be a part of a password."""
    return re.sub('".*"', "...", text)


def _check(connection: psycopg.Connection) -> None:
    if connection.info.server_version < VERSION_LEAST:
        version = connection.info.server_version // 10_000
        raise ServerUnusable(
            f"the server of the journal is PostgreSQL {version}, but a journal needs "
            f"PostgreSQL {VERSION_LEAST // 10_000} or newer"
        )
    row = connection.execute(
        "select pg_backend_pid(), current_setting('transaction_read_only') = 'on', "
        "current_setting('synchronous_commit')"
    ).fetchone()
    assert row is not None
    pid, is_read_only, synchronous_commit = row
    if pid != connection.info.backend_pid:
        raise ServerUnusable(
            "journal.url leads to a connection pooler such as PgBouncer, which may pass each "
            "transaction to another session: give the address of the server itself"
        )
    if is_read_only:
        raise ServerAway(
            "the server of the journal is read-only: give the address of the primary, or all "
            "addresses: postgresql://HOST1,HOST2/DATABASE?target_session_attrs=read-write"
        )
    # Later changes of the server's settings do not change this session.
    connection.execute("select set_config('synchronous_commit', %s, false)", (synchronous_commit,))
    if synchronous_commit == "off":
        raise ServerUnusable(
            "synchronous_commit of the server of the journal is off, so that a crash would lose "
            "acknowledged messages: set it to on, at least for the role of this queue manager: "
            "ALTER ROLE ... SET synchronous_commit = on"
        )


def _is_local(host: str) -> bool:
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
