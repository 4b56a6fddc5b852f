"""The login of a dialling end by a token (JWT), and the renewal of the token.

    Hello.auth_data      token ─▶
                               ◀─ Welcome.auth_data   remaining time of the connection
    TokenRenew           token ─▶
                               ◀─ Ok                  remaining time of the connection

A token is renewed after 4/5 of the remaining time. If its source still has the same token, or the
listener refuses the new one, the source is read again after 1/5 of the rest.
"""

import re
import struct
from collections.abc import Callable
from ipaddress import ip_address

from qmgr_protocol import messages as m

TOKEN = "token"
RETRY_MIN_MS = 1_000  # minimum time between two attempts to renew
_REMAINING = struct.Struct(">Q")
_COMPACT = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def encoded_token(data: bytes, source: str) -> bytes:
    """Returns the token in *data*, without white space at its ends.

    Raises:
        ValueError: *data* is not the compact form of a token, or is too long. The error names
            *source*, but does not show the token.
    """
    token = data.strip()
    if not _COMPACT.fullmatch(token):
        raise ValueError(f"{source} does not contain a token (JWT): three parts joined by dots")
    if len(token) > m.AUTH_DATA_MAX:
        raise ValueError(
            f"the token in {source} has {len(token)} bytes; the limit is {m.AUTH_DATA_MAX}: "
            "let its issuer include fewer claims"
        )
    return token


def check_plain_text(host: str, address: str) -> None:
    """Checks that a token sent in plain text to *host* would not leave this machine.

    Raises:
        ValueError: *address*, which has this host, needs TLS.
    """
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise ValueError(
            f"a token is not sent to {address} in plain text, because whoever reads it can use "
            f"it: write tls:{address}"
        )


def remaining_time(ms: int) -> bytes:
    """Returns the data of a welcome after a login by token."""
    return _REMAINING.pack(ms)


class TokenLogin:
    """A login by token, for one connection. TLS proves who the listener is."""

    method = TOKEN

    def __init__(self, token: bytes, read_again: Callable[[], bytes] | None = None) -> None:
        """Logs in with *token*.

        Args:
            token: The token.
            read_again: A function that returns the present token of its source, or raises
                ValueError. None if the token cannot be renewed.
        """
        self._token = token
        self._read_again = read_again
        self._sent = b""  # the token of the unanswered renewal
        self._remaining_ms = 0
        self._end_ms = 0
        self._due_ms: int | None = None  # time of the next renewal, if any

    @property
    def is_renewable(self) -> bool:
        """Whether the source of the token may have a newer one."""
        return self._read_again is not None

    def bind(self, server_hash: bytes) -> None:
        """Does nothing: a token is not bound to a connection."""

    def first(self) -> bytes:
        """Returns the data for the hello."""
        return self._token

    def answer(self, challenge: bytes) -> bytes:
        """Refuses a challenge.

        Raises:
            ValueError: Always.
        """
        raise ValueError("it asks for a password, but this end logs in by a token")

    def check(self, proof: bytes) -> None:
        """Reads the remaining time in a welcome.

        Raises:
            ValueError: The welcome has no remaining time.
        """
        if len(proof) != _REMAINING.size:
            raise ValueError("its welcome does not contain the remaining time of the token")
        (self._remaining_ms,) = _REMAINING.unpack(proof)

    def welcomed(self, now_ms: int) -> None:
        """Schedules the first renewal, after :meth:`check`."""
        self._set_end(self._remaining_ms, now_ms)

    def _set_end(self, remaining_ms: int, now_ms: int) -> None:
        self._end_ms = now_ms + remaining_ms
        if self._read_again is not None:
            self._due_ms = now_ms + max(remaining_ms * 4 // 5, RETRY_MIN_MS)

    def renewal(self, now_ms: int) -> bytes:
        """Returns the new token if a renewal is due and its source has a new one, otherwise b""."""
        if self._due_ms is None or now_ms < self._due_ms or self._read_again is None:
            return b""
        self._try_again(now_ms)
        try:
            token = self._read_again()
        except ValueError:
            return b""  # Its source may be written at this moment.
        if token == self._token:
            return b""
        self._sent = token
        return token

    def renewed(self, value: object, now_ms: int) -> None:
        """Handles the value of the Ok: the remaining time. An invalid value changes nothing."""
        if self._sent and type(value) is int and value >= 0:
            self._token, self._sent = self._sent, b""
            self._set_end(value, now_ms)

    def _try_again(self, now_ms: int) -> None:
        self._due_ms = now_ms + max((self._end_ms - now_ms) // 5, RETRY_MIN_MS)
