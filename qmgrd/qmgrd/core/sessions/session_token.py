"""The tokens by which clients resume their sessions on a new connection.

    token (32 bytes) = session id (16), keyed hash of it (16)

A session is what a client's leases belong to. It outlives the connection: the welcome hands out a
token, and the hello of the next connection shows it. Only the daemon can make one, as the key stays
in the store. The daemon keeps nothing for a session that is not connected: a token is valid for as
long as the store is.
"""

from hashlib import blake2b
from hmac import compare_digest

SESSION_ID_BYTES = 16
TOKEN_BYTES = 2 * SESSION_ID_BYTES


class SessionTokens:
    """Issues tokens, and checks those that clients show."""

    def __init__(self, secret: bytes, salt: bytes) -> None:
        """Take over the key of the store, and a *salt* that differs at each start."""
        self._secret = secret
        self._salt = salt

    def new(self, connection: int) -> bytes:
        """Return the token of a new session, which begins on *connection*."""
        seed = self._salt + connection.to_bytes(8, "big")
        return self._signed(self._hash(seed, b"session id"))

    def session_id(self, token: bytes) -> bytes:
        """Return the session that *token* stands for; nothing if it is not one of ours."""
        session_id = token[:SESSION_ID_BYTES]
        return session_id if compare_digest(token, self._signed(session_id)) else b""

    def _signed(self, session_id: bytes) -> bytes:
        return session_id + self._hash(session_id, b"session token")

    def _hash(self, data: bytes, purpose: bytes) -> bytes:
        return blake2b(
            data, key=self._secret, person=purpose, digest_size=SESSION_ID_BYTES
        ).digest()
