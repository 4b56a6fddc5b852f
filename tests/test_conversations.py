"""Replays all conversations. After an intended change, run pytest --rewrite and read the diff.

A conversation is a file of blocks. A block has optional comments, then input lines, a line of
dashes, and the answers. The name of the folder selects the player that answers.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RemoteProtocolError, RequestError
from qmgr_protocol.window import Inbox, Outbox
from tests.group_player import GroupPlayer
from tests.qmgr_client.handle_players import GroupGetPlayer, GroupPutPlayer
from tests.qmgrd.core.harness import Delivery, Manager, items, record
from tests.topic_player import TopicPlayer

HERE = Path(__file__).parent / "conversations"
Player = Callable[[str], str]  # The function returns the answer to an input line.


class WindowPlayer:
    """Both ends of a stream, and their stores."""

    def __init__(self) -> None:
        self.outbox = Outbox(window=4)
        self.inbox = Inbox(window=4)

    def __call__(self, line: str) -> str:
        verb, *words = line.split()
        try:
            said = getattr(self, f"_{verb}")(*map(int, words))
        except RemoteProtocolError as error:
            said = f"{error.code.name}: {error}"
        return f"{said}\n{self._shown()}" if said else self._shown()

    def _shown(self) -> str:
        sender, receiver = self.outbox, self.inbox
        return (
            f"sender   commit={sender.commit_id} sent={sender.sent_id} next={sender.next_id}\n"
            f"receiver commit={receiver.commit_id} ahead={sorted(receiver.ahead)}"
        )

    def _window(self, messages: int) -> str:
        self.outbox.window = self.inbox.window = messages
        return ""

    def _put(self, count: int) -> str:
        return f"first id {self.outbox.assign(count)}"

    def _send(self, count: int) -> str:
        return f"sends {_ids(self.outbox.take(count))}"

    def _receive(self, *ids: int) -> str:
        new = [seq_id for seq_id in ids if self.inbox.receive(seq_id)]
        return f"new {_ids(new)}"

    def _batch(self, first_id: int, count: int) -> str:
        """Receives a frame. The receiver checks the whole frame before it stores any part."""
        missing = self.inbox.missing(first_id, count)
        self.inbox.check(first_id + count - 1)
        if missing:
            self.inbox.receive_all(missing)
        return f"new {_ids(missing)}"

    def _commit(self, commit_id: int) -> str:
        return f"deletes {_ids(self.outbox.commit(commit_id))}"

    def _hello(self) -> str:
        """Opens a new connection, which resumes at the receiver's commit id."""
        return f"deletes {_ids(self.outbox.resume(self.inbox.commit_id))}"

    def _restart(self) -> str:
        """Restarts both ends from their stores."""
        sender, receiver = self.outbox, self.inbox
        self.outbox = Outbox(sender.window, sender.commit_id, sender.next_id)
        self.inbox = Inbox(receiver.window, receiver.commit_id, set(receiver.ahead))
        return ""

    def _sender(self, commit_id: int, next_id: int) -> str:
        self.outbox = Outbox(self.outbox.window, commit_id, next_id)
        return ""

    def _receiver(self, commit_id: int) -> str:
        self.inbox = Inbox(self.inbox.window, commit_id)
        return ""


class QueuePlayer:
    """A queue manager with the queue Q, its operator, and an application that puts and gets.

    An answer ends with all other messages that the application received.
    """

    def __init__(self) -> None:
        self.manager = Manager(queue_defaults={"lease_ms": 1_000})
        self.operator, self.app = self.manager.connect("operator"), self.manager.connect("app")
        self.operator.ask(m.QueueCreate, "Q")
        self._held: dict[str, Delivery] = {}  # leased messages by body

    def __call__(self, line: str) -> str:
        verb, *words = line.split()
        try:
            said = [getattr(self, f"_{verb}")(*words)]
        except RequestError as error:
            said = [str(error)]
        self.manager.rest()
        for message in self.app.hear():
            if type(message) is m.Deliver:
                said.append(f"delivered {self._take(items(message))}")
            elif type(message) is m.Error:
                said.append(f"its get ends: {message.text}")
        return "\n".join(said)

    def _take(self, found: list[Delivery]) -> str:
        bodies = [x.body.decode() for x in found]
        self._held |= dict(zip(bodies, found, strict=True))
        return " ".join(bodies) or "nothing"

    def _alter(self, *words: str) -> str:
        """Alters attributes given as name=value. An empty value restores the default."""
        pairs = (word.split("=") for word in words)
        values = {"true": True, "false": False, "": None}
        changes = {key: values[x] if x in values else int(x) for key, x in pairs}
        changed = self.operator.ask(m.QueueAlter, "Q", changes)["changed"]
        return "; ".join(f"{k} {a} -> {b}" for k, (a, b) in changed.items()) or "no change"

    def _put(self, *bodies: str) -> str:
        refused = self.app.put_records("Q", *(record(body.encode()) for body in bodies))
        return "; ".join(f"{x.code.name}: {x.text}" for x in refused) or "stored"

    def _get(self) -> str:
        return f"got {self._take(self.app.get('Q'))}"

    def _wait(self) -> str:
        self.app.send(m.Get(self.app.next_id(), "Q", 1, 60_000))
        return "waits"

    def _consume(self) -> str:
        self.app.consume("Q")
        return "a consumer is open"

    def _ack(self, body: str) -> str:
        return f"{self.app.ack(self._held[body]) or 'done'}"

    def _release(self, body: str) -> str:
        return f"{self.app.release(self._held[body]) or 'done'}"

    def _browse(self) -> str:
        return " ".join(body.decode() for body in self.operator.bodies("Q")) or "nothing"

    def _pass(self, ms: str) -> str:
        self.manager.turn(int(ms))
        return f"{ms} ms pass"

    def _crash(self) -> str:
        self.manager.crash()
        self.operator, self.app = self.manager.connect("operator"), self.manager.connect("app")
        return "the queue manager has restarted"


def _ids(ids: Sequence[int]) -> str:
    if len(ids) > 10 and ids[-1] - ids[0] == len(ids) - 1:
        return f"{ids[0]} to {ids[-1]}"
    return " ".join(map(str, ids)) or "nothing"


PLAYERS: dict[str, Callable[[], Player]] = {
    "group": GroupPlayer,
    "group_get": GroupGetPlayer,
    "group_put": GroupPutPlayer,
    "queue": QueuePlayer,
    "topic": TopicPlayer,
    "window": WindowPlayer,
}


def replay(text: str, player: Player) -> str:
    """Returns *text* with the answers of *player*."""
    blocks = []
    for block in text.strip().split("\n\n"):
        said = block.split("\n----")[0]
        answers = [player(line) for line in said.splitlines() if not line.startswith("#")]
        blocks.append("\n----\n".join([said, *answers[-1:]]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize(
    "path", sorted(HERE.glob("*/*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_conversation(path: Path, request: pytest.FixtureRequest) -> None:
    text = replay(path.read_text(), PLAYERS[path.parent.name]())
    if request.config.getoption("rewrite", default=False):
        path.write_text(text)
    assert path.read_text() == text


def test_conversation_with_another_answer_is_noticed() -> None:
    text = "put 1\n----\nfirst id 2\n"
    assert replay(text, WindowPlayer()) != text
