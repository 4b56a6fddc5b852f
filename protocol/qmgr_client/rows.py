"""The results of ``client.admin``: rows of queues, topics, jobs and so on, as dictionaries.

PROTOCOL.md, section 11, defines the values. Not every row has every key. For example, a remote
queue has no depth. A newer queue manager may send further keys. Tests check these classes against
a daemon.
"""

from typing import Any, Required, TypedDict

from qmgr_client.attributes import (
    Accounting,
    ExpiryAction,
    QueueOverflow,
    Republish,
    SubscriptionOverflow,
)

Changed = dict[str, list[Any]]  # maps each changed attribute to [before, after]


class StoredRow(TypedDict, total=False):
    """The keys that rows of queues and of subscriptions have in common."""

    kind: Required[str]  # local, remote, transmission, alias, publications, subscription, proxy
    queue_id: Required[int]  # 0 if the queue does not store messages
    given: Required[list[str]]  # names of attributes that were set explicitly
    template: str | None
    # Attributes in effect:
    depth_max: int
    bytes_max: int
    lease_ms: int
    exclusive: bool
    priority_default: int
    expiry_max_ms: int
    expiry_action: ExpiryAction
    group_retention_ms: int
    group_incomplete_ms: int
    delivery_limit: int
    retry_initial_ms: int
    retry_factor: float
    retry_max_ms: int
    retry_jitter_percent: int
    breaker_percent: int
    breaker_window_ms: int
    breaker_messages_min: int
    breaker_pause_ms: int
    accounting: Accounting
    redelivery_limit: int
    unused_expiry_ms: int
    get_inhibit: bool
    # Current numbers of messages. Fields in other units have the unit in their names:
    depth: int  # ready and leased messages
    ready: int
    leased: int
    grouped: int
    delayed: int
    parked: int
    held: int  # messages in open units of work
    volatile: int
    volatile_delayed: int
    volatile_bytes: int
    volatile_from: int
    bytes: int
    consumers: int
    breaker: str
    next_arrival: int
    maybe_before: int
    # Counters:
    puts: int
    fast: int
    slow: int
    duplicates: int
    acked: int
    purged: int
    damaged: int
    delivered: int
    returned: int
    refused: int
    expired: int
    dead: int
    moved: int
    lost: int
    missed: int
    unused_ms: int  # present if unused_expiry_ms is set
    # Fields of a subscription:
    topic: str
    where: str
    first: int
    suspended: bool


class QueueRow(StoredRow, total=False):
    """A queue."""

    queue: Required[str]
    message_max_bytes: int
    transfer_in: bool
    overflow: QueueOverflow | SubscriptionOverflow
    dedup_retention_ms: int
    backout_threshold: int
    backout_queue: str
    put_inhibit: bool
    arrived: int
    origins: dict[str, int]  # queue_show: highest timestamp of each origin on this page
    origins_next: str | None  # queue_show: start of the next page of origins
    alias_of: str
    target: str
    manager: str
    waits_on: str


class QueueAltered(QueueRow):
    """A queue that was altered."""

    changed: Required[Changed]


class QueueEnsured(QueueAltered):
    """A queue that was created or altered."""

    created: Required[bool]


class Removed(TypedDict):
    """The number of deleted messages."""

    messages: int | None  # None if the answer was lost with a connection


class SubscriptionRow(StoredRow, total=False):
    """A subscription."""

    subscription: Required[str]
    overflow: SubscriptionOverflow
    durable: Required[bool]
    manager: Required[str]  # destination of a proxy
    oldest_us: int | None


class SubscriptionRestarted(SubscriptionRow):
    """The row of a subscription whose subscriber can process messages again."""

    job: Required[int | None]  # number of the job that republishes


class TopicRow(TypedDict):
    """A topic."""

    topic: str
    given: list[str]
    redelivery_limit: int
    republish: Republish
    republish_interval_ms: int
    put_inhibit: bool
    retained: bool


class TopicShown(TopicRow):
    """A topic, and its matching subscriptions."""

    subscriptions: int
    first_subscriptions: list[str]


class UnacknowledgedRow(TypedDict):
    """A subscription that has not acknowledged a publication."""

    subscription: str
    state: str
    delivered: int
    failed: int


class UnacknowledgedPublication(TypedDict):
    """The subscriptions that have not acknowledged a publication."""

    uid: str
    topic: str
    subscriptions: list[UnacknowledgedRow]


class ParkedRow(TypedDict):
    """A publication that is parked for a subscription."""

    uid: str
    topic: str
    subscription: str
    bytes: int
    put_us: int
    parked_us: int
    failed: int
    delivered: int
    code: str
    reason: str
    text: str
    republished: int
    attempts: list[list[Any]]
    awaits_return: bool


class JobRow(TypedDict):
    """A job."""

    job: int
    kind: str
    state: str  # running, waiting, done, cancelled, failed, aside
    text: str
    queue: str
    target: str
    where: str
    messages_max: int
    rate: int
    retries_max: int
    by: str
    total: int
    examined: int
    done: int
    skipped: int
    stayed: int
    started_us: int
    ended_us: int | None


class TemplateRow(TypedDict):
    """A template."""

    pattern: str
    attributes: dict[str, Any]
    queues: int


class TemplateDefined(TemplateRow):
    """A template that was defined."""

    created: bool
    changed: Changed


class TemplateDeleted(TypedDict):
    """A template that was deleted."""

    pattern: str
    queues: int | None  # None if the answer was lost with a connection


class GroupRow(TypedDict):
    """A group on a queue."""

    group: str
    state: str  # complete, open, gap, paused, parked
    count: int
    delayed: int
    leased: int
    next: int
    next_is_here: bool
    last: int | None
    highest: int
    missing: int
    holder: str
    first_us: int
    age_ms: int
    parked_number: int
    parked_code: int
    closed: bool


class MemberRow(TypedDict):
    """A message of a group."""

    number: int
    last: bool
    priority: int
    arrival: int
    state: str
    client: str
    delivered: int
    failed: int
    put_us: int
    expires_left_ms: int | None


class GroupShown(GroupRow):
    """A group and its messages."""

    members: list[MemberRow]
    next_number: int | None
    gaps: list[list[int]]
    waiting_for: str


class GroupAltered(GroupRow):
    """A group that was altered."""

    changed: bool


class UserRow(TypedDict, total=False):
    """A user."""

    user: Required[str]
    enabled: Required[bool]
    roles: Required[list[str]]
    grants: Required[list[list[str]]]  # right, kind and pattern of each
    has_password: Required[bool]
    created_us: Required[int]
    password_us: Required[int]  # time at which the password was set, or 0
    queue_manager: Required[str]  # the only one as which the user may open links; empty for any
    verifier: str  # only if secrets were requested; empty without a password
    limits: Required[dict[str, int]]  # the limits in force, by name; 0 is unlimited
    given: Required[list[str]]  # the limits that differ from the defaults of the configuration
    use: dict[str, int]  # only from user_show: the present use, by name of the limit without _max


class UserChanged(UserRow):
    """A user that was altered or deleted."""

    connections: Required[int]  # number of connections that were closed


class RoleRow(TypedDict):
    """A role."""

    role: str
    built_in: bool
    grants: list[list[str]]  # right, kind and pattern of each
    users: int  # number of users who have the role


class SubjectRow(TypedDict, total=False):
    """A user or a role that has grants, with the keys of UserRow or of RoleRow."""

    grants: Required[list[list[str]]]
    user: str
    enabled: bool
    roles: list[str]
    has_password: bool
    created_us: int
    password_us: int
    queue_manager: str
    limits: dict[str, int]
    given: list[str]
    role: str
    built_in: bool
    users: int


class AccessDecision(TypedDict):
    """A right that a request needs, and the grant that decides."""

    right: str
    kind: str
    name: str  # empty for the queue manager itself, * for all objects of the kind
    allowed: bool
    by: str  # the grant, or the role of administrators; empty if the right is lacking


AccessRule = TypedDict(
    "AccessRule",
    {
        "rule": int,  # position, from 1
        "from": list[str],
        "users": list[str],
        "tls": str,
        "methods": list[str],
        "covered_by": int,  # earlier rule that fits all connections of this one, or 0
    },
)


class RulesListed(TypedDict):
    """The rules for logins, in their order."""

    rules: list[AccessRule]
    default: bool  # whether the configuration has no rules, so that the default rules are used


class AccessVerdict(TypedDict):
    """The decision of the rules about a login."""

    allowed: bool
    rule: int  # rule that decides, or 0 if no rule fits
    why: str


class AccessExplained(TypedDict):
    """Whether a user may send a request."""

    user: str
    enabled: bool
    operation: str
    allowed: bool
    decisions: list[AccessDecision]
