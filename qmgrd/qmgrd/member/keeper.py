"""Works next to a member: reports what it does, makes bases, and trims the log."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
import structlog

from qmgrd.engine import bases
from qmgrd.engine.members import MemberRow, leave, report
from qmgrd.engine.schema import Place
from qmgrd.engine.server import ServerAway, ServerUnusable, connect
from qmgrd.store.lmdb_store import CopyFailed, Pin
from qmgrd.store.log import Position
from qmgrd.store.logged_store import LoggedStore

PERIOD_S = 2.0
SEEN_S = 10.0  # A member that was not seen for so long makes no bases.
BASE_LEAST_BYTES = 64 << 20  # the least size of the log since the last base that makes a base due

T = TypeVar("T")
log = structlog.get_logger()


class Keeper:
    """The work of one member.

    All statements run on one thread, on one connection.
    """

    def __init__(
        self,
        url: str,
        place: Place,
        store: LoggedStore,
        member: str,
        addresses: str,
        base_least_bytes: int = BASE_LEAST_BYTES,
    ) -> None:
        self._url, self._place, self._store = url, place, store
        self._member, self._addresses = member, addresses
        self._base_least_bytes = base_least_bytes
        self._thread = ThreadPoolExecutor(1, "keeper")
        self._connection: psycopg.Connection | None = None
        self._pin: Pin | None = None
        self._copy: _Copy | None = None
        self._gives_up = False  # whether the base that is being written is not wanted any more
        self.members: list[MemberRow] = []
        self.base: bases.Base | None = None
        self.log_bytes = 0
        self.trouble = ""

    async def run(self) -> None:
        """Works until it is cancelled."""
        try:
            while True:
                try:
                    await self._step()
                    self.trouble = ""
                except (ServerAway, ServerUnusable, psycopg.Error, CopyFailed, OSError) as error:
                    self._note(error)
                except Exception as error:  # Without the keeper, the log would grow for ever.
                    log.error("internal error of the keeper", exc_info=error)
                await asyncio.sleep(PERIOD_S)
        finally:
            self._release()
            self._thread.submit(self._leave)
            self._thread.shutdown(wait=False)

    def facts(self) -> dict[str, Any]:
        """Returns what is known about the members and the log, for the status.

        The rows of all members are of the last report. So a busy member is not behind itself.
        """
        base = self.base
        newest = next((row.record for row in self.members if row.member == self._member), 0)
        return {
            "log_bytes": self.log_bytes,
            "base_record": base.position.number if base is not None else 0,
            "base_bytes": base.size_bytes if base is not None else 0,
            "members": [
                {
                    "member": row.member,
                    "role": self._role_of(row),
                    "record": row.record,
                    "behind": max(newest - row.record, 0),
                    "addresses": row.addresses.split(",") if row.addresses else [],
                    "seen_ms": round(row.seen_s * 1000),
                }
                for row in self.members
            ],
        }

    def _role_of(self, row: MemberRow) -> str:
        """Returns the role of a member. Only the active member asks."""
        if row.member == self._member:
            return "active"
        return "standby" if row.seen_s < SEEN_S else "away"

    async def _step(self) -> None:
        is_due = await self._in_thread(self._report)
        if is_due:
            await self._make_base()

    def _report(self) -> bool:
        """Reports this member. Returns whether it should make a base now."""
        connection = self._connected()
        is_active, position = self._store.is_active, self._store.position
        self.members = report(
            connection,
            self._place,
            self._member,
            position.number,
            self._addresses,
            is_active=is_active,
        )
        self.base = bases.newest_base(connection, self._place)
        if self.base is not None:
            bases.trim(connection, self._place)
        self.log_bytes = bases.log_bytes(connection, self._place)
        standbys = [row.member for row in self.members if not row.is_active and row.seen_s < SEEN_S]
        rivals = [row for row in self.members if row.is_active and row.member != self._member]
        is_alone = is_active and not any(row.seen_s < SEEN_S for row in rivals)
        is_maker = self._member == standbys[0] if standbys else is_alone
        return is_maker and self._is_due(connection, position)

    def _is_due(self, connection: psycopg.Connection, position: Position) -> bool:
        since = self.base.position.number if self.base is not None else 0
        if since >= position.number:
            return False
        least_bytes = max(self._base_least_bytes, self._store.used_bytes)
        return bases.bytes_since(connection, self._place, since) > least_bytes

    async def _make_base(self) -> None:
        """Copies the store to the server while turns go on."""
        self._gives_up = False
        pin = self._pin = self._store.pin_base(self._give_up)
        position = self._store.position
        writing = asyncio.ensure_future(self._in_thread(lambda: self._write(pin, position)))
        try:
            size_bytes = await asyncio.shield(writing)
        finally:
            if not writing.done():  # The other thread reads the pinned turn until it gives up.
                self._give_up()
                await asyncio.gather(writing, return_exceptions=True)
            self._release()
        if size_bytes:
            log.info("made a base of the journal", record=position.number, size_bytes=size_bytes)

    def _write(self, pin: Pin, position: Position) -> int:
        connection = self._connected()
        number = bases.begin_base(connection, self._place, self._member, position)
        if number is None:
            return 0
        try:
            with _Copy(pin) as self._copy:
                pieces = self._copy.pieces()
                wanted = self._until_given_up(pieces)
                size_bytes = bases.write_base(connection, self._place, number, wanted)
                self.base = bases.newest_base(connection, self._place)
        finally:
            bases.end_base(connection, self._place)
        bases.trim(connection, self._place)
        return size_bytes

    def _until_given_up(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self._gives_up:
                raise CopyFailed("the member stops, or rebuilds its store")
            yield piece

    def _give_up(self) -> None:
        """Soon ends a copy that is being made. LMDB makes an abort wait for its end."""
        self._gives_up = True
        if self._copy is not None:
            self._copy.cancel()

    def _release(self) -> None:
        pin, self._pin = self._pin, None
        if pin is not None and not pin.released:
            pin.release()

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, "keeper")
        return self._connection

    def _leave(self) -> None:
        """Removes this member from the list, and ends the connection."""
        try:
            if self._connection is not None:
                leave(self._connection, self._place, self._member)
                self._connection.close()
        except psycopg.Error as error:
            log.debug("the list of members still has this one", why=str(error))

    def _note(self, error: Exception) -> None:
        if not self.trouble:
            log.warning("this member cannot report, or make a base", why=str(error))
        self.trouble = str(error)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


class _Copy:
    """A copy of the store, which another thread makes. A socket, unlike a pipe, can be shut down
    while a thread uses it.
    """

    def __init__(self, pin: Pin) -> None:
        self._pin = pin
        self._error: Exception | None = None
        self._near, self._far = socket.socketpair()

    def __enter__(self) -> "_Copy":
        self._thread = threading.Thread(target=self._make, name="base")
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()  # An unfinished copy fails at its next write.
        self._thread.join()
        self._near.close()
        self._far.close()

    def cancel(self) -> None:
        """Ends the copy soon, from any thread."""
        with suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)

    def pieces(self) -> Iterator[bytes]:
        """Yields the content.

        Raises:
            CopyFailed: The copy failed, or was cancelled.
        """
        with self._near.makefile("rb") as file:
            while piece := file.read(bases.PIECE_BYTES):
                yield piece
        self._thread.join()
        if self._error is not None:
            raise CopyFailed(f"the copy of the store failed: {self._error}") from self._error

    def _make(self) -> None:
        try:
            self._pin.copy_to(self._far.fileno())
        except Exception as error:
            self._error = error
        finally:
            with suppress(OSError):
                self._far.shutdown(socket.SHUT_WR)
