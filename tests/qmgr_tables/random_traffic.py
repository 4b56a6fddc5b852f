"""A queue manager with random operations on its queues, for the tests of message streams."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from qmgr_client.blocking import Client, connect
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing
from qmgr_tables.stream.queue_feed import arrival_of
from tests.qmgr_client.served import Server

QUEUES = ("A", "B", "FAILS")
DAY_MS = 86_400_000
UNITS_MAX = 3


class RandomTraffic:
    """A daemon, and an application that puts, gets, fails, commits late, and restarts it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._random = Random(seed)
        self._groups: list[tuple[bytes, int]] = []
        self._ways: tuple[Callable[[], object], ...] = (
            self._put,
            self._put,
            self._put,
            self._put_many,
            self._get,
            self._get,
            self._get,
            self._settle,
            self._begin,
            self._in_unit,
            self._in_unit,
            self._end,
            self._move,
        )
        self._start()
        for queue in QUEUES:
            self.client.admin.queue_create(queue, backout_threshold=2 if queue == "FAILS" else None)

    def _start(self) -> None:
        self._open = ExitStack()
        server = self._open.enter_context(Server(self._directory))
        self.client: Client = self._open.enter_context(connect(server.address))
        self._held: list[Message] = []
        self._units: list[tuple[ExitStack, UnitOfWork]] = []

    def close(self) -> None:
        """Ends like a killed application. The daemon backs out open units."""
        self.client.close(0)
        self._open.close()

    def restart(self) -> None:
        """Restarts the daemon cleanly. The daemon backs out open units."""
        self.close()
        self._start()

    def go_on(self, count: int) -> None:
        """Performs *count* random operations."""
        for _ in range(count):
            self._random.choice(self._ways)()

    def come_to_rest(self) -> None:
        """Commits the open units."""
        while self._units:
            self._units.pop()[1].commit()

    def there(self) -> set[tuple[str, int]]:
        """Returns the queue and arrival of each present message, including delayed messages."""
        found = set()
        for row in self.client.admin.queue_list():
            after: int | None = 0
            while row["kind"] == "local" and after is not None:
                page = self.client.admin.browse_arrivals(row["queue"], after)
                found |= {(row["queue"], arrival_of(item)) for item in page["items"]}
                after = page["next"] and page["next"][1]
        return found

    def _message(self) -> Outgoing:
        chance = self._random
        group = None
        if chance.random() < 0.2:
            if not self._groups or chance.random() < 0.3:
                self._groups.append((self.client.new_group_id(), 0))
            at = chance.randrange(len(self._groups))
            group_id, number = self._groups[at]
            self._groups[at] = group_id, number + 1
            group = group_id, number + 1, False
        return Outgoing(
            chance.randbytes(chance.choice([0, 10, 3_000])),
            priority=chance.randrange(10),
            delay_ms=chance.choice([0, 0, 0, 1, 5, DAY_MS]),
            expiry_ms=chance.choice([0, 0, 0, 0, 5, DAY_MS]),
            persistent=chance.random() < 0.9,
            group=group,
        )

    def _put(self) -> None:
        self._put_several(1)

    def _put_many(self) -> None:
        self._put_several(self._random.randrange(2, 30))

    def _put_several(self, count: int) -> None:
        found = self.client.put_many(self._queue(), [self._message() for _ in range(count)])
        assert not [one for one in found if isinstance(one, Exception)]

    def _get(self) -> None:
        self._held += self.client.get_many(self._queue(), self._random.randrange(1, 8))

    def _settle(self) -> None:
        """Settles about half of the leased messages."""
        chance = self._random
        held, self._held = self._held, []
        for message in held:
            way = chance.randrange(8)
            if way < 3:
                self.client.ack(message)
            elif way < 5:
                self.client.release(message, chance.choice([None, 0, 2, DAY_MS]))
            elif way == 5:
                self.client.reject(message, "unwanted")
            else:
                self._held.append(message)

    def _begin(self) -> None:
        if len(self._units) < UNITS_MAX:
            stack = ExitStack()
            self._units.append((stack, stack.enter_context(self.client.unit_of_work())))

    def _in_unit(self) -> None:
        if not self._units:
            return
        _, unit = self._random.choice(self._units)
        if self._random.random() < 0.7:
            unit.put_many(self._queue(), [self._message() for _ in range(3)])
        elif self._held:
            unit.ack(self._held.pop())

    def _end(self) -> None:
        if self._units:
            _, unit = self._units.pop(self._random.randrange(len(self._units)))
            if self._random.random() < 0.6:
                unit.commit()
            else:
                unit.backout()

    def _move(self) -> None:
        if self._random.random() < 0.3:
            self.client.admin.queue_move("A", "B", messages_max=5)

    def _queue(self) -> str:
        return self._random.choice(QUEUES)
