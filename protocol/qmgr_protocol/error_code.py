"""The catalogue of error codes: one table, from which everything that is said of a code is made.

PROTOCOL.md (section 12) and ``qmctl explain`` show it. Codes are numbered in ranges of one hundred
per noun, and never used again for something else.

To add one: number, class, reason code of IBM MQ where there is a fitting one (two may share it),
what it means in a sentence, and what to do. The first sentence of what to do stands alone behind
an error of qmctl. ``pytest --rewrite tests/qmgr_protocol`` makes the table of PROTOCOL.md anew.
"""

from qmgr_protocol.error_class import Coded
from qmgr_protocol.error_class import ErrorClass as ErrorClass

_LATER, _NEVER, _UNKNOWN = ErrorClass


class ErrorCode(Coded):
    """The numbers on the wire, and what is to be said of each."""

    # fmt: off
    # 100: the connection
    FRAME_TOO_LARGE = (
        100, _NEVER, "", "A frame is longer than the receiver takes.",
        "Keep to frame_max_bytes of the welcome. A client that does meets something else that "
        "listens there: look at the address.")
    FRAME_MALFORMED = (
        101, _NEVER, "", "A frame is not one msgpack array within the limits.",
        "Look whether both ends speak this protocol. If they do, one of them has a bug.")
    FIELD_INVALID = (
        102, _NEVER, "", "A field of a message is missing, of the wrong type or out of range.",
        "Correct what the text names. PROTOCOL.md, section 10, has the limits of each field.")
    STATE_VIOLATION = (
        103, _NEVER, "", "A message came that this state or role does not allow.",
        "Mend the client: PROTOCOL.md, section 3, says who may send what, and when.")
    CREDIT_EXCEEDED = (
        104, _NEVER, "", "More is under way than the welcome grants.",
        "Mend the client: it is to wait for answers within the windows of the welcome.")
    VERSION_UNSUPPORTED = (
        105, _NEVER, "", "The two ends have no version of the protocol in common.",
        "Update the older end.")
    FEATURE_UNSUPPORTED = (
        106, _NEVER, "", "It needs a feature that is not in use; kept for when there is one.",
        "Do without the feature, or update the older end.")
    LIVENESS_EXPIRED = (
        107, _LATER, "2009 MQRC_CONNECTION_BROKEN", "Nothing was heard of the peer for too long.",
        "Connect again. Where it happens often, look at the network, at what keeps the peer busy, "
        "and at heartbeat and liveness times.")
    PEER_KEPT_OUT = (
        108, _LATER, "", "A request of this peer met a bug, and it is kept out for a while.",
        "Connect again in a minute, and report the bug: the daemon's log has it.")
    SHUTTING_DOWN = (
        109, _LATER, "2162 MQRC_Q_MGR_STOPPING", "The queue manager stops.",
        "Connect again when it has been started.")
    CONNECTIONS_EXHAUSTED = (
        110, _LATER, "2025 MQRC_MAX_CONNS_LIMIT_REACHED", "No room for another connection.",
        "Close some (the unix socket has its own places), or raise the limit that the text names.")
    NOT_AUTHORIZED = (
        111, _NEVER, "2035 MQRC_NOT_AUTHORIZED",
        "It is not allowed to this peer; everything is, until there is authentication.",
        "Ask the operator of the queue manager.")
    INTERNAL_ERROR = (
        112, _UNKNOWN, "2195 MQRC_UNEXPECTED_ERROR",
        "A bug of the queue manager, which starts anew.",
        "Look into the daemon's log. What was acknowledged is safe; look whether this was done.")
    CONNECTION_UNKNOWN = (
        113, _NEVER, "", "There is no such connection, or it has ended.",
        "See: qmctl connection ls.")
    SESSION_FENCED = (
        114, _NEVER, "", "A newer connection has resumed the session of this one.",
        "Run one program with a client's session: a process that was forked needs a new client.")
    # 200: any request
    OPERATION_UNKNOWN = (
        200, _NEVER, "", "This version does not know the operation.",
        "Update the daemon: it is older than its client.")
    CANCELLED = (
        201, _NEVER, "", "It was ended by whoever asked for it.",
        "Nothing needs doing: it is as it was asked for.")
    NAME_INVALID = (
        202, _NEVER, "2152 MQRC_OBJECT_NAME_ERROR", "This can be no name.",
        "Say 1 to 64 of A-Z a-z 0-9 . _ -, or QUEUE@MANAGER for a queue elsewhere.")
    VALUE_INVALID = (
        203, _NEVER, "", "An attribute is unknown or out of range.",
        "See the command's --help. PROTOCOL.md, section 11, has all attributes.")
    STORE_DAMAGED = (
        204, _NEVER, "2101 MQRC_OBJECT_DAMAGED",
        "What the queue manager stores about it rotted on disk.",
        "Restore the store from a snapshot. With the daemon stopped, qmctl store verify tells "
        "what else is damaged.")
    # 300: queues
    QUEUE_UNKNOWN = (
        300, _NEVER, "2085 MQRC_UNKNOWN_OBJECT_NAME", "There is no such queue here.",
        "See: qmctl queue ls. Create it with: qmctl queue create.")
    QUEUE_EXISTS = (
        301, _NEVER, "2100 MQRC_OBJECT_ALREADY_EXISTS",
        "There is such a queue, with other attributes.",
        "See: qmctl queue show; give it others with: qmctl queue alter.")
    QUEUE_NOT_EMPTY = (
        302, _LATER, "2055 MQRC_Q_NOT_EMPTY", "Messages are on the queue that is to be deleted.",
        "Get or purge its messages, or delete it with --purge.")
    QUEUE_FULL = (
        303, _LATER, "2053 MQRC_Q_FULL", "The queue holds depth_max messages.",
        "Get or purge messages, or wait and put again. Where it happens often, consumers are too "
        "slow or too few, or depth_max is too low.")
    QUEUE_BYTES_FULL = (
        304, _LATER, "2056 MQRC_Q_SPACE_NOT_AVAILABLE", "The queue would hold over bytes_max.",
        "Get or purge messages, or wait and put again. Where it happens often, consumers are too "
        "slow or too few, or bytes_max is too low.")
    QUEUE_DELETED = (
        305, _NEVER, "2052 MQRC_Q_DELETED", "The queue was deleted while it was in use.",
        "See: qmctl queue ls. What was on it is gone.")
    QUEUE_IS_REMOTE = (
        306, _NEVER, "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE",
        "It is a remote queue, whose messages are got elsewhere.",
        "Get from the queue manager that its name ends in.")
    QUEUE_IS_TRANSMISSION = (
        307, _NEVER, "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE",
        "It is a transmission queue, which belongs to its link.",
        "Put to a remote queue, such as ORDERS@NYC; look after the link with: qmctl link.")
    QUEUES_EXHAUSTED = (
        308, _NEVER, "", "No room for another queue.",
        "Delete queues, or raise limits.queues_max in qmgrd.toml.")
    QUEUE_IN_USE = (
        309, _LATER, "2042 MQRC_OBJECT_IN_USE", "Remote queues or proxies lead over the link.",
        "See: qmctl queue ls --where kind=remote. Delete them first.")
    PUT_INHIBITED = (
        310, _LATER, "2051 MQRC_PUT_INHIBITED", "An operator has puts refused on the queue.",
        "Wait and put again, or allow it: qmctl queue alter NAME --no-put-inhibit.")
    GET_INHIBITED = (
        311, _LATER, "2016 MQRC_GET_INHIBITED", "An operator has gets refused on the queue.",
        "Wait and get again, or allow it: qmctl queue alter NAME --no-get-inhibit.")
    QUEUE_EXCLUSIVE = (
        312, _LATER, "", "It serves one connection at a time, and another one has it.",
        "Wait and try again, or share it: qmctl queue alter NAME --no-exclusive.")
    QUEUE_IS_SYSTEM = (
        313, _NEVER, "", "The queue manager needs the queue itself, and alone puts messages on it.",
        "Put on another queue. To empty it, purge it; its limits can be altered.")
    TEMPLATE_UNKNOWN = (
        314, _NEVER, "", "There is no such template.", "See: qmctl template --help.")
    TEMPLATES_EXHAUSTED = (
        315, _NEVER, "", "No room for another template.", "Delete templates that no queue needs.")
    # 400: messages
    RECORD_MALFORMED = (
        400, _NEVER, "", "It is not a record of a known version.",
        "Mend or update the client that made it: PROTOCOL.md, section 6, draws a record.")
    CHECKSUM_MISMATCH = (
        401, _NEVER, "", "The record was damaged on its way.",
        "Put it again. Where it happens again, look at memory and network of both machines.")
    MESSAGE_TOO_LARGE = (
        402, _NEVER, "2031 MQRC_MSG_TOO_BIG_FOR_Q_MGR", "The message is over message_max_bytes.",
        "Split it, or raise limits.message_max_bytes in qmgrd.toml. Where the queue itself takes "
        "less: qmctl queue alter QUEUE --message-max SIZE.")
    DUPLICATE_MESSAGE = (
        403, _NEVER, "", "A message with its UID is on the queue, or was and is remembered.",
        "Nothing needs doing: that UID is stored already.")
    STORE_FULL = (
        404, _LATER, "2192 MQRC_STORAGE_MEDIUM_FULL",
        "The store or its disk is nearly full: puts stop, gets go on.",
        "Get messages, free some disk, or raise store.map_bytes in qmgrd.toml. See: qmctl status.")
    RECORD_DAMAGED = (
        405, _NEVER, "", "The record was damaged on disk; a client says so of a browsed one.",
        "Go on: its queue sets it aside. Stop the daemon and run: qmctl store verify.")
    SELECTOR_INVALID = (
        406, _NEVER, "2459 MQRC_SELECTOR_SYNTAX_ERROR",
        "The selector is not one; the text says where.",
        "Correct it at the column that the text names. docs/SELECTORS.md has the language.")
    DUPLICATE_UNCOMMITTED = (
        408, _LATER, "", "A unit of work that is open puts that UID, or number of a group, there.",
        "Try again once that unit is over: then it is a duplicate, or it is not.")
    MESSAGE_EXPIRED = (
        409, _NEVER, "", "Why a message is a dead letter: its time was over.",
        "Have it got in time, or give it longer; see expiry_max of the queue.")
    BACKOUT_THRESHOLD_REACHED = (
        410, _NEVER, "2362 MQRC_BACKOUT_THRESHOLD_REACHED",
        "Why a message is a dead letter: it failed too often.",
        "See what its consumers said of it: qmctl dlq show. Then: qmctl dlq retry, or drop.")
    DELIVERY_LIMIT_REACHED = (
        411, _NEVER, "", "Why a message is a dead letter: it came back too often.",
        "See who had it: qmctl dlq show. Its consumers may have died of it.")
    MESSAGE_REJECTED = (
        412, _NEVER, "", "Why a message is a dead letter: a consumer or an operator gave it up.",
        "See what the consumer said of it: qmctl dlq show. Then: qmctl dlq retry, or drop.")
    # 500: leases and consumers
    LEASE_LOST = (
        500, _NEVER, "", "The lease is over: somebody else, or a unit of work, holds the message.",
        "Get it again, with a longer --lease. Undo what was done with it, or have it done twice "
        "do no harm. What a unit of work got is settled by that alone: commit it, or back it out.")
    CONSUMER_UNKNOWN = (
        501, _NEVER, "2019 MQRC_HOBJ_ERROR",
        "There is no such consumer on this connection; not sent yet.", "Open a consumer first.")
    CONSUMER_EXISTS = (
        502, _NEVER, "", "The request id of the consumer is in use on this connection.",
        "Mend the client: it is to number its requests.")
    CONSUMERS_EXHAUSTED = (
        503, _NEVER, "2017 MQRC_HANDLE_NOT_AVAILABLE",
        "No room for another consumer on this connection.",
        "End consumers, or open another connection.")
    LEASES_EXHAUSTED = (
        504, _LATER, "2024 MQRC_SYNCPOINT_LIMIT_REACHED",
        "All leases of the queue are out; not sent yet, such a queue waits.",
        "Have consumers acknowledge sooner, or fetch less ahead.")
    # 600: streams: producers and links
    STREAM_UNKNOWN = (
        600, _NEVER, "", "The stream was not opened on this connection.",
        "Mend the client: a stream is opened anew on each connection.")
    WINDOW_EXCEEDED = (
        601, _NEVER, "", "An id is past commit id and window.",
        "Mend the client: it is to wait for the commit id.")
    COMMIT_OUT_OF_RANGE = (
        602, _NEVER, "", "An id was committed that was never sent.",
        "Look whether a store was put back to an earlier state. If none was, the peer has a bug.")
    PRODUCER_UNKNOWN = (
        603, _NEVER, "", "There is no such producer to resume.",
        "Look what is on the queue, then put the rest as a new producer. It was not used for "
        "longer than producer.retention_ms, or this is another store.")
    PRODUCER_FENCED = (
        604, _NEVER, "", "A newer connection has this producer.",
        "Run one program under a producer's id.")
    PRODUCERS_EXHAUSTED = (
        605, _LATER, "", "No room for another producer.",
        "Try again later, or raise producer.producers_max in qmgrd.toml. Programs that keep "
        "their producer's id need fewer.")
    # 700: links
    LINK_UNKNOWN = (
        700, _NEVER, "2087 MQRC_UNKNOWN_REMOTE_Q_MGR", "There is no such link here.",
        "See: qmctl link ls. Create it with: qmctl link create.")
    LINK_EXISTS = (
        701, _NEVER, "", "There is such a link, to other addresses.",
        "Give it other addresses with: qmctl link alter NAME HOST:PORT. See: qmctl link show NAME.")
    LINK_NOT_EMPTY = (
        702, _LATER, "", "Messages wait on the link that is to be deleted.",
        "Let its messages go, or delete it with --purge.")
    LINKS_EXHAUSTED = (
        703, _NEVER, "", "No room for another link.",
        "Delete links, or raise limits.links_max in qmgrd.toml.")
    PEER_WRONG = (
        704, _NEVER, "", "Another queue manager answers there, or this one itself.",
        "Correct the addresses with: qmctl link alter NAME HOST:PORT. What waits on it stays. "
        "A link has the name of the queue manager that it leads to.")
    PEER_STORE_CHANGED = (
        705, _NEVER, "", "A known queue manager has an unknown store.",
        "Look whether two queue managers have one name. If its store was made anew, say: "
        "qmctl link start --accept.")
    RESTORED = (
        706, _NEVER, "AMQ9526", "This store is from a backup: the peer holds what it gave away.",
        "Say qmctl link start --accept to go on, and read what may arrive twice.")
    PEER_RESTORED = (
        707, _NEVER, "AMQ9526", "The peer's store is from a backup: it lacks what it had taken.",
        "Say qmctl link start --accept to go on, and read what may arrive twice.")
    LINK_FENCED = (
        708, _NEVER, "", "A newer connection has this link.",
        "Look whether two queue managers run on copies of one store. Else it mends itself.")
    LINK_STALLED = (
        709, _LATER, "", "What was sent over a path of a link did not land in time.",
        "It goes over another connection. See qmctl link doctor; link.stall_ms is the time.")
    LINK_LINE_FULL = (
        710, _LATER, "", "Too much of an ordered link waits behind a message that has not come.",
        "It comes again by itself. A receiver keeps link.window_bytes of it.")
    TRANSFER_REFUSED = (
        711, _NEVER, "", "The queue takes no messages from links.",
        "Put it elsewhere, or let them in: qmctl queue alter NAME --transfer-in, at its manager.")
    LINK_DOWN = (
        712, _LATER, "", "The link that is to send is stopped or refused at its queue manager.",
        "Look there: qmctl link doctor NAME. Who fetches asks again by itself.")
    ROUTE_LOOP = (
        713, _NEVER, "", "A message came through a queue manager twice, or through too many.",
        "It is a dead letter there, with its way. Mend the routes: qmctl link ls.")
    PEER_NOT_ALLOWED = (
        714, _LATER, "AMQ9519", "The queue manager there accepts no links from this one.",
        "Type there: qmctl link allow SENDER. The link tries again by itself.")
    # 800: snapshots
    SNAPSHOT_FAILED = (
        800, _LATER, "", "The snapshot was not made; the text says why, and nothing is left of it.",
        "Look at the directory: the daemon writes it, on its own host and as its own user.")
    SNAPSHOT_RUNNING = (
        801, _LATER, "", "Another snapshot is being made; there is one at a time.",
        "Wait until the other snapshot is written.")
    # 900: units of work
    UNIT_UNKNOWN = (
        900, _NEVER, "2255 MQRC_UOW_NOT_AVAILABLE",
        "There is no such unit of work on this connection, or no longer.",
        "Begin it first. One that grew too old was backed out: make units shorter.")
    UNIT_BACKED_OUT = (
        901, _NEVER, "2003 MQRC_BACKED_OUT",
        "The unit of work was backed out: nothing of it is done.",
        "Do the work again as a new unit: what it got has come back, what it put is gone.")
    UNIT_TOO_LARGE = (
        902, _NEVER, "", "The unit of work holds as much as one may.",
        "Commit sooner, or raise the limits in section unit of qmgrd.toml.")
    UNITS_EXHAUSTED = (
        903, _NEVER, "", "Units of work take as many places, or as much memory, as they may.",
        "Commit or back out others first. See section unit of qmgrd.toml.")
    UNIT_INCOMPLETE = (
        904, _NEVER, "", "The unit of work holds other than its commit says: it was backed out.",
        "Do the work again. Where a step of it failed, back out instead of committing.")
    # 1000: jobs
    JOB_UNKNOWN = (
        1000, _NEVER, "", "There is no such job, or no longer.",
        "See: qmctl job ls. Jobs that are done are forgotten after an hour.")
    JOBS_EXHAUSTED = (
        1001, _LATER, "", "As many jobs run as may.",
        "Wait for one to end, or cancel one: qmctl job cancel.")
    # 1100: message groups
    GROUP_UNKNOWN = (
        1100, _NEVER, "2258 MQRC_GROUP_ID_ERROR", "The queue knows no such group, or no longer.",
        "See: qmctl group ls QUEUE. A group is forgotten once its last message is consumed.")
    INCOMPLETE_GROUP = (
        1101, _NEVER, "2241 MQRC_INCOMPLETE_GROUP",
        "The group has not ended: its last message was not put, or not got.",
        "Put its last message with last=True, or go on with it in physical order.")
    INCONSISTENT_PERSISTENCE = (
        1102, _NEVER, "2185 MQRC_INCONSISTENT_PERSISTENCE",
        "A message of a group is persistent, and others of it are not.",
        "Put all messages of a group with the same persistent=.")
    INCONSISTENT_UNIT = (
        1103, _NEVER, "2245 MQRC_INCONSISTENT_UOW",
        "Some messages of a group are in units of work, and others of it are not.",
        "Put or get all messages of a group within units of work, or none of them.")
    MATCH_INCONSISTENT = (
        1104, _NEVER, "2247 MQRC_MATCH_OPTIONS_ERROR",
        "What is selected is not the next message of the group that the reader is in.",
        "Select nothing until the group has ended, or leave it with a get in physical order.")
    GROUP_NUMBER_INVALID = (
        1105, _NEVER, "2250 MQRC_MSG_SEQ_NUMBER_ERROR",
        "Only 1 to 999,999,999 can be the number of a message in its group.",
        "Number the messages of a group 1, 2, 3; of a longer one begin another.")
    INCONSISTENT_BROWSE = (
        1106, _NEVER, "2259 MQRC_INCONSISTENT_BROWSE",
        "A browse goes on in another order than the one in which it began.",
        "Browse on in the same order, or begin anew.")
    GROUP_NUMBER_TAKEN = (
        1107, _NEVER, "", "A message of that number is or was there, or a unit of work puts one.",
        "Look whether it was put before: qmctl group show QUEUE GROUP says what comes next.")
    GROUP_ENDED = (
        1108, _NEVER, "", "The group has another last message, or was closed.",
        "Begin another group. See: qmctl group show QUEUE GROUP.")
    GROUP_EXPIRED = (
        1109, _NEVER, "", "The group was incomplete for longer than its queue lets it.",
        "Look why its other messages did not come, and at group_incomplete_ms of the queue.")
    GROUP_FAILED = (
        1110, _NEVER, "", "Another message of its group failed: all of the group went with it.",
        "See which one failed, and why: qmctl dlq show. Then retry all of the group.")
    GROUP_IN_USE = (
        1111, _LATER, "", "Somebody has a message of the group that is to be given up.",
        "Try again once it is settled. Pause the group until then, or close a connection that "
        "hangs: qmctl connection ls, close.")
    GROUP_NO_READER = (
        1112, _LATER, "", "Nobody is there who could have the group.",
        "Start a consumer that gets groups. See who is connected: qmctl connection ls.")
    # 1200: topics and subscriptions
    TOPIC_INVALID = (
        1200, _NEVER, "2425 MQRC_TOPIC_STRING_ERROR", "This can be no topic, or no filter of them.",
        "Say levels with / between them, as in flights/JFK/UA; in a filter + is one level, and # "
        "at the end all that follow.")
    SUBSCRIPTION_UNKNOWN = (
        1201, _NEVER, "2428 MQRC_NO_SUBSCRIPTION", "There is no such subscription, or no longer.",
        "See: qmctl sub ls. One that is not durable ends with its connection.")
    SUBSCRIPTION_EXISTS = (
        1202, _NEVER, "2432 MQRC_SUB_ALREADY_EXISTS",
        "There is such a subscription, to other topics or with other attributes.",
        "See: qmctl sub show; give it others with: qmctl sub alter, or end it: qmctl sub rm.")
    SUBSCRIPTIONS_EXHAUSTED = (
        1203, _NEVER, "", "No room for another subscription.",
        "End subscriptions, or raise limits.subscriptions_max in qmgrd.toml.")
    QUEUE_IS_SUBSCRIPTION = (
        1204, _NEVER, "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE",
        "It is a subscription, which is filled by publications alone.",
        "Publish to a topic that it fits. See: qmctl sub show.")
    TOPIC_UNKNOWN = (
        1205, _NEVER, "2085 MQRC_UNKNOWN_OBJECT_NAME", "Nothing is defined for the topic itself.",
        "See: qmctl topic ls. A topic needs no definition to be published to.")
    PUBLICATION_UNKNOWN = (
        1206, _NEVER, "", "No subscription holds such a publication, or it is not parked.",
        "See: qmctl republish ls. What all subscribers have had is not kept.")
    REDELIVERY_LIMIT_EXCEEDED = (
        1207, _NEVER, "2362 MQRC_BACKOUT_THRESHOLD_REACHED",
        "Why a publication is parked: its subscriber gave it back too often.",
        "See what was said of it: qmctl republish show. Mend the subscriber, then: qmctl republish "
        "send.")
    FILTERS_EXHAUSTED = (
        1208, _NEVER, "", "One topic would lead to too many branches of the filters.",
        "Subscribe with fewer levels of + next to names, or raise limits.match_visits_max.")
    # 1300: history
    HISTORY_DROPPED = (
        1300, _NEVER, "", "Rows of history that are asked for are not kept any more.",
        "See from where on: qmctl history show. Begin there; a cursor keeps what comes. Raise "
        "accounting.bytes_max if a limit dropped them.")
    HISTORY_AHEAD = (
        1301, _NEVER, "",
        "More history was had than there is: the store was put back, or is another.",
        "Begin the export anew, with another cursor and another checkpoint.")
    CURSOR_UNKNOWN = (
        1302, _NEVER, "", "There is no such export cursor.", "See: qmctl history show.")
    CURSORS_EXHAUSTED = (
        1303, _NEVER, "", "No room for another export cursor.",
        "Forget those that nobody uses: qmctl history forget.")
    # 1400: what is set aside
    ASIDE_UNKNOWN = (
        1400, _NEVER, "", "There is no such item in what is set aside, or no longer.",
        "See: qmctl aside ls.")
    # fmt: on
