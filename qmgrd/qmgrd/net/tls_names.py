"""The names in the certificate of a peer, as its login sees them."""

import ssl
from typing import Any

from qmgr_protocol.tls import end_point, fingerprint
from qmgrd.core.access.origin import Tls
from qmgrd.net.tls_files import ServerContext

# The short names of RFC 4514, section 3. Other attributes keep their long names.
_SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_KINDS = {"DNS": "dns", "URI": "uri", "email": "email", "IP Address": "ip"}
_ESCAPED = set(',+"\\<>;=')


def tls_of(channel: ssl.SSLObject) -> Tls:
    """Returns the facts that the open *channel* proves about the connection.

    Without a verified certificate of the peer, the names and the fingerprint are empty.
    """
    der = channel.getpeercert(binary_form=True) or b""
    context = channel.context
    own = context.certificate.end_point if isinstance(context, ServerContext) else b""
    server_hash = own if channel.server_side else end_point(der)
    found: dict[str, Any] = channel.getpeercert() or {}
    if not found:
        return Tls(server_hash)
    names = tuple(
        f"{_KINDS[kind]}:{name}" for kind, name in found.get("subjectAltName", ()) if kind in _KINDS
    )
    return Tls(server_hash, subject_text(found.get("subject", ())), names, fingerprint(der))


def subject_text(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """Returns the *subject* of a certificate in the form of RFC 4514: the last part comes first."""
    parts = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part)
        for part in reversed(subject)
    ]
    return ",".join(parts)


def _escaped(value: str) -> str:
    text = "".join(f"\\{c}" if c in _ESCAPED else c for c in value).replace("\0", "\\00")
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    # A space at the end is escaped, unless it is the only character and therefore already is.
    return f"{text[:-1]}\\ " if text.endswith(" ") and not text.endswith("\\ ") else text
