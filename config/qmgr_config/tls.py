"""The options of TLS."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ValidationInfo, field_validator

from qmgr_config.quantity import in_ms
from qmgr_config.section import Section
from qmgr_config.units import DAY_MS, shown

_DIGITS = re.compile("[0-9a-f]{64}")


def checked_fingerprint(value: str) -> str:
    """Returns the 64 digits of a fingerprint, which may contain colons and capital letters.

    Raises:
        ValueError: *value* is not a fingerprint.
    """
    digits = value.lower().removeprefix("sha256:").replace(":", "")
    if not value or _DIGITS.fullmatch(digits):
        return digits
    raise ValueError(f"{shown(value)} is not the SHA-256 of a certificate in 64 hexadecimal digits")


def _checked_file(value: str) -> str:
    if value.startswith("/") or not value:
        return value
    raise ValueError(f"{shown(value)} is not an absolute path")


File = Annotated[str, AfterValidator(_checked_file)]  # an absolute path, or ""


class CertificateConfig(Section):
    """[[tls.certificates]]"""

    certificate: File
    """The file of a certificate and its intermediate CAs."""

    key: File
    """The file of the key of that certificate."""


class TlsConfig(Section):
    """[tls]"""

    certificate: File = ""
    """The file of this queue manager's certificate, followed by its intermediate CAs, in PEM."""

    key: File = ""
    """The file of the key of that certificate, in PEM, without a password."""

    certificates: tuple[CertificateConfig, ...] = ()
    """Further certificates, for clients that ask for a name in one of them (SNI)."""

    ca: File = ""
    """The file of the CAs that links trust. "" means the CAs of the system."""

    client_ca: File = ""
    """The file of the CAs that sign the certificates of clients and of other queue managers."""

    client_certificates: Literal["verify", "require"] = "verify"
    """Whether a client may show a certificate ("verify"), or must show one ("require")."""

    minimum: Literal["1.2", "1.3"] = "1.3"
    """The lowest version of TLS for listeners and links."""

    warn_ms: Annotated[int, in_ms(0, "3650 d")] = 30 * DAY_MS
    """The time before the end of a certificate at which the daemon warns, in ms."""

    @field_validator("key")
    @classmethod
    def _key_and_certificate_belong_together(cls, key: str, info: ValidationInfo) -> str:
        certificate = info.data.get("certificate", "")
        if bool(key) != bool(certificate):
            given, missing = ("key", "certificate") if key else ("certificate", "key")
            raise ValueError(f"tls.{given} is set, and tls.{missing} is not")
        return key

    @field_validator("client_certificates")
    @classmethod
    def _certificates_have_a_ca(cls, value: str, info: ValidationInfo) -> str:
        if value == "require" and not info.data.get("client_ca"):
            raise ValueError("tls.client_ca must name the CAs of the required certificates")
        return value
