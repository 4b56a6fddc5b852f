"""The options of TLS with which a command connects: those of the context, or the environment's."""

from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict

from qmgr_tools.cli.failure import usage
from qmgr_tools.context.file import KeptTls

if TYPE_CHECKING:
    from qmgr_protocol.tls import TlsOptions


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
