from typing import Any

from qmgr_tools.manager.definitions import Definitions
from qmgr_tools.manager.plan import conflicts, prunings, steps
from qmgr_tools.manager.user_definitions import USER_DEFAULTS


def nyc(address: str, connections: int = 1) -> dict[str, Any]:
    return {
        "addresses": [address],
        "connections": connections,
        "ordered": False,
        "fetch": False,
        "routes": [],
        "transit": False,
    }


THERE = Definitions(
    {"NYC": nyc("h:1")}, {"A*": {"lease_ms": 100}}, {"Q": {"depth_max": 5}, "F@NYC": {}}, {"S": "Q"}
)


def said(wanted: Definitions, there: Definitions = THERE) -> list[str]:
    return [step.words() for step in steps(wanted, there)]


def test_nothing_is_done_where_all_is_so() -> None:
    assert said(THERE) == []
    assert said(Definitions()) == []
    assert prunings(THERE, THERE, {}) == ([], [])


def test_all_is_made_in_an_order_that_works() -> None:
    assert said(THERE, Definitions()) == [
        "create link NYC: addresses h:1",
        "create template A*: lease default -> 100 ms",
        "create queue Q: depth max default -> 5",
        "create queue F@NYC",
        "create alias S: alias of Q",
    ]


def test_two_users_exchange_their_queue_managers() -> None:
    def users(first: str, second: str) -> Definitions:
        rows = {"a": {"queue_manager": first}, "b": {"queue_manager": second}}
        return Definitions(users={name: USER_DEFAULTS | row for name, row in rows.items()})

    assert said(users("NYC", "EWR"), users("EWR", "NYC")) == [
        "alter user a: queue manager EWR -> ",
        "alter user b: queue manager NYC -> ",
        "alter user a: queue manager NYC",
        "alter user b: queue manager EWR",
    ]
    assert said(users("", "EWR"), users("EWR", "")) == [
        "alter user a: queue manager EWR -> ",
        "alter user b: queue manager EWR",
    ]


def test_different_attributes_are_altered() -> None:
    wanted = Definitions(
        {"NYC": nyc("h:2", connections=4)}, {"A*": {}}, {"Q": {"exclusive": True}}, {"S": "R"}
    )
    assert said(wanted) == [
        "alter link NYC: addresses h:1 -> h:2; connections 1 -> 4",
        "alter template A*: lease 100 ms -> default",
        "alter queue Q: depth max 5 -> default; exclusive default -> yes",
        "alter alias S: alias of Q -> R",
    ]
    (_, _, queue, _) = steps(wanted, THERE)
    assert (queue.arguments, queue.named) == (("Q",), {"exclusive": True, "depth_max": None})


def test_queue_that_is_there_by_itself_is_altered_from_the_start() -> None:
    wanted = Definitions(queues={"@NYC": {"depth_max": 7}, "SYSTEM.EVENTS": {"depth_max": 8}})
    assert said(wanted) == [
        "alter queue SYSTEM.EVENTS: depth max default -> 8",
        "alter queue @NYC: depth max default -> 7",
    ]
    assert said(Definitions(queues={"SYSTEM.X@NYC": {}})) == ["create queue SYSTEM.X@NYC"]


def test_what_is_pruned_goes_in_the_opposite_order_if_it_is_empty() -> None:
    gone, kept = prunings(Definitions(), THERE, {})
    assert [step.words() for step in gone] == [
        "delete alias S",
        "delete queue F@NYC",
        "delete queue Q",
        "delete template A*",
        "delete link NYC",
    ]
    assert kept == []
    gone, kept = prunings(Definitions(), THERE, {"Q": 2, "@NYC": 1})
    assert [step.name for step in gone] == ["S", "F@NYC", "A*"]
    assert kept == ["queue Q holds 2 messages", "link NYC holds 1 message"]


def test_link_of_a_queue_that_is_wanted_stays() -> None:
    gone, _ = prunings(Definitions(queues={"F@NYC": {}}), THERE, {})
    assert "NYC" not in [step.name for step in gone]


def test_conflicts_are_seen_before_anything_is_done() -> None:
    assert list(conflicts(THERE, Definitions())) == []
    assert list(conflicts(Definitions(queues={"F@EWR": {}}), THERE)) == [
        ('queues."F@EWR": link EWR does not exist')
    ]
    assert "an alias with this name" in next(conflicts(Definitions(queues={"S": {}}), THERE))
    assert "a queue with this name" in next(conflicts(Definitions(aliases={"Q": "R"}), THERE))
    assert "is also an alias" in next(conflicts(Definitions(aliases={"T": "S"}), THERE))


def test_inbound_definitions_are_made_given_a_store_and_pruned() -> None:
    store = "6a" * 16
    there = Definitions(inbound={"EWR": store, "JFK": store})
    assert said(Definitions(inbound={"EWR": "", "JFK": store, "LAX": ""}), there) == [
        "create inbound LAX"
    ]
    wanted = Definitions(inbound={"EWR": "7b" * 16})
    (step,) = steps(wanted, there)
    assert step.words() == f"alter inbound EWR: store id {store} -> {'7b' * 16}"
    assert (step.method, step.arguments) == ("link_allow", ("EWR", b"\x7b" * 16))
    (gone,), kept = prunings(wanted, there, {})
    assert (gone.words(), gone.method, kept) == ("delete inbound JFK", "link_disallow", [])
