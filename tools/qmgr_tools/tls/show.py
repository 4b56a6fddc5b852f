"""qmctl tls show: the certificate that a queue manager shows."""

import socket
import ssl
from typing import Annotated, Any

import typer

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.context.target import TLS, checked, split_user

TIME_MAX_S = 10.0

FACTS = (
    output.text("address"),
    output.text("version"),
    output.text("cipher"),
    output.text("subject"),
    output.text("issuer"),
    output.Column("names", "names", output.listed),
    output.text("begins"),
    output.text("ends"),
    output.text("fingerprint"),
)


@command(local=True)
def show(
    call: Call,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", show_default=False, help="tls:HOST:PORT.")
    ],
) -> None:
    """Show the certificate of the queue manager at ADDRESS, without checking it.

    Compare the fingerprint with the one that the queue manager's own machine shows ("qmctl status
    -o json"). Then clients and links can check it instead of a CA: "qmctl context create
    --fingerprint".

    \b
    JSON: an object with
      address, version, cipher     of the connection
      subject, issuer, names       of the certificate
      begins, ends                 the times between which it is valid (ISO 8601)
      fingerprint                  its SHA-256

    Examples:
      qmctl tls show tls:nyc.example.org:7471
    """
    given = address if address.startswith(TLS) else f"{TLS}{address}"
    _, wanted = split_user(checked(given, "ADDRESS"))
    what = f"cannot show the certificate of {wanted}"
    if wanted.startswith("unix:"):
        raise Failure(Exit.USAGE, what, "a unix socket has no certificate")
    row = _found(what, wanted)
    if call.is_json:
        output.document(row)
    else:
        output.facts(FACTS, row)


def _found(what: str, address: str) -> dict[str, Any]:
    from cryptography import x509  # These imports take 60 ms.

    from qmgr_protocol.tls import ALPN, explained, fingerprint

    host, _, port = address.removeprefix(TLS).rpartition(":")
    host = host.strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    try:
        with (
            socket.create_connection((host, int(port)), TIME_MAX_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            der, version, cipher = (
                secure.getpeercert(binary_form=True),
                secure.version(),
                secure.cipher(),
            )
    except ssl.SSLError as error:
        raise Failure(Exit.UNAVAILABLE, what, explained(error)) from None
    except TimeoutError:
        raise Failure(Exit.UNAVAILABLE, what, f"no answer within {TIME_MAX_S:.0f} s") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Failure(Exit.UNAVAILABLE, what, why, "check the address") from None
    found = x509.load_der_x509_certificate(der or b"")
    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = [str(name.value) for name in extension.value]
    except x509.ExtensionNotFound:
        names = []
    return {
        "address": address,
        "version": version,
        "cipher": cipher[0] if cipher else None,
        "subject": found.subject.rfc4514_string(),
        "issuer": found.issuer.rfc4514_string(),
        "names": names,
        "begins": found.not_valid_before_utc.isoformat(),
        "ends": found.not_valid_after_utc.isoformat(),
        "fingerprint": fingerprint(der or b""),
    }
