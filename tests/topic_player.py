"""Sends scripted requests of publishers, subscribers and operators, and shows the answers.

A name before a line, as in ``A: get``, is that of a subscriber. Its durable subscription to t/# has
the same name. ``~A: get`` comes from a subscriber whose subscription ends with its connection. A
line without a name comes from an operator or a publisher.
"""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from tests.qmgrd.core.harness import Client, Delivery, Manager, items, record
from tests.qmgrd.core.pubsub import PUBLICATIONS, faults, is_republished


class TopicPlayer:
    """A queue manager, an operator, and subscribers by name."""

    def __init__(self) -> None:
        self.manager = Manager()
        self.operator = self.manager.connect("operator")
        self._apps: dict[str, Client] = {}
        self._names: dict[str, str] = {}  # subscription names by subscriber
        self._given: set[str] = set()  # names of non-durable subscriptions
        self._held: dict[tuple[str, str], Delivery] = {}

    def __call__(self, line: str) -> str:
        who, *words = line.split()
        if not who.endswith(":"):
            who, words = "", [who, *words]
        verb, *rest = words
        try:
            said = [getattr(self, f"_{verb}")(*([who[:-1]] if who else []), *rest)]
        except RequestError as error:
            said = [str(error)]
        self.manager.rest()
        assert faults(self.manager) == []
        for name, app in self._apps.items():
            found = [x for y in app.hear() if type(y) is m.Deliver for x in items(y)]
            if found:
                said.append(f"{name} is sent {self._take(name, found)}")
        return "\n".join(said)

    def _take(self, who: str, found: list[Delivery]) -> str:
        said = []
        for one in found:
            self._held[who, one.body.decode()] = one
            mark = ", republished" if is_republished(one) else ""
            said.append(f"{one.body.decode()} (failed {one.failed}{mark})")
        return ", ".join(said) or "nothing"

    def _app(self, who: str) -> Client:
        if who not in self._apps:
            self._apps[who] = self.manager.connect(who)
        return self._apps[who]

    def _subscribe(self, who: str, limit: str = "") -> str:
        name = "" if who.startswith("~") else f"{who}:s"
        given: dict[str, Any] = {"redelivery_limit": int(limit)} if limit else {}
        row = self._app(who).ask(m.Subscribe, "t/#", name, "", given)
        self._names[who] = row["subscription"]
        if name:
            return f"has subscribed as {name}"
        is_new = row["subscription"] not in self._given
        self._given.add(row["subscription"])
        return f"has subscribed under {'a new' if is_new else 'an old'} name"

    def _end(self, who: str) -> str:
        count = self.operator.ask(m.Unsubscribe, self._names[who])["messages"]
        return f"the subscription ends, with {count} messages"

    def _publish(self, topic: str, *bodies: str) -> str:
        """Publishes a message. Words of the form key=value are options of the record."""
        given = dict(word.split("=") for word in bodies if "=" in word)
        fields: dict[str, Any] = {key: int(value) for key, value in given.items()}
        batch = [record(x.encode(), **fields) for x in bodies if "=" not in x]
        refused = self.operator.put_records(f"/{topic}", *batch)
        return "; ".join(f"{x.code.name}: {x.text}" for x in refused) or "published"

    def _get(self, who: str) -> str:
        return f"has {self._take(who, self._app(who).get(self._names[who], 100))}"

    def _consume(self, who: str) -> str:
        self._app(who).consume(self._names[who])
        return "a consumer is open"

    def _ack(self, who: str, *bodies: str) -> str:
        codes = self._app(who).ack(*(self._held.pop((who, body)) for body in bodies))
        return str(codes) if codes else "done"

    def _release(self, who: str, *bodies: str) -> str:
        codes = self._app(who).release(*(self._held.pop((who, body)) for body in bodies))
        return str(codes) if codes else "released"

    def _lost(self, who: str) -> str:
        self._apps.pop(who).hang_up()
        self.manager.turn()
        return "its connection is lost"

    def _parked(self) -> str:
        """Returns the republish queue: each publication with its list."""
        lists: dict[str, list[str]] = {}
        for row in self.operator.ask(m.RepublishList)["parked"]:
            back = ", awaits return" if row["awaits_return"] else ""
            who = row["subscription"].partition(":")[0] if ":" in row["subscription"] else "~"
            what = f"{row['topic']}, {row['bytes']} bytes"
            lists.setdefault(f"{row['uid'].rpartition('.')[2][-3:]} {what}", []).append(
                f"{who} (failed {row['failed']}, republished {row['republished']}{back})"
            )
        return "\n".join(f"{what}: {', '.join(who)}" for what, who in lists.items()) or "nothing"

    def _republish(self, *names: str) -> str:
        return self._job(False, names)

    def _drop(self, *names: str) -> str:
        return self._job(True, names)

    def _job(self, drop: bool, names: tuple[str, ...]) -> str:
        chosen = [self._names[name] for name in names]
        job = self.operator.ask(m.Republish, drop, b"", "", chosen)
        self.manager.rest()
        row = self.operator.ask(m.JobShow, job["job"])
        return f"{row['done']} done, {row['skipped']} skipped"

    def _stored(self) -> str:
        found = self.operator.browse(PUBLICATIONS)
        bodies = [records.decode(x.record).body.decode() for x in found]
        return ", ".join(bodies) or "nothing"

    def _pass(self, ms: str) -> str:
        self.manager.turn(int(ms))
        return f"{ms} ms pass"

    def _crash(self) -> str:
        self.manager.crash()
        self._apps.clear()
        self.operator = self.manager.connect("operator")
        return "the queue manager has restarted"
