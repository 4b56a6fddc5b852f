"""The keys of the store: one key space. Numbers are big-endian, so scans are in numeric order.

    space  rest                                           value
    00     kind (u8)                                      store row, clock row, clean mark,
                                                          id of the next queue (u32), secret (32
                                                          random bytes: lease_number.py)
    01     queue name                                     queue row (msgpack map)
    02     link name                                      link row (msgpack map)
    03     queue manager name                             store id, and permission to open links
                                                          (msgpack map; context/peers.py)
    04     queue id (u32)                                 counters row
    05     pattern of names                               template row (msgpack map)
    06     topic                                          topic row (msgpack map)
    07     user name                                      user row (msgpack map; access/user.py)
    08     role name                                      role row (as a user row)
    10     queue id, lane (u8), 9 - priority, arrival     entry
    11     queue id, origin, timestamp (u64)              lane, 9 - priority, arrival: UID index
           (of a transmission queue: u8 length and name   of messages that ordered.py does not find
           of the target before the origin)
    12     queue id, origin                               highest timestamp of that origin (u64)
    13     due (u64), queue id, lane, 9 - priority,       empty, or origin and timestamp of a
           arrival                                        remembered UID (schedule.py)
    14     queue id, correlation id with its length (u8)  empty: an available or leased message
           before it, 9 - priority, arrival
    15     queue id, group id (24), last number (u32)     lane, 9 - priority, arrival of the first,
                                                          count: a run of available, leased or
                                                          delayed members
                                                          (queue/group/index.py)
    16     queue id, arrival                              note (msgpack map)
    17     queue id, group id                             group row (msgpack)
    18     queue id, 9 - priority, arrival                group id: the due member is available
    19     arrival of a publication                       number of references (u32)
    1a     arrival of a publication, queue id             9 - priority: parked for that
                                                          subscription (parked.py)
    1b     topic                                          arrival of its retained publication
    1c     queue id, 9 - priority, arrival                group id: all remaining members are
                                                          available (queue/group/chain.py)
    20     producer id (16)                               producer row (msgpack)
    21     stream id (24)                                 receiving window of a link (msgpack)
    22     queue id of the transmission queue             sending window of a link (msgpack)
    30     body id (u64), chunk (u32)                     a piece of a long record
    31     body id (u64)                                  empty: no message owns the pieces yet
                                                          (long_record.py)
    40     job id (u64)                                   job row (msgpack map)
    50     number (u64)                                   row of history (history.py)
    51     name of an export cursor                       progress (msgpack map)
    60     number (u64)                                   item that is set aside (aside.py)

A CRC-32 of key and value follows each value, except in the spaces 10, 11, 13 to 15, 18, 1a, 1c, 30
and 31: see row.py. For the arrival of a publication see publications.py.

To change a layout, raise FORMAT, and refuse older stores or migrate them by a job. In every format,
the store row begins with the store id and the format. The daemon reads both before it checks the
seal.
"""

import struct

FORMAT = 5
# The formats that this version reads. In format 4, every message has a row in the UID index.
FORMATS_READ = (4, FORMAT)
FORMATS_READ_TEXT = " and ".join(map(str, FORMATS_READ))

STORE, CLOCK, CLEAN, NEXT_QUEUE = b"\x00\x00", b"\x00\x01", b"\x00\x02", b"\x00\x03"
FAN_OUT = b"\x00\x04"  # the progress of the fan-out of publications; exists only during a fan-out
HISTORY = b"\x00\x05"  # the state of the history, stored with its first row
# A mark that complete groups are listed, or that jobs are listing them (queue/group/chain.py).
LISTED = b"\x00\x07"
GUARDED = b"\x00\x08"  # a mark that users exist, so that every connection must log in
CHECKPOINT = b"\x00\x09"  # the turn in the redo journal up to which the store has all turns
SECRET = b"\x00\x06"  # the secret that proves sessions and leases; no answer contains it
SPACE_QUEUE, SPACE_LINK, SPACE_PEER, SPACE_COUNTERS = b"\x01", b"\x02", b"\x03", b"\x04"
SPACE_TEMPLATE, SPACE_TOPIC = b"\x05", b"\x06"
SPACE_USER, SPACE_ROLE = b"\x07", b"\x08"
SPACE_MESSAGE, SPACE_UID, SPACE_ORIGIN = b"\x10", b"\x11", b"\x12"
SPACE_DUE, SPACE_CORRELATION, SPACE_GROUP, SPACE_NOTE = b"\x13", b"\x14", b"\x15", b"\x16"
SPACE_GROUP_ROW, SPACE_CHAIN = b"\x17", b"\x18"
SPACE_HOLDERS, SPACE_PARKED, SPACE_RETAINED = b"\x19", b"\x1a", b"\x1b"
SPACE_COMPLETE = b"\x1c"
SPACE_PRODUCER, SPACE_LINK_INBOX, SPACE_LINK_OUTBOX = b"\x20", b"\x21", b"\x22"
SPACE_BODY, SPACE_UNOWNED, SPACE_JOB = b"\x30", b"\x31", b"\x40"
SPACE_HISTORY, SPACE_CURSOR = b"\x50", b"\x51"
SPACE_ASIDE = b"\x60"

LANE_READY = 0
LANE_DELAYED = 1  # delayed messages
LANE_GROUPED = 2  # members of groups, available or leased
LANE_PARKED = 3  # messages that a subscriber returned too often, until they are republished
# The lanes of messages that a UID identifies. Subscriptions alone have the parked lane.
LANES_OF_UIDS = (LANE_READY, LANE_GROUPED, LANE_DELAYED)
LANES_READY = (LANE_READY, LANE_GROUPED)  # the lanes of available and leased messages
LANE_GROUP = 13  # groups in the schedule; this lane has no messages
LANE_REMEMBERED = 14  # remembered UIDs of consumed messages; this lane has no messages
LANE_DAMAGED = 15  # messages that failed their checksum; kept for forensics, never delivered

STORE_ROW = struct.Struct(">16sIQ")  # the store id, format and boot number; the name follows
# store clock in ms, wall clock in us, last stamp in us, turn number, number of producers
CLOCK_ROW = struct.Struct(">QQQQQ")

_QUEUE = struct.Struct(">cI")
_LANE = struct.Struct(">cIB")
_MESSAGE = struct.Struct(">cIBBQ")
unpack_place = struct.Struct(">6xBQ").unpack  # 9 - priority and arrival in the key of an entry
DUE = struct.Struct(">cQIBBQ")
_NOTE = struct.Struct(">cIQ")
_GROUP = struct.Struct(">cI24sI")
PLACE = struct.Struct(">BQ")  # 9 - priority and arrival, the tail of a key in 14, 18 and 1c
GROUP_ID_AT, GROUP_ID_BYTES = 5, 24  # the offset and size of the group id in a key in 15 and 17
_BODY = struct.Struct(">cQI")
_JOB = struct.Struct(">cQ")
POSITION_AT = _QUEUE.size  # the offset of the position in the key of an entry
RANK_AT = _LANE.size  # the offset of 9 - priority in the key of an entry
POSITION = struct.Struct(">BBQ")  # lane, 9 - priority and arrival, the tail of the key of an entry
# Slices of a key: its space, the rest, and the fields for which the other slices are named.
SPACE, REST = slice(1), slice(1, None)
OF_QUEUE, QUEUE_ID = slice(POSITION_AT), slice(1, POSITION_AT)
OF_RANK, RANK = slice(RANK_AT + 1), slice(RANK_AT, RANK_AT + 1)  # in the key of an entry
ENTRY_LANE_AT = RANK_AT - 1  # offset of the lane in the key of an entry
BEFORE_ARRIVAL, ENTRY_ARRIVAL = slice(-8), slice(-8, None)  # in the key of an entry
DUE_MS, AFTER_DUE = slice(1, 9), slice(9, None)  # in a key of the schedule
DUE_QUEUE_ID, DUE_LANE_AT = slice(9, 13), 13
GROUP_ID, GROUP_NUMBER, BEFORE_NUMBER = slice(5, 29), slice(-4, None), slice(-4)
BODY_ID, NOTE_ARRIVAL = slice(1, 9), slice(-8, None)
# Parts of a POSITION: the lane, the PLACE in the lane, and the arrival.
LANE_AT, LANE, IN_LANE, ARRIVAL = 0, slice(1), slice(1, None), slice(2, None)
PLACE_RANK_AT = 0  # the offset of 9 - priority in a PLACE
PRIORITY_TOP = 9
PUBLICATIONS_ID = 2**32 - 2  # the id of the queue of publications; other ids rise from 1
QUEUE_ID_MAX = PUBLICATIONS_ID - 1  # the highest id of other queues
PARKED = struct.Struct(">cQI")
# Numbers of the first and next row, bytes, and number of dropped rows.
HISTORY_ROW = struct.Struct(">QQQQ")
# First and stop number of a batch, and the last queue id that received it.
FAN_OUT_ROW = struct.Struct(">QQI")


def message(queue_id: int, lane: int, priority: int, arrival: int) -> bytes:
    """Returns the key of an entry."""
    return _MESSAGE.pack(SPACE_MESSAGE, queue_id, lane, PRIORITY_TOP - priority, arrival)


def entry_prefix(queue_id: int, priority: int, lane_: int = LANE_READY) -> bytes:
    """Returns the part of the key of an entry before the arrival number."""
    return message(queue_id, lane_, priority, 0)[BEFORE_ARRIVAL]


def lane(queue_id: int, lane_: int) -> bytes:
    """Returns the prefix of the keys of a lane."""
    return _LANE.pack(SPACE_MESSAGE, queue_id, lane_)


def place(key: bytes) -> tuple[int, int]:
    """Returns the priority and the arrival number in the key of an entry."""
    rank, arrival = unpack_place(key)
    return PRIORITY_TOP - rank, arrival


def arrival_of(position: bytes) -> int:
    """Returns the arrival number in a :data:`POSITION`."""
    return int.from_bytes(position[ARRIVAL], "big")


def queue_id_of(key: bytes) -> int:
    """Returns the queue id in a key that begins with its space and a queue id."""
    return int.from_bytes(key[QUEUE_ID], "big")


def up_to_target(key: bytes) -> bytes:
    """Returns the key of the UID index of a transmission queue without the origin and timestamp."""
    return key[: POSITION_AT + 1 + key[POSITION_AT]]


def split_target(uid: bytes) -> tuple[bytes, bytes]:
    """Returns the target and the rest of *uid*.

    *uid* is the key of the UID index of a transmission queue without space and queue id.
    """
    end = 1 + (uid[0] if uid else 0)
    return uid[1:end], uid[end:]


def number_of(key: bytes) -> int:
    """Returns the number of the last member, from the key of a run of group members."""
    return int.from_bytes(key[GROUP_NUMBER], "big")


def of_queue(space: bytes, queue_id: int) -> bytes:
    """Returns the prefix of the keys of a queue in *space*."""
    return _QUEUE.pack(space, queue_id)


def due(due_ms: int, queue_id: int, lane_: int, priority: int, arrival: int) -> bytes:
    """Returns the key of a row of the schedule that is due at *due_ms* of the store clock."""
    return DUE.pack(SPACE_DUE, due_ms, queue_id, lane_, PRIORITY_TOP - priority, arrival)


def correlation(queue_id: int, correlation_id: bytes) -> bytes:
    """Returns the prefix of the keys of messages with the given correlation id."""
    return of_queue(SPACE_CORRELATION, queue_id) + bytes([len(correlation_id)]) + correlation_id


def group(queue_id: int, group_id: bytes, number: int) -> bytes:
    """Returns the key of a member of a group by its number."""
    return _GROUP.pack(SPACE_GROUP, queue_id, group_id, number)


def group_row(queue_id: int, group_id: bytes) -> bytes:
    """Returns the key of the row of a group."""
    return of_queue(SPACE_GROUP_ROW, queue_id) + group_id


def chain(queue_id: int, place: bytes) -> bytes:
    """Returns the key of a group in the chain at a :data:`PLACE`."""
    return of_queue(SPACE_CHAIN, queue_id) + place


def complete(queue_id: int, place: bytes) -> bytes:
    """Returns the key of a complete group at a :data:`PLACE`."""
    return of_queue(SPACE_COMPLETE, queue_id) + place


def note(queue_id: int, arrival: int) -> bytes:
    """Returns the key of the note of a message."""
    return _NOTE.pack(SPACE_NOTE, queue_id, arrival)


def body(body_id: int, chunk: int) -> bytes:
    """Returns the key of a piece of a long record."""
    return _BODY.pack(SPACE_BODY, body_id, chunk)


def unowned(body_id: int) -> bytes:
    """Returns the key of the mark that no message owns a body yet."""
    return SPACE_UNOWNED + body_id.to_bytes(8, "big")


def publication(arrival: int) -> bytes:
    """Returns the key of the entry of a publication."""
    return _PUBLICATION + arrival.to_bytes(8, "big")


def publication_uid(trailer: bytes) -> bytes:
    """Returns the key of the UID index for the publication with the given encoded UID."""
    return _PUBLICATION_UID + trailer


def publication_at(position: bytes) -> bytes:
    """Returns the key of the entry of the publication at a :data:`POSITION`."""
    return _PUBLICATIONS + position


_PUBLICATION_UID = of_queue(SPACE_UID, PUBLICATIONS_ID)
_PUBLICATIONS = of_queue(SPACE_MESSAGE, PUBLICATIONS_ID)
_PUBLICATION = message(PUBLICATIONS_ID, LANE_READY, PRIORITY_TOP, 0)[BEFORE_ARRIVAL]


def reference_count(arrival: int) -> bytes:
    """Returns the key of the number of references to a publication."""
    return SPACE_HOLDERS + arrival.to_bytes(8, "big")


def parked(arrival: int, queue_id: int) -> bytes:
    """Returns the key of a publication that is parked for a subscription."""
    return PARKED.pack(SPACE_PARKED, arrival, queue_id)


def job(job_id: int) -> bytes:
    """Returns the key of a job."""
    return _JOB.pack(SPACE_JOB, job_id)


def history(seq: int) -> bytes:
    """Returns the key of a row of history."""
    return _JOB.pack(SPACE_HISTORY, seq)


def seq_of(key: bytes) -> int:
    """Returns the number in the key of a row of history."""
    return int.from_bytes(key[REST], "big")


def aside(number: int) -> bytes:
    """Returns the key of an item that is set aside."""
    return _JOB.pack(SPACE_ASIDE, number)


def after(prefix: bytes) -> bytes:
    """Returns the first key after all keys with *prefix*. Not all bytes of *prefix* may be 0xff."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
