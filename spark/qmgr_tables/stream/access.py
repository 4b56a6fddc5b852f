"""How streams and exports log in at a queue manager, and check its certificate.

Spark sends an Access to its executors with each task. An Access of a stream therefore contains
paths of files, which must exist on the driver and on each executor, and never a password.
"""

from dataclasses import dataclass
from typing import TypedDict

from qmgr_client.address import parse_list
from qmgr_client.credentials import Login, TokenCredentials
from qmgr_protocol.tls import TlsOptions


class ConnectArguments(TypedDict, total=False):
    """The arguments of connect() for the login and for TLS."""

    user: str
    password: str
    password_file: str
    token: str
    token_file: str
    tls: TlsOptions


@dataclass(frozen=True, slots=True)
class Access:
    """A login, and options of TLS. The address and the environment apply in place of None."""

    login: Login | None = None
    tls: TlsOptions | None = None

    def arguments(self, address: str) -> ConnectArguments:
        """Returns the arguments of connect() for *address*. Plain addresses need no TLS."""
        found: ConnectArguments = {}
        if isinstance(self.login, TokenCredentials):
            found["token"] = self.login.token
            found["token_file"] = self.login.token_file
        elif self.login is not None:
            found["user"] = self.login.user
            found["password"] = self.login.password
            found["password_file"] = self.login.password_file
        if self.tls is not None and parse_list(address)[0].is_tls:
            found["tls"] = self.tls
        return found


BY_ENVIRONMENT = Access()
