"""The TLS of a connection, between two channels in memory."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.tls import TlsConfig
from qmgr_protocol.tls import TlsFailed
from qmgrd.net.tls_channel import HANDSHAKE_MAX_BYTES, TlsChannel
from qmgrd.net.tls_files import TlsFiles
from tests.certificates import Certificates


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


def test_data_passes_in_both_directions_in_any_pieces(files: Certificates) -> None:
    dialler, listener = ends(files)
    shake(dialler, listener)
    assert dialler.is_open
    assert listener.is_open
    for one, other in ((dialler, listener), (listener, dialler)):
        sent = bytes(range(256)) * 400
        data, received = one.encrypted(sent), b""
        for at in range(0, len(data), 1_000):
            other.feed(data[at : at + 1_000])
            received += other.decrypted()
        assert received == sent
    assert not dialler.has_ended


def test_one_direction_can_end_before_the_other(files: Certificates) -> None:
    dialler, listener = ends(files)
    shake(dialler, listener)
    dialler.feed(listener.encrypted(b"goodbye") + listener.farewell())
    assert dialler.decrypted() == b"goodbye"
    assert dialler.has_ended
    listener.feed(dialler.encrypted(b"still here"))


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
    listener.feed(bytes(data))
    with pytest.raises(TlsFailed, match="TLS failed: decryption failed or bad record mac"):
        listener.decrypted()


def test_endless_handshake_is_refused(files: Certificates) -> None:
    _, listener = ends(files)
    listener.feed(b"\x16" * HANDSHAKE_MAX_BYTES)
    with pytest.raises(TlsFailed, match="is longer than 65536 bytes"):
        listener.feed(b"\x16")


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
