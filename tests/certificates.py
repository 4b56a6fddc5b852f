"""Certificates for tests of TLS, made by the CA of ``qmctl tls init``."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from qmgr_protocol.tls import TlsOptions, fingerprint
from qmgr_tools.tls.authority import Authority, write

HOSTS = "localhost", "127.0.0.1"


class Certificates:
    """A directory with the files of a CA, and of certificates that it signed."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.now = datetime.now(UTC)
        self.authority = Authority.create("test CA", self.now)
        self.authority.save(directory)
        self.ca = str(directory / "ca.crt")
        self.issue("server", *HOSTS)

    def issue(self, file: str, *names: str, days: int = 100, ago_days: int = 0) -> None:
        """Writes a certificate for *names* that became valid *ago_days* ago."""
        issued = self.authority.issue(list(names), self.now - timedelta(days=ago_days), days)
        write(self.directory / f"{file}.key", issued.key, mode=0o600)
        write(self.directory / f"{file}.crt", issued.certificate, mode=0o644)

    def crt(self, file: str = "server") -> str:
        return str(self.directory / f"{file}.crt")

    def key(self, file: str = "server") -> str:
        return str(self.directory / f"{file}.key")

    def fingerprint(self, file: str = "server") -> str:
        return fingerprint(self.der(file))

    def der(self, file: str = "server") -> bytes:
        import ssl

        return ssl.PEM_cert_to_DER_cert(Path(self.crt(file)).read_text())

    def section(self, file: str = "server", **others: Any) -> dict[str, Any]:
        """Returns the section [tls] of a queue manager with the certificate *file*."""
        return {"certificate": self.crt(file), "key": self.key(file), "ca": self.ca} | others

    def options(self, file: str = "", **others: Any) -> TlsOptions:
        """Returns the options of a client that trusts the CA and shows the certificate *file*."""
        own = {"certificate_file": self.crt(file), "key_file": self.key(file)} if file else {}
        return TlsOptions(**{"ca_file": self.ca} | own | others)
