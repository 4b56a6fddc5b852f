"""A queue manager with users and TLS, as a process. Its log has the level debug."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qmgr_bench.host import QMGRD
from qmgr_bench.server import Program, wait_for
from qmgr_client.blocking import connect
from tests.certificates import Certificates
from tests.qmgr_tools.conftest import Daemon

PASSWORD = "planted-" + "9bb878c8f1e2"

# The rights of a user that exports and streams everything.
LAKE = (
    (["show", "history"], "manager", ""),
    (["show", "export"], "cursor", "*"),
    (["show", "browse"], "queue", "*"),
)


class Secured(Daemon):
    """A queue manager that listens with TLS, whose only plain address is its unix socket.

    The user admin is an administrator, and lake may read. Both have the password PASSWORD.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__("QM", directory / "qm")
        self.program = Program()  # a new interpreter, so that its command line is that of a user
        self.data_dir.mkdir(parents=True)
        self.certificates = Certificates(directory / "tls")
        self.password_file = str(directory / "password")
        Path(self.password_file).write_text(f"{PASSWORD}\n")
        Path(self.password_file).chmod(0o600)
        self.config = directory / "qmgrd.toml"
        self.log = self.data_dir / "log"
        self.more: tuple[str, ...] = ()  # further lines of the configuration

    def start(self) -> None:
        """Starts the daemon, and waits until it listens."""
        files = self.certificates
        lines = (
            f'[queue_manager]\nname = "QM"\ndata_dir = "{self.data_dir}"',
            '[listen]\ntcp = []\ntls = ["127.0.0.1:0"]',
            f'[tls]\ncertificate = "{files.crt()}"\nkey = "{files.key()}"',
            '[log]\nlevel = "debug"',
            *self.more,
        )
        self.config.write_text("\n".join(lines))
        listening = self.data_dir / "listening.json"
        listening.unlink(missing_ok=True)
        self.program.start([*QMGRD, "--config", str(self.config)], self.data_dir)
        wait_for(self.program, listening.exists)

    def create_users(self) -> None:
        """Creates the users admin and lake."""
        with connect(self.unix) as client:
            client.admin.user_create("admin", PASSWORD, roles=["administrator"])
            client.admin.user_create("lake", PASSWORD)
            for rights, kind, pattern in LAKE:
                client.admin.grant_create(rights, kind, pattern, user="lake")

    @property
    def tls(self) -> str:
        """The address with TLS."""
        addresses: list[str] = json.loads((self.data_dir / "listening.json").read_text())
        return next(address for address in addresses if address.startswith("tls:"))

    def url(self, user: str) -> str:
        """Returns the address with TLS, in the form of a URL with a user."""
        return self.tls.replace("tls:", f"tls://{user}@")


@contextmanager
def secured(directory: Path) -> Iterator[Secured]:
    """Runs a queue manager with users and TLS."""
    found = Secured(directory)
    try:
        found.start()
        found.create_users()
        yield found
    finally:
        found.program.stop()
