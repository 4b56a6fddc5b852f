"""Recognizes strangers that speak another protocol at our port, by the first bytes they send.

Their first four bytes, read as the length of a frame, are far above what a handshake may have. So
they are looked at only once a frame was refused, and cost an open connection nothing.
"""

from typing import NamedTuple

_TEXT = (
    "This port speaks the protocol of qmgrd, a queue manager, and not HTTP.\n"
    "Use qmctl, or a client of qmgrd.\n"
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
_TLS_HANDSHAKE = b"\x16\x03"  # the record of a ClientHello, of any version from SSL 3.0 on


class Other(NamedTuple):
    """A protocol that is not ours."""

    why: str  # the connection is closed, for the log and a goodbye
    answer: bytes  # what its speaker understands; nothing: a goodbye as usual


HTTP = Other("this looks like HTTP, and this port speaks the protocol of qmgrd", _HTTP_ANSWER)
TLS = Other(
    "this looks like TLS, which qmgrd does not speak: connect without it, or through a proxy that "
    "ends it",
    b"",
)


def recognized(first: bytes) -> Other | None:
    """Returns what protocol begins with the bytes *first*, if it is a known one."""
    if first.startswith(_METHODS):
        return HTTP
    return TLS if first.startswith(_TLS_HANDSHAKE) else None
