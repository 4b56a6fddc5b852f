"""Counts how often each link message was refused, and gives up messages refused too often.

    comes ──▶ refused, counted: the link holds back ──▶ comes again ──▶ too often?
                          ▲                                              │ no    │ yes
                          └──────────────────────────────────────────────┘       ▼
                          └──────────── takes no more ◀──────────── SYSTEM.DEAD.LETTERS

1. With ``link.deliver_retries`` = 0, a link holds the message back until it can be stored.
2. Otherwise, a message that was refused that often becomes a dead letter the next time it arrives,
   and counts as stored. This rule is meant for errors that a person has to fix. The rule does not
   apply to an inhibited queue, where messages should wait, or to errors that a dead letter would
   not solve.
3. A member of a group can never be stored if its number already exists here or its group has ended.
   Holding the member back would stop its link forever, so it becomes a dead letter immediately. So
   does a message that the user of the link may not put. Otherwise, an application that may put on a
   remote queue could stop the link for all others.
4. The numbers of refusals are in memory and outlive a connection. After a restart, they start at
   zero, which only delays giving up a message.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.context.context import Context
from qmgrd.core.link import extras as link_extras
from qmgrd.core.link.inbox import LinkInbox
from qmgrd.core.returns.dead_letters import DeadLetters

GIVEN_UP = frozenset(
    {
        ErrorCode.QUEUE_UNKNOWN,
        ErrorCode.QUEUE_FULL,
        ErrorCode.QUEUE_BYTES_FULL,
        ErrorCode.USER_BYTES_EXHAUSTED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.QUEUE_IS_REMOTE,
        ErrorCode.QUEUE_IS_TRANSMISSION,
        ErrorCode.NAME_INVALID,
        ErrorCode.TRANSFER_REFUSED,
        ErrorCode.GROUP_NUMBER_TAKEN,
        ErrorCode.GROUP_ENDED,
        ErrorCode.QUEUE_IS_SUBSCRIPTION,
        ErrorCode.TOPIC_INVALID,
    }
)
HOPELESS = frozenset(
    {
        ErrorCode.GROUP_NUMBER_TAKEN,
        ErrorCode.GROUP_ENDED,
        ErrorCode.ROUTE_LOOP,
        ErrorCode.QUEUE_IS_SYSTEM,
        ErrorCode.SENDER_NOT_AUTHORIZED,
    }
)
# Maximum number of streams with refused messages, and of streams with dead letters. Above it, the
# stream with the oldest refusal or dead letter is forgotten.
STREAMS_MAX = 1_000


class Refusal(NamedTuple):
    """The refusals of one message."""

    queue: str  # the destination of the message
    error: RequestError  # the error of the last refusal
    times: int  # the number of refusals for a reason that allows giving up


class GivenUp(NamedTuple):
    """The messages of a stream that became dead letters since the daemon started."""

    messages: int
    error: str  # the reason of the last one; an exception would keep the put in memory


class Undeliverable:
    """The link messages that cannot be stored here.

    Invariant: a stream has an entry while one of its messages is refused. The ids of these messages
    are in its window.
    """

    def __init__(self, context: Context, dead_letters: DeadLetters) -> None:
        self._context = context
        self._dead_letters = dead_letters
        self._streams: OrderedDict[bytes, dict[int, Refusal]] = OrderedDict()
        self._given_up: OrderedDict[bytes, GivenUp] = OrderedDict()

    def refuse(
        self, stream: LinkInbox, put: m.Put, refused: list[tuple[int, RequestError]]
    ) -> tuple[int, RequestError] | None:
        """Gives up the records of *put*, with decoded notes, that were refused too often.

        Returns:
            The first id that is still refused and its error, or None if all records are given up.
        """
        known = self._streams.get(stream.stream_id, {})
        retries = self._context.config.link.deliver_retries
        extras = {row[0]: row[1] for row in link_extras.encoded(put.extras)}
        held_back: tuple[int, RequestError] | None = None
        for seq_id, error in refused:
            times = known[seq_id].times if seq_id in known else 0
            may_end = error.code in GIVEN_UP
            if _is_hopeless(error) or (may_end and 0 < retries <= times):
                index = seq_id - put.first_id
                record, extra = put.records[index], extras.get(index, {})
                header = self._header(put.queue, error, times)
                try:
                    self._dead_letters.admit(record, extra, header, stream.peer)
                except RequestError as cause:
                    why = _combined_error(error, cause)
                else:
                    stream.mark_held([seq_id], record)
                    self._count_given_up(stream, error)
                    continue
            else:
                why, times = error, times + may_end
            known = self._known(stream, put.queue, why)
            # The error that was raised holds the frames that handled it, and thus the whole put.
            kept = RequestError(why.code, why.text, why.retry_after_ms)
            known[seq_id] = Refusal(put.queue, kept, times)
            held_back = held_back or (seq_id, why)
        return held_back

    def _known(self, stream: LinkInbox, queue: str, error: RequestError) -> dict[int, Refusal]:
        """Returns the refusals on record for *stream*. Reports the first refusal as an event."""
        known = self._streams.get(stream.stream_id)
        if known is None:
            known = self._streams[stream.stream_id] = {}
            why = name_of(error.code)
            self._context.event("link blocked", link=stream.peer, queue=queue, why=why)
            if len(self._streams) > STREAMS_MAX:
                self._streams.popitem(last=False)
        self._streams.move_to_end(stream.stream_id)
        return known

    def _count_given_up(self, stream: LinkInbox, error: RequestError) -> None:
        before = self._given_up.pop(stream.stream_id, None)
        messages = 1 if before is None else before.messages + 1
        self._given_up[stream.stream_id] = GivenUp(messages, str(error))
        if len(self._given_up) > STREAMS_MAX:
            self._given_up.popitem(last=False)

    def _header(self, queue: str, error: RequestError, times: int) -> dict[str, Any]:
        context = self._context
        return {
            "code": int(error.code),
            "reason": "",
            "text": error.text,
            "queue": queue,
            "manager": context.name,
            "us": context.now.wall_us,
            "failed": times,
            "delivered": 0,
        }

    def forget_held(self, stream: LinkInbox) -> None:
        """Forgets the messages of *stream* that are now held: stored, deleted at the sender or
        given up.
        """
        known = self._streams.get(stream.stream_id)
        if known is None:
            return
        for seq_id in [seq_id for seq_id in known if stream.inbox.holds(seq_id)]:
            del known[seq_id]
        if not known:
            del self._streams[stream.stream_id]

    def forget(self, stream_id: bytes) -> None:
        """Forgets the messages of a stream that is never opened again."""
        self._streams.pop(stream_id, None)
        self._given_up.pop(stream_id, None)

    def describe(self, stream_id: bytes) -> dict[str, Any]:
        """Describes the first refused message of a stream, and its dead letters, for people.

        Without a refused message, values are None.
        """
        given_up = self._given_up.get(stream_id)
        dead = {
            "dead_letters": 0 if given_up is None else given_up.messages,
            "dead_error": "" if given_up is None else given_up.error,
        }
        known = self._streams.get(stream_id)
        if not known:
            none = {"blocked_id": None, "blocked_queue": None, "tries_left": None, "error": ""}
            return none | dead
        seq_id = min(known)
        queue, error, times = known[seq_id]
        retries = self._context.config.link.deliver_retries
        may_end = retries and error.code in GIVEN_UP
        return {
            "blocked_id": seq_id,
            "blocked_queue": queue,
            "tries_left": max(retries - times, 0) if may_end else None,
            "error": str(error),
        } | dead


def _is_hopeless(error: RequestError) -> bool:
    """Returns whether a message is refused permanently, not only until a unit of work ends."""
    return error.code in HOPELESS and not error.retry_after_ms


def _combined_error(error: RequestError, cause: RequestError) -> RequestError:
    """Returns the error for a refused message that cannot become a dead letter either."""
    text = f"{error.text}; {DEAD_LETTERS} cannot accept it either: {cause}"
    return RequestError(error.code, text, error.retry_after_ms)
