"""The certificates of the daemon: reads their files, and reads them again when they change.

A connection keeps the certificate with which it began, so a new certificate closes no connection.
Files that do not fit together, as in the middle of a renewal, are refused: the daemon keeps what it
has, and tries again.
"""

import os
import ssl
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from qmgr_config.model import LoginConfig
from qmgr_config.tls import TlsConfig
from qmgr_protocol.secret_file import check_mode
from qmgr_protocol.tls import (
    TlsFailed,
    TlsOptions,
    end_point,
    fingerprint,
    load_cas,
    load_certificate,
    restrict,
)

log = structlog.get_logger()


class Certificate(NamedTuple):
    """A certificate of this queue manager."""

    path: str
    names: tuple[str, ...]  # the DNS names and IP addresses in it, in lower case
    ends: datetime
    fingerprint: str
    end_point: bytes  # the hash that binds a login to a connection (RFC 5929)

    def covers(self, name: str) -> bool:
        """Returns whether the certificate is for the host *name*."""
        _, _, parent = name.partition(".")
        return name in self.names or f"*.{parent}" in self.names


class ServerContext(ssl.SSLContext):
    """The context of a listener for one certificate."""

    certificate: Certificate


class TlsFiles:
    """The contexts of all listeners and links.

    Invariant: ``_server`` has the contexts of all configured certificates, the default one first.
        All of them were read from the same state of the files.
    """

    def __init__(self, config: TlsConfig) -> None:
        """Reads the files.

        Raises:
            TlsFailed: A file cannot be read, is not valid, or other users may read a key.
        """
        self._config = config
        self._pairs = [(x.certificate, x.key) for x in config.certificates]
        if config.certificate:
            self._pairs.insert(0, (config.certificate, config.key))
        self._state = self._stat()
        self._server = self._read()
        self._failed = ""  # why the last attempt to read changed files failed

    @property
    def certificates(self) -> list[Certificate]:
        """The certificates in use, the default one first."""
        return [context.certificate for context in self._server]

    @property
    def server(self) -> ServerContext:
        """The context for a new connection of a listener. It selects certificates by name."""
        return self._server[0]

    def options(self, login: LoginConfig | None) -> TlsOptions:
        """Returns how a link with *login* checks its peer, and which certificate it shows."""
        config = self._config
        return TlsOptions(
            config.ca,
            config.certificate,
            config.key,
            login.server_name if login is not None else "",
            login.fingerprint if login is not None else "",
            config.minimum,
        )

    def ending(self, now: datetime) -> list[Certificate]:
        """Returns the certificates that end within tls.warn_ms, or have ended."""
        warn_s = self._config.warn_ms / 1000
        return [x for x in self.certificates if (x.ends - now).total_seconds() < warn_s]

    def refresh(self) -> bool:
        """Reads the files again if they have changed. Returns whether new ones are in use.

        If a changed file is not valid, the log has the reason and the last valid files stay in use.
        """
        state = self._stat()
        if state == self._state and not self._failed:
            return False
        try:
            found = self._read()
        except TlsFailed as error:
            if str(error) != self._failed:
                log.warning("cannot use the changed TLS files; the last ones stay", why=str(error))
            self._state, self._failed = state, str(error)
            return False
        self._server, self._state, self._failed = found, state, ""
        for certificate in self.certificates:
            log.info(
                "read a changed certificate",
                path=certificate.path,
                ends=certificate.ends.isoformat(),
                fingerprint=certificate.fingerprint,
            )
        return True

    def _stat(self) -> tuple[tuple[int, ...], ...]:
        names = [name for pair in self._pairs for name in pair]
        return tuple(stat_of(name) for name in (*names, self._config.client_ca) if name)

    def _read(self) -> list[ServerContext]:
        contexts = [self._context(certificate, key) for certificate, key in self._pairs]
        if len(contexts) > 1:
            contexts[0].sni_callback = lambda channel, name, _: _select(channel, name, contexts)
        return contexts

    def _context(self, path: str, key: str) -> ServerContext:
        check_key(key)
        context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
        restrict(context, self._config.minimum)
        load_certificate(context, path, key)
        if self._config.client_ca:
            load_cas(context, self._config.client_ca)
            is_required = self._config.client_certificates == "require"
            context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        context.certificate = read_certificate(path)
        return context


def _select(channel: ssl.SSLObject, name: str | None, contexts: list[ServerContext]) -> None:
    wanted = (name or "").lower()
    found = next((x for x in contexts if x.certificate.covers(wanted)), contexts[0])
    channel.context = found


def stat_of(path: str) -> tuple[int, ...]:
    """Returns values that change when the file *path*, or its target, is replaced."""
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def check_key(path: str) -> None:
    """Checks that only the daemon's user, or root and the daemon's group, may read the key *path*.

    Raises:
        TlsFailed: Others may read it, or the file cannot be read.
    """
    try:
        check_mode(path, "key")
    except OSError as error:
        raise TlsFailed(f"cannot read the key {path}: {error.strerror}") from None
    except ValueError as error:
        raise TlsFailed(str(error)) from None


def read_certificate(path: str) -> Certificate:
    """Returns the first certificate in the file *path*.

    Raises:
        TlsFailed: The file cannot be read, or does not begin with a valid certificate.
    """
    try:
        found = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    except OSError as error:
        raise TlsFailed(f"cannot read the certificate {path}: {error.strerror}") from None
    except (ValueError, IndexError, UnsupportedAlgorithm):
        raise TlsFailed(f"{path} does not contain a valid certificate in PEM") from None
    der = found.public_bytes(Encoding.DER)
    try:
        names = _names(found)
    except Exception as error:  # The library has several errors for a damaged extension.
        raise TlsFailed(f"cannot read the names in {path}: {error}") from None
    return Certificate(path, names, found.not_valid_after_utc, fingerprint(der), end_point(der))


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    hosts = found.get_values_for_type(x509.DNSName)
    addresses = found.get_values_for_type(x509.IPAddress)
    return tuple(name.lower() for name in (*hosts, *map(str, addresses)))
