"""The options of TLS that "qmctl context create" stores."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from qmgr_tools.cli import completion
from qmgr_tools.cli.failure import usage
from qmgr_tools.context.file import KeptTls
from qmgr_tools.context.target import TLS

CaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="For tls:HOST:PORT: the CAs that may sign its certificate. Default: the system's.",
    ),
]
CertificateFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="The certificate to show to the queue manager.",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="The key of --certificate-file.",
    ),
]
ServerName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="The name in the certificate, if it is not the host of the address.",
    ),
]
Fingerprint = Annotated[
    str,
    typer.Option(
        metavar="SHA256",
        show_default=False,
        help="The fingerprint of the certificate, instead of the check of its CA and name.",
    ),
]


def kept(
    address: str,
    ca_file: Path | None,
    certificate_file: Path | None,
    key_file: Path | None,
    server_name: str,
    fingerprint: str,
) -> KeptTls | None:
    """Returns the options to store in a context for *address*, or None if none is given.

    Raises:
        Failure: USAGE if an option is not valid, or the address does not use TLS.
    """
    from qmgr_protocol.tls import TlsOptions

    ca, certificate, key = map(_absolute, (ca_file, certificate_file, key_file))
    found = KeptTls(ca, certificate, key, server_name, fingerprint)
    if found == KeptTls():
        return None
    what = "cannot create the context"
    if not address.startswith(TLS):
        raise usage(what, f"the address {address} does not use TLS", f"write {TLS}{address}")
    try:
        TlsOptions(**asdict(found))
    except ValueError as error:
        raise usage(what, str(error)) from None
    return found


def _absolute(path: Path | None) -> str:
    return os.path.abspath(path.expanduser()) if path is not None else ""
