"""The files of certificates: what is refused, and when they are read again."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_config.link import LoginConfig
from qmgr_config.tls import TlsConfig
from qmgr_protocol.tls import TlsFailed, TlsOptions
from qmgrd.net.tls_channel import TlsChannel
from qmgrd.net.tls_files import TlsFiles, check_key, read_certificate
from tests.certificates import Certificates
from tests.qmgrd.net.test_tls_channel import shake


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def read(files: Certificates, **others: Any) -> TlsFiles:
    return TlsFiles(TlsConfig(**files.section(**others)))


def test_daemon_without_a_certificate_has_none() -> None:
    found = TlsFiles(TlsConfig())
    assert found.certificates == []
    assert not found.refresh()


def test_certificate_shows_its_names_and_its_end(files: Certificates) -> None:
    (found,) = read(files).certificates
    assert found.names == ("localhost", "127.0.0.1")
    assert found.fingerprint == files.fingerprint()
    assert found.ends - files.now < timedelta(days=101)


def test_renewed_certificate_is_used_for_new_connections_only(files: Certificates) -> None:
    found = read(files)
    before = found.server
    assert not found.refresh()
    files.issue("server", "localhost", "new.example.org")
    assert found.refresh()
    assert found.server is not before
    assert "new.example.org" in found.certificates[0].names
    assert not found.refresh()


def test_files_that_do_not_fit_together_are_not_used(files: Certificates) -> None:
    found = read(files)
    before = found.server
    files.issue("other", "localhost")
    os.replace(files.key("other"), files.key())
    with capture_logs() as log:
        assert not found.refresh()
        assert not found.refresh()
    assert found.server is before
    assert [entry["event"][:10] for entry in log] == ["cannot use"], "said once"
    os.replace(files.crt("other"), files.crt())
    assert found.refresh()


def test_lost_file_is_reported_and_found_again(files: Certificates) -> None:
    found = read(files)
    data = Path(files.crt()).read_bytes()
    Path(files.crt()).unlink()
    with capture_logs() as log:
        assert not found.refresh()
    assert "No such file" in log[0]["why"]
    Path(files.crt()).write_bytes(data)
    assert found.refresh()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_key_that_others_may_read_is_refused(files: Certificates, mode: int) -> None:
    os.chmod(files.key(), mode)
    with pytest.raises(TlsFailed, match=r"other users may read the key .*: run chmod 6"):
        read(files)


def test_key_of_root_may_be_readable_by_the_group_of_the_daemon(
    files: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(files.key(), 0o640)
    if os.geteuid() == 0:
        check_key(files.key())
        os.chown(files.key(), 12_345, 12_345)
    with pytest.raises(TlsFailed, match="run chmod 600"):
        check_key(files.key())


@pytest.mark.parametrize(
    ("others", "fault"),
    [
        ({"certificate": "/none.crt"}, "/none.crt: No such file"),
        ({"key": "/none.key"}, "cannot read the key /none.key: No such file"),
        ({"client_ca": "/none.crt"}, "cannot read the CAs in /none.crt: No such file"),
    ],
)
def test_missing_file_is_named(files: Certificates, others: dict[str, Any], fault: str) -> None:
    with pytest.raises(TlsFailed, match=fault):
        read(files, **others)


def test_file_without_a_certificate_is_named(files: Certificates) -> None:
    with pytest.raises(TlsFailed, match="does not contain a valid certificate in PEM"):
        read_certificate(files.key())


def shown(found: TlsFiles, options: TlsOptions, name: str) -> str:
    """Returns the fingerprint of the certificate that a dialler of *name* is shown."""
    from qmgr_protocol.tls import fingerprint

    dialler = TlsChannel(options.context(), is_server=False, name=name)
    listener = TlsChannel(found.server, is_server=True)
    shake(dialler, listener)
    return fingerprint(dialler.tls.getpeercert(binary_form=True) or b"")


def test_dialler_is_shown_the_certificate_of_the_name(files: Certificates) -> None:
    files.issue("internal", "qm.internal", "*.qm.internal")
    more = ({"certificate": files.crt("internal"), "key": files.key("internal")},)
    found = read(files, certificates=more)
    for name, file in [
        ("localhost", "server"),
        ("qm.internal", "internal"),
        ("A.QM.internal", "internal"),
    ]:
        assert shown(found, files.options(), name) == files.fingerprint(file)
    pinned = TlsOptions(fingerprint="ab" * 32)
    assert shown(found, pinned, "unknown.example") == files.fingerprint(), "the default one"


def test_certificate_that_ends_within_the_warning_time_is_found(files: Certificates) -> None:
    found = read(files, warn_ms=30 * 86_400_000)
    assert found.ending(files.now) == []
    assert found.ending(files.now + timedelta(days=71)) == found.certificates
    assert found.ending(files.now + timedelta(days=200)) == found.certificates


def test_options_of_a_link_come_from_its_login_and_the_common_ones(files: Certificates) -> None:
    found = read(files)
    common = TlsOptions(files.ca, files.crt(), files.key())
    assert found.options(None) == common
    login = LoginConfig(manager="NYC", server_name="nyc", fingerprint="ab" * 32)
    assert found.options(login).server_name == "nyc"
    assert found.options(login).fingerprint == "ab" * 32
