"""Makes and checks the tokens by which clients resume their sessions on a new connection.

    token (32 bytes) = session id (16), keyed hash of the id (16)

A client's leases belong to its session, and a session outlives its connection. The welcome gives
the client a token. The hello of the client's next connection returns the token. Only the daemon can
create a token, because the key never leaves the store. The daemon stores nothing for a session that
is not connected. A token is valid as long as the store exists, and
only for the user to whom it was issued.
"""

from hashlib import blake2b
from hmac import compare_digest

SESSION_ID_BYTES = 16
TOKEN_BYTES = 2 * SESSION_ID_BYTES


class SessionTokens:
    """Issues tokens, and checks the tokens that clients send."""

    def __init__(self, secret: bytes, salt: bytes) -> None:
        """Uses the *secret* key of the store, and a *salt* that differs at each start."""
        self._secret = secret
        self._salt = salt

    def new(self, connection: int, user: str = "") -> bytes:
        """Returns the token of a new session of *user*, which begins on *connection*."""
        seed = self._salt + connection.to_bytes(8, "big")
        return self._signed(self._hash(seed, b"session id"), user)

    def session_id(self, token: bytes, user: str = "") -> bytes:
        """Returns the session of *token*, or b"" if this store did not issue it to *user*."""
        session_id = token[:SESSION_ID_BYTES]
        return session_id if compare_digest(token, self._signed(session_id, user)) else b""

    def _signed(self, session_id: bytes, user: str) -> bytes:
        return session_id + self._hash(session_id + user.encode(), b"session token")

    def _hash(self, data: bytes, purpose: bytes) -> bytes:
        return blake2b(
            data, key=self._secret, person=purpose, digest_size=SESSION_ID_BYTES
        ).digest()
