"""A small certificate authority (CA), for trials and private networks."""

import ipaddress
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_FILE, CA_KEY_FILE = "ca.crt", "ca.key"
CA_DAYS = 3650
_CLOCK_SKEW = timedelta(hours=1)  # Clocks of other machines may be behind.

_DIGEST = hashes.SHA256()
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, both in PEM, and facts about the certificate."""

    certificate: bytes
    key: bytes
    fingerprint: str  # the SHA-256 of the certificate in hexadecimal digits
    ends: datetime


class Authority:
    """A CA that signs certificates for listeners, links and clients."""

    def __init__(self, certificate: x509.Certificate, key: Key) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, name: str, now: datetime, days: int = CA_DAYS) -> "Authority":
        """Returns a new CA called *name*, valid from *now* on for a number of *days*."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key, now, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(is_ca=True), critical=True)
            .sign(key, _DIGEST)
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        """Returns the CA that :meth:`save` has stored in *directory*.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is not a certificate or not its key.
        """
        certificate = x509.load_pem_x509_certificate((directory / CA_FILE).read_bytes())
        key = serialization.load_pem_private_key((directory / CA_KEY_FILE).read_bytes(), None)
        if not isinstance(key, Key) or key.public_key() != certificate.public_key():
            raise ValueError(f"{CA_KEY_FILE} is not the key of {CA_FILE}")
        return cls(certificate, key)

    def save(self, directory: Path) -> None:
        """Stores the CA in *directory*.

        Raises:
            OSError: A file cannot be written.
        """
        write(directory / CA_KEY_FILE, _key_pem(self._key), mode=0o600)
        write(directory / CA_FILE, self.pem, mode=0o644)

    @property
    def pem(self) -> bytes:
        """The certificate of the CA in PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, names: list[str], now: datetime, days: int) -> Issued:
        """Returns a new certificate for *names*, for listeners and for dialling ends.

        Args:
            names: Host names, IP addresses and URIs. The first one is also the common name.
            now: The time from which on the certificate is valid.
            days: The number of days for which the certificate is valid.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        # A common name has at most 64 characters. The names that count are the alternative ones.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _builder(subject, self._certificate.subject, key, now, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(
                x509.SubjectAlternativeName([general_name(x) for x in names]), critical=False
            )
            .sign(self._key, _DIGEST)
        )
        return Issued(
            certificate.public_bytes(serialization.Encoding.PEM),
            _key_pem(key),
            certificate.fingerprint(_DIGEST).hex(),
            certificate.not_valid_after_utc,
        )


def general_name(name: str) -> x509.GeneralName:
    """Returns *name* as an alternative name of a certificate.

    Raises:
        ValueError: *name* is not ASCII. An international host name must be given as xn--...
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    return x509.UniformResourceIdentifier(name) if ":" in name else x509.DNSName(name)


def write(path: Path, data: bytes, *, mode: int) -> None:
    """Replaces the file *path*. A reader sees the old or the new content, never a part of it.

    Raises:
        OSError: The file cannot be written.
    """
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    temporary.replace(path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, days: int
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
