"""The settings of TLS, pinned certificates, and errors in words."""

import hashlib
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol.tls import (
    ALPN,
    TlsFailed,
    TlsOptions,
    end_point,
    explained,
    fingerprint,
    load_cas,
    load_certificate,
    parse_fingerprint,
    restrict,
)
from tests.certificates import Certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = Certificates(tmp_path_factory.mktemp("tls"))
    found.issue("old", "localhost", days=100, ago_days=200)
    found.issue("early", "localhost", days=100, ago_days=-50)
    return found


def server(files: Certificates, file: str = "server", minimum: str = "1.3") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, minimum)
    load_certificate(context, files.crt(file), files.key(file))
    return context


class Ends:
    """Both ends of a connection in memory."""

    def __init__(self, dialler: ssl.SSLContext, listener: ssl.SSLContext, name: str) -> None:
        there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.dialler = dialler.wrap_bio(here, there, server_hostname=name)
        self.listener = listener.wrap_bio(there, here, server_side=True)

    def shake(self) -> None:
        """Does the handshake. Raises the error of the end that refuses it."""
        for end in (self.dialler, self.listener) * 3:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        self.dialler.do_handshake()
        self.listener.do_handshake()


def shaken(options: TlsOptions, listener: ssl.SSLContext, name: str = "localhost") -> Ends:
    ends = Ends(options.context(), listener, options.server_name or name)
    ends.shake()
    return ends


def reason(options: TlsOptions, listener: ssl.SSLContext, name: str = "localhost") -> str:
    with pytest.raises(ssl.SSLError) as caught:
        shaken(options, listener, name)
    return explained(caught.value)


def test_ends_that_trust_each_other_use_tls_13_and_name_the_protocol(files: Certificates) -> None:
    options = files.options()
    ends = shaken(options, server(files))
    assert ends.dialler.version() == "TLSv1.3"
    assert ends.listener.selected_alpn_protocol() == ALPN
    options.check(ends.dialler)


@pytest.mark.parametrize(
    ("file", "name", "words"),
    [
        ("old", "localhost", "has expired: it must be renewed"),
        ("early", "localhost", "is not valid yet: check the clocks of both ends"),
        ("server", "example.org", "has another name: Hostname mismatch"),
        ("server", "127.0.0.2", "has another name: IP address mismatch"),
    ],
)
def test_wrong_certificate_is_named(files: Certificates, file: str, name: str, words: str) -> None:
    assert words in reason(files.options(), server(files, file), name)


def test_unknown_ca_is_named_with_both_remedies(files: Certificates, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    found = reason(other.options(), server(files))
    assert "does not know the CA" in found
    assert "the file of that CA, or the fingerprint" in found


def test_pinned_certificate_needs_no_ca_and_no_name(files: Certificates) -> None:
    options = TlsOptions(fingerprint=files.fingerprint("old"))
    options.check(shaken(options, server(files, "old"), "example.org").dialler)


def test_other_certificate_than_the_pinned_one_is_refused(files: Certificates) -> None:
    options = TlsOptions(fingerprint="ab" * 32)
    with pytest.raises(TlsFailed, match=files.fingerprint()):
        options.check(shaken(options, server(files)).dialler)


def test_listener_of_another_protocol_is_refused(files: Certificates) -> None:
    listener = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listener.load_cert_chain(files.crt(), files.key())
    options = files.options()
    with pytest.raises(TlsFailed, match="not the protocol of qmgrd: check the address"):
        options.check(shaken(options, listener).dialler)


@pytest.mark.parametrize(("dialler", "listener", "version"), [("1.2", "1.2", "TLSv1.2")])
def test_version_12_works_only_if_both_ends_allow_it(
    files: Certificates, dialler: str, listener: str, version: str
) -> None:
    old = server(files, minimum=listener)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shaken(files.options(minimum=dialler), old).dialler.version() == version
    with pytest.raises(ssl.SSLError):
        shaken(files.options(), old)


def test_session_cannot_be_resumed(files: Certificates) -> None:
    ends = shaken(files.options(), server(files))
    ends.listener.write(b"x")
    assert ends.dialler.read(1) == b"x"
    assert ends.dialler.session is None or not ends.dialler.session.has_ticket


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00\x00\x00\x20\x93plain text of another protocol", "does not use TLS at this port"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not use TLS at this port"),
        (bytes.fromhex("15030300020228"), "refused the TLS handshake"),
        (bytes.fromhex("15030300020230"), "does not trust the certificate of this end"),
        (bytes.fromhex("1503030002022d"), "the certificate of this end has expired"),
        (bytes.fromhex("15030300020246"), "does not accept the TLS version of this end"),
        (bytes.fromhex("15030300020278"), "not the protocol of qmgrd"),
    ],
)
def test_each_answer_of_a_listener_has_a_reason(
    files: Certificates, data: bytes, words: str
) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialler = files.options().context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        dialler.do_handshake()
    incoming.write(data)
    with pytest.raises(ssl.SSLError) as caught:
        dialler.do_handshake()
    assert words in explained(caught.value)


def test_connection_that_ends_in_the_handshake_is_named(files: Certificates) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialler = files.options().context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    incoming.write_eof()
    with pytest.raises(ssl.SSLError) as caught:
        dialler.do_handshake()
    assert "closed the connection during the TLS handshake" in explained(caught.value)


def test_other_errors_keep_their_text() -> None:
    assert explained(ConnectionResetError("reset")) == "reset"
    assert explained(ConnectionResetError()) == "ConnectionResetError"


@pytest.mark.parametrize("text", ["AB" * 32, "sha256:" + "ab" * 32, ":".join(["aB"] * 32)])
def test_fingerprint_has_several_spellings(text: str) -> None:
    assert parse_fingerprint(text) == TlsOptions(fingerprint=text).fingerprint == "ab" * 32


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"fingerprint": "ab"}, "is not SHA-256 in 64 hexadecimal digits"),
        ({"minimum": "1.1"}, "neither 1.2 nor 1.3"),
        ({"key_file": "/k"}, "has no certificate"),
    ],
)
def test_invalid_options_are_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        TlsOptions(**fields)


@pytest.mark.parametrize(
    ("crt", "key", "fault"),
    [
        ("server.crt", "old.key", "belongs to another certificate"),
        ("server.crt", "missing.key", "cannot read .*missing.key: No such file"),
        ("missing.crt", "server.key", "cannot read .*missing.crt: No such file"),
        ("server.key", "server.key", "must contain a certificate"),
        ("server.crt", "server.crt", "must contain a certificate, and .* its key"),
        ("server.crt", "locked.key", "is encrypted: store it without a password"),
    ],
)
def test_unusable_certificate_is_named(files: Certificates, crt: str, key: str, fault: str) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    locked = pem.load_pem_private_key(Path(files.key()).read_bytes(), None).private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret")
    )
    (files.directory / "locked.key").write_bytes(locked)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(TlsFailed, match=fault):
        load_certificate(context, str(files.directory / crt), str(files.directory / key))


def test_unusable_file_of_cas_is_named(files: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(TlsFailed, match=r"cannot read the CAs in /none\.crt: No such file"):
        load_cas(context, "/none.crt")
    with pytest.raises(TlsFailed, match="it has no certificate in PEM"):
        load_cas(context, files.key())


def test_end_point_is_the_hash_of_the_signature(files: Certificates) -> None:
    assert end_point(files.der()) == hashlib.sha256(files.der()).digest()
    assert fingerprint(files.der()) == hashlib.sha256(files.der()).hexdigest()


@pytest.mark.parametrize("name", ["SHA1", "SHA384", "SHA512", ""])
def test_end_point_of_other_algorithms(name: str) -> None:
    """RFC 5929: SHA-256 replaces MD5 and SHA-1. Ed25519 uses SHA-512 itself."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import Encoding

    key: Any = (
        ec.generate_private_key(ec.SECP256R1()) if name else ed25519.Ed25519PrivateKey.generate()
    )
    subject = x509.Name([])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), 1, now, now + timedelta(1)
    )
    try:
        found = builder.sign(key, getattr(hashes, name)() if name else None)
    except Exception as error:
        pytest.skip(f"cannot sign with {name}: {error}")
    der = found.public_bytes(Encoding.DER)
    used = {"SHA1": "sha256", "": "sha512"}.get(name, name.lower())
    assert end_point(der) == hashlib.new(used, der).digest()


def test_ciphers_have_forward_secrecy_and_authenticate_the_data(files: Certificates) -> None:
    """Scanners report ciphers with CBC, which TLS 1.2 has by default, as obsolete."""
    for context in (server(files, minimum="1.2"), files.options(minimum="1.2").context()):
        for cipher in context.get_ciphers():
            is_of_1_3 = cipher["protocol"] == "TLSv1.3"
            assert cipher["aead"], cipher["name"]
            assert is_of_1_3 or cipher["name"].startswith("ECDHE-"), cipher["name"]
