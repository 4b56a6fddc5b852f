"""The options of the daemon, with their types, defaults, bounds and meanings.

The text under a field is the description of the field. In this module, sizes are in bytes and times
in milliseconds. Files, the environment and callers may also use strings such as "64 GiB" and "30
s". config/qmgrd.toml documents all options for operators.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from qmgr_config.access_rule import RULES_MAX, AccessRule
from qmgr_config.address import parse_address
from qmgr_config.certificate_rule import CERTIFICATES_MAX, CertificateRule
from qmgr_config.check import checked_name, checked_path
from qmgr_config.link import LinkConfig as LinkConfig
from qmgr_config.link import LoginConfig as LoginConfig
from qmgr_config.quantity import count, in_bytes, in_ms
from qmgr_config.section import Section
from qmgr_config.tls import TlsConfig as TlsConfig
from qmgr_config.token_rule import TOKENS_MAX, TokenRule
from qmgr_config.units import DAY_MS, GIB, KIB, MIB, SECOND_MS, TIB, bytes_text, ms_text, shown
from qmgr_config.user_defaults import UserDefaults

LISTEN_TCP_MAX = 16
# Space in a frame that is reserved in addition to the largest message.
FRAME_OVERHEAD_BYTES = 64 * KIB
# Maximum number of extra connections over the unix socket, beyond listen.connections_max.
UNIX_PLACES = 16
UNIX_PATH_MAX_BYTES = 107  # maximum length of a path in sockaddr_un, without the final NUL


def _split_at_commas(value: object) -> object:
    """Returns a list unchanged. Splits a string at commas, because the environment has no lists."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",")] if value.strip() else []


class QueueManagerConfig(Section):
    """[queue_manager]"""

    name: Annotated[str, AfterValidator(checked_name)] = "QM1"
    """The name of this queue manager for other queue managers. Fixed once the store exists."""

    data_dir: Annotated[Path, AfterValidator(checked_path)] = Path("/var/lib/qmgrd")
    """The directory that holds the store and, by default, the unix socket."""

    downtime_max_ms: Annotated[int, in_ms(0, "3650 d")] = 30 * DAY_MS
    """The maximum time by which the store's clock advances for downtime, in ms."""


class ListenConfig(Section):
    """[listen]"""

    tcp: Annotated[tuple[str, ...], BeforeValidator(_split_at_commas)] = ("127.0.0.1:7470",)
    """The loopback addresses to listen on without TLS, each host:port. Port 0 selects a port."""

    tls: Annotated[tuple[str, ...], BeforeValidator(_split_at_commas)] = ()
    """The addresses to listen on with TLS. They need tls.certificate and tls.key."""

    unix: str = ""
    """The path of the unix socket. "" means qmgrd.sock in the data directory. "off" disables it."""

    connections_max: Annotated[int, count(1, 100_000)] = 2000
    """The maximum number of open connections of clients and queue managers together."""

    connections_per_address_max: Annotated[int, count(1, 100_000)] = 1000
    """The maximum number of connections from one address, except unix socket and loopback."""

    handshake_ms: Annotated[int, in_ms("10 ms", "1 min")] = 5 * SECOND_MS
    """The maximum time for the handshake of a new connection, in ms."""

    greetings_max: Annotated[int, count(1, 100_000)] = 256
    """The maximum number of unfinished handshakes. Beyond this limit, the oldest is closed."""

    greetings_per_address_max: Annotated[int, count(1, 100_000)] = 32
    """The maximum number of unfinished handshakes from one address or over the unix socket."""

    @field_validator("tcp", "tls")
    @classmethod
    def _addresses_are_valid(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if len(addresses) > LISTEN_TCP_MAX:
            raise ValueError(f"{len(addresses)} addresses; the limit is {LISTEN_TCP_MAX}")
        for text in addresses:
            parse_address(text)
        return addresses

    @field_validator("tcp")
    @classmethod
    def _tcp_is_on_this_machine(cls, tcp: tuple[str, ...]) -> tuple[str, ...]:
        for text in tcp:
            if not parse_address(text).is_loopback:
                raise ValueError(
                    f"other machines can reach {text}, and tcp is not encrypted: name the address "
                    "in listen.tls instead"
                )
        return tcp


class AuthConfig(Section):
    """[auth]"""

    mode: Literal["enforce", "report"] = "enforce"
    """Whether requests without a right are refused, or only logged ("report")."""

    users_max: Annotated[int, count(1, 1_000_000)] = 10_000
    """The maximum number of users."""

    access: Annotated[tuple[AccessRule, ...], Field(max_length=RULES_MAX)] = ()
    """The rules that decide how a connection may log in. Without any, default rules are used."""

    certificates: Annotated[tuple[CertificateRule, ...], Field(max_length=CERTIFICATES_MAX)] = ()
    """The users of clients' certificates. The first entry that fits a certificate decides."""

    tokens: Annotated[tuple[TokenRule, ...], Field(max_length=TOKENS_MAX)] = ()
    """The issuers of tokens (JWT). The first entry whose issuer and audience fit decides."""


class StoreConfig(Section):
    """[store]"""

    map_bytes: Annotated[int, in_bytes("1 MiB", "16 TiB")] = 64 * GIB
    """The maximum size of the store, in bytes. The file grows on demand."""

    high_water_percent: Annotated[int, count(1, 95)] = 80
    """The fill level, in percent of map_bytes, at which puts are refused."""

    free_disk_min_bytes: Annotated[int, in_bytes(0, "1 TiB")] = 256 * MIB
    """The disk space that puts must leave free, in bytes. Free parts of the file count."""


class DurabilityConfig(Section):
    """[durability]"""

    journal: bool = True
    """Whether a journal makes turns durable, which is faster than commits of the store."""

    journal_bytes: Annotated[int, in_bytes("1 MiB", "1 GiB")] = 32 * MIB
    """The size of the journal's file when it is created, in bytes."""


class JournalConfig(Section):
    """[journal]"""

    url: str = ""
    """The PostgreSQL server that keeps the journal, in libpq's words. "" means a local file."""

    member: Annotated[str, Field(max_length=200)] = ""
    """The name of this process among all with the same journal. "" means HOST:DATA_DIR."""

    addresses: Annotated[tuple[str, ...], BeforeValidator(_split_at_commas)] = ()
    """The addresses that standbys give to clients. Without any, those that it listens on."""

    takeover_ms: Annotated[int, in_ms("1 s", "10 min")] = 10 * SECOND_MS
    """The time without a record after which a standby becomes active, in ms."""

    wait_ms: Annotated[int, in_ms("100 ms", "1 d")] = 10 * SECOND_MS
    """The time for which requests wait for the server before they are refused, in ms."""


class LimitsConfig(Section):
    """[limits]"""

    frame_max_bytes: Annotated[int, in_bytes("128 KiB", "1 GiB")] = 8 * MIB
    """The maximum size of a frame on the wire, in bytes."""

    message_max_bytes: Annotated[int, in_bytes("1 KiB", "1 GiB")] = 4 * MIB
    """The maximum size of a message with its headers, in bytes."""

    put_window_messages: Annotated[int, count(1, 10_000)] = 4096
    """The maximum number of unanswered puts of a connection."""

    put_window_bytes: Annotated[int, in_bytes("1 KiB", "1 GiB")] = 16 * MIB
    """The same limit in bytes."""

    request_window: Annotated[int, count(1, 1_000_000)] = 1024
    """The maximum number of unanswered requests and settles of a connection."""

    turn_requests: Annotated[int, count(1, 1_000_000)] = 4096
    """The maximum number of requests in one turn (one transaction)."""

    turn_bytes: Annotated[int, in_bytes("1 KiB", "1 GiB")] = 4 * MIB
    """The maximum size of the requests in one turn, in bytes."""

    turn_rows: Annotated[int, count(1, 1_000_000)] = 5000
    """The approximate maximum number of store rows read and written in one turn."""

    turn_ms: Annotated[int, in_ms("1 ms", "10 s")] = 50
    """The approximate maximum time of one turn, in ms. Other clients wait during a turn."""

    buffers_max_bytes: Annotated[int, in_bytes("4 MiB", "1 TiB")] = 128 * MIB
    """The memory for requests and answers of all connections, in bytes, half for each kind."""

    heartbeat_ms: Annotated[int, in_ms("10 ms", "1 h")] = 10 * SECOND_MS
    """The time without traffic after which a heartbeat is sent, in ms."""

    liveness_ms: Annotated[int, in_ms("20 ms", "1 d")] = 30 * SECOND_MS
    """The time without traffic after which a peer is lost, in ms. Must exceed heartbeat_ms."""

    queues_max: Annotated[int, count(1, 1_000_000)] = 10_000
    """The maximum number of queues."""

    subscriptions_max: Annotated[int, count(1, 1_000_000)] = 20_000
    """The maximum number of subscriptions, durable or not."""

    match_visits_max: Annotated[int, count(64, 1_000_000)] = 4096
    """The maximum number of filter branches ("+" or a name, per level) that a topic may match."""

    selectors_max_length: Annotated[int, count(64, 100_000_000)] = 1_048_576
    """The maximum length of all selectors of consumers, gets and subscriptions, in characters."""

    links_max: Annotated[int, count(1, 10_000)] = 100
    """The maximum number of links to other queue managers."""

    consumers_per_connection_max: Annotated[int, count(1, 100_000)] = 1000
    """The maximum number of consumers of a connection."""

    @property
    def whole_max_bytes(self) -> int:
        """The maximum size of a message in one frame. Longer ones travel in pieces."""
        return min(self.message_max_bytes, self.frame_max_bytes - FRAME_OVERHEAD_BYTES)

    @field_validator("buffers_max_bytes")
    @classmethod
    def _frames_fit_into_the_buffers(cls, buffers_max_bytes: int, info: ValidationInfo) -> int:
        frame = info.data.get("frame_max_bytes")
        if frame is not None and buffers_max_bytes < 4 * frame:
            raise ValueError(
                f"{bytes_text(buffers_max_bytes)} is below four times limits.frame_max_bytes "
                f"({bytes_text(4 * frame)})"
            )
        return buffers_max_bytes

    @field_validator("liveness_ms")
    @classmethod
    def _liveness_outlasts_the_heartbeat(cls, liveness_ms: int, info: ValidationInfo) -> int:
        heartbeat_ms = info.data.get("heartbeat_ms")
        if heartbeat_ms is not None and liveness_ms <= heartbeat_ms:
            raise ValueError(
                f"{ms_text(liveness_ms)} is not longer than limits.heartbeat_ms "
                f"({ms_text(heartbeat_ms)})"
            )
        return liveness_ms


class QueueDefaults(Section):
    """[queue_defaults]"""

    depth_max: Annotated[int, count(1, 1_000_000_000_000)] = 100_000_000
    """The maximum number of messages on a queue."""

    bytes_max: Annotated[int, in_bytes("1 KiB", "16 TiB")] = TIB
    """The maximum size of the messages on a queue, in bytes."""

    lease_ms: Annotated[int, in_ms("100 ms", "1 d")] = 30 * SECOND_MS
    """The time after which an unacknowledged message is delivered again, in ms."""

    leases_max: Annotated[int, count(1, 100_000)] = 10_000
    """The maximum number of leased messages of a queue."""

    accounting: Literal["off", "on"] = "off"
    """Whether a queue keeps a history of its messages, for reports and exports."""


class ProducerConfig(Section):
    """[producer]"""

    retention_ms: Annotated[int, in_ms("1 s", "3650 d")] = 30 * DAY_MS
    """The time for which an unused producer is remembered, in ms. Later resends are refused."""

    producers_max: Annotated[int, count(1, 10_000_000)] = 100_000
    """The maximum number of remembered producers."""


class UnitConfig(Section):
    """[unit]"""

    messages_max: Annotated[int, count(1, 100_000)] = 2_000
    """The maximum number of messages that a unit of work may put and get."""

    bytes_max: Annotated[int, in_bytes("1 KiB", "1 GiB")] = 16 * MIB
    """The maximum size of the puts of a unit of work, in bytes."""

    rows_max: Annotated[int, count(10, 1_000_000)] = 20_000
    """The maximum number of store rows that the commit of a unit may write, all in one turn."""

    age_max_ms: Annotated[int, in_ms("100 ms", "1 d")] = 300 * SECOND_MS
    """The time after which an open unit of work is backed out, in ms."""

    held_bytes_max: Annotated[int, in_bytes("1 KiB", "1 TiB")] = 64 * MIB
    """The maximum memory of all units of work, in bytes. Each put counts 1 KiB extra."""

    connection_bytes_max: Annotated[int, in_bytes("1 KiB", "1 TiB")] = 16 * MIB
    """The maximum share of held_bytes_max for the units of one connection, in bytes."""

    units_per_connection_max: Annotated[int, count(1, 10_000)] = 100
    """The maximum number of open units of work of a connection."""


class AccountingConfig(Section):
    """[accounting]"""

    bytes_max: Annotated[int, in_bytes("64 KiB", "1 TiB")] = 1024 * MIB
    """The maximum size of the history, in bytes, at most an eighth of store.map_bytes."""

    age_max_ms: Annotated[int, in_ms("1 min", "3650 d")] = 7 * DAY_MS
    """The maximum age of the history, in ms, even if an export cursor still needs it."""


class AuditConfig(Section):
    """[audit]"""

    record: Literal["users", "always", "never"] = "users"
    """Whether requests and logins are recorded while users exist ("users"), always or never."""

    log: bool = True
    """Whether each record is also a line in the log."""

    bytes_max: Annotated[int, in_bytes("64 KiB", "1 TiB")] = 256 * MIB
    """The maximum size of the records, in bytes, at most an eighth of store.map_bytes."""

    age_max_ms: Annotated[int, in_ms("1 min", "3650 d")] = 90 * DAY_MS
    """The maximum age of a record, in ms."""


class SnapshotsConfig(Section):
    """[snapshots]"""

    directory: str = ""
    """The path or URL where the daemon writes scheduled snapshots. "" disables them."""

    every_ms: Annotated[int, in_ms("1 s", "3650 d")] = DAY_MS
    """The time between scheduled snapshots, in ms."""

    keep: Annotated[int, count(0, 1_000_000)] = 7
    """The number of scheduled snapshots to keep. 0 keeps all."""

    rate_bytes: Annotated[int, in_bytes("64 KiB", "1 TiB")] = 128 * MIB
    """The default rate of a snapshot, in bytes per second."""

    @field_validator("directory")
    @classmethod
    def _directory_is_whole(cls, directory: str) -> str:
        is_url = re.match("[a-z][a-z0-9+.-]*://.", directory)
        if not directory or ((directory.startswith("/") or is_url) and "\0" not in directory):
            return directory
        raise ValueError(f"{shown(directory)} is neither an absolute path nor a URL")


class LogConfig(Section):
    """[log]"""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level of log entries that are written."""

    format: Literal["auto", "console", "json"] = "auto"
    """The format of log entries. "auto" selects console on a terminal and json elsewhere."""


class Config(Section):
    """The whole configuration. The daemon checks the configuration once, at the start.

    After that, it is immutable.
    """

    queue_manager: QueueManagerConfig = QueueManagerConfig()
    listen: ListenConfig = ListenConfig()
    tls: TlsConfig = TlsConfig()
    auth: AuthConfig = AuthConfig()
    user_defaults: UserDefaults = UserDefaults()
    store: StoreConfig = StoreConfig()
    durability: DurabilityConfig = DurabilityConfig()
    journal: JournalConfig = JournalConfig()
    limits: LimitsConfig = LimitsConfig()
    queue_defaults: QueueDefaults = QueueDefaults()
    producer: ProducerConfig = ProducerConfig()
    unit: UnitConfig = UnitConfig()
    link: LinkConfig = LinkConfig()
    accounting: AccountingConfig = AccountingConfig()
    audit: AuditConfig = AuditConfig()
    snapshots: SnapshotsConfig = SnapshotsConfig()
    log: LogConfig = LogConfig()

    @property
    def unix_path(self) -> Path | None:
        """The path of the unix socket, or None if the socket is disabled."""
        if self.listen.unix == "off":
            return None
        return Path(self.listen.unix or self.queue_manager.data_dir / "qmgrd.sock")

    @model_validator(mode="after")
    def _tls_has_a_certificate(self) -> "Config":
        if self.listen.tls and not self.tls.certificate:
            raise ValueError(
                "listen.tls: TLS needs a certificate: set tls.certificate and tls.key, or make a "
                "certificate for a trial with qmctl tls init"
            )
        return self

    @model_validator(mode="after")
    def _journal_is_in_one_place(self) -> "Config":
        if self.journal.url and not self.durability.journal:
            raise ValueError("durability.journal: a journal at journal.url cannot be off")
        return self

    @model_validator(mode="after")
    def _unix_path_fits_a_socket_address(self) -> "Config":
        path_bytes = len(bytes(self.unix_path or Path()))
        if "\0" in self.listen.unix:
            raise ValueError(f"listen.unix: {shown(self.listen.unix)} is not the path of a socket")
        if path_bytes > UNIX_PATH_MAX_BYTES:
            raise ValueError(
                f"listen.unix: {self.unix_path} is {path_bytes} bytes long; "
                f"the limit is {UNIX_PATH_MAX_BYTES}"
            )
        return self
