"""The table of messages: one row a message. All columns may be null, as in Spark's file sources.

queue           where it lies; @NYC is the transmission queue of the link to NYC
priority        0 to 9, 9 first: by which it has its turn; null where the queue that it is bound for
                is to say it
arrival         its place on the queue within its priority
message_id      ORIGIN.TIMESTAMP, its identity; null where the record is damaged
origin          who created it
created_at      when, by the creator's clock: the timestamp in message_id; null from the year
                10000 on, for origins that count something else
put_at          when it was put on this queue, by the queue manager's clock
expires_at      when its life ends; null if it has no end. This and deliver_at run by the queue
                manager's own clock, shown as wall clock as of the snapshot
deliver_at      when it can be got, of one that is delayed; null too if it expires before that
persistent      whether it outlives a restart
correlation_id  as text: bytes that are not UTF-8 stand as \\xNN; null if it has none
headers         the producer's headers; numbers and flags as text, lists and maps as JSON
reply_to        the queue that answers are wanted on
content_type    what the producer says the body is
group_id        of its message group, in hexadecimal
group_number    its number in that group
delivered       how often it came back after a delivery
failed          how often of these it was released or its lease ended
state           ready, delayed (its time has not come), transmission (it waits on a link), parked
                (its subscriber failed on it), publication (what subscriptions hold, once) or
                damaged (its checksum is wrong)
dead_code       why it is a dead letter, as in MESSAGE_EXPIRED; this and what follows is null of
                what is none
dead_reason     a word of the consumer that rejected it
dead_text       and what it said
dead_queue      where it comes from
dead_manager    and of which queue manager
dead_at         when it became a dead letter, by that queue manager's clock
dead_delivered  how often it came back there
dead_failed     how often of these it was released or its lease ended
dead_retries    how often it was sent back already
target          the queue it is bound for, on a transmission queue; of a publication its topic
body            null where it is left out: includeBody, maxBodyBytes, a damaged record
body_bytes      its size, also where it is left out
queue_manager   whose snapshot it is
snapshot_id     which one
turn            the turn of that queue manager that the snapshot shows
"""

from difflib import get_close_matches

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "queue": StringType(),
    "priority": IntegerType(),
    "arrival": LongType(),
    "message_id": StringType(),
    "origin": StringType(),
    "created_at": TimestampType(),
    "put_at": TimestampType(),
    "expires_at": TimestampType(),
    "deliver_at": TimestampType(),
    "persistent": BooleanType(),
    "correlation_id": StringType(),
    "headers": MapType(StringType(), StringType()),
    "reply_to": StringType(),
    "content_type": StringType(),
    "group_id": StringType(),
    "group_number": LongType(),
    "delivered": IntegerType(),
    "failed": IntegerType(),
    "state": StringType(),
    "dead_code": StringType(),
    "dead_reason": StringType(),
    "dead_text": StringType(),
    "dead_queue": StringType(),
    "dead_manager": StringType(),
    "dead_at": TimestampType(),
    "dead_delivered": IntegerType(),
    "dead_failed": IntegerType(),
    "dead_retries": IntegerType(),
    "target": StringType(),
    "body": BinaryType(),
    "body_bytes": LongType(),
    "queue_manager": StringType(),
    "snapshot_id": StringType(),
    "turn": LongType(),
}
COLUMNS = tuple(_TYPES)
MESSAGES = StructType([StructField(name, type_) for name, type_ in _TYPES.items()])


class SchemaInvalid(ValueError):
    """A schema that was asked for and that messages do not have."""


def checked(schema: StructType) -> StructType:
    """Return *schema* if it names columns of messages, in whatever order, with their types.

    Raises:
        SchemaInvalid: which column, and what it is.
    """
    seen: set[str] = set()
    for field in schema.fields:
        if field.name not in _TYPES:
            near = get_close_matches(field.name, COLUMNS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COLUMNS)}"
            raise SchemaInvalid(f"schema: column {field.name!r} is not one of messages; {hint}")
        type_ = _TYPES[field.name]
        if field.dataType != type_:
            raise SchemaInvalid(
                f"schema: column {field.name} is {field.dataType.simpleString()} in it, but of "
                f"messages {type_.simpleString()}; read it as such, then cast"
            )
        if not field.nullable:
            raise SchemaInvalid(
                f"schema: column {field.name} is NOT NULL in it, but may be null; leave that out"
            )
        if field.name in seen:
            raise SchemaInvalid(f"schema: column {field.name} is in it twice; name it once")
        seen.add(field.name)
    return schema
