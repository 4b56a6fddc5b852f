"""Tests of listeners with another implementation of TLS: ``openssl s_client``."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from tests.certificates import Certificates
from tests.qmgrd.net.test_tls_session import secured

OPENSSL = shutil.which("openssl") or ""
pytestmark = pytest.mark.skipif(not OPENSSL, reason="openssl is not installed")

ESTABLISHED = "CONNECTION ESTABLISHED"
WEAK = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"  # The client offers every cipher that it has.
CIPHERS_1_2 = {
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
}


async def openssl(*words: str, send: bytes = b"") -> str:
    """Returns all output of a command of openssl."""
    done = await asyncio.to_thread(
        subprocess.run,
        [OPENSSL, *words],
        input=send,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=30,
        check=False,
    )
    return done.stdout.decode(errors="replace")


async def s_client(address: str, files: Certificates, *words: str, send: bytes = b"") -> str:
    host = address.removeprefix("tls:")
    return await openssl("s_client", "-connect", host, "-CAfile", files.ca, *words, send=send)


@pytest.mark.parametrize(
    ("minimum", "version", "is_allowed"),
    [
        ("1.2", "-tls1", False),
        ("1.2", "-tls1_1", False),
        ("1.2", "-tls1_2", True),
        ("1.2", "-tls1_3", True),
        ("1.3", "-tls1", False),
        ("1.3", "-tls1_1", False),
        ("1.3", "-tls1_2", False),
        ("1.3", "-tls1_3", True),
    ],
)
async def test_versions(tmp_path: Path, minimum: str, version: str, *, is_allowed: bool) -> None:
    files = Certificates(tmp_path / "tls")
    async with secured(tmp_path / "qm", files, minimum=minimum) as (_, _, address):
        shown = await s_client(address, files, version, "-cipher", WEAK, "-brief")
    assert (ESTABLISHED in shown) == is_allowed, shown
    assert ("alert protocol version" in shown) != is_allowed, shown
    assert ("Verification: OK" in shown) == is_allowed


async def test_only_authenticated_ciphers_with_forward_secrecy(tmp_path: Path) -> None:
    """Without NULL, export, RC4, 3DES, CBC, anonymous ciphers and the exchange of keys by RSA."""
    files = Certificates(tmp_path / "tls")
    accepted: list[str] = []
    async with secured(tmp_path / "qm", files, minimum="1.2") as (_, _, address):
        while True:  # Each time, the client offers all ciphers that were not chosen yet.
            offered = ":".join([WEAK, *(f"!{name}" for name in accepted)])
            shown = await s_client(address, files, "-tls1_2", "-cipher", offered, "-brief")
            if ESTABLISHED not in shown:
                break
            accepted += re.findall("Ciphersuite: (.+)", shown)
    assert "alert handshake failure" in shown
    assert set(accepted) == CIPHERS_1_2


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
async def test_no_renegotiation_compression_or_resumption(tmp_path: Path, version: str) -> None:
    files = Certificates(tmp_path / "tls")
    session = str(tmp_path / "session")
    async with secured(tmp_path / "qm", files, minimum="1.2") as (_, _, address):
        shown = await s_client(address, files, version, "-comp", "-sess_out", session, send=b"R\n")
        assert "RENEGOTIATING" in shown
        assert "no renegotiation" in shown or "wrong ssl version" in shown, shown
        assert "Compression: NONE" in shown
        if Path(session).exists():
            assert "Reused" not in await s_client(address, files, version, "-sess_in", session)
        # The listener still serves.
        async with connect(address, tls=files.options()) as client:
            await client.admin.queue_create("Q")


async def test_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    files = Certificates(tmp_path / "tls")
    files.issue("client", "EWR")
    others = {"client_ca": files.ca, "client_certificates": "require"}
    async with secured(tmp_path / "qm", files, **others) as (_, _, address):
        refused = await s_client(address, files, "-tls1_3", "-ign_eof")
        own = "-cert", files.crt("client"), "-key", files.key("client")
        allowed = await s_client(address, files, "-tls1_3", "-brief", *own)
    assert "certificate required" in refused, refused
    assert ESTABLISHED in allowed, allowed
