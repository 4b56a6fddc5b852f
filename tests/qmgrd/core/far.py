"""A simulated peer with a link to the tested manager. Tests choose the numbers of its puts."""

from typing import Any

from qmgr_protocol import messages as m
from tests.qmgrd.core.harness import Client, Manager, record

FAR_STORE = b"F" * 16
STREAM = FAR_STORE + (1).to_bytes(8, "big")


class Far:
    """A queue manager that has a link to the tested one."""

    def __init__(
        self, manager: Manager, name: str = "FAR", store_id: bytes = FAR_STORE, *, user: str = ""
    ) -> None:
        self.client: Client = manager.connect(name, "queue-manager", store_id, user=user)
        self.manager = manager
        self.stream = 0

    def open(
        self, stream_id: bytes = STREAM, life: bytes = b"", path: int = 0, *, ordered: bool = False
    ) -> list[object]:
        """Opens the stream; returns the state that the manager reports for it."""
        value = self.client.ask(m.LinkOpen, stream_id, 1, 100, life, path, ordered)
        self.stream, self.incarnation = int(value[0]), int(value[5])
        found: list[object] = value[1:5]
        return found

    def send(self, first_id: int, *batch: bytes, queue: str = "Q") -> list[Any]:
        return self.client.say(m.Put(self.stream, first_id, 0, queue, list(batch)))

    def committed(self) -> list[int]:
        """Lets the commit interval pass; returns the commit ids that arrived."""
        self.manager.turn(self.manager.config.link.commit_interval_ms)
        return [x.commit_id for x in self.client.hear() if type(x) is m.Committed]


def message(seq_id: int) -> bytes:
    return record(b"%d" % seq_id, uid=("FAR", seq_id))
