"""qmctl tls show."""

import socket
from pathlib import Path

import pytest

from tests.certificates import Certificates
from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_certificate_is_shown_without_a_check(
    qmctl: Qmctl, secure: str, secure_files: Certificates
) -> None:
    row = qmctl("tls", "show", secure, "-o", "json").json
    assert row["fingerprint"] == secure_files.fingerprint()
    assert row["names"] == ["localhost", "127.0.0.1"]
    assert (row["subject"], row["issuer"], row["version"]) == (
        "CN=localhost",
        "CN=test CA",
        "TLSv1.3",
    )
    assert f"fingerprint\t{row['fingerprint']}" in qmctl("tls", "show", secure).out


def test_address_may_lack_the_prefix(qmctl: Qmctl, secure: str) -> None:
    assert qmctl("tls", "show", secure.removeprefix("tls:")).code == 0


def test_fingerprint_that_was_shown_can_be_pinned(
    qmctl: Qmctl, secure: str, tmp_path: Path
) -> None:
    pin = qmctl("tls", "show", secure, "-o", "json").json["fingerprint"]
    qmctl("context", "create", "pinned", secure, "--fingerprint", pin)
    ended = qmctl("--context", "pinned", "status")
    assert ended.code == 0
    assert "certificates\t" in ended.out
    qmctl("context", "create", "wrong", secure, "--fingerprint", "ab" * 32)
    refused = qmctl("--context", "wrong", "status")
    assert (refused.code, f"has the fingerprint {pin}" in refused.err) == (5, True)


def test_port_without_tls_is_named(qmctl: Qmctl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tls:127.0.0.1:{server.getsockname()[1]}"
        server.close()
        ended = qmctl("tls", "show", address)
    assert (ended.code, "Connection refused" in ended.err) == (5, True)
    ended = qmctl("tls", "show", "unix:/run/qmgrd.sock")
    assert ended.code == 2
