"""Starts from damaged stores: ``python -m tests.poison.start --seeds 1000``.

    filled store ──one row damaged──▶ start ──▶ turns, hours ──▶ consumers of all ──▶ queue SAFE

A start must succeed. A turn may fail because of the queue manager's own work, but at most twice for
the same work, which is then set aside, as in the daemon. No request may cause a turn to fail. Queue
SAFE must accept and deliver messages throughout. The queue manager must list all items that were
set aside. The command prints one line for each fault, then a summary. It exits with 1 after any
fault.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgrd.core.limits.work import FAILURES_MAX, Failures
from qmgrd.core.turn import TurnFailed
from tests.memory_store import MemoryStore
from tests.poison.damage import Damage, damage
from tests.poison.filled import HOUR_MS, SAFE, filled, manager_of
from tests.qmgrd.core.harness import Client, Manager, record

TURNS_MAX = 3_000
READERS = [m.PHYSICAL, m.LOGICAL]
ASKED: list[tuple[Callable[..., m.Message], str, str]] = [
    (m.QueueList, "queues", "queue"),
    (m.LinkList, "links", "link"),
    (m.JobList, "jobs", "job"),
    (m.TemplateList, "templates", "pattern"),
    (m.TopicList, "topics", "topic"),
    (m.SubscriptionList, "subscriptions", "subscription"),
    (m.UserList, "users", "user"),
    (m.RoleList, "roles", "role"),
]


class Fault(Exception):
    """A violation of an invariant."""


class Trial:
    """A start from a damaged store, and the work after the start."""

    def __init__(self, seed: int, *, sets_aside: bool = True) -> None:
        self._rng = random.Random(seed)
        rows = dict(filled())
        self.damage: Damage = damage(rows, self._rng)
        self.store = MemoryStore()
        self.store.rows.update(rows)
        self._sets_aside = sets_aside
        self._failures = Failures()
        self.failed: list[TurnFailed] = []
        self.named: list[str] = []  # events in the log

    def run(self) -> None:
        """Raises Fault if the queue manager does not handle the damage."""
        self._start()
        self._serve()
        for _ in range(4):
            self._rest(HOUR_MS)
        self._ask_all()
        self._consume_all()
        self._rest(1_000)
        self._serve()
        self._manager.crash()
        self._note_start()
        self._rest(HOUR_MS)
        self._ask_all()
        self._serve()
        self._check_named()

    def _start(self) -> None:
        try:
            self._manager: Manager = manager_of(self.store)
        except Exception as error:
            raise Fault(f"start failed: {type(error).__name__}: {error}") from error
        self._note_start()

    def _note_start(self) -> None:
        self.named += [note.event for note in self._manager.turns.notes]

    def _turn(self, ms: int = 0) -> bool:
        """Runs a turn; returns whether it succeeded."""
        try:
            self._manager.turn(ms)
        except TurnFailed as failed:
            self._recover(failed)
            return False
        self.named += [note.event for note in self._manager.last.notes]
        return True

    def _recover(self, failed: TurnFailed) -> None:
        """Recovers from a failed turn like the daemon."""
        self.failed.append(failed)
        if failed.connection:
            raise Fault(f"a request made the turn fail: {failed}") from failed.__cause__
        if failed.work is None:
            raise Fault(f"a turn failed during unnamed work: {failed}") from failed.__cause__
        is_poisoned = self._failures.add(failed.work, 0)
        self._manager.crash()
        self._note_start()
        if is_poisoned and self._sets_aside:
            self._set_aside(failed)
        elif [one.work for one in self.failed].count(failed.work) > FAILURES_MAX:
            raise Fault(f"the same work fails repeatedly: {failed}") from failed.__cause__

    def _set_aside(self, failed: TurnFailed) -> None:
        assert failed.work is not None
        manager = self._manager
        try:
            done = manager.turns.set_aside(failed.work, failed.why, manager.now(), is_mark=False)
        except TurnFailed:
            manager.crash()
            done = manager.turns.set_aside(failed.work, failed.why, manager.now(), is_mark=True)
        self.named += [note.event for note in done.notes]

    def _rest(self, ms: int) -> None:
        self._turn(ms)
        for _ in range(TURNS_MAX):
            if not self._manager.turns.has_work:
                return
            self._turn(1)
        raise Fault("the queue manager never comes to rest")

    def _ask(self, kind: Callable[..., m.Message], *fields: Any) -> Any:
        """Returns the reply to a client, which may be a refusal."""
        for _ in range(30):
            client = self._manager.connect("asker")
            request_id = client.next_id()
            client.send(kind(request_id, *fields))
            for _ in range(TURNS_MAX):
                if not self._turn(1):
                    break  # This client has lost its connection, like all other clients.
                answers = [x for x in client.hear() if getattr(x, "request_id", 0) == request_id]
                if answers:
                    client.hang_up()
                    return answers[0]
        raise Fault(f"no answer to {kind.__name__}{fields}")

    def _value(self, kind: Callable[..., m.Message], *fields: Any) -> Any:
        answer = self._ask(kind, *fields)
        if type(answer) is not m.Ok:
            raise Fault(f"{kind.__name__}{fields} is answered with {answer}")
        return answer.value

    def _serve(self) -> None:
        """Puts a message on the safe queue, and gets it."""
        for _ in range(30):
            client = self._manager.connect("safe")
            try:
                if self._put_and_get(client):
                    return
            except TurnFailed as failed:
                self._recover(failed)
            except RequestError as error:
                raise Fault(f"queue {SAFE} is not served: {error}") from error
        raise Fault(f"queue {SAFE} is not served")

    def _put_and_get(self, client: Client) -> bool:
        if client._producer is None:
            client._producer = client.producer(b"the safe producer"[:16])
        refused = client.put_records(SAFE, record(b"new"))
        found = client.get(SAFE, 10)
        if refused or not found:
            raise Fault(f"queue {SAFE}: refused {refused}, got {len(found)}")
        client.ack(*found)
        client.hang_up()
        return True

    def _ask_all(self) -> None:
        """Lets an operator examine everything."""
        self._value(m.Status)
        for kind, plural, singular in ASKED:
            for row in self._value(kind)[plural]:
                if kind is m.QueueList:
                    self._ask(m.QueueShow, row[singular])
                    self._ask(m.Browse, row[singular], None, 1_000, 1 << 30)
                    self._ask(m.GroupList, row[singular])
                elif kind is m.JobList:
                    self._ask(m.JobShow, row[singular])
        for kind in (m.HistoryShow, m.HistoryRead, m.RepublishList):
            self._ask(kind, *([0] if kind is m.HistoryRead else []))

    def _consume_all(self) -> None:
        """Gets from each queue in each order; acknowledges, releases or rejects the messages."""
        names = [row["queue"] for row in self._value(m.QueueList)["queues"]]
        names += [row["subscription"] for row in self._value(m.SubscriptionList)["subscriptions"]]
        for name in names:
            if name == SAFE:
                continue
            for way in range(6):
                self._consume(name, way)

    def _consume(self, name: str, way: int) -> None:
        client = self._manager.connect("consumer")
        try:
            found = client.get(name, 3)
            if found:
                client.settle([m.ACK, m.RELEASE, m.REJECT][way % 3], *found)
            client.put_records(name, record(b"more"), record(b"g", group=(b"%024d" % 0, 9, False)))
        except RequestError:
            pass  # A refusal does not count as a fault.
        except TurnFailed as failed:
            self._recover(failed)
            return
        except AssertionError:
            pass  # The connection was closed.
        client.hang_up()
        self._turn()

    def _check_named(self) -> None:
        if not self.failed:
            return
        items = self._value(m.AsideList)["items"]
        if not items and "damaged messages set aside" not in self.named:
            raise Fault(f"turns failed, but no item set aside is reported: {self.failed[-1]}")


def run(seeds: range, *, is_loud: bool = True) -> tuple[int, Counter[str]]:
    """Runs all *seeds*; returns the number of faults, and the number of each other outcome."""
    faults, ends = 0, Counter[str]()
    for seed in seeds:
        trial = Trial(seed)
        try:
            trial.run()
        except Fault as fault:
            faults += 1
            if is_loud:
                key = trial.damage.key
                print(
                    f"FAULT seed {seed}: row {key.hex()} ({key!r}): {trial.damage.what}: {fault}",
                    flush=True,
                )
        else:
            was_named = "set aside" in trial.named
            ends["turns failed" if trial.failed else "set aside" if was_named else "unnoticed"] += 1
    return faults, ends


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    faults, ends = run(range(options.first, options.first + options.seeds))
    shown = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
    print(
        f"poison: seeds={options.seeds} ({shown}) faults={faults} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
