"""TLS as both ends use it: the settings of a connection, pinned certificates, and errors in words.

A connection uses TLS from its first byte, so a plain port and a TLS port are different ports. The
version is TLS 1.3 unless a setting allows 1.2. The listener selects the ALPN protocol ``qmgr`` if
the dialler offers it, and a dialler of this project refuses a listener that does not.

This module is the only one of the package that reads files.
"""

import hashlib
import re
import ssl
from dataclasses import dataclass

ALPN = "qmgr"
# TLS 1.2 has many ciphers. Only these have forward secrecy and authenticate data as TLS 1.3 does.
_CIPHERS_OF_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_FINGERPRINT = re.compile("[0-9a-f]{64}")
_WORDS = re.compile(r"\] (.+?) \(_ssl")  # "[SSL] tlsv1 alert no application protocol (_ssl.c:1006)"

# The numbers with which OpenSSL says why it refuses a certificate (X509_V_ERR_... of x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_NAMES_ANOTHER_HOST = {62, 63, 64}  # HOSTNAME_MISMATCH, EMAIL_MISMATCH, IP_ADDRESS_MISMATCH
_CA_UNKNOWN = {2, 18, 19, 20, 21, 24, 27}  # no issuer, self-signed, or not a trusted CA

_NO_TLS = "the other end does not use TLS at this port: dial a port that does, or leave out tls:"
_DISTRUSTED = (
    "the other end does not trust the certificate of this end: it must know the CA that signed it"
)
# The meaning of each reason of OpenSSL, for both ends.
_REASONS = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "UNEXPECTED_EOF_WHILE_READING": "the other end closed the connection during the TLS handshake",
    "TLSV1_ALERT_UNKNOWN_CA": _DISTRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _DISTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _DISTRUSTED,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": (
        "the other end cannot use the certificate of this end: check its purpose and its algorithm"
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this end has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the certificate of this end is revoked",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": (
        "the other end requires a certificate: give a certificate and its key"
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other end sent no certificate, and one is required",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other end does not accept the TLS version of this end",
    "UNSUPPORTED_PROTOCOL": "the other end offers only versions of TLS that this end refuses",
    "NO_PROTOCOLS_AVAILABLE": "the two ends have no version of TLS in common",
    "NO_SHARED_CIPHER": "the two ends have no cipher of TLS in common",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other end refused the TLS handshake",
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": (
        "the other end uses TLS, but not the protocol of qmgrd: check the address"
    ),
    "TLSV1_UNRECOGNIZED_NAME": "the other end has no certificate for the name that was dialled",
}


class TlsFailed(Exception):
    """A TLS connection failed. The text states the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How the dialling end checks the other end, and which certificate it shows.

    All files are PEM files. They are read at each connection, so a renewed file is used from the
    next connection on.
    """

    ca_file: str = ""
    """The CAs that may sign the certificate of the other end. "" means the CAs of the system."""

    certificate_file: str = ""
    """The certificate of this end, followed by its intermediate CAs. "" means none."""

    key_file: str = ""
    """The private key of that certificate. "" means that it is in certificate_file."""

    server_name: str = ""
    """The name or IP address that the other end's certificate must have. "" means the host."""

    fingerprint: str = ""
    """The SHA-256 of the other end's certificate in hexadecimal digits, or "". It replaces the
    check of CA, name and validity."""

    minimum: str = "1.3"
    """The lowest version of TLS that this end accepts."""

    def __post_init__(self) -> None:
        """Checks the options.

        Raises:
            ValueError: An option is not valid.
        """
        if self.minimum not in _VERSIONS:
            raise ValueError(f"the minimum version {self.minimum!r} is neither 1.2 nor 1.3")
        if self.fingerprint:
            object.__setattr__(self, "fingerprint", parse_fingerprint(self.fingerprint))
        if self.key_file and not self.certificate_file:
            raise ValueError(f"the key {self.key_file} has no certificate: give certificate_file")

    def context(self) -> ssl.SSLContext:
        """Returns the context for one connection.

        Raises:
            TlsFailed: A file cannot be read, or does not contain what it should.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        restrict(context, self.minimum)
        if self.fingerprint:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif self.ca_file:
            load_cas(context, self.ca_file)
        else:
            context.load_default_certs()
        if self.certificate_file:
            load_certificate(context, self.certificate_file, self.key_file)
        return context

    def check(self, channel: ssl.SSLObject) -> None:
        """Checks the other end after the handshake, and before anything is sent.

        Raises:
            TlsFailed: The other end does not have the pinned certificate, or speaks no qmgr.
        """
        if self.fingerprint:
            found = fingerprint(channel.getpeercert(binary_form=True) or b"")
            if found != self.fingerprint:
                raise TlsFailed(
                    f"the certificate of the other end has the fingerprint {found}, but "
                    f"{self.fingerprint} is expected: if the certificate was renewed, use the new "
                    "fingerprint"
                )
        if channel.selected_alpn_protocol() != ALPN:
            raise TlsFailed(_REASONS["TLSV1_ALERT_NO_APPLICATION_PROTOCOL"])


def restrict(context: ssl.SSLContext, minimum: str) -> None:
    """Sets what the contexts of both ends have in common.

    Sessions cannot be resumed, so that each connection checks certificates as they are now.
    """
    context.minimum_version = _VERSIONS[minimum]
    context.set_ciphers(_CIPHERS_OF_1_2)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.set_alpn_protocols([ALPN])
    if context.protocol is ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0


def load_cas(context: ssl.SSLContext, path: str) -> None:
    """Makes *context* trust the CAs in the file *path*.

    Raises:
        TlsFailed: The file cannot be read, or contains no certificate.
    """
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise TlsFailed(f"cannot use the CAs in {path}: it has no certificate in PEM") from None
    except OSError as error:
        raise TlsFailed(f"cannot read the CAs in {path}: {error.strerror}") from None


def load_certificate(context: ssl.SSLContext, path: str, key_path: str) -> None:
    """Gives *context* the certificate in the file *path* and its key.

    Raises:
        TlsFailed: A file cannot be read, is not in PEM, or the key belongs to another certificate.
    """
    for name in filter(None, (path, key_path)):
        try:
            with open(name, "rb"):
                pass
        except OSError as error:
            raise TlsFailed(f"cannot read {name}: {error.strerror}") from None
    asked = []  # OpenSSL asks for a password if the key is encrypted

    def password() -> bytes:
        asked.append(True)
        return b""

    try:
        context.load_cert_chain(path, key_path or None, password)
    except ssl.SSLError as error:
        keys = key_path or path
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"the key in {keys} belongs to another certificate than the one in {path}"
        elif asked:
            why = f"the key in {keys} is encrypted: store it without a password, with mode 0600"
        else:
            why = f"{path} must contain a certificate, and {keys} its key, both in PEM"
        raise TlsFailed(why) from None
    except OSError as error:  # The file was removed meanwhile.
        raise TlsFailed(f"cannot read {path} or its key: {error.strerror}") from None


def fingerprint(certificate: bytes) -> str:
    """Returns the SHA-256 of a *certificate* in DER, in hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def end_point(certificate: bytes) -> bytes:
    """Returns the channel binding ``tls-server-end-point`` (RFC 5929, section 4.1).

    Args:
        certificate: The listener's certificate in DER.
    """
    from asn1crypto.x509 import Certificate  # Only logins over TLS need this slow import.

    try:
        used = Certificate.load(certificate)["signature_algorithm"].hash_algo
    except ValueError:  # an algorithm for which the RFC defines no hash
        used = "sha256"
    name = used if used in ("sha224", "sha384", "sha512") else "sha256"
    return hashlib.new(name, certificate).digest()


def parse_fingerprint(text: str) -> str:
    """Returns the fingerprint in *text*, which may contain colons and capital letters.

    Raises:
        ValueError: *text* is not a fingerprint.
    """
    digits = text.lower().removeprefix("sha256:").replace(":", "")
    if _FINGERPRINT.fullmatch(digits):
        return digits
    raise ValueError(f"the fingerprint {text[:100]!r} is not SHA-256 in 64 hexadecimal digits")


def explained(error: Exception) -> str:
    """Returns the reason why a TLS connection failed with *error*, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explained_certificate(error)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _REASONS["UNEXPECTED_EOF_WHILE_READING"]
    if not isinstance(error, ssl.SSLError):
        return str(error) or type(error).__name__
    # Python knows the names of some reasons only as words in the text.
    words = _WORDS.search(str(error))
    reason = error.reason or (words[1].upper().replace(" ", "_") if words else str(error))
    return _REASONS.get(reason, f"TLS failed: {reason.lower().replace('_', ' ')}")


def _explained_certificate(error: ssl.SSLCertVerificationError) -> str:
    code, words = error.verify_code, error.verify_message.rstrip(".")
    if code == _EXPIRED:
        return "the certificate of the other end has expired: it must be renewed"
    if code == _NOT_YET_VALID:
        return "the certificate of the other end is not valid yet: check the clocks of both ends"
    if code == _REVOKED:
        return "the certificate of the other end is revoked"
    if code in _NAMES_ANOTHER_HOST:
        return f"the certificate of the other end has another name: {words}"
    if code in _CA_UNKNOWN:
        return (
            f"this end does not know the CA of the other end's certificate ({words}): it needs the "
            "file of that CA, or the fingerprint of the certificate"
        )
    return f"the certificate of the other end is not valid: {words}"
