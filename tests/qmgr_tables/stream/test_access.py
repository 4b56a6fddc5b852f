"""Exports and streams log in and check certificates: by options, by URL and by the environment."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from qmgr_protocol.errors import RequestError
from qmgr_protocol.tls import TlsOptions
from qmgr_tables.export.failure import ExportFailed, ExportUnavailable
from qmgr_tables.export.live import export_live
from qmgr_tables.option_parser import parse as parse_batch
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access
from qmgr_tables.stream.connection import ManagerAway
from qmgr_tables.stream.options import StreamOptions, parse
from qmgr_tables.stream.sources import source_of
from qmgr_tables.tables.registry import TABLES
from tests.secured import PASSWORD, Secured, secured

VARIABLES = "QMGR_USER", "QMGR_PASSWORD", "QMGR_PASSWORD_FILE", "QMGR_CA_FILE", "QMGR_FINGERPRINT"


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as found:
        with connect(found.unix) as client:
            client.admin.queue_create("Q", accounting="on")
            client.put("Q", b"x")
        yield found


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def given(manager: Secured, way: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Returns the options with which a stream gets its login in a *way*."""
    if way == "options":
        return {
            "url": manager.tls,
            "user": "lake",
            "passwordFile": manager.password_file,
            "caFile": manager.certificates.ca,
        }
    if way == "options before all":
        monkeypatch.setenv("QMGR_USER", "nobody")
        monkeypatch.setenv("QMGR_PASSWORD", "wrong")
        monkeypatch.setenv("QMGR_FINGERPRINT", "ab" * 32)
        return given(manager, "options", monkeypatch) | {"url": manager.url("nobody")}
    monkeypatch.setenv("QMGR_PASSWORD_FILE", manager.password_file)
    monkeypatch.setenv("QMGR_CA_FILE", manager.certificates.ca)
    if way == "url":
        return {"url": manager.url("lake")}
    assert way == "environment"
    monkeypatch.setenv("QMGR_USER", "lake")
    return {"url": manager.tls}


WAYS = ["options", "options before all", "url", "environment"]


@pytest.mark.process
@pytest.mark.parametrize("table", ["history", "messages"])
@pytest.mark.parametrize("way", WAYS)
def test_stream_logs_in_over_tls(
    manager: Secured, way: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"cursor": way.replace(" ", ".")} if table == "history" else {}
    options = parse({**given(manager, way, monkeypatch), "table": table, **more})
    assert rows(options) >= 1


def rows(options: StreamOptions) -> int:
    """Returns the number of rows that tasks read, each after a trip through pickle."""
    source = source_of(options)
    try:
        start = source.begin()
        parts = source.parts(start, source.ends(start, wait=True), options.of)
        sent = [pickle.loads(pickle.dumps(part)) for part in parts]
        schema = TABLES[options.of.table].schema
        return sum(batch.num_rows for part in sent for batch in part.read(options.of, schema))
    finally:
        source.close()


@pytest.mark.process
@pytest.mark.parametrize("way", WAYS)
def test_export_logs_in_over_tls(
    manager: Secured, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with connect(manager.unix) as client:  # The export of another test has taken earlier rows.
        client.put("Q", b"x")
    options = parse({**given(manager, way, monkeypatch), "table": "history", "cursor": "c"})
    of = parse_batch({"path": "-", "table": "history"})
    (url,) = options.urls
    done = export_live(of, url, "export", str(tmp_path / "out"), access=options.access)
    assert sum(part.rows for part in done.written) >= 1


@pytest.mark.process
def test_stream_without_a_login_or_with_a_wrong_one_ends(manager: Secured, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    url = {"url": manager.tls, "cursor": "lake", "waitMs": "0", "table": "history"}
    ca = {"caFile": manager.certificates.ca}
    with pytest.raises(RequestError, match="LOGIN_REQUIRED"):
        rows(parse({**url, **ca}))
    with pytest.raises(RequestError, match="LOGIN_FAILED"):
        rows(parse({**url, **ca, "user": "lake", "passwordFile": str(wrong)}))
    with pytest.raises(ManagerAway, match="certificate"):
        rows(parse({**url, "user": "lake", "passwordFile": manager.password_file}))
    of = parse_batch({"path": "-", "table": "history"})
    access = parse({**url, **ca}).access
    with pytest.raises(ExportFailed, match="LOGIN_REQUIRED"):
        export_live(of, manager.tls, "lake", str(tmp_path / "a"), wait_ms=0, access=access)
    with pytest.raises(ExportUnavailable, match="certificate"):
        export_live(of, manager.tls, "lake", str(tmp_path / "b"), wait_ms=0)


URL = {"url": "tls:nyc:7471", "table": "messages"}


def test_options_become_an_access() -> None:
    assert parse(URL).access == BY_ENVIRONMENT
    tls = {"caFile": "/ca", "certificateFile": "/c", "keyFile": "/k", "serverName": "nyc"}
    found = parse({**URL, **tls, "fingerprint": "AB" * 32}).access
    assert found == Access(None, TlsOptions("/ca", "/c", "/k", "nyc", "ab" * 32))
    plain = parse({**URL, "url": "tls:nyc:1, ewr:2", "caFile": "/ca"}).access
    assert plain.arguments("tls:nyc:1") == {"tls": TlsOptions("/ca")}
    assert plain.arguments("ewr:2") == {}
    of_url = parse({**URL, "url": "tls://lake@nyc:1", "PASSWORDFILE": " /p "})
    assert of_url.urls == ("tls:lake@nyc:1",)
    assert of_url.access.arguments(of_url.urls[0]) == {
        "user": "lake",
        "password": "",
        "password_file": "/p",
    }
    token = parse({**URL, "tokenFile": "/t"}).access
    assert token.arguments("nyc:1") == {"token": "", "token_file": "/t"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"password": PASSWORD}, "option password: the plans and the logs of Spark show options"),
        ({"Token": PASSWORD}, "option token: the plans and the logs of Spark show options"),
        ({"url": f"tls://lake:{PASSWORD}@nyc:1"}, "must not contain a password"),
        ({"password_file": "/p"}, "did you mean passwordFile"),
        ({"user": "lake"}, "option user: 'lake' has no password; add passwordFile"),
        ({"passwordFile": "/p"}, "option passwordFile needs exactly one user"),
        ({"url": "a@nyc:1, b@ewr:1", "passwordFile": "/p"}, "needs exactly one user"),
        ({"url": "nyc:1", "caFile": "/ca"}, "option caFile: no address of url uses TLS; write tls"),
        ({"user": "lake", "tokenFile": "/t"}, "option tokenFile: a token names its user"),
        ({"url": "tls:lake@nyc:1", "tokenFile": "/t"}, "option tokenFile: a token names its user"),
        ({"keyFile": "/k"}, "option of TLS: the key /k has no certificate"),
        ({"fingerprint": "x"}, "option of TLS: "),
        ({"url": "", "path": "/x", "table": "history", "user": "lake"}, "snapshots need no login"),
    ],
)
def test_invalid_options_are_refused_and_show_no_password(
    options: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        parse({**URL, **options})
    assert PASSWORD not in str(caught.value)
