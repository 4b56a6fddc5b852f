"""Tests of the queues that the queue manager itself needs."""

from collections.abc import Callable

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.access.login import OPEN
from qmgrd.core.catalogue.system import ATTRIBUTES, AUDIT, DEAD_LETTERS, EVENTS, PUBLICATIONS
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record

USES: list[Callable[[Client, str], object]] = [
    lambda app, name: app.put_records(name, record(b"x")),
    lambda app, name: app.get(name),
    lambda app, name: app.show(name),
    lambda app, name: app.bodies(name),
    lambda app, name: app.ask(m.QueueAlter, name, {"lease_ms": 1_000}),
    lambda app, name: app.ask(m.QueueCreate, name),
]


@pytest.mark.parametrize("name", [DEAD_LETTERS, EVENTS])
@pytest.mark.parametrize("use", USES)
def test_system_queue_is_created_by_any_use(
    name: str, use: Callable[[Client, str], object]
) -> None:
    app = Manager().connect()
    assert app.ask(m.QueueList)["queues"] == []
    use(app, name)
    row = app.show(name)
    assert row["kind"] == "local"
    assert ATTRIBUTES[name].items() <= row.items()
    app.manager.crash()
    assert name in [row["queue"] for row in app.manager.connect().ask(m.QueueList)["queues"]]


def test_events_make_room_for_newer_ones_and_dead_letters_do_not(app: Client) -> None:
    assert app.show(EVENTS)["overflow"] == "discard-oldest"
    assert app.show(EVENTS)["given"] == ["depth_max", "overflow"]
    assert (app.show(DEAD_LETTERS)["overflow"], app.show(DEAD_LETTERS)["given"]) == ("refuse", [])


def test_system_queues_come_beyond_the_limit_and_take_no_room() -> None:
    app = Manager(limits={"queues_max": 2}).connect()
    app.get(DEAD_LETTERS)
    app.ask(m.QueueCreate, "A")
    app.ask(m.QueueCreate, "B")
    app.get(EVENTS)
    with pytest.raises(RequestError, match=r"2 queues exist \(the limit is 2\)") as caught:
        app.ask(m.QueueCreate, "C")
    assert caught.value.code is ErrorCode.QUEUES_EXHAUSTED


def test_default_of_a_system_queue_is_the_one_it_was_made_with(app: Client) -> None:
    app.ask(m.QueueAlter, EVENTS, {"depth_max": 7, "overflow": "refuse", "lease_ms": 9_000})
    app.ask(m.QueueAlter, EVENTS, {"depth_max": None, "overflow": None, "lease_ms": None})
    row = app.ask(m.QueueShow, EVENTS)
    assert (row["depth_max"], row["overflow"]) == (10_000, "discard-oldest")
    assert row["lease_ms"] == app.ask(m.QueueShow, DEAD_LETTERS)["lease_ms"]


@pytest.mark.parametrize("use", [*USES[2:4], USES[5]])
def test_queue_of_publications_is_created_on_demand(use: Callable[[Client, str], object]) -> None:
    """Clients neither put to this queue nor get from it (see test_publications.py)."""
    app = Manager().connect()
    use(app, PUBLICATIONS)
    row = app.show(PUBLICATIONS)
    assert row["kind"] == "publications"
    assert ATTRIBUTES[PUBLICATIONS].items() <= row.items()


@pytest.mark.parametrize("name", [DEAD_LETTERS, EVENTS])
def test_system_queue_is_altered_and_purged_but_not_deleted(
    store: AnyStore, app: Client, name: str
) -> None:
    app.manager.fill(name, record(b"x"))
    app.ask(m.QueueAlter, name, {"depth_max": 7})
    for purge in (False, True):
        with pytest.raises(RequestError, match=f"{name} cannot be deleted because") as caught:
            app.ask(m.QueueDelete, name, purge)
        assert caught.value.code is ErrorCode.QUEUE_IS_SYSTEM
    app.manager.crash()
    app = app.manager.connect()
    assert app.show(name)["depth_max"] == 7
    assert app.ask(m.QueuePurge, name)["messages"] == 1


@pytest.mark.parametrize("name", ["SYSTEM.MINE", "SYSTEM.", "SYSTEM.DEAD.LETTERS.1"])
def test_prefix_is_reserved(app: Client, name: str) -> None:
    for given in ({}, {"alias_of": "Q"}):
        with pytest.raises(RequestError, match="are reserved for the queue manager") as c:
            app.ask(m.QueueCreate, name, given)
        assert c.value.code is ErrorCode.NAME_INVALID
    assert app.code_of(m.QueueShow, name) is ErrorCode.QUEUE_UNKNOWN


def test_system_queue_elsewhere_may_have_a_remote_queue_and_an_alias(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    assert app.ask(m.QueueCreate, f"{DEAD_LETTERS}@NYC")["kind"] == "remote"
    app.ask(m.QueueCreate, "DLQ", {"alias_of": DEAD_LETTERS})
    app.manager.fill(DEAD_LETTERS, record(b"x"))
    assert app.bodies("DLQ") == [b"x"]


def lead_to(app: Client, name: str) -> list[str]:
    """Returns names through which a client may try to put to the system queue *name*."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": name})
    app.ask(m.QueueCreate, f"{name}@NYC")
    app.ask(m.QueueCreate, "FAR", {"alias_of": f"{name}@NYC"})
    return [name, "ALIAS", f"{name}@NYC", "FAR"]


@pytest.mark.parametrize("name", [DEAD_LETTERS, EVENTS, AUDIT])
def test_clients_cannot_put_to_system_queues_by_any_name(app: Client, name: str) -> None:
    ways = lead_to(app, name)
    app.ask(m.UnitBegin, 1)
    for way in ways:
        (refused,) = app.put_records(way, record(b"x"))
        assert refused.code is ErrorCode.QUEUE_IS_SYSTEM
        assert "accepts messages only from the queue manager" in refused.text
        assert app.code_of(m.UnitPut, 1, way, [record(b"x")]) is ErrorCode.QUEUE_IS_SYSTEM
    assert app.bodies(name) == app.bodies("@NYC") == []


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", [DEAD_LETTERS, EVENTS, AUDIT])
def test_no_job_brings_messages_to_a_system_queue(app: Client, name: str, copy: bool) -> None:
    app.put("Q", b"x")
    for way in lead_to(app, name)[:2]:
        move = (m.QueueMove, "Q", way, "", 0, 0, copy, 0)
        assert app.code_of(*move) is ErrorCode.QUEUE_IS_SYSTEM


@pytest.mark.parametrize("name", [EVENTS, PUBLICATIONS, AUDIT])
def test_system_queue_is_no_backout_queue(app: Client, name: str) -> None:
    given = {"backout_queue": name}
    assert app.code_of(m.QueueAlter, "Q", given) is ErrorCode.VALUE_INVALID
    assert app.code_of(m.TemplateSet, "A.*", given) is ErrorCode.VALUE_INVALID
    app.ask(m.QueueAlter, "Q", {"backout_queue": DEAD_LETTERS})


def test_backout_queue_that_leads_to_a_system_queue_is_passed_over(app: Client) -> None:
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": EVENTS})
    app.ask(m.QueueAlter, "Q", {"backout_queue": "ALIAS", "backout_threshold": 1})
    app.put("Q", b"x")
    app.release(*app.get("Q"))
    assert app.bodies(DEAD_LETTERS) == [b"x"]


def test_link_is_not_blocked_by_a_message_for_a_system_queue(app: Client) -> None:
    """A retry could never succeed, so the message becomes a dead letter immediately."""
    far = Far(app.manager)
    far.open()
    far.send(1, record(b"x", uid=("FAR", 1)), queue=EVENTS)
    assert far.committed() == [1]
    (letter,) = app.browse(DEAD_LETTERS)
    assert letter.body == b"x"
    assert b"x" not in app.bodies(EVENTS)


def test_system_queue_is_no_alias(app: Client) -> None:
    assert app.code_of(m.QueueCreate, DEAD_LETTERS, {"alias_of": "Q"}) is ErrorCode.QUEUE_EXISTS


# -- the table of docs/security.md: the requests that each system queue allows. Nobody may do more,
# neither an administrator, nor anybody while no user exists.

DEEDS: dict[str, Callable[[Client, str], object]] = {
    "put": lambda app, name: app.put_records(name, record(b"x")),
    "get": lambda app, name: app.get(name),
    "consume": lambda app, name: app.ask(m.Consume, name, 1, 1_000),
    "browse": lambda app, name: app.ask(m.Browse, name),
    "purge": lambda app, name: app.ask(m.QueuePurge, name),
    "move": lambda app, name: app.ask(m.QueueMove, name, "Q"),
    "copy": lambda app, name: app.ask(m.QueueMove, name, "Q", "", 0, 0, True),
    "move to": lambda app, name: app.ask(m.QueueMove, "Q", name),
    "alter": lambda app, name: app.ask(m.QueueAlter, name, {"depth_max": 7}),
    "delete": lambda app, name: app.ask(m.QueueDelete, name, True),
}
ALLOWED = {
    DEAD_LETTERS: ("get", "consume", "browse", "purge", "move", "copy", "alter"),
    EVENTS: ("get", "consume", "browse", "purge", "move", "copy", "alter"),
    PUBLICATIONS: ("browse", "alter"),
    AUDIT: ("browse", "copy"),
}
REFUSALS = {
    ErrorCode.QUEUE_IS_SYSTEM,
    ErrorCode.QUEUE_IS_TRANSMISSION,
    ErrorCode.QUEUE_IS_SUBSCRIPTION,
}
CELLS = [(name, deed) for name in ALLOWED for deed in DEEDS]


def test_table_covers_each_system_queue() -> None:
    assert list(ALLOWED) == list(ATTRIBUTES)


@pytest.mark.parametrize("who", ["open", "owner", "administrator"])
@pytest.mark.parametrize("through", ["its name", "an alias"])
@pytest.mark.parametrize(("name", "deed"), CELLS)
def test_cell_of_the_table_of_system_queues(name: str, deed: str, through: str, who: str) -> None:
    manager = Manager(audit={"record": "always"})
    owner = manager.connect("owner")
    owner.ask(m.QueueCreate, "Q")
    owner.ask(m.QueueShow, name)
    if name != PUBLICATIONS:
        manager.fill(name, record(b"1"))
    if through == "an alias":
        if deed in ("alter", "delete"):
            return  # These requests change the alias itself.
        owner.ask(m.QueueCreate, "ALIAS", {"alias_of": name})
    if who == "open":
        app = manager.connect("app", identity=OPEN)
    else:
        guarded = Guarded(manager)
        app = guarded.owner if who == "owner" else manager.connect("console", user="admin")
    assert is_allowed(app, deed, "ALIAS" if through == "an alias" else name) is (
        deed in ALLOWED[name]
    )


def is_allowed(app: Client, deed: str, name: str) -> bool:
    """Returns whether the request succeeds. Its error must state why the queue is special."""
    try:
        refused = DEEDS[deed](app, name)
    except RequestError as error:
        if error.code not in REFUSALS:
            raise
        return False
    return deed != "put" or not refused


@pytest.mark.parametrize("pattern", ["SYSTEM.*", "SYSTEM.AUDIT"])
def test_template_does_not_change_the_audit(pattern: str) -> None:
    manager = Manager()
    owner = Guarded(manager).owner
    owner.ask(m.TemplateSet, pattern, {"depth_max": 1, "expiry_max_ms": 1, "overflow": "refuse"})
    for again in (False, True):
        if again:
            manager.restart()
            owner = manager.connect("owner")
        row = owner.show(AUDIT)
        assert (row["template"], row["overflow"], row["expiry_max_ms"]) == (
            None,
            "discard-oldest",
            0,
        )
        assert row["depth_max"] > 1


def test_defaults_of_queues_do_not_change_the_audit() -> None:
    defaults = {"accounting": "on", "bytes_max": 1_024}
    manager = Manager(queue_defaults=defaults, audit={"bytes_max": 65_536})
    row = Guarded(manager).owner.show(AUDIT)
    assert (row["accounting"], row["bytes_max"]) == ("off", 65_536)
