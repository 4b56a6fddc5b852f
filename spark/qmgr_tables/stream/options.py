"""The options of `spark.readStream.format("qmgr")`, parsed and checked.

    url               addresses of queue managers, separated by commas: host:port, tls:host:port,
                      tls:user@host:port, /path/of/socket; with standbys: host1:port|host2:port
    path              instead of url: a directory of snapshots, or a pattern
    table             history; with url also messages, which are browsed as they arrive. A message
                      that is consumed before it is browsed is not in the stream
    cursor            required with url for history: the name of an export cursor, which exists in
                      each of the queue managers. Each stream needs its own cursor
    startingOffsets   earliest, or latest to skip existing rows. An existing checkpoint or
                      cursor determines the start instead
    maxRowsPerTrigger, maxBytesPerTrigger
                      the approximate number of rows, or of bytes, in a batch; default: no limit
    failOnDataLoss    true; false continues after lost data, with a warning
    waitMs            120000: the time to wait for an unavailable queue manager, after which the
                      query fails
    user, passwordFile, tokenFile
                      the user to log in as, and a file with the password; default: the user in
                      url, or else the environment (QMGR_USER, ...) of the driver and executors
    caFile, certificateFile, keyFile, serverName, fingerprint
                      for tls: how to check the certificate of the queue manager, and which
                      certificate to show; default: the environment (QMGR_CA_FILE, ...)

All of these files must exist on the driver and on each executor, under the same path. They are read
at each connection. An option "password" is refused, because plans and logs show options.

The options queues, queuesPattern, rowsPerPartition, minPartitions and verify are the same as in
options.py of qmgr_tables. The table messages also accepts states, includePayload and maxBodyBytes.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from qmgr_client.address import Address, joined, parse_list
from qmgr_client.credentials import Credentials, Login, TokenCredentials
from qmgr_client.errors import AddressInvalid
from qmgr_protocol.name import is_name
from qmgr_protocol.tls import TlsOptions
from qmgr_tables import option_parser as batch
from qmgr_tables.options import NAMES, OptionInvalid, Options
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access

LOGIN = ("user", "passwordFile", "tokenFile")
# Options of TLS, with the names that TlsOptions gives them.
TLS = {
    "caFile": "ca_file",
    "certificateFile": "certificate_file",
    "keyFile": "key_file",
    "serverName": "server_name",
    "fingerprint": "fingerprint",
}
ACCESS = (*LOGIN, *TLS)
SECRETS = ("password", "token")  # Options that are refused, because Spark shows options.
ONLY = (
    "url",
    "cursor",
    "startingOffsets",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "waitMs",
    *ACCESS,
)
TABLES = ("history", "messages")
WAIT_MS = 120_000
WAIT_MAX_MS = 86_400_000
_LIMIT_MAX = 2**63 - 1
_OF_MESSAGES = ("includePayload", "maxBodyBytes", "states")
_STARTS = {"earliest": False, "latest": True}


class StreamOptions(NamedTuple):
    """The options of a stream."""

    urls: tuple[str, ...]  # addresses of queue managers; empty for snapshots
    cursor: str
    from_latest: bool
    rows_max: int | None  # maximum number of rows in a batch
    bytes_max: int | None
    skip_lost: bool
    wait_ms: int
    of: Options  # options that streams share with tables
    access: Access = BY_ENVIRONMENT


def is_streamed(given: Mapping[str, str]) -> bool:
    """Returns whether *given* has an option that only streams have. The case of keys is ignored."""
    return not {name.lower() for name in ONLY}.isdisjoint(key.lower() for key in given)


def parse(given: Mapping[str, str]) -> StreamOptions:
    """Returns the options in *given*. The case of its keys is ignored.

    Raises:
        OptionInvalid: An option is invalid. The text states the option, the reason and valid
            values.
    """
    own, shared = _split(given)
    urls = _urls(own.get("url", ""))
    if urls and ("path" in shared or "paths" in shared):
        raise OptionInvalid("options url and path: a stream reads only one of them; omit one")
    if not urls and "path" not in shared and "paths" not in shared:
        raise OptionInvalid(
            'option url is missing; name the addresses of queue managers: .option("url", '
            '"127.0.0.1:7470"), or a directory of snapshots with the option path'
        )
    of = batch.parse({"path": "url", "table": "history", **shared})
    check_table(of.table, shared, is_live=bool(urls))
    is_history = of.table == "history"
    return StreamOptions(
        urls=urls,
        cursor=_cursor(own.get("cursor", ""), is_live=bool(urls), is_history=is_history),
        from_latest=_start(own.get("startingOffsets", "earliest")),
        rows_max=_number(own, "maxRowsPerTrigger", 1, _LIMIT_MAX),
        bytes_max=_number(own, "maxBytesPerTrigger", 1, _LIMIT_MAX),
        skip_lost=not _flag("failOnDataLoss", own.get("failOnDataLoss", "true")),
        wait_ms=_wait(own),
        of=of._replace(paths=()) if urls else of,
        access=_access(own, urls),
    )


def _split(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the options of streams and the other options, with their documented spelling."""
    names = [name for name in NAMES if name != "onDamaged"]
    known = {name.lower(): name for name in (*ONLY, *names)}
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(key.lower())
        if name is None:
            check_secret(key)
            near = get_close_matches(key.lower(), known, 1)
            listed = ", ".join(sorted(known.values()))
            hint = f"did you mean {known[near[0]]}?" if near else f"the options are {listed}"
            raise OptionInvalid(f"option {key[:80]!r} is unknown for streams; {hint}")
        (own if name in ONLY else shared)[name] = value
    return own, shared


def _urls(text: str) -> tuple[str, ...]:
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        url = f"unix:{part}" if part.startswith("/") else part
        try:
            found.append(joined(parse_list(url.replace("|", ","))))
        except AddressInvalid as error:
            raise OptionInvalid(f"option url: {error.why}; {error.hint}") from None
    for url in found:
        if found.count(url) > 1:
            raise OptionInvalid(f"option url: {url} is listed twice; list it once")
    return tuple(found)


def check_secret(key: str) -> None:
    """Raises OptionInvalid if *key* names a secret."""
    if key.lower() in SECRETS:
        raise OptionInvalid(
            f"option {key.lower()}: the plans and the logs of Spark show options; write the "
            "secret to a file and use passwordFile or tokenFile, or use the environment"
        )


def _login(values: Mapping[str, str], addresses: Sequence[Address]) -> Login | None:
    """Returns the login that the options *values* name, or None."""
    user, password_file, token_file = (values.get(name, "") for name in LOGIN)
    if token_file:
        if user or password_file or any(address.user for address in addresses):
            raise OptionInvalid("option tokenFile: a token names its user; omit the other user")
        return TokenCredentials(token_file=token_file)
    if password_file:
        named = {user} if user else {address.user for address in addresses}
        if len(named) > 1 or "" in named:
            raise OptionInvalid("option passwordFile needs exactly one user; add the option user")
        return Credentials(named.pop(), password_file=password_file)
    if user:
        raise OptionInvalid(
            f"option user: {user[:80]!r} has no password; add passwordFile, or write the user in "
            "the url and the password in the environment"
        )
    return None


def _access(own: Mapping[str, str], urls: tuple[str, ...]) -> Access:
    """Returns how to log in at *urls*, and how to check their certificates.

    The options of the login, or of TLS, replace those of the environment as a whole.
    """
    values = {name: own[name].strip() for name in ACCESS if own.get(name, "").strip()}
    if not values:
        return BY_ENVIRONMENT
    first = next(iter(values))
    if not urls:
        raise OptionInvalid(f"option {first}: snapshots need no login; omit it, or use url")
    addresses = [parse_list(url)[0] for url in urls]
    login = _login(values, addresses)
    options = {TLS[name]: value for name, value in values.items() if name in TLS}
    if not options:
        return Access(login)
    if not any(address.is_tls for address in addresses):
        name = next(name for name in values if name in TLS)
        raise OptionInvalid(f"option {name}: no address of url uses TLS; write tls:{urls[0]}")
    try:
        return Access(login, TlsOptions(**options))
    except ValueError as error:
        raise OptionInvalid(f"option of TLS: {error}; correct it") from None


def check_table(table: str, shared: Mapping[str, str], *, is_live: bool) -> None:
    """Raises OptionInvalid if the table is not streamed, or does not have an option."""
    if table not in TABLES:
        raise OptionInvalid(
            f"option table: {table} cannot be streamed, only {', '.join(TABLES)}; read it with "
            "spark.read"
        )
    if table == "messages" and not is_live:
        raise OptionInvalid(
            "option table: messages, the default, can be streamed only from a url; "
            'to stream the history in snapshots, use .option("table", "history")'
        )
    useless = [name for name in _OF_MESSAGES if name in shared]
    if table == "history" and useless:
        raise OptionInvalid(f"option {useless[0]}: history has neither bodies nor states; omit it")


def _cursor(text: str, *, is_live: bool, is_history: bool) -> str:
    name = text.strip()
    if name and not is_history:
        raise OptionInvalid(
            "option cursor: streams of messages have no cursor; omit it, or stream history"
        )
    if name and not is_live:
        raise OptionInvalid(
            "option cursor: snapshots have no cursor; omit it, or use the option url"
        )
    if is_history and is_live and not name:
        raise OptionInvalid(
            "option cursor is missing; name a separate cursor for each stream, so that the queue "
            'managers keep the rows that the stream has not read yet: .option("cursor", "lake")'
        )
    if name and not is_name(name):
        raise OptionInvalid(
            f"option cursor: {name[:80]!r} is not a valid name; use 1 to 64 of A-Z a-z 0-9 . _ -"
        )
    return name


def _start(text: str) -> bool:
    found = _STARTS.get(text.strip().lower())
    if found is None:
        raise OptionInvalid(
            f"option startingOffsets: {text[:80]!r} is not a valid value; use earliest or latest"
        )
    return found


def _flag(name: str, text: str) -> bool:
    flag = {"true": True, "false": False}.get(text.strip().lower())
    if flag is None:
        raise OptionInvalid(f"option {name}: {text[:80]!r} is not a valid value; use true or false")
    return flag


def _wait(own: Mapping[str, str]) -> int:
    found = _number(own, "waitMs", 0, WAIT_MAX_MS)
    return WAIT_MS if found is None else found


def _number(values: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    digits = text.strip()
    if re.fullmatch("[0-9]{1,19}", digits) and low <= int(digits) <= high:
        return int(digits)
    raise OptionInvalid(
        f"option {name}: {text[:80]!r} is not an integer from {low} to {high}; correct the value, "
        "or omit the option"
    )
