"""The catalogue of error codes. All texts about a code come from this table.

PROTOCOL.md (section 12) and ``qmctl explain`` show the catalogue. Each noun has a range of one
hundred numbers. A number is never reused.

To add a code, write its number, its class, the reason code of IBM MQ if one fits (two codes may
share it), its meaning in one sentence, and the remedy. qmctl appends the first sentence of the
remedy to its errors. ``pytest --rewrite tests/qmgr_protocol`` regenerates the table of PROTOCOL.md.
"""

from qmgr_protocol.error_class import Coded
from qmgr_protocol.error_class import ErrorClass as ErrorClass

_LATER, _NEVER, _UNKNOWN = ErrorClass


class ErrorCode(Coded):
    """The error numbers on the wire, each with its texts."""

    # fmt: off
    # 100: the connection
    FRAME_TOO_LARGE = (
        100, _NEVER, "", "A frame is longer than the receiver accepts.",
        "Keep frames within frame_max_bytes of the welcome. If your client does, another program "
        "listens at that address: check the address.")
    FRAME_MALFORMED = (
        101, _NEVER, "", "A frame is not one msgpack array within the limits.",
        "Check that both ends speak this protocol. If they do, one of them has a bug.")
    FIELD_INVALID = (
        102, _NEVER, "", "A field of a message is missing, of the wrong type or out of range.",
        "Correct the field that the text names. PROTOCOL.md, section 10, lists the limits of "
        "each field.")
    STATE_VIOLATION = (
        103, _NEVER, "", "The connection's state or role does not allow the message received.",
        "Fix the client: PROTOCOL.md, section 3, defines who may send which message, and when.")
    CREDIT_EXCEEDED = (
        104, _NEVER, "", "More messages or bytes are in flight than the welcome allows.",
        "Fix the client: it must wait for replies within the windows of the welcome.")
    VERSION_UNSUPPORTED = (
        105, _NEVER, "", "The two ends have no version of the protocol in common.",
        "Update the older end.")
    FEATURE_UNSUPPORTED = (
        106, _NEVER, "", "The request needs an unsupported feature. The code is reserved.",
        "Do without the feature, or update the older end.")
    LIVENESS_EXPIRED = (
        107, _LATER, "2009 MQRC_CONNECTION_BROKEN", "The peer sent nothing for too long.",
        "Connect again. If this happens often, check the network, the load of the peer, and the "
        "heartbeat and liveness times.")
    PEER_KEPT_OUT = (
        108, _LATER, "",
        "A request of this peer hit a bug; the daemon rejects the peer for a while.",
        "Connect again in a minute, and report the bug: the daemon's log has the details.")
    SHUTTING_DOWN = (
        109, _LATER, "2162 MQRC_Q_MGR_STOPPING", "The queue manager is stopping.",
        "Connect again after it has restarted.")
    CONNECTIONS_EXHAUSTED = (
        110, _LATER, "2025 MQRC_MAX_CONNS_LIMIT_REACHED",
        "The limit of open connections is reached.",
        "Close some connections (the unix socket has its own limit), or raise the limit that the "
        "text names.")
    NOT_AUTHORIZED = (
        111, _NEVER, "2035 MQRC_NOT_AUTHORIZED",
        "The user lacks a right that the request needs.",
        "See: qmctl auth explain. Ask an administrator of the queue manager for the right.")
    INTERNAL_ERROR = (
        112, _UNKNOWN, "2195 MQRC_UNEXPECTED_ERROR", "The queue manager hit a bug and restarts.",
        "Read the daemon's log. Everything acknowledged is safe; check whether this request took "
        "effect.")
    CONNECTION_UNKNOWN = (
        113, _NEVER, "", "The connection does not exist, or has ended.",
        "See: qmctl connection ls.")
    SESSION_FENCED = (
        114, _NEVER, "", "A newer connection has resumed the session of this one.",
        "Run only one program with a client's session: a forked process needs a new client.")
    LOGIN_REQUIRED = (
        115, _NEVER, "2035 MQRC_NOT_AUTHORIZED",
        "The queue manager serves only users, and the client gave no user.",
        "Give a user and its password: see docs/security.md.")
    LOGIN_FAILED = (
        116, _NEVER, "2035 MQRC_NOT_AUTHORIZED",
        "The user does not exist, is disabled, has another password, or is refused here.",
        "Check the user and its password. The daemon's log has the reason. An administrator can "
        "test the rules: qmctl access test.")
    LOGINS_DELAYED = (
        117, _LATER, "", "Too many logins as this user failed from this session or address.",
        "Wait, and log in with the right password. Logins from other addresses are not delayed.")
    LOGIN_REFUSED = (
        118, _NEVER, "2035 MQRC_NOT_AUTHORIZED",
        "No rule of the queue manager allows this kind of login on this connection.",
        "Use TLS or another kind of login. An administrator can show the rules: qmctl access show.")
    TOKEN_EXPIRED = (
        119, _LATER, "", "The token with which the client logged in has expired.",
        "Get a new token from its issuer. A client with a token file renews it before its end.")
    TLS_REQUIRED = (
        120, _NEVER, "",
        "The port requires TLS, and the peer does not use it.",
        "Write tls: before the address, or dial a port without TLS.")
    TLS_FAILED = (
        121, _NEVER, "2393 MQRC_SSL_INITIALIZATION_ERROR",
        "TLS failed: the two ends do not trust each other, or have no version in common.",
        "The text names the reason. See docs/security.md for the certificates that each end needs.")
    NOT_ACTIVE = (
        122, _LATER, "", "The process is a standby: another one is the active queue manager.",
        "Connect to the active one, which the text names. Clients and links with all addresses "
        "find it by themselves.")
    JOURNAL_AWAY = (
        123, _LATER, "", "The server of the journal does not answer, so nothing can be stored.",
        "The text names the reason. Nothing acknowledged is lost, and clients send the rest again "
        "when the server is back.")
    # 200: any request
    OPERATION_UNKNOWN = (
        200, _NEVER, "", "This version does not know the operation.",
        "Update the daemon: it is older than its client.")
    CANCELLED = (
        201, _NEVER, "", "The requester cancelled the request.",
        "No action is needed.")
    NAME_INVALID = (
        202, _NEVER, "2152 MQRC_OBJECT_NAME_ERROR", "Invalid name.",
        "Use 1 to 64 of A-Z a-z 0-9 . _ -, or QUEUE@MANAGER for a queue of another queue manager.")
    VALUE_INVALID = (
        203, _NEVER, "", "An attribute is unknown or out of range.",
        "See the command's --help. PROTOCOL.md, section 11, lists all attributes.")
    STORE_DAMAGED = (
        204, _NEVER, "2101 MQRC_OBJECT_DAMAGED", "A row of the store is damaged on disk.",
        "Restore the store from a snapshot. To find other damage, stop the daemon and run qmctl "
        "store verify.")
    # 300: queues
    QUEUE_UNKNOWN = (
        300, _NEVER, "2085 MQRC_UNKNOWN_OBJECT_NAME", "The queue does not exist.",
        "See: qmctl queue ls. Create it with: qmctl queue create.")
    QUEUE_EXISTS = (
        301, _NEVER, "2100 MQRC_OBJECT_ALREADY_EXISTS",
        "The queue already exists, with other attributes.",
        "See: qmctl queue show; change its attributes with: qmctl queue alter.")
    QUEUE_NOT_EMPTY = (
        302, _LATER, "2055 MQRC_Q_NOT_EMPTY", "The queue to be deleted holds messages.",
        "Get or purge its messages, or delete it with --purge.")
    QUEUE_FULL = (
        303, _LATER, "2053 MQRC_Q_FULL", "The queue holds depth_max messages.",
        "Get or purge messages, or wait and put again. If this happens often, consumers are too "
        "slow or too few, or depth_max is too low.")
    QUEUE_BYTES_FULL = (
        304, _LATER, "2056 MQRC_Q_SPACE_NOT_AVAILABLE",
        "The put would exceed bytes_max of the queue.",
        "Get or purge messages, or wait and put again. If this happens often, consumers are too "
        "slow or too few, or bytes_max is too low.")
    QUEUE_DELETED = (
        305, _NEVER, "2052 MQRC_Q_DELETED", "The queue was deleted while it was in use.",
        "See: qmctl queue ls. Its messages are also deleted.")
    QUEUE_IS_REMOTE = (
        306, _NEVER, "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE",
        "The queue is remote: its messages are consumed at another queue manager.",
        "Get from the queue manager whose name is after the @.")
    QUEUE_IS_TRANSMISSION = (
        307, _NEVER, "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE",
        "The queue is a transmission queue, which belongs to its link.",
        "Put to a remote queue, such as ORDERS@NYC; manage the link with: qmctl link.")
    QUEUES_EXHAUSTED = (
        308, _NEVER, "", "The limit of queues is reached.",
        "Delete queues, or raise limits.queues_max in qmgrd.toml.")
    QUEUE_IN_USE = (
        309, _LATER, "2042 MQRC_OBJECT_IN_USE", "Remote queues or proxies use the link.",
        "Delete these queues first; see: qmctl queue ls --where kind=remote.")
    PUT_INHIBITED = (
        310, _LATER, "2051 MQRC_PUT_INHIBITED", "Puts to the queue are inhibited.",
        "Wait and put again, or allow puts: qmctl queue alter NAME --no-put-inhibit.")
    GET_INHIBITED = (
        311, _LATER, "2016 MQRC_GET_INHIBITED", "Gets from the queue are inhibited.",
        "Wait and get again, or allow gets: qmctl queue alter NAME --no-get-inhibit.")
    QUEUE_EXCLUSIVE = (
        312, _LATER, "", "The queue serves one connection at a time, and another one uses it.",
        "Wait and try again, or share the queue: qmctl queue alter NAME --no-exclusive.")
    QUEUE_IS_SYSTEM = (
        313, _NEVER, "", "The queue is reserved: only the queue manager puts messages on it.",
        "Put on another queue. You can purge a reserved queue and alter its limits.")
    TEMPLATE_UNKNOWN = (
        314, _NEVER, "", "The template does not exist.",
        "See: qmctl template ls.")
    TEMPLATES_EXHAUSTED = (
        315, _NEVER, "", "The limit of templates is reached.",
        "Delete templates that no queue uses.")
    # 400: messages
    RECORD_MALFORMED = (
        400, _NEVER, "", "The data is not a record of a known version.",
        "Fix or update the client that made it: PROTOCOL.md, section 6, describes a record.")
    CHECKSUM_MISMATCH = (
        401, _NEVER, "", "The record was damaged in transit.",
        "Put it again. If this happens again, check memory and network of both machines.")
    MESSAGE_TOO_LARGE = (
        402, _NEVER, "2031 MQRC_MSG_TOO_BIG_FOR_Q_MGR",
        "The message is larger than message_max_bytes.",
        "Split it, or raise limits.message_max_bytes in qmgrd.toml. If the queue has a lower "
        "limit: qmctl queue alter QUEUE --message-max SIZE.")
    DUPLICATE_MESSAGE = (
        403, _NEVER, "",
        "The queue has a message with this UID, or still remembers such a message.",
        "No action is needed: a message with this UID was put before.")
    STORE_FULL = (
        404, _LATER, "2192 MQRC_STORAGE_MEDIUM_FULL",
        "The store or its disk is nearly full: puts stop, gets continue.",
        "Get messages, free some disk, or raise store.map_bytes in qmgrd.toml. See: qmctl status.")
    RECORD_DAMAGED = (
        405, _NEVER, "",
        "The record was damaged on disk. A client reports this code for browsed messages.",
        "Continue: the queue sets the record aside. To find other damage, stop the daemon and "
        "run: qmctl store verify.")
    SELECTOR_INVALID = (
        406, _NEVER, "2459 MQRC_SELECTOR_SYNTAX_ERROR",
        "The selector has a syntax error; the text names the position.",
        "Correct it at the column that the text names. docs/SELECTORS.md describes the language.")
    DUPLICATE_UNCOMMITTED = (
        408, _LATER, "", "An open unit of work puts this UID, or this number of the group.",
        "Try again after that unit has ended: its commit makes this message a duplicate.")
    MESSAGE_EXPIRED = (
        409, _NEVER, "", "Reason of a dead letter: the message expired.",
        "Consume messages in time, or give them a longer expiry; check expiry_max of the queue.")
    BACKOUT_THRESHOLD_REACHED = (
        410, _NEVER, "2362 MQRC_BACKOUT_THRESHOLD_REACHED",
        "Reason of a dead letter: processing failed too often.",
        "See the consumers' reports: qmctl dlq show. Then: qmctl dlq retry, or delete.")
    DELIVERY_LIMIT_REACHED = (
        411, _NEVER, "", "Reason of a dead letter: the message was returned too often.",
        "See which consumers received it: qmctl dlq show. The message may crash its consumers.")
    MESSAGE_REJECTED = (
        412, _NEVER, "", "Reason of a dead letter: a consumer or an operator rejected it.",
        "See the consumer's report: qmctl dlq show. Then: qmctl dlq retry, or delete.")
    # 500: leases and consumers
    LEASE_LOST = (
        500, _NEVER, "", "The lease ended: another consumer, or a unit of work, holds the message.",
        "Get the message again, with a longer --lease. Undo its effects, or make processing "
        "idempotent. Only the commit or the backout of a unit settles the messages that it got.")
    CONSUMER_UNKNOWN = (
        501, _NEVER, "2019 MQRC_HOBJ_ERROR", "The connection has no such consumer. Reserved.",
        "Open a consumer first.")
    CONSUMER_EXISTS = (
        502, _NEVER, "", "The consumer's request id is already in use on this connection.",
        "Fix the client: each request needs its own number.")
    CONSUMERS_EXHAUSTED = (
        503, _NEVER, "2017 MQRC_HANDLE_NOT_AVAILABLE",
        "The connection has too many consumers, or all selectors are too long together.",
        "Close consumers, shorten their selectors, or open another connection.")
    LEASES_EXHAUSTED = (
        504, _LATER, "2024 MQRC_SYNCPOINT_LIMIT_REACHED",
        "All leases of the queue are in use. Reserved: such a queue waits.",
        "Let consumers acknowledge sooner, or prefetch less.")
    # 600: streams: producers and links
    STREAM_UNKNOWN = (
        600, _NEVER, "", "The stream was not opened on this connection.",
        "Fix the client: it must open streams again on each connection.")
    WINDOW_EXCEEDED = (
        601, _NEVER, "", "An id is beyond the commit id plus the window.",
        "Fix the client: it must wait for the commit id.")
    COMMIT_OUT_OF_RANGE = (
        602, _NEVER, "", "The peer committed an id that was never sent.",
        "Check whether a store was restored from a backup. If none was, the peer has a bug.")
    PRODUCER_UNKNOWN = (
        603, _NEVER, "", "The producer to resume does not exist.",
        "Check which messages the queue holds, then put the rest as a new producer. The producer "
        "was unused for longer than producer.retention_ms, or this is another store.")
    PRODUCER_FENCED = (
        604, _NEVER, "", "A newer connection uses this producer.",
        "Run only one program under a producer's id.")
    PRODUCERS_EXHAUSTED = (
        605, _LATER, "", "The limit of producers is reached.",
        "Try again later, or raise producer.producers_max in qmgrd.toml. Programs that keep "
        "their producer id need fewer producers.")
    # 700: links
    LINK_UNKNOWN = (
        700, _NEVER, "2087 MQRC_UNKNOWN_REMOTE_Q_MGR", "The link does not exist.",
        "See: qmctl link ls. Create it with: qmctl link create.")
    LINK_EXISTS = (
        701, _NEVER, "", "The link already exists, with other addresses.",
        "Change its addresses with: qmctl link alter NAME HOST:PORT. See: qmctl link show NAME.")
    LINK_NOT_EMPTY = (
        702, _LATER, "", "The link to be deleted holds messages.",
        "Wait until its messages are sent, or delete it with --purge.")
    LINKS_EXHAUSTED = (
        703, _NEVER, "", "The limit of links is reached.",
        "Delete links, or raise limits.links_max in qmgrd.toml.")
    PEER_WRONG = (
        704, _NEVER, "",
        "Another queue manager, or this queue manager itself, answers at the address.",
        "Correct the addresses with: qmctl link alter NAME HOST:PORT. Pending messages are kept. A "
        "link has the name of the queue manager at its other end.")
    PEER_STORE_CHANGED = (
        705, _NEVER, "", "A known queue manager has an unknown store.",
        "Check whether two queue managers have the same name. If the store of the peer was created "
        "again, type: qmctl link start --accept.")
    RESTORED = (
        706, _NEVER, "AMQ9526", "This store is from a backup: the peer holds later messages.",
        "To continue, type qmctl link start --accept, and read which messages may arrive twice.")
    PEER_RESTORED = (
        707, _NEVER, "AMQ9526",
        "The peer's store is from a backup: it lacks messages that it had committed.",
        "To continue, type qmctl link start --accept, and read which messages may arrive twice.")
    LINK_FENCED = (
        708, _NEVER, "", "A newer connection has taken over this link.",
        "Check whether two queue managers run on copies of one store. If not, the link recovers "
        "automatically.")
    LINK_STALLED = (
        709, _LATER, "", "Messages sent over a path of a link were not stored in time.",
        "The link sends them over another connection. See qmctl link doctor; link.stall_ms sets "
        "the time.")
    LINK_LINE_FULL = (
        710, _LATER, "", "Too many messages of an ordered link wait for a missing message.",
        "The link sends them again automatically. A receiver buffers up to link.window_bytes.")
    TRANSFER_REFUSED = (
        711, _NEVER, "", "The queue does not accept messages from links.",
        "Put on another queue, or allow it at the queue's manager: qmctl queue alter NAME "
        "--transfer-in.")
    LINK_DOWN = (
        712, _LATER, "", "The link to fetch from is stopped or refused at its queue manager.",
        "Check the link there: qmctl link doctor NAME. The fetching link asks again.")
    ROUTE_LOOP = (
        713, _NEVER, "",
        "A message passed through a queue manager twice, or through too many of them.",
        "The message is now a dead letter, with its route. Correct the routes: qmctl link ls.")
    PEER_NOT_ALLOWED = (
        714, _LATER, "AMQ9519", "The other queue manager does not accept links from this one.",
        "At that queue manager, type: qmctl link allow SENDER. The link tries again automatically.")
    PEER_USER_WRONG = (
        715, _NEVER, "",
        "The user that logged in may not act as this queue manager.",
        "Log in as a user that is bound to the queue manager. If the queue manager was renamed, "
        "type: qmctl user alter USER --queue-manager NAME. If its store was created again: qmctl "
        "link allow NAME --store-id HEX.")
    SENDER_NOT_AUTHORIZED = (
        716, _NEVER, "2035 MQRC_NOT_AUTHORIZED",
        "The user of a link may not put a message that the link sent.",
        "The message is now a dead letter at its destination. Grant the right there, and then move "
        "it: qmctl dlq retry --to QUEUE.")
    # 800: snapshots
    SNAPSHOT_FAILED = (
        800, _LATER, "", "The snapshot failed. The text states the reason. Its files are deleted.",
        "Check the directory: the daemon writes to it on its own host, as its own user.")
    SNAPSHOT_RUNNING = (
        801, _LATER, "", "Another snapshot is running; only one can run at a time.",
        "Wait until the other snapshot is complete.")
    # 900: units of work
    UNIT_UNKNOWN = (
        900, _NEVER, "2255 MQRC_UOW_NOT_AVAILABLE",
        "The unit of work does not exist on this connection, or has ended.",
        "Begin the unit first. A unit that exceeds its time limit is backed out: use smaller ones.")
    UNIT_BACKED_OUT = (
        901, _NEVER, "2003 MQRC_BACKED_OUT",
        "The unit of work was backed out: none of its steps took effect.",
        "Do the work again as a new unit. The messages that the unit got are on their queues "
        "again, and its puts are discarded.")
    UNIT_TOO_LARGE = (
        902, _NEVER, "", "The unit of work is at its size limit.",
        "Commit sooner, or raise the limits in section unit of qmgrd.toml.")
    UNITS_EXHAUSTED = (
        903, _NEVER, "", "Open units of work have reached the limit on their number or memory.",
        "Commit or back out other units first. See section unit of qmgrd.toml.")
    UNIT_INCOMPLETE = (
        904, _NEVER, "", "The unit differs from what its commit states: it was backed out.",
        "Do the work again. If a step failed, back out instead of committing.")
    # 1000: jobs
    JOB_UNKNOWN = (
        1000, _NEVER, "", "The job does not exist, or ended some time ago.",
        "See: qmctl job ls. Jobs are removed an hour after they end.")
    JOBS_EXHAUSTED = (
        1001, _LATER, "", "The limit of running jobs is reached.",
        "Wait until one ends, or cancel one: qmctl job cancel.")
    # 1100: message groups
    GROUP_UNKNOWN = (
        1100, _NEVER, "2258 MQRC_GROUP_ID_ERROR",
        "The group does not exist on the queue, or has ended.",
        "See: qmctl group ls QUEUE. A group is forgotten after its last message is consumed.")
    INCOMPLETE_GROUP = (
        1101, _NEVER, "2241 MQRC_INCOMPLETE_GROUP",
        "The group is incomplete: its last message was not put, or not got.",
        "Put its last message with last=True, or continue it in physical order.")
    INCONSISTENT_PERSISTENCE = (
        1102, _NEVER, "2185 MQRC_INCONSISTENT_PERSISTENCE",
        "Some messages of a group are persistent, and others are not.",
        "Put all messages of a group with the same persistent=.")
    INCONSISTENT_UNIT = (
        1103, _NEVER, "2245 MQRC_INCONSISTENT_UOW",
        "Some messages of a group are in units of work, and others are not.",
        "Put or get all messages of a group within units of work, or none of them.")
    MATCH_INCONSISTENT = (
        1104, _NEVER, "2247 MQRC_MATCH_OPTIONS_ERROR",
        "The selection is not the next message of the reader's current group.",
        "Select nothing until the group has ended, or leave it with a get in physical order.")
    GROUP_NUMBER_INVALID = (
        1105, _NEVER, "2250 MQRC_MSG_SEQ_NUMBER_ERROR",
        "A number from 1 to 999,999,999 is required for a message in a group.",
        "Number the messages of a group 1, 2, 3; for more, begin another group.")
    INCONSISTENT_BROWSE = (
        1106, _NEVER, "2259 MQRC_INCONSISTENT_BROWSE",
        "A browse continues in an order that differs from its first order.",
        "Continue in the same order, or begin again.")
    GROUP_NUMBER_TAKEN = (
        1107, _NEVER, "", "The number is or was in use, or an open unit of work puts it.",
        "Check whether the message was put before: qmctl group show QUEUE GROUP shows the next "
        "number.")
    GROUP_ENDED = (
        1108, _NEVER, "", "The group already has a last message, or was closed.",
        "Begin another group. See: qmctl group show QUEUE GROUP.")
    GROUP_EXPIRED = (
        1109, _NEVER, "", "The group was incomplete for longer than its queue allows.",
        "Find out why its other messages did not arrive; group_incomplete_ms of the queue sets "
        "the time.")
    GROUP_FAILED = (
        1110, _NEVER, "",
        "Another message of the group failed, so the whole group was moved with it.",
        "See which message failed, and why: qmctl dlq show. Then retry the whole group.")
    GROUP_IN_USE = (
        1111, _LATER, "", "A consumer holds a message that would be skipped.",
        "Try again after the message is settled. Until then, pause the group, or close a "
        "connection that hangs: qmctl connection ls, close.")
    GROUP_NO_READER = (
        1112, _LATER, "", "No connected consumer can receive the group.",
        "Start a consumer that gets groups. See which clients are connected: qmctl connection ls.")
    # 1200: topics and subscriptions
    TOPIC_INVALID = (
        1200, _NEVER, "2425 MQRC_TOPIC_STRING_ERROR", "Invalid topic or topic filter.",
        "Separate levels by /, as in flights/JFK/UA; in a filter + matches one level, and # at "
        "the end all further levels.")
    SUBSCRIPTION_UNKNOWN = (
        1201, _NEVER, "2428 MQRC_NO_SUBSCRIPTION", "The subscription does not exist, or has ended.",
        "See: qmctl sub ls. A subscription that is not durable ends with its connection.")
    SUBSCRIPTION_EXISTS = (
        1202, _NEVER, "2432 MQRC_SUB_ALREADY_EXISTS",
        "The subscription already exists, with other topics or attributes.",
        "See: qmctl sub show; change its attributes with: qmctl sub alter, or delete it: qmctl "
        "sub delete.")
    SUBSCRIPTIONS_EXHAUSTED = (
        1203, _NEVER, "",
        "The limit of subscriptions, or of the length of all selectors, is reached.",
        "Delete subscriptions, shorten their selectors, or raise limits.subscriptions_max or "
        "limits.selectors_max_length in qmgrd.toml.")
    QUEUE_IS_SUBSCRIPTION = (
        1204, _NEVER, "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE",
        "The queue is a subscription, which only publications can fill.",
        "Publish to a topic that matches its filter. See: qmctl sub show.")
    TOPIC_UNKNOWN = (
        1205, _NEVER, "2085 MQRC_UNKNOWN_OBJECT_NAME", "The topic has no definition.",
        "See: qmctl topic ls. You can publish to a topic that has no definition.")
    PUBLICATION_UNKNOWN = (
        1206, _NEVER, "", "No subscription holds the publication, or it is not parked.",
        "See: qmctl republish ls. A publication that all subscribers have consumed is deleted.")
    REDELIVERY_LIMIT_EXCEEDED = (
        1207, _NEVER, "2362 MQRC_BACKOUT_THRESHOLD_REACHED",
        "Reason why a publication is parked: its subscriber failed too often.",
        "See the subscriber's reports: qmctl republish show. Fix the subscriber, then: qmctl "
        "republish send.")
    FILTERS_EXHAUSTED = (
        1208, _NEVER, "", "Matching one topic would visit too many branches of the filters.",
        "Subscribe with fewer levels of + next to names, or raise limits.match_visits_max.")
    # 1300: history
    HISTORY_DROPPED = (
        1300, _NEVER, "", "The requested rows of history are no longer stored.",
        "See where the history starts: qmctl history show. Begin there; a cursor keeps later "
        "rows. If a limit dropped them, raise accounting.bytes_max.")
    HISTORY_AHEAD = (
        1301, _NEVER, "",
        "The reader is ahead of the history: the store was restored or replaced.",
        "Begin the export again, with another cursor and another checkpoint.")
    CURSOR_UNKNOWN = (
        1302, _NEVER, "", "The export cursor does not exist.",
        "See: qmctl history show.")
    CURSORS_EXHAUSTED = (
        1303, _NEVER, "", "The limit of export cursors is reached.",
        "Delete unused cursors: qmctl history delete.")
    # 1400: items set aside
    ASIDE_UNKNOWN = (
        1400, _NEVER, "", "No item with this number is set aside.",
        "See: qmctl aside ls.")
    # 1500: users and roles
    USER_UNKNOWN = (
        1500, _NEVER, "2035 MQRC_NOT_AUTHORIZED", "The user does not exist.",
        "See: qmctl user ls. Create it with: qmctl user create.")
    USER_EXISTS = (
        1501, _NEVER, "", "A user of this name already exists.",
        "Change it with: qmctl user alter.")
    USERS_EXHAUSTED = (
        1502, _NEVER, "", "The limit of users, roles or grants is reached.",
        "Delete some, raise the limit that the text names, or grant rights to a role.")
    ROLE_UNKNOWN = (
        1503, _NEVER, "", "The role does not exist.",
        "See: qmctl role ls. Create it with: qmctl role create.")
    ROLE_EXISTS = (
        1504, _NEVER, "", "A role of this name already exists, or is built in.",
        "Choose another name, or grant the role further rights: qmctl grant create.")
    ROLE_IN_USE = (
        1505, _LATER, "", "Users have the role.",
        "Take the role from these users first: qmctl user alter.")
    GRANT_UNKNOWN = (
        1506, _NEVER, "", "The user or the role does not have the grant.",
        "See: qmctl grant ls.")
    ADMINISTRATOR_REQUIRED = (
        1507, _NEVER, "",
        "The change would leave no administrator who can log in.",
        "Make another user an administrator first, or delete all other users before this one.")
    # 1510: the limits of one user
    USER_CONNECTIONS_EXHAUSTED = (
        1510, _LATER, "2025 MQRC_MAX_CONNS_LIMIT_REACHED",
        "The user has reached its limit of open connections.",
        "Close some connections of the user, or raise its limit: qmctl user alter USER "
        "--connections-max NUMBER.")
    USER_STREAMS_EXHAUSTED = (
        1511, _LATER, "", "The user has reached its limit of open streams.",
        "Close some producers of the user, or raise its limit: qmctl user alter USER "
        "--streams-max NUMBER.")
    USER_PRODUCERS_EXHAUSTED = (
        1512, _LATER, "", "The user has reached its limit of producers, and none is idle.",
        "Programs that keep their producer id need fewer producers. To raise the limit: qmctl user "
        "alter USER --producers-max NUMBER.")
    USER_CONSUMERS_EXHAUSTED = (
        1513, _LATER, "2017 MQRC_HANDLE_NOT_AVAILABLE",
        "The user has reached its limit of consumers and waiting gets.",
        "Close some consumers of the user, or raise its limit: qmctl user alter USER "
        "--consumers-max NUMBER.")
    USER_QUEUES_EXHAUSTED = (
        1514, _NEVER, "", "The user has reached its limit of queues that it created.",
        "Delete some of these queues, or raise the limit: qmctl user alter USER "
        "--queues-max NUMBER.")
    USER_SUBSCRIPTIONS_EXHAUSTED = (
        1515, _NEVER, "", "The user has reached its limit of subscriptions that it created.",
        "End some of these subscriptions, or raise the limit: qmctl user alter USER "
        "--subscriptions-max NUMBER.")
    USER_BYTES_EXHAUSTED = (
        1516, _LATER, "2056 MQRC_Q_SPACE_NOT_AVAILABLE",
        "The put would exceed the stored bytes of the user that created the queue.",
        "Get or purge messages of the queues of that user, or raise its limit: qmctl user alter "
        "USER --stored-bytes-max SIZE.")
    # 1600: members
    NO_STANDBY = (
        1600, _NEVER, "", "No standby, or not the one of this name, can become active.",
        "See: qmctl status. Start a standby with the same journal.url and queue_manager.name.")
    # fmt: on
