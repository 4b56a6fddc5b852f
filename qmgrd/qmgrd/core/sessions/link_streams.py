"""Receives links: decides which peers may open a stream, and stores their puts.

A stream may be open over several paths, all from one life of its sender. A newer life closes the
paths of an older life. A newer connection closes the older connection of the same path. Therefore,
no late message can arrive with a number from another life of the sender.
"""

from collections.abc import Iterator
from itertools import islice

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RemoteProtocolError, RequestError
from qmgr_protocol.field import SEQ_END
from qmgr_protocol.window import Inbox
from qmgrd.core.catalogue import route
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.link_definitions import has_dialling
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.value_checks import IDS_MAX, NUMBER_MAX
from qmgrd.core.link import extras as link_extras
from qmgrd.core.link import inbox as link_inbox
from qmgrd.core.link.inbox import InboundPath, LinkInbox
from qmgrd.core.puts import link_rights, origin_right
from qmgrd.core.puts.refusal_reports import count_refused, report_full
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.session import Session, StreamFenced, StreamUnknown
from qmgrd.core.sessions.undeliverable import Undeliverable

STORE_ID_BYTES = 16  # the length of the sender's store id, with which a stream id begins
STREAMS_MAX = 16  # maximum number of streams of one sender
STREAM_BYTES = 1024  # the number of bytes in the store that a new stream requires
# No sender reaches this id. The store refuses ids above NUMBER_MAX, and ids of puts are higher than
# those of an opening, but by less than IDS_MAX.
SEQ_ID_MAX = NUMBER_MAX - IDS_MAX
_PART_OF_LIFE = slice(4)  # the bytes of a life from which incarnation numbers begin


class LinkStreams:
    """The receiving ends of links."""

    def __init__(self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
        self._context = context
        self._dead_letters = dead_letters
        self._undeliverable = Undeliverable(context, dead_letters)
        self._catalogue = catalogue
        self.open_streams: dict[bytes, LinkInbox] = {}  # streams that have a path, by stream id
        self._open_of: dict[bytes, set[bytes]] = {}  # stream ids by store id of the peer
        self._dirty: dict[bytes, LinkInbox] = {}  # changed streams by stream id
        self._untold: dict[
            InboundPath, None
        ] = {}  # paths whose peers expect a reply at the end of this turn
        # Paths whose lines contain more puts, by stream id.
        self._draining: dict[bytes, InboundPath] = {}
        self._incarnations = int.from_bytes(context.life[_PART_OF_LIFE], "big") << 31

    def open(self, session: Session, message: m.LinkOpen) -> None:
        """Sends the position of the stream to the sender of a link. Closes older connections."""
        if (
            message.stream_id[:STORE_ID_BYTES] != session.store_id
            or len(session.store_id) != STORE_ID_BYTES
        ):
            raise FieldInvalid("LinkOpen", "stream_id", "does not start with the hello's store id")
        _check_ids(message)
        path = session.path
        if path is not None and not path.is_fetched and path.fetches not in ("asked", "yes"):
            raise FieldInvalid("LinkOpen", "path", "was not requested with LinkFetch")
        session.check_streams()
        self._admit(session)
        stream = self._find(session, message)
        if stream.paths and stream.life != message.life:
            self._fence(list(stream.paths.values()), session)
        elif message.path in stream.paths:
            self._fence([stream.paths[message.path]], session)
        session.check_user_streams()
        if not stream.paths or stream.is_ordered != message.ordered:
            stream.clear_line()
        if not stream.paths:
            self._incarnations += 1
            stream.incarnation, stream.duplicates = self._incarnations, 0
        self.open_streams[stream.stream_id] = stream
        self._open_of.setdefault(session.store_id, set()).add(stream.stream_id)
        stream.life, stream.is_ordered = message.life, message.ordered
        inbound_path = stream.paths[message.path] = InboundPath(stream, session, message.path)
        inbound_path.number = session.add_stream(inbound_path)
        lost = stream.begin_at(message.lowest_id)
        if lost:
            stream.lost, stream.lost_us = stream.lost + lost, self._context.now.wall_us
            self._dirty[stream.stream_id] = stream
            self._undeliverable.forget_held(stream)
            self._context.event("link messages lost", link=stream.peer, lost=lost)
            why = (
                "this store was restored to an older state: messages that it had committed are lost"
            )
            self._context.note("warning", "link messages lost", link=stream.peer, why=why)
        value = stream.opened(inbound_path.number, stream.inbox.window, lost)
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def _admit(self, session: Session) -> None:
        """Raises RequestError if a queue manager may not open links to this one.

        A connection that a local link dialled to fetch messages is always admitted, because an
        operator created the link.
        """
        name, store_id, peers = session.name, session.store_id, self._context.peers
        has_link = has_dialling(self._catalogue.links, name)
        if session.path is not None and not session.path.is_fetched:
            peers.check(name, store_id, has_link=has_link)
        else:
            peers.admit(name, store_id, has_link=has_link)

    def disconnect_sender(self, name: str, why: str) -> int:
        """Closes the connections over which *name* sends messages, except those dialled from here.

        Returns the number of closed connections.
        """
        found = {
            inbound_path.session.connection: inbound_path.session
            for stream in self.open_streams.values()
            if stream.peer == name
            for inbound_path in stream.paths.values()
            if inbound_path.session.path is None or inbound_path.session.path.is_fetched
        }
        for connection, session in found.items():
            for number, inbound_path in list(session.streams.items()):
                if isinstance(inbound_path, InboundPath):
                    del session.streams[number]
                    self._close_path(inbound_path)
            self._context.close(connection, ErrorCode.PEER_NOT_ALLOWED, why)
        return len(found)

    def _find(self, session: Session, message: m.LinkOpen) -> LinkInbox:
        """Returns the stream, which may be open, closed in this turn, stored, or new."""
        stream_id, window = message.stream_id, self._context.config.link.window_messages
        found = self.open_streams.get(stream_id) or self._dirty.get(stream_id)
        found = found or link_inbox.load(self._context.tx, stream_id, window)
        if found is not None:
            return found
        self._context.take_room(STREAM_BYTES)
        self._make_room(stream_id)
        inbox = Inbox(window, message.base_id - 1)
        return LinkInbox(stream_id, session.name, inbox, inbox.commit_id)

    def _make_room(self, stream_id: bytes) -> None:
        """Forgets the oldest stream of a peer that has reached its limit of streams.

        A peer has one link to this queue manager. The link begins a new stream when it is created
        again, and never opens its older streams again.

        Raises:
            RequestError: LINKS_EXHAUSTED if all streams of the peer are open.
        """
        store_id, tx = stream_id[:STORE_ID_BYTES], self._context.tx
        prefix = keys.SPACE_LINK_INBOX + store_id
        known = {
            key[keys.REST] for key, _ in islice(tx.scan(prefix, keys.after(prefix)), STREAMS_MAX)
        }
        opened = self._open_of.get(store_id, set())
        if len(known | opened) < STREAMS_MAX:
            return
        if known <= opened:
            raise RequestError(
                ErrorCode.LINKS_EXHAUSTED,
                f"store {store_id.hex()} has {len(opened)} open streams to this queue manager "
                f"(the limit is {STREAMS_MAX})",
            )
        oldest = min(known - opened)
        tx.delete(keys.SPACE_LINK_INBOX + oldest)
        self._dirty.pop(oldest, None)
        self._undeliverable.forget(oldest)
        self._context.wrote = True

    def _fence(self, inflows: list[InboundPath], session: Session) -> None:
        """Frees the paths of a stream from the older connections that use them.

        Raises:
            StreamFenced: A newer connection uses one of the paths, so this request arrived late.
        """
        fenced = StreamFenced(ErrorCode.LINK_FENCED)
        if max(inbound_path.session.connection for inbound_path in inflows) > session.connection:
            raise fenced
        for inbound_path in inflows:
            del inbound_path.session.streams[inbound_path.number]
            self._close_path(inbound_path)
            if inbound_path.session is not session:
                self._context.close(inbound_path.session.connection, fenced.code, str(fenced))

    def _close_path(self, inbound_path: InboundPath) -> None:
        stream = inbound_path.stream
        del stream.paths[inbound_path.path]
        if not stream.paths:
            del self.open_streams[stream.stream_id]
            store_id = stream.stream_id[:STORE_ID_BYTES]
            self._open_of[store_id].discard(stream.stream_id)
            if not self._open_of[store_id]:
                del self._open_of[store_id]

    def ask_commit(self, session: Session, message: m.CommitAsk) -> None:
        """Schedules a report of the stored position to a link's sender, at the end of this turn."""
        inbound_path = session.streams.get(message.stream)
        if not isinstance(inbound_path, InboundPath):
            raise StreamUnknown(message.stream)
        inbound_path.is_asked = True
        self._untold[inbound_path] = None

    def report_commits(self, session: Session) -> None:
        """Reports the stored positions to the senders on a closing connection."""
        for inbound_path in session.streams.values():
            if isinstance(inbound_path, InboundPath) and inbound_path.news:
                self._context.send(session.connection, inbound_path.commit_message())

    def close(self, session: Session) -> None:
        """Frees the paths of a closed connection."""
        for inbound_path in session.streams.values():
            if isinstance(inbound_path, InboundPath):
                self._close_path(inbound_path)

    def put(self, inbound_path: InboundPath, put: m.Put) -> None:
        """Stores the new records of *put*. Reports refused records to the sender."""
        stream = inbound_path.stream
        if put.extras:
            put = put._replace(extras=link_extras.known(put))
        self._untold[inbound_path] = None
        self._dirty[stream.stream_id] = stream
        if put.first_id + len(put.records) > SEQ_END:
            raise FieldInvalid("Put", "first_id", f"is {put.first_id}: ids end at {SEQ_END - 1}")
        if not put.queue and any(put.records):
            raise FieldInvalid("Put", "queue", "is empty, but the put has messages")
        inbound_path.take(put)
        if not stream.is_ordered:
            self._take(inbound_path, put)
        elif put.first_id > stream.inbox.commit_id + 1:
            self._hold_behind_gap(inbound_path, put)
        else:
            self._take_in_order(inbound_path, put)

    def _hold_behind_gap(self, inbound_path: InboundPath, put: m.Put) -> None:
        try:
            inbound_path.stream.hold_behind_gap(put, self._context.config.link.window_bytes)
        except RequestError as error:
            blocked = link_inbox.blocked(inbound_path, put.first_id, error, 0)
            self._context.send(inbound_path.session.connection, blocked)

    def _take_in_order(self, inbound_path: InboundPath, put: m.Put) -> None:
        """Stores *put* record by record, then the puts that waited for it.

        Stops at the first refusal.

        A long line is stored in slices, one per turn. The sender receives no report until the last
        one.
        """
        stream, wanted = inbound_path.stream, put
        stream.is_draining = False
        while True:
            if not all(self._take(inbound_path, single) for single in _singles(wanted)):
                stream.clear_line()
                return
            context = self._context
            if stream.in_line and (context.rows > context.turn_rows or context.budget.is_over):
                stream.is_draining = True
                self._draining[stream.stream_id] = inbound_path
                return
            following = stream.next_in_line()
            if following is None:
                return
            wanted = following

    @property
    def is_busy(self) -> bool:
        """Whether another turn is needed immediately."""
        return bool(self._draining)

    def drain(self) -> Iterator[tuple[int, RemoteProtocolError]]:
        """Continues with the lines that the last turn could not finish.

        Yields the connections whose waiting puts break the protocol, each with its error.
        """
        draining, self._draining = self._draining, {}
        for stream_id, inbound_path in draining.items():
            stream = inbound_path.stream
            if self.open_streams.get(stream_id) is not stream:
                continue  # The sender sends the puts in this line again.
            inbound_path = stream.paths.get(inbound_path.path) or next(iter(stream.paths.values()))
            stream.is_draining = False
            following = stream.next_in_line()
            if following is None:
                continue
            self._dirty[stream_id] = stream
            self._untold[inbound_path] = None
            try:
                self._take_in_order(inbound_path, following)
            except RemoteProtocolError as error:
                yield inbound_path.session.connection, error

    def _take(self, inbound_path: InboundPath, put: m.Put) -> bool:
        """Stores the new records of *put*. Returns whether all of them are now stored."""
        stream = inbound_path.stream
        if not put.queue:
            stream.skip(put)
            self._undeliverable.forget_held(stream)
            return True
        if put.extras:
            check = inbound_path.session.check_right
            put = put._replace(extras=link_extras.decoded(put.extras))
            put = link_rights.without_forged_notes(check, put, stream.peer, self._context.name)
        refused = self._receive(inbound_path, put)
        held_back = self._undeliverable.refuse(stream, put, refused) if refused else None
        if held_back:
            held = any(stream.inbox.holds(put.first_id + i) for i in range(len(put.records)))
            is_all_told = not held and not stream.is_ordered
            blocked = link_inbox.blocked(
                inbound_path, *held_back, len(put.records) if is_all_told else 0
            )
            self._context.send(inbound_path.session.connection, blocked)
        self._undeliverable.forget_held(stream)
        return not held_back

    def _receive(self, inbound_path: InboundPath, put: m.Put) -> list[tuple[int, RequestError]]:
        """Stores the new records of a link's *put*. Returns the refused ids with their errors."""
        context, stream = self._context, inbound_path.stream
        if not route.may_forward(put.queue, context.name):
            return self._store(inbound_path, put)
        stream.inbox.check(put.first_id + len(put.records) - 1)
        refused = list[tuple[int, RequestError]]()
        for run, looped in route.forwarded(put, stream.peer, context.name):
            if looped is None:
                refused += self._store(inbound_path, run)
            else:
                # A loop makes a dead letter here, so it must not be a way around the rights.
                check = inbound_path.session.check_right
                why = link_inbox.unstamped(run) or link_rights.lacking(
                    check, run, stream.peer, context.name
                )
                why = why or looped
                refused += [(seq_id, why) for seq_id in stream.inbox.missing(run.first_id, 1)]
        return refused

    def _store(self, inbound_path: InboundPath, put: m.Put) -> list[tuple[int, RequestError]]:
        context, stream, count = self._context, inbound_path.stream, len(put.records)
        refused = list[tuple[int, RequestError]]()
        try:
            if why := link_inbox.unstamped(put):
                raise why
            check = inbound_path.session.check_right
            if check is not None:
                foreign = origin_right.refusal(check, put.records, stream.peer)
                if foreign is not None and count > 1:  # Refuses only the records of that origin.
                    return [x for each in _singles(put) for x in self._store(inbound_path, each)]
                put = link_rights.checked(check, put, stream.peer, context.name, foreign)
            queue, target = route.arrival(self._catalogue, put.queue, context.name)
            if not (target or queue.bounds.transfer_in):
                raise RequestError(
                    ErrorCode.TRANSFER_REFUSED,
                    f"queue {queue.name} accepts no messages from links; set its attribute "
                    "transfer_in to accept them",
                )
            if not target:
                put = route.arrived(put)
            if put.extras:
                put = put._replace(extras=link_extras.encoded(put.extras))
            fitting = context.count_fitting(put.records, evicts=queue.bounds.overflow != "refuse")
            if fitting < count:
                refused = self._no_pages(stream, put, fitting)
                put = put._replace(
                    records=put.records[:fitting],
                    extras=[extra for extra in put.extras if extra[0] < fitting],
                )
            context.reserve([*put.records, *link_extras.notes_of(put.extras)])
            if queue.is_publications:
                proxies = self._catalogue.topics.proxies_of(target)
                context.reserve(list(put.records) * len(proxies))
            done = stream.receive(context, self._dead_letters.make_dead_letter, queue, put, target)
        except RequestError as error:
            count_refused(context, self._catalogue, put.queue, error, count)
            stream.inbox.check(put.first_id + count - 1)
            return [(seq_id, error) for seq_id in stream.inbox.missing(put.first_id, count)]
        refused = done.refused + refused
        report_full(context, queue, refused, count)
        context.mark_changed(queue)
        return refused

    def _no_pages(
        self, stream: LinkInbox, put: m.Put, fitting: int
    ) -> list[tuple[int, RequestError]]:
        """Refuses the records of *put* after the first *fitting* ones."""
        stream.inbox.check(put.first_id + len(put.records) - 1)
        missing = stream.inbox.missing(put.first_id + fitting, len(put.records) - fitting)
        return [(seq_id, self._context.too_few_pages_error()) for seq_id in missing]

    def end_turn(self) -> None:
        """Writes the rows of the streams that changed, and replies to their senders."""
        for stream in self._dirty.values():
            rows.put(self._context.tx, stream.key, stream.encode())
            self._context.wrote = True
        self._dirty.clear()
        for inbound_path in list(self._untold):
            if inbound_path.stream.paths.get(inbound_path.path) is not inbound_path:
                del self._untold[inbound_path]
                continue
            if inbound_path.stream.is_draining:
                # An early reply would make the sender resend puts that are still in line here.
                continue
            commit = inbound_path.due(self._context)
            if commit is not None:
                self._context.send(inbound_path.session.connection, commit)
            if not inbound_path.news:
                del self._untold[inbound_path]

    def inbound(self, rows_max: int) -> tuple[list[dict[str, object]], int]:
        """Returns up to *rows_max* connected inbound links, and their total number."""
        found = list(self.open_streams.values())
        rows: list[dict[str, object]] = [
            {
                "peer": stream.peer,
                "stream": stream.stream_id.hex(),
                "commit_id": stream.inbox.commit_id,
                "ahead": len(stream.inbox.ahead),
                "duplicates": stream.duplicates,
                "lost": stream.lost,
                "lost_us": stream.lost_us,
                "connections": len(stream.paths),
                "in_line": sum(len(put.records) for put in stream.in_line.values()),
            }
            | self._undeliverable.describe(stream.stream_id)
            for stream in found[:rows_max]
        ]
        return rows, len(found)


def _singles(put: m.Put) -> Iterator[m.Put]:
    """Yields each record of *put* as a separate put."""
    extras = dict(put.extras)
    for index, record in enumerate(put.records):
        told = [[0, extras[index]]] if index in extras else []
        yield put._replace(first_id=put.first_id + index, records=[record], extras=told)


def _check_ids(message: m.LinkOpen) -> None:
    """Checks that the store can keep the ids in *message*.

    Raises:
        FieldInvalid: An id is too high.
    """
    if message.lowest_id > message.next_id:
        raise FieldInvalid("LinkOpen", "lowest_id", f"is {message.lowest_id}, above next_id")
    for name in ("base_id", "next_id"):
        if (seq_id := getattr(message, name)) > SEQ_ID_MAX:
            raise FieldInvalid("LinkOpen", name, f"is {seq_id}; the limit is {SEQ_ID_MAX}")
