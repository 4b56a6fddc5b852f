"""The links that lead here: who may open which, and what their puts come to.

A stream is open over several paths, all of one life of its sender: a newer life closes the paths of
an older one, and a newer connection the one that had its path. So nothing comes late that another
life of the sender has numbered.
"""

from collections.abc import Iterator
from itertools import islice

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RemoteProtocolError, RequestError
from qmgr_protocol.field import SEQ_END
from qmgr_protocol.window import Inbox
from qmgrd.core.catalogue import route
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.link_definitions import accepting
from qmgrd.core.context.context import Context
from qmgrd.core.context.session import Session, StreamFenced, StreamUnknown
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.link import inbox as link_inbox
from qmgrd.core.link.inbox import Inflow, LinkInbox
from qmgrd.core.puts.refused_puts import count_refused, tell_full
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.undeliverable import Undeliverable

STORE_ID_BYTES = 16  # a stream id begins with the store id of its sender
STREAMS_MAX = 16  # of one sender
STREAM_BYTES = 1024  # of room for a new one


class LinkStreams:
    """The receiving ends of links."""

    def __init__(self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
        self._context = context
        self._dead_letters = dead_letters
        self._undeliverable = Undeliverable(context, dead_letters)
        self._catalogue = catalogue
        self.open_streams: dict[bytes, LinkInbox] = {}  # by stream id: those with a path
        self._open_of: dict[bytes, set[bytes]] = {}  # by store id of the peer: stream ids
        self._dirty: dict[bytes, LinkInbox] = {}  # by stream id
        self._untold: dict[Inflow, None] = {}  # something came, or a question
        self._draining: dict[bytes, Inflow] = {}  # by stream id: more of its line is to be taken
        self._incarnations = int.from_bytes(context.life[:4], "big") << 31

    def open(self, session: Session, message: m.LinkOpen) -> None:
        """Answer a link's sender with what is held of its stream; fence older connections."""
        if (
            message.stream_id[:STORE_ID_BYTES] != session.store_id
            or len(session.store_id) != STORE_ID_BYTES
        ):
            raise FieldInvalid("LinkOpen", "stream_id", "does not start with the hello's store id")
        path = session.path
        if message.lowest_id > message.next_id:
            raise FieldInvalid("LinkOpen", "lowest_id", f"is {message.lowest_id}, above next_id")
        if path is not None and not path.is_fetched and path.fetches not in ("asked", "yes"):
            raise FieldInvalid("LinkOpen", "path", "was not asked for with LinkFetch")
        session.check_streams()
        self._admit(session)
        stream = self._find(session, message)
        if stream.paths and stream.life != message.life:
            self._fence(list(stream.paths.values()), session)
        elif message.path in stream.paths:
            self._fence([stream.paths[message.path]], session)
        if not stream.paths or stream.is_ordered != message.ordered:
            stream.clear_line()
        if not stream.paths:
            self._incarnations += 1
            stream.incarnation, stream.duplicates = self._incarnations, 0
        self.open_streams[stream.stream_id] = stream
        self._open_of.setdefault(session.store_id, set()).add(stream.stream_id)
        stream.life, stream.is_ordered = message.life, message.ordered
        inflow = stream.paths[message.path] = Inflow(stream, session, message.path)
        inflow.number = session.add_stream(inflow)
        lost = stream.begin_at(message.lowest_id)
        if lost:
            stream.lost, stream.lost_us = stream.lost + lost, self._context.now.wall_us
            self._dirty[stream.stream_id] = stream
            self._undeliverable.forget_held(stream)
            self._context.event("link messages lost", link=stream.peer, lost=lost)
            why = "this store was put back to an older state, what it had committed is gone there"
            self._context.note("warning", "link messages lost", link=stream.peer, why=why)
        value = stream.opened(inflow.number, stream.inbox.window, lost)
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def _admit(self, session: Session) -> None:
        """Raise RequestError where a queue manager may not open links to here.

        One that a link of ours dialled, to fetch what waits there, was looked for by an operator.
        """
        name, store_id, peers = session.name, session.store_id, self._context.peers
        remedy = accepting(self._catalogue.links, name)
        if session.path is not None and not session.path.is_fetched:
            peers.check(name, store_id, remedy)
        else:
            peers.admit(name, store_id, remedy)

    def expel(self, name: str, why: str) -> int:
        """Close the connections over which *name* sends to here, but those dialled from here.

        Return how many there were.
        """
        found = {
            inflow.session.connection: inflow.session
            for stream in self.open_streams.values()
            if stream.peer == name
            for inflow in stream.paths.values()
            if inflow.session.path is None or inflow.session.path.is_fetched
        }
        for connection, session in found.items():
            for number, inflow in list(session.streams.items()):
                if isinstance(inflow, Inflow):
                    del session.streams[number]
                    self._let_go(inflow)
            self._context.close(connection, ErrorCode.PEER_NOT_ALLOWED, why)
        return len(found)

    def _find(self, session: Session, message: m.LinkOpen) -> LinkInbox:
        """Return the stream, as it is open, was in this turn, is stored, or begins."""
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
        """Forget the oldest stream of a peer that has as many as one may have.

        A peer has one link to here, which begins a new stream when it is created again. Its older
        streams are never opened again.

        Raises:
            RequestError: LINKS_EXHAUSTED, all of its streams are open.
        """
        store_id, tx = stream_id[:STORE_ID_BYTES], self._context.tx
        prefix = keys.SPACE_LINK_INBOX + store_id
        known = {key[1:] for key, _ in islice(tx.scan(prefix, keys.after(prefix)), STREAMS_MAX)}
        opened = self._open_of.get(store_id, set())
        if len(known | opened) < STREAMS_MAX:
            return
        if known <= opened:
            raise RequestError(
                ErrorCode.LINKS_EXHAUSTED,
                f"the store {store_id.hex()} has {len(opened)} streams open to here, at most "
                f"{STREAMS_MAX}",
            )
        oldest = min(known - opened)
        tx.delete(keys.SPACE_LINK_INBOX + oldest)
        self._dirty.pop(oldest, None)
        self._context.wrote = True

    def _fence(self, inflows: list[Inflow], session: Session) -> None:
        """Take a stream's paths from the connections that have them.

        Raises:
            StreamFenced: one of these is newer; what comes now was long under way.
        """
        fenced = StreamFenced(ErrorCode.LINK_FENCED)
        if max(inflow.session.connection for inflow in inflows) > session.connection:
            raise fenced
        for inflow in inflows:
            del inflow.session.streams[inflow.number]
            self._let_go(inflow)
            if inflow.session is not session:
                self._context.close(inflow.session.connection, fenced.code, str(fenced))

    def _let_go(self, inflow: Inflow) -> None:
        stream = inflow.stream
        del stream.paths[inflow.path]
        if not stream.paths:
            del self.open_streams[stream.stream_id]
            store_id = stream.stream_id[:STORE_ID_BYTES]
            self._open_of[store_id].discard(stream.stream_id)
            if not self._open_of[store_id]:
                del self._open_of[store_id]

    def ask_commit(self, session: Session, message: m.CommitAsk) -> None:
        """Have a link's sender be told what is held at the end of this turn."""
        inflow = session.streams.get(message.stream)
        if not isinstance(inflow, Inflow):
            raise StreamUnknown(message.stream)
        inflow.is_asked = True
        self._untold[inflow] = None

    def tell(self, session: Session) -> None:
        """Tell the senders of links on a connection what is held of theirs, as it is closed."""
        for inflow in session.streams.values():
            if isinstance(inflow, Inflow) and inflow.news:
                self._context.send(session.connection, inflow.tell())

    def close(self, session: Session) -> None:
        """Let go of the paths of a connection that is gone."""
        for inflow in session.streams.values():
            if isinstance(inflow, Inflow):
                self._let_go(inflow)

    def put(self, inflow: Inflow, put: m.Put) -> None:
        """Store what of *put* is new; where something cannot be, tell the sender."""
        stream = inflow.stream
        if put.extras:  # A later version may say more in each row.
            put = put._replace(extras=[row[:2] for row in put.extras])
        self._untold[inflow] = None
        self._dirty[stream.stream_id] = stream
        if put.first_id + len(put.records) > SEQ_END:
            raise FieldInvalid("Put", "first_id", f"is {put.first_id}: ids end at {SEQ_END - 1}")
        if not put.queue and any(put.records):
            raise FieldInvalid("Put", "queue", "is empty, yet there are messages")
        inflow.take(put)
        if not stream.is_ordered:
            self._take(inflow, put)
        elif put.first_id > stream.inbox.commit_id + 1:
            self._line_up(inflow, put)
        else:
            self._take_in_order(inflow, put)

    def _line_up(self, inflow: Inflow, put: m.Put) -> None:
        try:
            inflow.stream.line_up(put, self._context.config.link.window_bytes)
        except RequestError as error:
            blocked = link_inbox.blocked(inflow, put.first_id, error, 0)
            self._context.send(inflow.session.connection, blocked)

    def _take_in_order(self, inflow: Inflow, put: m.Put) -> None:
        """Take *put* one by one, and what waited for it; nothing behind what is refused.

        A long line is taken in slices, a turn each; its sender hears nothing in between.
        """
        stream, wanted = inflow.stream, put
        stream.is_draining = False
        while True:
            if not all(self._take(inflow, single) for single in _singles(wanted)):
                stream.clear_line()
                return
            context = self._context
            if stream.in_line and (context.rows > context.turn_rows or context.budget.is_over):
                stream.is_draining = True
                self._draining[stream.stream_id] = inflow
                return
            following = stream.next_in_line()
            if following is None:
                return
            wanted = following

    @property
    def is_busy(self) -> bool:
        """Whether another turn is wanted at once."""
        return bool(self._draining)

    def drain(self) -> Iterator[tuple[int, RemoteProtocolError]]:
        """Take more of the lines of which the last turn took as much as it could.

        Yield the connections of those who broke the protocol by what waited there.
        """
        draining, self._draining = self._draining, {}
        for stream_id, inflow in draining.items():
            stream = inflow.stream
            if self.open_streams.get(stream_id) is not stream:
                continue  # What it held comes again.
            inflow = stream.paths.get(inflow.path) or next(iter(stream.paths.values()))
            stream.is_draining = False
            following = stream.next_in_line()
            if following is None:
                continue
            self._dirty[stream_id] = stream
            self._untold[inflow] = None
            try:
                self._take_in_order(inflow, following)
            except RemoteProtocolError as error:
                yield inflow.session.connection, error

    def _take(self, inflow: Inflow, put: m.Put) -> bool:
        """Store what of *put* is new; return whether all of it is held now."""
        stream = inflow.stream
        if not put.queue:
            stream.skip(put)
            self._undeliverable.forget_held(stream)
            return True
        refused = self._receive(stream, put)
        held_back = self._undeliverable.refuse(stream, put, refused) if refused else None
        if held_back:
            held = any(stream.inbox.holds(put.first_id + i) for i in range(len(put.records)))
            is_all_told = not held and not stream.is_ordered
            blocked = link_inbox.blocked(inflow, *held_back, len(put.records) if is_all_told else 0)
            self._context.send(inflow.session.connection, blocked)
        self._undeliverable.forget_held(stream)
        return not held_back

    def _receive(self, stream: LinkInbox, put: m.Put) -> list[tuple[int, RequestError]]:
        """Store what of a link's *put* is new; return which ids were refused, and why."""
        context = self._context
        if not route.goes_on(put.queue, context.name):
            return self._store(stream, put)
        stream.inbox.check(put.first_id + len(put.records) - 1)
        refused = list[tuple[int, RequestError]]()
        for run, looped in route.forwarded(put, stream.peer, context.name):
            if looped is None:
                refused += self._store(stream, run)
            else:
                why = link_inbox.unstamped(run) or looped
                refused += [(seq_id, why) for seq_id in stream.inbox.missing(run.first_id, 1)]
        return refused

    def _store(self, stream: LinkInbox, put: m.Put) -> list[tuple[int, RequestError]]:
        context, count = self._context, len(put.records)
        refused = list[tuple[int, RequestError]]()
        try:
            if why := link_inbox.unstamped(put):
                raise why
            queue, target = route.arrival(self._catalogue, put.queue, context.name)
            if not (target or queue.bounds.transfer_in):
                raise RequestError(
                    ErrorCode.TRANSFER_REFUSED,
                    f"queue {queue.name} takes no messages from links; let them in with: "
                    f"qmctl queue alter {queue.name} --transfer-in",
                )
            if not target:
                put = route.arrived(put)
            fitting = context.fitting(put.records, evicts=queue.bounds.overflow != "refuse")
            if fitting < count:
                refused = self._no_pages(stream, put, fitting)
                put = put._replace(
                    records=put.records[:fitting],
                    extras=[extra for extra in put.extras if extra[0] < fitting],
                )
            context.reserve([*put.records, *link_inbox.notes_of(put)])
            if queue.is_publications:
                proxies = self._catalogue.topics.proxies_of(target)
                context.reserve(list(put.records) * len(proxies))
            done = stream.receive(context, self._dead_letters, queue, put, target)
        except RequestError as error:
            count_refused(context, self._catalogue, put.queue, error, count)
            stream.inbox.check(put.first_id + count - 1)
            return [(seq_id, error) for seq_id in stream.inbox.missing(put.first_id, count)]
        refused = done.refused + refused
        tell_full(context, queue, refused, count)
        context.rows += done.rows
        context.touch(queue)
        return refused

    def _no_pages(
        self, stream: LinkInbox, put: m.Put, fitting: int
    ) -> list[tuple[int, RequestError]]:
        """Refuse all of *put* but the first *fitting* records."""
        stream.inbox.check(put.first_id + len(put.records) - 1)
        missing = stream.inbox.missing(put.first_id + fitting, len(put.records) - fitting)
        return [(seq_id, self._context.no_pages()) for seq_id in missing]

    def end_turn(self) -> None:
        """Write the rows of all that moved, and tell the senders what is due."""
        for stream in self._dirty.values():
            rows.put(self._context.tx, stream.key, stream.encode())
            self._context.wrote = True
        self._dirty.clear()
        for inflow in list(self._untold):
            if inflow.stream.paths.get(inflow.path) is not inflow:
                del self._untold[inflow]
                continue
            if inflow.stream.is_draining:
                continue  # It would send again what was taken, and is not held yet.
            commit = inflow.due(self._context)
            if commit is not None:
                self._context.send(inflow.session.connection, commit)
            if not inflow.news:
                del self._untold[inflow]

    def inbound(self, rows_max: int) -> tuple[list[dict[str, object]], int]:
        """Return up to *rows_max* links that lead here and are connected, and their number."""
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
    """Yield each record of *put* as a put of its own."""
    extras = dict(put.extras)
    for index, record in enumerate(put.records):
        told = [[0, extras[index]]] if index in extras else []
        yield put._replace(first_id=put.first_id + index, records=[record], extras=told)
