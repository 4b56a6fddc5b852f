"""The life of a member: a standby, then active, then a standby again.

open the store ─▶ follow the log ─▶ active: a Daemon ─▶ fenced, or switched over ─▶ follow ...
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from qmgr_config.model import Config
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.daemon import Daemon
from qmgrd.engine.appender import Appender
from qmgrd.engine.reader import LogShort, LogTrimmed
from qmgrd.engine.schema import Place, open_place
from qmgrd.engine.server import (
    Durability,
    ServerAway,
    ServerUnusable,
    durability,
    insecure_host,
    session,
)
from qmgrd.member.keeper import Keeper
from qmgrd.member.next import name_next, step_down
from qmgrd.member.opening import open_member_store, rebuild
from qmgrd.member.standby import RETRY_S, Standby, Taken
from qmgrd.net.listener import Sockets, bind, write_addresses
from qmgrd.net.refusal import Refuser
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.token_keys import TokenKeys
from qmgrd.process.journal_state import JournalState
from qmgrd.process.notify import Notifier
from qmgrd.store.log import Fenced
from qmgrd.store.logged_store import LoggedStore

T = TypeVar("T")
log = structlog.get_logger()


class MemberProcess:
    """One process of a queue manager whose journal is on a server.

    Invariant: at most one of ``_standby`` and ``_daemon`` exists.
    """

    def __init__(
        self,
        config: Config,
        notifier: Notifier,
        tls: TlsFiles,
        token_keys: TokenKeys,
        *,
        is_maintenance: bool = False,
    ) -> None:
        self._config, self._notifier = config, notifier
        self._tls, self._token_keys = tls, token_keys
        self._is_maintenance = is_maintenance
        journal = config.journal
        self._url = journal.url
        data_dir = config.queue_manager.data_dir
        self.name = journal.member or f"{socket.gethostname()}:{data_dir}"
        self._standby: Standby | None = None
        self._daemon: Daemon | None = None
        self._is_stopped = asyncio.Event()
        self._gives_way = False
        self._taken: Taken | None = None
        self._durability: Durability | None = None

    def stop(self) -> None:
        """Makes :meth:`run` end after a clean shutdown."""
        self._is_stopped.set()
        if self._standby is not None:
            self._standby.stop()
        if self._daemon is not None:
            self._daemon.stop()

    async def run(self) -> None:
        """Serves until :meth:`stop`.

        Raises:
            ListenFailed: The member cannot listen on an address.
            ServerUnusable: The server of the journal, or its settings, must be changed.
            StoreFailed, StoreLocked, StoreIsSnapshot, OSError: The local store cannot be used.
        """
        host = insecure_host(self._url)
        if host is not None:
            log.warning(
                "the connection to the journal can be read or changed on its way",
                host=host,
                why="journal.url has no sslmode=verify-full",
            )
        self._config.queue_manager.data_dir.mkdir(0o700, parents=True, exist_ok=True)
        sockets = await bind(self._config)
        try:
            place = await self._opened_place()
            while place is not None and not self._is_stopped.is_set():
                await self._live(place, sockets)
        finally:
            sockets.close()

    async def _opened_place(self) -> Place | None:
        """Returns the place of the journal, as soon as the server answers."""
        is_noted = False
        while not self._is_stopped.is_set():
            try:
                return await self._in_thread(self._find_place)
            except ServerAway as error:
                if not is_noted:
                    log.warning("waiting for the server of the journal", why=str(error))
                is_noted = True
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_stopped.wait(), RETRY_S)
        return None

    def _find_place(self) -> Place:
        with session(self._url, "start") as connection:
            self._durability = durability(connection)
            return open_place(connection, self._config.queue_manager.name)

    async def _live(self, place: Place, sockets: Sockets) -> None:
        """Uses one store, until it must be rebuilt or the member stops."""
        data_dir = self._config.queue_manager.data_dir
        map_bytes = self._config.store.map_bytes
        store = await self._reached(
            lambda: open_member_store(self._url, place, data_dir, map_bytes)
        )
        if store is None:
            return
        addresses = ",".join(self._config.journal.addresses) or ",".join(sockets.names)
        keeper = Keeper(self._url, place, store, self.name, addresses)
        keeping = asyncio.create_task(keeper.run())
        try:
            while not self._is_stopped.is_set():
                taken = await self._stand_by(place, store, sockets, addresses)
                if taken is None:
                    return
                await self._be_active(place, store, sockets, keeper, taken)
        except LogTrimmed as error:
            log.warning("rebuilding the store from a base", why=str(error))
            is_trimmed = True
        except LogShort as error:
            raise StoreFailed(
                f"{error}: if the log is right, remove {data_dir / 'store'}, and this member "
                "begins with a copy"
            ) from error
        else:
            is_trimmed = False
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            store.close()
        if is_trimmed:
            await self._reached(lambda: rebuild(self._url, place, data_dir))

    async def _reached(self, call: Callable[[], T]) -> T | None:
        """Returns the result of a call that needs the server. Returns None later if it is away."""
        try:
            return await self._in_thread(call)
        except ServerAway as error:
            log.warning("waiting for the server of the journal", why=str(error))
            await asyncio.sleep(RETRY_S)
            return None

    async def _stand_by(
        self, place: Place, store: LoggedStore, sockets: Sockets, addresses: str
    ) -> Taken | None:
        config = self._config
        standby = self._standby = Standby(
            self._url,
            place,
            store,
            (config.queue_manager.name, self.name, addresses),
            config.journal.takeover_ms / 1000,
            gives_way=self._gives_way,
        )
        self._gives_way = False
        refusal = Refuser(config, self._tls, standby.goodbye)
        refusing = asyncio.create_task(refusal.serve(sockets))
        write_addresses(config.queue_manager.data_dir, sockets.names)
        log.info("standby", name=config.queue_manager.name, member=self.name)
        self._notifier.ready(f"{config.queue_manager.name}: standby", config.limits.liveness_ms)
        self._notifier.signal_alive(asyncio.get_running_loop())
        try:
            return await standby.run()
        finally:
            self._standby = None
            refusing.cancel()
            await asyncio.wait([refusing])

    async def _be_active(
        self, place: Place, store: LoggedStore, sockets: Sockets, keeper: Keeper, taken: Taken
    ) -> None:
        takeover_s = self._config.journal.takeover_ms / 1000
        appender = Appender(
            taken.connection, self._url, place, taken.epoch, taken.segment, store.landed
        )
        store.lead(appender, taken.epoch, taken.away_us, takeover_s)
        log.info(
            "active",
            name=self._config.queue_manager.name,
            member=self.name,
            epoch=taken.epoch,
            record=store.position.number,
            why=taken.why,
        )
        self._taken = taken
        try:
            daemon = self._daemon = self._new_daemon(place, store, sockets, keeper, appender)
            if self._is_stopped.is_set():
                daemon.stop()
            await daemon.run()
            with suppress(ServerAway, ServerUnusable):  # Then a standby waits a moment longer.
                await self._in_thread(lambda: step_down(self._url, place, taken.epoch, self.name))
        except Fenced as error:
            log.warning("another member is active", why=str(error))
        finally:
            self._daemon = None
            appender.close()
            store.resign()

    def _new_daemon(
        self, place: Place, store: LoggedStore, sockets: Sockets, keeper: Keeper, appender: Appender
    ) -> Daemon:
        wait_ms = self._config.journal.wait_ms

        async def prepare(member: str) -> dict[str, Any]:
            names = self.name, member
            next_one = await self._in_thread(lambda: name_next(self._url, place, *names))
            self._gives_way = True
            return next_one | {"epoch": self._facts(keeper)["epoch"]}

        state = JournalState(store, appender, wait_ms, lambda: self._facts(keeper), prepare)
        return Daemon(
            self._config,
            store,
            self._notifier,
            self._tls,
            self._token_keys,
            is_maintenance=self._is_maintenance,
            sockets=sockets,
            journal=state,
        )

    def _facts(self, keeper: Keeper) -> dict[str, Any]:
        assert self._taken is not None, "not active"
        assert self._durability is not None, "no place"
        return {
            "member": self.name,
            "why": self._taken.why,
            "epoch": self._taken.epoch,
            "since_us": self._taken.since_us,
            **self._durability._asdict(),
            **keeper.facts(),
        }

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, call)
