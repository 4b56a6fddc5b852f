"""The tokens of an open connection: the peer's, and this end's at the queue manager that a link
dialled.

    peer ── TokenRenew ──▶ renewed(): the connection ends later
    here ◀── Ok, Error ─── takes(): answers the renewal that the shell sent with RENEWAL_ID

The shell reads the file of this end's token, because the core opens no files.
"""

from typing import TypeAlias

from qmgr_protocol import messages as m
from qmgr_protocol.certificate_login import CertificateLogin
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.field import ID_END
from qmgr_protocol.scram import ClientLogin
from qmgr_protocol.token_login import TokenLogin
from qmgrd.core.access.login import Login, TokenEnded

OwnLogin: TypeAlias = ClientLogin | CertificateLogin | TokenLogin

RENEWAL_ID = ID_END - 1  # the id of a link's requests to renew its token; paths use low ids


class TokenRenewal:
    """The tokens of one connection. Either end may have none."""

    def __init__(self, login: Login | None, own: OwnLogin | None) -> None:
        """Renews the tokens of these logins.

        Args:
            login: The login of the peer, or None.
            own: The login of this queue manager at the peer, or None.
        """
        self._login = login
        self.own = own if isinstance(own, TokenLogin) else None

    @property
    def is_needed(self) -> bool:
        """Whether a token ends the connection, or must be renewed."""
        return self.own is not None or self.end_ms is not None

    @property
    def end_ms(self) -> int | None:
        """The time at which the token of the peer ends, or None."""
        return self._login.end_ms if self._login is not None else None

    def check(self, now_ms: int) -> None:
        """Raises TokenEnded if the token of the peer has ended."""
        if self.end_ms is not None and now_ms >= self.end_ms:
            raise TokenEnded

    def renewed(self, token: bytes, user: str, now_ms: int) -> int:
        """Renews the token of the peer, which is *user*. Returns its remaining time in ms.

        Raises:
            RequestError: See :meth:`Login.renew`.
        """
        if self._login is None:
            raise RequestError(ErrorCode.LOGIN_REFUSED, "this connection needs no token")
        return self._login.renew(token, user, now_ms)

    def takes(self, message: m.Received, now_ms: int) -> bool:
        """Handles *message* if it answers the renewal of this end. Returns whether it did."""
        is_answer = isinstance(message, (m.Ok, m.Error)) and message.request_id == RENEWAL_ID
        if self.own is None or not is_answer:
            return False
        if isinstance(message, m.Ok):
            self.own.renewed(message.value, now_ms)
        return True
