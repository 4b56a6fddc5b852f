"""Commands against a queue manager with users and TLS: exports and the benchmark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Qmctl
from tests.secured import Secured, secured

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as found:
        with connect(found.unix) as client:
            client.admin.queue_create("Q", accounting="on")
        yield found


@pytest.fixture
def words(manager: Secured, qmctl: Qmctl, request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Options that name the queue manager and the user in one of several ways."""
    with connect(manager.unix) as client:
        client.put("Q", b"x")
    ca, file = manager.certificates.ca, manager.password_file
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    user = getattr(request, "param", "")[1:]
    if request.param[0] == "c":  # a context
        login = "--ca-file", ca, "--user", user, "--password-file", file
        assert qmctl("context", "create", "qm", manager.tls, *login).code == 0
        return ("--context", "qm")
    patch.setenv("QMGR_CA_FILE", ca)
    if request.param[0] == "o":  # options
        return ("--connect", manager.tls, "--user", user, "--password-file", file)
    patch.setenv("QMGR_PASSWORD_FILE", file)
    if request.param[0] == "u":  # the URL
        return ("--connect", manager.url(user))
    patch.setenv("QMGR_USER", user)
    return ("--connect", manager.tls)


@pytest.mark.parametrize("words", ["clake", "olake", "ulake", "elake"], indirect=True)
def test_history_is_exported(words: tuple[str, ...], qmctl: Qmctl, tmp_path: Path) -> None:
    ended = qmctl("export", *words, "--cursor", "lake", "--to", str(tmp_path / "out"))
    assert (ended.code, ended.err) == (0, "")
    assert "added" in ended.out


def test_history_of_a_url_is_exported(
    manager: Secured, qmctl: Qmctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMGR_CA_FILE", manager.certificates.ca)
    to = ("--cursor", "lake", "--to", str(tmp_path / "out"), "--url", manager.url("lake"))
    assert qmctl("export", *to, "--password-file", manager.password_file).code == 0
    refused = qmctl("export", *to)
    assert (refused.code, "the password of lake is required" in refused.err) == (2, True)
    both = qmctl("export", *to, "--context", "qm")
    assert (both.code, "--url and --context qm exclude each other" in both.err) == (2, True)


def test_export_without_a_login_is_refused(
    manager: Secured, qmctl: Qmctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMGR_CA_FILE", manager.certificates.ca)
    to = ("--cursor", "lake", "--to", str(tmp_path / "out"), "--url", manager.tls)
    ended = qmctl("export", *to)
    assert "LOGIN_REQUIRED" in ended.err
    assert ended.code != 0


@pytest.mark.parametrize("words", ["cadmin", "uadmin"], indirect=True)
@pytest.mark.parametrize("mode", ["put", "get", "putget"])
def test_benchmark_logs_in_over_tls(mode: str, words: tuple[str, ...], qmctl: Qmctl) -> None:
    """With this number of messages of 4 KiB, answers and deliveries take many records of TLS."""
    more = () if mode == "get" else ("--inflight", "128")
    ended = qmctl("bench", mode, *words, *more, "--count", "2000", "--size", "4KiB", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["messages"] == 2_000


def test_benchmark_trusts_the_ca_of_its_option(
    manager: Secured, qmctl: Qmctl, tmp_path: Path
) -> None:
    login = ("--user", "admin", "--password-file", manager.password_file)
    words = ("bench", "put", "--count", "100", "-c", manager.tls)
    untrusted = qmctl(*words, *login)
    assert "does not know the CA" in " ".join(untrusted.err.split())
    assert qmctl(*words, *login, "--ca-file", manager.certificates.ca).code == 0
    plain = qmctl("bench", "put", "-c", manager.unix, "--ca-file", manager.certificates.ca)
    assert (plain.code, "does not use TLS" in plain.err) == (2, True)
