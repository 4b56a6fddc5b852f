"""Tests that clients of other protocols are identified by their first bytes."""

import pytest

from qmgrd.net.other_protocol import HTTP, TLS, Other, recognized


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", HTTP),
        (b"POST /queues HTTP/1.0\r\n", HTTP),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", TLS),
        (b"\x00\x00\x00\x20\x95", None),
        (b"SSH-2.0-OpenSSH\r\n", None),
        (b"GETTING", None),
        (b"", None),
    ],
)
def test_other_protocol_is_recognized(first: bytes, other: Other | None) -> None:
    assert recognized(first) is other


def test_answer_is_whole() -> None:
    head, _, body = HTTP.answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(body)}\r\n".encode() in head + b"\r\n"
    assert b"qmgrd" in body
