"""qmctl tls init: a CA and certificates for a trial or a private network."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage

DAYS_MAX = 3650
NAMES_MAX = 100


@command(local=True)
def init(
    call: Call,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            show_default=False,
            autocompletion=completion.files,
            help="The directory of the CA. It is created if it does not exist.",
        ),
    ],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            show_default=False,
            help="The host names and IP addresses of the queue manager, or a URI.",
        ),
    ],
    file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="The name of the files without .crt and .key. Default: the first NAME.",
        ),
    ] = "",
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=DAYS_MAX, help="The days until the end.")
    ] = 365,
) -> None:
    """Make a certificate for NAMEs, signed by the CA in DIR. The first time, make the CA as well.

    The certificate is for listeners, links and clients. To renew it, run the command again: it
    replaces the files, and a running daemon reads them without a restart.

    The file ca.key can sign certificates for any name. Move it to a safe place, and give other
    machines only ca.crt.

    \b
    JSON: an object with
      ca                  the file of the CA's certificate
      certificate, key    the files of the new certificate and its key
      names               the names in the certificate
      fingerprint         its SHA-256
      ends                its end (ISO 8601)
      created_ca          true: the CA is new

    Examples:
      qmctl tls init /etc/qmgrd/tls nyc.example.org 10.0.0.5
      qmctl tls init tls localhost 127.0.0.1 --days 30
    """
    what = f"cannot make a certificate for {names[0][:80]}"
    base = file or names[0]
    if "/" in base or base in ("", ".", "..", "ca") or base.startswith("-"):
        raise usage(what, f"{base[:80]!r} cannot be the name of its files", "use --file NAME")
    if len(names) > NAMES_MAX:
        raise usage(what, f"{len(names)} names are given; the limit is {NAMES_MAX}")
    # These imports take 60 ms.
    from qmgr_tools.tls import authority as authorities
    from qmgr_tools.tls.authority import CA_FILE, CA_KEY_FILE, Authority

    now = datetime.now(UTC)
    key, certificate = directory / f"{base}.key", directory / f"{base}.crt"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not (directory / CA_FILE).exists() and not (directory / CA_KEY_FILE).exists()
        if is_new:
            Authority.create(f"qmgrd CA of {os.uname().nodename}", now).save(directory)
        found = Authority.load(directory)
        issued = found.issue(list(names), now, days)
        authorities.write(key, issued.key, mode=0o600)
        authorities.write(certificate, issued.certificate, mode=0o644)
    except OSError as error:
        path = error.filename or directory
        raise Failure(Exit.FAILED, what, f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise usage(what, str(error)) from None
    row = {
        "ca": str(directory / CA_FILE),
        "certificate": str(certificate),
        "key": str(key),
        "names": list(names),
        "fingerprint": issued.fingerprint,
        "ends": issued.ends.isoformat(),
        "created_ca": is_new,
    }
    if call.is_json:
        output.document(row)
        return
    if is_new:
        output.say(f"created a CA: {row['ca']}; keep {directory / CA_KEY_FILE} secret")
    output.say(f"created {certificate} for {', '.join(names)}; it ends {issued.ends:%Y-%m-%d}")
    output.say(f"fingerprint {issued.fingerprint}")
