"""The options of TLS with which a command connects: those of the context, or the environment's."""

from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict

from qmgr_tools.cli.failure import usage
from qmgr_tools.context.file import KeptTls

if TYPE_CHECKING:
    from qmgr_protocol.tls import TlsOptions

# The options of TLS that a failed connection may need, by words of qmgr_protocol/tls.py.
_OPTIONS = {
    "does not know the CA": ("QMGR_CA_FILE", "--ca-file FILE"),
    "has another name": ("QMGR_SERVER_NAME", "--server-name NAME"),
    "has the fingerprint": ("QMGR_FINGERPRINT", "--fingerprint SHA256"),
    "requires a certificate": (
        "QMGR_CERTIFICATE_FILE and QMGR_KEY_FILE",
        "--certificate-file FILE --key-file FILE",
    ),
}


class TlsArguments(TypedDict, total=False):
    """The arguments of connect() for TLS."""

    tls: "TlsOptions"


def arguments(kept: KeptTls | None) -> TlsArguments:
    """Returns the arguments of connect() for the options of a context.

    Without options, the environment decides.

    Raises:
        Failure: USAGE if an option of the context is not valid.
    """
    if kept is None:
        return {}
    from qmgr_protocol.tls import TlsOptions  # takes 20 ms

    try:
        return {"tls": TlsOptions(**asdict(kept))}
    except ValueError as error:  # The file was edited.
        raise usage("cannot use TLS of the context", str(error)) from None


def remedy(address: str, why: str) -> str:
    """Returns how to set the option that a connection to *address* needs, or "" if none helps.

    Args:
        address: The address.
        why: The reason why the connection failed.
    """
    for words, (variable, option) in _OPTIONS.items():
        if words in why:
            return f"set {variable}, or use: qmctl context create NAME {address} {option}"
    return ""
