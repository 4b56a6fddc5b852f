"""Secured queue managers: TLS, users with few rights, and links that log in.

    departures ──unix socket──▶ EWR ══════ TLS ══════▶ NYC ──unix socket──▶ arrivals
                 password            password of EWR         password

Every client and every link logs in with a password (SCRAM-SHA-256). The login of a link is bound to
the certificate of the queue manager that the link dials (SCRAM-SHA-256-PLUS). No other method is
allowed. Only the owner of the daemons needs no login over the unix sockets.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from qmgr_demo.cluster import Node, Protection
from qmgr_tools.tls.authority import CA_FILE, Authority, write

HOST = "127.0.0.1"  # the name in the certificates: links dial this address
DAYS = 365
PASSWORD_BYTES = 18
RULES = """
[[auth.access]]  # links
tls = "required"
method = "scram-sha-256-plus"

[[auth.access]]  # clients on this machine
from = "unix"
method = "scram-sha-256"
"""


class User(NamedTuple):
    """A user of a queue manager."""

    name: str
    roles: Sequence[str] = ()
    grants: Sequence[tuple[Sequence[str], str, str]] = ()  # rights, kind of objects, pattern
    queue_manager: str = ""  # the queue manager as which the user opens links


ADMIN = User("admin", ["administrator"])


class Security:
    """A CA, and the certificates, configurations and passwords of queue managers.

    All files are in one directory, because all queue managers run on one machine.
    """

    def __init__(self, directory: Path) -> None:
        """Makes a CA in *directory*, which must not exist."""
        directory.mkdir(mode=0o700, parents=True)
        self._directory = directory
        self._authority = Authority.create("CA of the demo", datetime.now(UTC))
        self._authority.save(directory)
        self.ca = str(directory / CA_FILE)

    def protect(
        self, node: Node, *, listens: bool = True, logins: Mapping[str, str] | None = None
    ) -> None:
        """Makes *node* require logins, from its next start on.

        Args:
            node: The queue manager.
            listens: Whether links of other queue managers can reach it, with TLS.
            logins: The user as which its link logs in, by the name of the other queue manager.
        """
        tls: dict[str, Any] = {"ca": self.ca}
        if listens:
            issued = self._authority.issue([HOST], datetime.now(UTC), DAYS)
            certificate, key = (self._directory / f"{node.name}.{end}" for end in ("crt", "key"))
            write(key, issued.key, mode=0o600)
            write(certificate, issued.certificate, mode=0o644)
            tls |= {"certificate": str(certificate), "key": str(key)}
        text = _section("listen", {"tcp": [], "tls": [node.tcp] if listens else []})
        text += _section("tls", tls) + RULES + "\n" + _section("link", {"require_login": True})
        for manager, user in (logins or {}).items():
            file = str(self._password_file(manager, user))
            login = {"manager": manager, "user": user, "password_file": file}
            text += _section("[link.logins]", login)
        config = self._directory / f"{node.name}.toml"
        config.write_text(text)
        passwords = self._directory / node.name
        passwords.mkdir(mode=0o700, exist_ok=True)
        node.protection = Protection(config, passwords)

    async def create_users(self, node: Node, users: Sequence[User]) -> None:
        """Creates an administrator and *users*, each with a random password.

        From then on, *node* requires a login.
        """
        async with node.connect("demo.setup") as manager:
            for user in (ADMIN, *users):
                password = self._password_file(node.name, user.name).read_text()
                await manager.admin.user_create(
                    user.name, password, roles=user.roles, queue_manager=user.queue_manager
                )
                for rights, kind, pattern in user.grants:
                    await manager.admin.grant_create(rights, kind, pattern, user=user.name)

    def _password_file(self, manager: str, user: str) -> Path:
        """Returns the file with the password of *user*, which is made if it does not exist."""
        file = self._directory / manager / user
        if not file.exists():
            file.parent.mkdir(mode=0o700, exist_ok=True)
            write(file, secrets.token_urlsafe(PASSWORD_BYTES).encode(), mode=0o600)
        return file


def _section(name: str, values: Mapping[str, Any]) -> str:
    """Returns a section of a configuration file. Strings of JSON are also strings of TOML."""
    lines = [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n\n"
