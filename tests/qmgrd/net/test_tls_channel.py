"""The TLS of a connection, between two channels in memory."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.tls import TlsConfig
from qmgr_protocol.tls import TlsFailed
from qmgrd.net.tls_channel import DIALLER_MAX_BYTES, LISTENER_MAX_BYTES, TlsChannel
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.tls_records import EMPTY_MAX, HANDSHAKE_RECORDS_MAX, SLICE_RECORDS
from tests.certificates import Certificates
from tests.tls_forger import DATA, HALF_KEY_UPDATE, HANDSHAKE, KEY_UPDATE, Forger


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def ends(files: Certificates, name: str = "localhost") -> tuple[TlsChannel, TlsChannel]:
    """Returns the channels of a dialler and of a listener."""
    context = TlsFiles(TlsConfig(**files.section())).server
    dialler = TlsChannel(files.options().context(), is_server=False, name=name)
    return dialler, TlsChannel(context, is_server=True)


def shake(dialler: TlsChannel, listener: TlsChannel) -> None:
    for _ in range(4):
        for one, other in ((dialler, listener), (listener, dialler)):
            if not one.is_open:
                one.shake()
            if data := one.outgoing():
                other.feed(data)


def read(channel: TlsChannel, data: bytes) -> bytes:
    return b"".join(channel.decrypted(data))


def test_data_passes_in_both_directions_in_any_pieces(files: Certificates) -> None:
    dialler, listener = ends(files)
    shake(dialler, listener)
    assert dialler.is_open
    assert listener.is_open
    for one, other in ((dialler, listener), (listener, dialler)):
        sent = bytes(range(256)) * 400
        data, received = one.encrypted(sent), b""
        for at in range(0, len(data), 1_000):
            received += read(other, data[at : at + 1_000])
        assert received == sent
    assert not dialler.has_ended


def test_one_direction_can_end_before_the_other(files: Certificates) -> None:
    dialler, listener = ends(files)
    shake(dialler, listener)
    assert read(dialler, listener.encrypted(b"goodbye") + listener.farewell()) == b"goodbye"
    assert dialler.has_ended


def test_farewell_before_the_end_of_the_handshake_is_empty(files: Certificates) -> None:
    _, listener = ends(files)
    assert listener.farewell() == b""


def test_refused_certificate_leaves_an_alert_for_the_peer(files: Certificates) -> None:
    dialler, listener = ends(files, "example.org")
    with pytest.raises(TlsFailed, match="has another name"):
        shake(dialler, listener)
    listener.feed(dialler.outgoing())
    with pytest.raises(TlsFailed, match="does not trust the certificate of this end"):
        listener.shake()


def test_damaged_record_is_an_error(files: Certificates) -> None:
    dialler, listener = ends(files)
    shake(dialler, listener)
    data = bytearray(dialler.encrypted(b"x" * 100))
    data[50] ^= 1
    with pytest.raises(TlsFailed, match="TLS failed: decryption failed or bad record mac"):
        read(listener, bytes(data))


def forged(files: Certificates, log: Path) -> tuple[Forger, TlsChannel]:
    """Returns a forger, and the listener that it attacks."""
    context = files.options().context()
    context.keylog_filename = str(log)
    dialler = TlsChannel(context, is_server=False, name="localhost")
    listener = TlsChannel(TlsFiles(TlsConfig(**files.section())).server, is_server=True)
    shake(dialler, listener)
    return Forger(log, dialler.tls), listener


def test_part_of_a_handshake_message_makes_sending_an_error(
    files: Certificates, tmp_path: Path
) -> None:
    """OpenSSL then waits for the rest, and sends nothing. The error is not an SSLWantReadError."""
    forger, listener = forged(files, tmp_path / "keys")
    assert read(listener, forger.record(HANDSHAKE, HALF_KEY_UPDATE)) == b""
    with pytest.raises(TlsFailed):
        listener.encrypted(b"goodbye")
    listener.farewell()


def test_flood_of_key_changes_is_refused_after_a_few(files: Certificates, tmp_path: Path) -> None:
    forger, listener = forged(files, tmp_path / "keys")
    flood = b"".join(forger.record(HANDSHAKE, KEY_UPDATE) for _ in range(5_000))
    with pytest.raises(TlsFailed, match="too many records of TLS without data"):
        read(listener, flood)
    assert len(listener.outgoing()) < 100 * (EMPTY_MAX + SLICE_RECORDS)


def test_few_key_changes_between_data_are_allowed(files: Certificates, tmp_path: Path) -> None:
    forger, listener = forged(files, tmp_path / "keys")
    for number in range(EMPTY_MAX):
        data = forger.record(HANDSHAKE, KEY_UPDATE) + forger.record(DATA, bytes([number]))
        assert read(listener, data) == bytes([number])


def test_data_before_an_error_is_returned(files: Certificates, tmp_path: Path) -> None:
    forger, listener = forged(files, tmp_path / "keys")
    data = forger.record(DATA, b"apples") + b"\x17\3\3\0\x20" + bytes(32)
    found = listener.decrypted(data)
    assert next(found) == b"apples"
    with pytest.raises(TlsFailed):
        next(found)


@pytest.mark.parametrize(("at", "limit"), [(0, DIALLER_MAX_BYTES), (1, LISTENER_MAX_BYTES)])
def test_endless_handshake_is_refused(files: Certificates, at: int, limit: int) -> None:
    channel = ends(files)[at]
    channel.feed(b"\x16" * limit)
    with pytest.raises(TlsFailed, match=f"is longer than {limit} bytes"):
        channel.feed(b"\x16")


@pytest.mark.parametrize(("count", "is_read"), [(3, True), (40, False)])
def test_long_chain_of_a_client_is_refused_unread(
    files: Certificates, tmp_path: Path, count: int, is_read: bool
) -> None:
    """A step would read all certificates, although none of them is valid."""
    files.issue("client", "client")
    chain = tmp_path / "chain.crt"
    chain.write_text(Path(files.crt("client")).read_text() * count)
    trusting = files.options("client").context()
    trusting.load_cert_chain(str(chain), files.key("client"))
    dialler = TlsChannel(trusting, is_server=False, name="localhost")
    section = files.section(client_ca=files.ca)
    listener = TlsChannel(TlsFiles(TlsConfig(**section)).server, is_server=True)
    if is_read:
        shake(dialler, listener)
        assert listener.is_open
        return
    with pytest.raises(TlsFailed, match="is longer than 12288 bytes"):
        shake(dialler, listener)


def test_handshake_of_empty_records_is_refused(files: Certificates) -> None:
    """Following 64 KiB of them would hold the event loop for 12 ms."""
    _, listener = ends(files)
    empty = b"\x16\3\1\0\0"
    listener.feed(empty * HANDSHAKE_RECORDS_MAX)
    with pytest.raises(TlsFailed, match="more than 256 records"):
        listener.feed(empty)


def test_too_long_handshake_is_refused_before_its_records_are_followed(files: Certificates) -> None:
    _, listener = ends(files)
    with pytest.raises(TlsFailed, match="longer than 12288 bytes"):
        listener.feed(b"\x16\3\1\0\0" * LISTENER_MAX_BYTES)


@given(st.binary(min_size=1, max_size=300), st.booleans())
def test_any_bytes_end_in_its_own_error_or_wait(
    files: Certificates, data: bytes, begins_as_tls: bool
) -> None:
    _, listener = ends(files)
    try:
        listener.feed((b"\x16\x03\x01" if begins_as_tls else b"") + data)
        assert not listener.shake()
    except TlsFailed:
        pass


@pytest.mark.parametrize(("first", "is_plain"), [(b"\x16\x03", False), (b"\0\0\0\x10", True)])
def test_plain_text_is_recognized_by_its_first_byte(first: bytes, is_plain: bool) -> None:
    assert TlsChannel.is_plain(first) == is_plain


def test_name_that_no_host_can_have_is_an_error(files: Certificates, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="label"):
        TlsChannel(files.options().context(), is_server=False, name="a..b")
