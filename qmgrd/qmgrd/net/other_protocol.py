"""Recognizes peers that use another protocol by the first bytes that they send.

If the first four bytes of such a peer are read as a frame length, it far exceeds the limit of a
handshake. Therefore, the check runs only after a frame was refused, and does not slow down open
connections.
"""

from typing import NamedTuple

_TEXT = (
    "This port uses the protocol of qmgrd, a queue manager, not HTTP.\n"
    "Use qmctl or a client library of qmgrd.\n"
)
_HTTP_ANSWER = (
    "HTTP/1.1 400 Bad Request\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(_TEXT)}\r\n"
    "Connection: close\r\n"
    "\r\n"
    f"{_TEXT}"
).encode()
_METHODS = (
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI * HTTP",
)
_TLS_HANDSHAKE = b"\x16\x03"  # a TLS record with a ClientHello of SSL 3.0 or any later version


class Other(NamedTuple):
    """A protocol other than ours."""

    why: str  # the reason for closing the connection, as shown in the log and the goodbye
    answer: bytes  # the reply in that protocol; if empty, a normal goodbye is sent


HTTP = Other("this looks like HTTP, but this port uses the protocol of qmgrd", _HTTP_ANSWER)
TLS = Other(
    "this looks like TLS, but this port does not use it: dial an address of listen.tls, or leave "
    "out tls:",
    b"",
)


def recognized(first: bytes) -> Other | None:
    """Returns the known protocol whose messages begin with *first*, or None."""
    if first.startswith(_METHODS):
        return HTTP
    return TLS if first.startswith(_TLS_HANDSHAKE) else None
