"""The results of ``client.admin`` for links, connections, status and history.

rows.py has the results for queues, topics, jobs and groups.
"""

from typing import Any, NotRequired, TypedDict

from qmgr_client.rows import Changed


class PathRow(TypedDict):
    """One connection of a link."""

    path: int
    state: str
    address: str
    in_flight: int
    in_flight_bytes: int
    oldest_ms: int | None
    landed: int
    fetches: str
    rtt_ms: int | None
    stalls: int
    attempts: int
    redial_ms: int | None
    error: str


class LinkRow(TypedDict):
    """A link of this queue manager."""

    link: str
    state: str
    addresses: list[str]
    connections: int
    ordered: bool
    fetch: bool
    routes: list[str]
    transit: bool
    error: str
    waiting: int
    waiting_bytes: int
    in_flight: int
    oldest_ms: int | None
    commit_id: int
    held: int
    next_id: int
    transferred: int
    resent: int
    lost: int
    lost_us: int | None
    attempts: int
    down_ms: int | None
    redial_ms: int | None
    blocked_ms: int | None
    retry_ms: int | None
    blocked_uid: str | None
    blocked_queue: str | None
    blocked_behind: int | None
    connections_up: int
    paths: list[PathRow]


class LinkAltered(LinkRow):
    """A link that was altered."""

    changed: Changed


class InboundRow(TypedDict):
    """A link of another queue manager to this one."""

    peer: str
    stream: str
    commit_id: int
    ahead: int
    duplicates: int
    connections: int
    in_line: int
    lost: int
    lost_us: int | None
    blocked_id: int | None
    blocked_queue: str | None
    tries_left: int | None
    error: str
    dead_letters: int
    dead_error: str


class AllowedRow(TypedDict):
    """A queue manager that may open links to this one."""

    peer: str
    allowed: bool
    store_id: str
    allowed_us: int | None
    seen_us: int | None
    error: str


class RefusedRow(TypedDict):
    """A queue manager that was refused."""

    peer: str
    store_id: str
    code: str
    count: int
    last_us: int
    error: str  # the last error, with its code


class LinkListing(TypedDict):
    """The links to and from this queue manager, and the queue managers that may open links."""

    links: list[LinkRow]
    inbound: list[InboundRow]
    inbound_count: int
    allowed: list[AllowedRow]
    allowed_count: int
    refused: list[RefusedRow]


class Disallowed(TypedDict):
    """The result of forbidding a queue manager to open links."""

    connections: int
    inbound: str


class SnapshotUnderWay(TypedDict):
    """The snapshot that is being written."""

    directory: str
    phase: str  # starting, writing, counting, uploading
    done_bytes: int
    total_bytes: int


class SnapshotTaken(TypedDict):
    """The last scheduled snapshot."""

    taken_us: int
    directory: str
    messages: int
    data_bytes: int


class SnapshotSchedule(TypedDict):
    """The schedule of snapshots."""

    directory: str  # empty if no snapshots are scheduled
    every_ms: int
    keep: int
    next_us: int | None
    last: SnapshotTaken | None
    failures: int
    why: str


class CertificateRow(TypedDict):
    """A certificate that listeners with TLS show."""

    path: str
    names: list[str]
    ends: str  # in ISO 8601, such as "2027-03-08T10:17:31+00:00"
    fingerprint: str  # its SHA-256 in hexadecimal digits


class JournalMemberRow(TypedDict):
    """A process that shares the journal of a queue manager."""

    member: str
    role: str  # active, standby, or away if it was not seen for 10 s
    record: int  # last record that it had
    behind: int  # number of records
    addresses: list[str]
    seen_ms: int


class JournalRow(TypedDict):
    """The journal of a queue manager. Only a journal on a server has more than its place."""

    place: str  # none, file, postgresql
    record: NotRequired[int]
    epoch: NotRequired[int]
    trouble: NotRequired[str]  # reason why the server does not answer, or empty
    member: NotRequired[str]  # the active member
    why: NotRequired[str]
    since_us: NotRequired[int]
    server: NotRequired[str]  # version of the server
    synchronous_commit: NotRequired[str]
    synchronous_standby_names: NotRequired[str]
    fsync: NotRequired[str]
    log_bytes: NotRequired[int]
    base_record: NotRequired[int]
    base_bytes: NotRequired[int]
    members: NotRequired[list[JournalMemberRow]]


class ManagerStatus(TypedDict):
    """The status of a queue manager."""

    name: str
    store_id: str
    boot: int
    turn: int
    queues: int
    subscriptions: int
    messages: int
    leased: int
    links: int
    links_up: int
    producers: int
    jobs: int
    store_full: str  # reason why puts are refused, or empty
    maintenance: bool
    open: bool  # whether clients need no user because no user exists
    software: str
    pid: int
    uptime_ms: int
    cpu_ms: int
    connections: int
    store_used_bytes: int
    store_map_bytes: int
    disk_free_bytes: int
    listening: list[str]
    turn_longest_us: int
    turn_times_us: list[list[int]]
    certificates: list[CertificateRow]
    snapshot: SnapshotUnderWay | None
    snapshots: SnapshotSchedule
    journal: JournalRow


class ConnectionRow(TypedDict):
    """An open connection."""

    connection: int
    kind: str  # client, inbound, outbound
    name: str
    user: str  # empty if the client did not log in
    software: str
    open_ms: int
    consumers: int
    gets: int
    units: int
    leased: int
    streams: int
    address: str
    waiting: int
    waiting_bytes: int
    unsent_bytes: int
    delayed_by: str  # rate or unread, if a request waits because of a limit, otherwise empty
    delay_ms: int  # for rate: the least time until the request continues
    token_ms: int | None  # the time until the token of the connection ends


class CursorRow(TypedDict):
    """A cursor, which keeps history until it is exported."""

    cursor: str
    position: int
    created_us: int
    committed_us: int
    waiting: int
    lost: int


class HistoryShown(TypedDict):
    """The range of rows in the history, and its cursors."""

    manager: str
    store_id: str
    first: int
    next: int
    bytes: int
    bytes_max: int
    age_max_ms: int
    dropped: int
    cursors: list[CursorRow]


class HistoryPage(TypedDict):
    """Stored rows of history."""

    manager: str
    store_id: str
    first: int
    next: int
    rows: list[list[Any]]  # pairs of number and row


class AsideRow(TypedDict):
    """Work, or a stored row, that was set aside."""

    number: int
    kind: str
    key: str
    what: str
    why: str
    set_aside_us: int
    bytes: int
    retried: NotRequired[str]  # only in the result of aside_retry
