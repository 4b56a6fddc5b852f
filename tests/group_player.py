"""Sends scripted requests of applications that use groups, and shows the manager's answers.

A1 A2! m1 A3@9      members 1 and 2 of group A, of which 2 is the last; a message without a group;
                    member 3 with priority 9
"""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError, name_of
from tests.qmgrd.core.harness import Client, Delivery, Manager, items, record

Words = tuple[str, ...]


def group_id(letter: str) -> bytes:
    """Returns the id of the group with that name."""
    return letter.encode().ljust(24, b"\0")


def member(word: str) -> bytes:
    """Returns the record of the message that *word* denotes."""
    name, _, priority = word.partition("@")
    body = name.rstrip("!~")
    fields: dict[str, Any] = {}
    if priority:
        fields["priority"] = int(priority)
    if "~" in name:
        fields["delay_ms"] = 1_000
    if body[0].isupper():
        fields["group"] = (group_id(body[0]), int(body[1:]), "!" in name)
    return record(body.encode(), correlation_id=f"c{body}".encode(), **fields)


class GroupPlayer:
    """A queue manager with queue Q, an operator, and applications by name.

    A line may begin with the name of the application that sends it. The default is app.
    """

    def __init__(self) -> None:
        self.manager = Manager(queue_defaults={"lease_ms": 60_000})
        self.operator = self.manager.connect("operator")
        self.operator.ask(m.QueueCreate, "Q", {"backout_threshold": 2})
        self._apps: dict[str, Client] = {}
        self._held: dict[str, Delivery] = {}  # leased messages by body
        self._gets: dict[tuple[str, int], str] = {}  # the application name of each waiting get
        self._units: dict[str, int] = {}

    def __call__(self, line: str) -> str:
        name, *words = line.split()
        if not name.endswith(":"):
            name, words = "app:", [name, *words]
        verb, *rest = words
        app = self.app(name[:-1])
        try:
            said = [getattr(self, f"_{verb}")(app, *rest)]
        except RequestError as error:
            said = [str(error)]
        self.manager.rest()
        said += [x for who in list(self._apps) for x in self._heard(who)]
        return "\n".join(x for x in said if x)

    def app(self, name: str) -> Client:
        """Returns the application with that name, and connects it at its first use."""
        if name not in self._apps:
            self._apps[name] = self.manager.connect(name)
        return self._apps[name]

    def _heard(self, who: str) -> list[str]:
        said = []
        for message in self._apps[who].hear():
            prefix = "" if who == "app" else f"{who} "
            if type(message) is m.Deliver:
                said.append(f"{prefix}has {self._take(items(message))}")
            elif type(message) is m.Ok:
                said.append(f"{prefix}received no message")
            elif type(message) is m.Error:
                said.append(f"{prefix}{name_of(message.code)}: {message.text}")
        return said

    def _take(self, found: list[Delivery]) -> str:
        bodies = [x.body.decode() for x in found]
        self._held |= dict(zip(bodies, found, strict=True))
        taken = ["+" if x.state & m.STATE_TAKEN_OVER else "" for x in found]
        return " ".join(f"{mark}{body}" for mark, body in zip(taken, bodies, strict=True)) or "none"

    def _put(self, app: Client, *words: str) -> str:
        refused = app.put_records("Q", *(member(word) for word in words))
        return "; ".join(f"{x.code.name}: {x.text}" for x in refused) or "stored"

    def _get(self, app: Client, *words: str) -> str:
        """Gets messages. Options: physical, all, reader=1, wait=1000, count=2, group=A, body=A1."""
        given = _given(words)
        request_id = app.next_id()
        wait_ms = int(given.get("wait", 0))
        app.send(
            m.Get(
                request_id,
                "Q",
                int(given.get("count", 1)),
                wait_ms,
                correlation_id=f"c{given['body']}".encode() if "body" in given else b"",
                group_id=group_id(given["group"]) if "group" in given else b"",
                where=given.get("where", ""),
                order=m.PHYSICAL if "physical" in given else m.LOGICAL,
                all_available="all" in given,
                number=int(given.get("number", 0)),
                reader=int(given.get("reader", 1)),
            )
        )
        if wait_ms:
            return "asks"
        answer = app._wait(
            lambda x: type(x) in (m.Deliver, m.Ok, m.Error) and x.request_id == request_id
        )
        if type(answer) is m.Error:
            return f"{name_of(answer.code)}: {answer.text}"
        return f"has {self._take(items(answer) if type(answer) is m.Deliver else [])}"

    def _consume(self, app: Client, *words: str) -> str:
        """Opens a consumer. Options: physical, logical or pinned, all, credit=2."""
        given = _given(words)
        order = m.PINNED if "pinned" in given else m.LOGICAL
        order = m.PHYSICAL if "physical" in given else order
        request_id = app.next_id()
        app.send(
            m.Consume(
                request_id,
                "Q",
                int(given.get("credit", 100)),
                1 << 30,
                where=given.get("where", ""),
                order=order,
                all_available="all" in given,
            )
        )
        app.answer(request_id)
        self._consumer = request_id
        return "a consumer is open"

    def _credit(self, app: Client, count: str) -> str:
        app.send(m.Credit(self._consumer, int(count), 0))
        return "has credit"

    def _cancel(self, app: Client) -> str:
        app.send(m.Cancel(self._consumer))
        return "cancelled"

    def _settle(self, app: Client, action: int, *bodies: str) -> str:
        codes = app.settle(action, *(self._held[body] for body in bodies))
        return " ".join(map(name_of, codes)) or "done"

    def _ack(self, app: Client, *bodies: str) -> str:
        return self._settle(app, m.ACK, *bodies)

    def _release(self, app: Client, *bodies: str) -> str:
        return self._settle(app, m.RELEASE, *bodies)

    def _return(self, app: Client, *bodies: str) -> str:
        return self._settle(app, m.RETURN, *bodies)

    def _reject(self, app: Client, *bodies: str) -> str:
        return self._settle(app, m.REJECT, *bodies)

    def _close(self, app: Client, reader: str = "1") -> str:
        app.ask(m.ReaderClose, int(reader))
        return "closed"

    def _begin(self, app: Client, unit: str) -> str:
        app.ask(m.UnitBegin, int(unit))
        return "begun"

    def _unit(self, app: Client, unit: str, verb: str, *words: str) -> str:
        if verb == "put":
            refused, _ = app.ask(m.UnitPut, int(unit), "Q", [member(word) for word in words])
            return "; ".join(f"{name_of(code)}: {text}" for _, code, text in refused) or "in it"
        settle_id = app.next_id()
        handles = b"".join(self._held[body].handle for body in words)
        queue_id = self._held[words[0]].queue_id
        app.send(m.Settle(settle_id, m.ACK, queue_id, handles, int(unit)))
        answer = app._wait(lambda x: type(x) is m.Settled and x.settle_id >= settle_id)
        return " ".join(name_of(code) for _, _, code in answer.exceptions) or "in it"

    def _backout(self, app: Client, unit: str) -> str:
        puts, gets = app.ask(m.UnitBackout, int(unit))
        return f"{puts} puts and {gets} gets undone"

    def _commit(self, app: Client, unit: str) -> str:
        if app._producer is None:
            app._producer = app.producer()
        producer, open_ = app._producer, self._session(app).units[int(unit)]
        seq_id, producer.next_id = producer.next_id, producer.next_id + 1
        app.send(m.UnitCommit(producer.stream, seq_id, 0, int(unit), len(open_.puts), open_.gets))
        refused = producer.answer()
        return "; ".join(f"{x.code.name}: {x.text}" for x in refused) or "committed"

    def _session(self, app: Client) -> Any:
        return self.manager.turns.broker.sessions[app.peer.number]

    def _lost(self, app: Client) -> str:
        app.hang_up()
        for name, known in list(self._apps.items()):
            if known is app:
                del self._apps[name]
        self.manager.turn()
        return "its connection is lost"

    def _browse(self, app: Client, *words: str) -> str:
        given = _given(words)
        order = m.PHYSICAL if "physical" in given else m.LOGICAL
        after, found = None, []
        page = int(given.get("page", 100))
        while True:
            value = app.ask(
                m.Browse, "Q", after, page, 1 << 30, "", b"", b"", b"", False, order, "all" in given
            )
            found += [
                records.decode(
                    x[m.DELIVERY_BYTES :][: records.size_of(x[m.DELIVERY_BYTES :])]
                ).body.decode()
                for x in value["items"]
            ]
            after = value["next"]
            if after is None:
                return " ".join(found) or "nothing"

    def _groups(self, app: Client, *words: str) -> str:
        value = app.ask(m.GroupList, "Q", b"", 100, "incomplete" in words)
        return (
            "\n".join(
                f"{bytes.fromhex(x['group'])[:1].decode()} {x['state']}: {x['count']} stored, "
                f"{x['leased']} leased, next {x['next']}{'' if x['next_is_here'] else ' missing'}, "
                f"last {x['last'] or '?'}"
                for x in value["groups"]
            )
            or "no groups"
        )

    def _alter(self, app: Client, letter: str, action: str, *words: str) -> str:
        del app
        given = _given(words)
        connection = self.app(given["to"]).peer.number if "to" in given else 0
        row = self.operator.ask(
            m.GroupAlter, "Q", group_id(letter), action, int(given.get("number", 0)), connection
        )
        return f"{row['state']}, next {row['next']}"

    def _move(self, app: Client, *words: str) -> str:
        app.ask(m.QueueMove, *words)
        return "moved"

    def _dead(self, app: Client) -> str:
        found = app.browse("SYSTEM.DEAD.LETTERS")
        return " ".join(x.body.decode() for x in found) or "nothing"

    def _pass(self, app: Client, ms: str) -> str:
        del app
        self.manager.turn(int(ms))
        return f"{ms} ms pass"

    def _restart(self, app: Client) -> str:
        del app
        self.manager.restart()
        return self._reconnected()

    def _crash(self, app: Client) -> str:
        del app
        self.manager.crash()
        return self._reconnected()

    def _reconnected(self) -> str:
        self._apps.clear()
        self.operator = self.manager.connect("operator")
        return "the queue manager has restarted"


def _given(words: Words) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}
