"""Tests that operators can list groups, show a group, and intervene in a group."""

from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.requests import groups as group_admin
from tests.group_player import GroupPlayer, group_id, member
from tests.qmgrd.core.harness import WALL_US, AnyStore, Client, Delivery, items, record
from tests.qmgrd.core.jobs.test_due_work import events, run_due_work
from tests.qmgrd.core.unit_of_work import bodies, note_of, settle

A, B, C, Z = (group_id(letter) for letter in "ABCZ")
DEAD = "SYSTEM.DEAD.LETTERS"


def put(app: Client, words: str) -> None:
    assert app.put_records("Q", *[member(word) for word in words.split()]) == []


def groups(app: Client, after: bytes = b"", limit: int = 1_000, *, incomplete: bool = False) -> Any:
    return app.ask(m.GroupList, "Q", after, limit, incomplete)


def show(app: Client, group: bytes = A, number: int = 1) -> dict[str, Any]:
    value: dict[str, Any] = app.ask(m.GroupShow, "Q", group, number)
    return value


def alter(app: Client, action: str, number: int = 0, connection: int = 0) -> dict[str, Any]:
    value: dict[str, Any] = app.ask(m.GroupAlter, "Q", A, action, number, connection)
    return value


def refusal(app: Client, kind: Any, *fields: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(RequestError) as refused:
        app.ask(kind, *fields)
    return ErrorCode(refused.value.code), str(refused.value)


def get(app: Client, number: int) -> Delivery:
    """Gets the message with *number* from group A."""
    app.send(m.Get(app.next_id(), "Q", group_id=A, number=number))
    app.manager.rest()
    (found,) = app.delivered()
    return found


def consume(app: Client) -> int:
    """Opens a consumer in pinned order."""
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 100, 1 << 20, order=m.PINNED))
    app.answer(request_id)
    return request_id


def had(app: Client) -> list[Delivery]:
    """Returns the messages that consumers received since the last call."""
    app.manager.rest()
    return [x for one in app.hear() if type(one) is m.Deliver for x in items(one)]


# -- new ids


def test_new_group_has_an_id_that_no_other_has(store: AnyStore, app: Client) -> None:
    found = [app.ask(m.GroupNew) for _ in range(3)]
    app.manager.crash()
    app = app.manager.connect()
    found += [app.ask(m.GroupNew) for _ in range(3)]
    assert len(set(found)) == 6
    assert {len(one) for one in found} == {24}


def test_ids_of_new_groups_show_no_other_ids(app: Client) -> None:
    """Otherwise, a client could put members of the groups of other clients, and end the groups."""
    found = [app.ask(m.GroupNew)[8:] for _ in range(20)]
    assert len({one[:4] for one in found}) == len({one[-4:] for one in found}) == 20


# -- lists


def test_list_shows_the_state_of_each(app: Client) -> None:
    put(app, "A1 A2 A4 A5~ B1 B2! m1")
    app.manager.turn(500)
    row, other = groups(app)["groups"]
    assert row == {
        "group": A.hex(),
        "state": "gap",
        "count": 3,
        "delayed": 1,
        "leased": 0,
        "next": 1,
        "next_is_here": True,
        "last": None,
        "highest": 5,
        "missing": 1,
        "holder": "",
        "first_us": row["first_us"],
        "age_ms": 500,
        "parked_number": 0,
        "parked_code": 0,
        "closed": False,
    }
    assert WALL_US <= row["first_us"] < WALL_US + 1_000
    assert (other["group"], other["state"], other["last"]) == (B.hex(), "complete", 2)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_a_list_show_each_group_once(app: Client, limit: int) -> None:
    put(app, "C1 A1 B1")
    found, after = [], b""
    while True:
        page = groups(app, after, limit)
        assert len(page["groups"]) <= limit
        found += [row["group"] for row in page["groups"]]
        after = page["next"]
        if after is None:
            break
    assert found == [A.hex(), B.hex(), C.hex()]


def test_list_of_incomplete_groups_omits_complete_groups(app: Client) -> None:
    put(app, "A1! B1 C1 C2!")
    app.ack(get_of(app, C, 1))
    page = groups(app, incomplete=True)
    assert [row["group"] for row in page["groups"]] == [B.hex()]
    assert page["next"] is None


def get_of(app: Client, group: bytes, number: int) -> Delivery:
    app.send(m.Get(app.next_id(), "Q", group_id=group, number=number))
    app.manager.rest()
    (found,) = app.delivered()
    return found


def test_list_of_incomplete_groups_checks_a_limited_number(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_admin, "LOOKED_AT_MAX", 2)
    put(app, "A1! B1! C1")
    page = groups(app, incomplete=True)
    assert page == {"groups": [], "next": B}
    page = groups(app, page["next"], incomplete=True)
    assert [row["group"] for row in page["groups"]] == [C.hex()]
    assert page["next"] is None


def test_holder_and_what_is_leased_are_shown(app: Client) -> None:
    worker = app.manager.connect("worker")
    put(app, "A1 A2 B1")
    consume(worker)
    held = had(worker)
    number = worker.peer.number
    rows = groups(app)["groups"]
    assert [(row["holder"], row["leased"]) for row in rows] == [
        (f"{number} worker", 2),
        (f"{number} worker", 1),
    ]
    worker.ack(*held)
    assert [row["holder"] for row in groups(app)["groups"]] == ["", ""]


# -- one group


def test_show_has_members_and_what_is_missing(store: AnyStore, app: Client) -> None:
    put(app, "A2 A5@9 A6~ A9!")
    app.put_records("Q", record(b"A4", group=(A, 4, False), expiry_ms=60_000))
    app.release(get(app, 4))
    get(app, 5)
    value = show(app)
    assert value["gaps"] == [[1, 1], [3, 3], [7, 8]]
    assert value["waiting_for"] == "number 1"
    assert value["next_number"] is None
    fields = ["number", "last", "priority", "state", "delivered", "failed"]
    assert [[row[name] for name in fields] for row in value["members"]] == [
        [2, False, 4, "ready", 0, 0],
        [4, False, 4, "ready", 1, 1],
        [5, False, 9, "leased", 0, 0],
        [6, False, 4, "delayed", 0, 0],
        [9, True, 4, "ready", 0, 0],
    ]
    lefts = [row["expires_left_ms"] for row in value["members"]]
    assert lefts == [None, 60_000, None, None, None]
    arrivals = [row["arrival"] for row in value["members"]]
    assert arrivals == [1, 5, 2, 3, 4]


def test_show_goes_on_from_a_number(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_admin, "MEMBERS_MAX", 2)
    put(app, "A1 A3 A4 A7 A8")
    pages, number = [], 1
    while number is not None:
        value = show(app, number=number)
        pages.append(([row["number"] for row in value["members"]], value["gaps"]))
        number = value["next_number"]
    assert pages == [([1, 3], [[2, 2]]), ([4, 7], [[5, 6]]), ([8], [])]


@pytest.mark.parametrize(
    ("words", "number", "text"),
    [
        ("A2 A4 A5 A7", 4, "number 1"),
        ("A1 A2 A4 A7", 4, "number 3"),
        ("A1 A2 A4", 9, "number 3"),
        ("A1 A2", 9, "number 3, or an end"),
    ],
)
def test_later_page_reports_the_first_missing_number(
    app: Client, words: str, number: int, text: str
) -> None:
    put(app, words)
    assert show(app, number=number)["waiting_for"] == text


def test_removed_number_is_no_gap(app: Client) -> None:
    put(app, "A1 A2 A3 A5 A6 A9")
    app.ack(get(app, 1), get(app, 3), get(app, 5))
    value = show(app)
    assert value["gaps"] == [[4, 4], [7, 8]]
    assert (value["next"], value["missing"]) == (2, 3)


def test_number_of_shown_gaps_is_limited(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_admin, "GAPS_MAX", 2)
    put(app, "A2 A4 A6 A8")
    value = show(app)
    assert value["gaps"] == [[1, 1], [3, 3]]
    assert len(value["members"]) == 4


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("A1 A2", "number 3, or an end"),
        ("A1 A2!", "nothing"),
        ("A4!", "numbers 1 to 3"),
        ("A1 A3", "number 2"),
    ],
)
def test_row_shows_the_cause_of_a_wait(app: Client, words: str, text: str) -> None:
    put(app, words)
    assert show(app)["waiting_for"] == text


def test_stopped_group_waits_for_an_operator(app: Client) -> None:
    put(app, "A1")
    alter(app, "pause")
    assert show(app)["waiting_for"] == "an operator: the group is paused"
    alter(app, "resume")
    settle(app, m.REJECT, get(app, 1))
    assert show(app)["waiting_for"] == "an operator: number 1 failed"


# -- refusals


@pytest.mark.parametrize(
    "request_", [m.GroupShow(0, "Q", Z), m.GroupAlter(0, "Q", Z, "pause")], ids=lambda x: type(x)
)
def test_group_of_which_nothing_is_known_is_refused(app: Client, request_: Any) -> None:
    put(app, "A1")
    code, text = refusal(app, type(request_), *request_[1:])
    assert code == ErrorCode.GROUP_UNKNOWN
    assert "no group Z" in text


@pytest.mark.parametrize(
    ("kind", "fields"), [(m.GroupList, []), (m.GroupShow, [A]), (m.GroupAlter, [A, "pause"])]
)
def test_queues_that_have_no_groups_are_refused(app: Client, kind: Any, fields: list[Any]) -> None:
    app.ask(m.LinkCreate, "HUB", {"addresses": ["hub:1"], "stopped": True})
    for queue, expected in (
        ("@HUB", ErrorCode.QUEUE_IS_TRANSMISSION),
        ("NONE", ErrorCode.QUEUE_UNKNOWN),
    ):
        request = kind(0, queue, *fields)
        assert refusal(app, kind, *request[1:])[0] == expected


def test_unknown_action_is_refused(app: Client) -> None:
    put(app, "A1")
    code, text = refusal(app, m.GroupAlter, "Q", A, "burn", 0, 0)
    assert code == ErrorCode.VALUE_INVALID
    assert "pause, resume, skip, reassign, close" in text


# -- pause and resume


def test_paused_group_is_handed_out_in_no_order(store: AnyStore, app: Client) -> None:
    put(app, "A1 B1")
    assert alter(app, "pause")["state"] == "paused"
    app.manager.crash()
    app = app.manager.connect()
    assert bodies(app.get("Q", 9)) == [b"B1"]
    worker = app.manager.connect("worker")
    consume(worker)
    assert had(worker) == []
    assert alter(app, "resume")["state"] == "open"
    assert bodies(had(worker)) == [b"A1"]
    told = [one["event"] for one in events(app)]
    assert ("group paused" in told, "group resumed" in told) == (True, True)


def test_paused_group_leaves_its_holder_once_what_is_out_is_settled(app: Client) -> None:
    worker = app.manager.connect("worker")
    put(app, "A1")
    consume(worker)
    held = had(worker)
    assert alter(app, "pause")["holder"] == ""
    put(app, "A2")
    assert had(worker) == []
    assert alter(app, "resume")["leased"] == 1
    assert had(worker) == []
    assert worker.ack(*held) == []
    assert bodies(had(worker)) == [b"A2"]


def test_unchanged_value_is_not_reported(app: Client) -> None:
    put(app, "A1 A2")
    changes = [
        alter(app, action)["changed"]
        for action in ("resume", "pause", "pause", "resume", "resume", "close", "close", "skip")
    ]
    assert changes == [False, True, False, True, False, True, False, True]
    told = [one for one in events(app) if one["event"].startswith("group ")]
    assert [(one["event"], one["count"]) for one in told] == [
        ("group paused", 1),
        ("group resumed", 1),
        ("group closed", 1),
        ("group skipped", 1),
    ]


def test_operators_can_read_what_the_events_are() -> None:
    page = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()
    missing = [word for word in group_admin._DONE.values() if f"`group {word}`" not in page]
    assert missing == []


def test_resumed_group_that_was_parked_is_changed(app: Client) -> None:
    put(app, "A1")
    settle(app, m.REJECT, get(app, 1))
    assert [alter(app, "resume")["changed"] for _ in range(2)] == [True, False]


# -- skip


def test_existing_due_member_becomes_a_dead_letter(store: AnyStore, app: Client) -> None:
    put(app, "A1 A2")
    row = alter(app, "skip")
    assert (row["next"], row["count"]) == (2, 1)
    app.manager.crash()
    app = app.manager.connect()
    (dead,) = app.get(DEAD)
    note = note_of(dead)
    assert (dead.body, note["code"]) == (b"A1", ErrorCode.MESSAGE_REJECTED)
    assert (note["reason"], note["text"]) == ("skipped", "by an operator")
    assert app.bodies("Q") == [b"A2"]


def test_operator_is_named_in_the_event_of_a_skip(app: Client) -> None:
    """The code alone would suggest that a consumer had rejected the message."""
    put(app, "A1 A2")
    alter(app, "skip")
    (told,) = [one for one in events(app) if one["event"] == "message dead-lettered"]
    assert (told["queue"], told["to"], told["why"]) == ("Q", DEAD, "skipped by an operator")


def test_missing_due_member_is_skipped_with_later_missing_members(app: Client) -> None:
    worker = app.manager.connect("worker")
    consume(worker)
    put(app, "A4 A5 A7")
    assert had(worker) == []
    row = alter(app, "skip")
    assert (row["next"], row["next_is_here"], row["count"]) == (4, True, 3)
    assert bodies(had(worker)) == [b"A4", b"A5"]
    refused = app.put_records("Q", member("A3"))
    assert [one.code for one in refused] == [ErrorCode.GROUP_NUMBER_TAKEN]
    assert app.bodies(DEAD) == []


def test_all_below_a_number_is_given_up(app: Client) -> None:
    put(app, "A1 A3~ A4 A6 A9")
    row = alter(app, "skip", 6)
    assert (row["next"], row["count"], row["delayed"]) == (6, 2, 0)
    dead = sorted(app.browse(DEAD), key=lambda one: one.arrival)
    assert bodies(dead) == [b"A1", b"A3", b"A4"]


def test_skip_beyond_the_last_ends_a_group(app: Client) -> None:
    put(app, "A1 A2!")
    alter(app, "skip", 3)
    assert refusal(app, m.GroupShow, "Q", A, 1)[0] == ErrorCode.GROUP_UNKNOWN
    assert sorted(app.bodies(DEAD)) == [b"A1", b"A2"]


@pytest.mark.parametrize("action", ["", "close"])
def test_skip_further_beyond_the_last_is_refused(app: Client, action: str) -> None:
    """Otherwise, a forgotten group would report numbers that are refused from then on."""
    put(app, "A1 A2" if action else "A1 A2!")
    if action:
        alter(app, action)
    code, text = refusal(app, m.GroupAlter, "Q", A, "skip", 4, 0)
    assert code == ErrorCode.VALUE_INVALID
    assert "group A ends with number 2" in text
    assert "skip to 3 at most, which ends the group" in text
    assert show(app)["next"] == 1
    assert alter(app, "skip", 3)["count"] == 0


@pytest.mark.parametrize("number", [1, 3])
def test_skip_does_not_go_back(app: Client, number: int) -> None:
    put(app, "A1 A2 A3")
    app.ack(get(app, 1), get(app, 2))
    code, text = refusal(app, m.GroupAlter, "Q", A, "skip", number, 0)
    assert code == ErrorCode.VALUE_INVALID
    assert "is at number 3" in text


def test_skip_of_an_empty_group_needs_a_number(app: Client) -> None:
    put(app, "A1")
    app.ack(get(app, 1))
    code, text = refusal(app, m.GroupAlter, "Q", A, "skip", 0, 0)
    assert code == ErrorCode.VALUE_INVALID
    assert "the number to skip to" in text
    assert alter(app, "skip", 5)["next"] == 5


def test_leased_member_is_not_skipped(app: Client) -> None:
    put(app, "A1 A2")
    worker = app.manager.connect("worker")
    held = get(worker, 2)
    (*_, member_) = show(app)["members"]
    assert (member_["state"], member_["client"]) == ("leased", "worker")
    code, text = refusal(app, m.GroupAlter, "Q", A, "skip", 3, 0)
    assert code == ErrorCode.GROUP_IN_USE
    assert "number 2 of group A on queue Q is leased to worker; " in text
    assert "pause the group until then" in text
    assert app.bodies(DEAD) == []
    worker.release(held)
    assert alter(app, "skip", 3)["next"] == 3


def test_number_of_skips_in_one_step_is_limited(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_admin, "SKIPPED_MAX", 2)
    put(app, "A1 A2 A3 A4")
    code, text = refusal(app, m.GroupAlter, "Q", A, "skip", 4, 0)
    assert (code, "more than 2" in text) == (ErrorCode.VALUE_INVALID, True)
    assert app.bodies(DEAD) == []
    assert alter(app, "skip", 3)["next"] == 3


def test_skip_waits_for_a_queue_that_takes_dead_letters(app: Client) -> None:
    app.ask(m.QueueAlter, DEAD, {"depth_max": 1})
    app.manager.fill(DEAD, record(b"full"))
    put(app, "A1 A2")
    assert refusal(app, m.GroupAlter, "Q", A, "skip", 0, 0)[0] == ErrorCode.QUEUE_FULL
    assert show(app)["next"] == 1
    assert app.bodies("Q") == [b"A1", b"A2"]


def test_skip_of_what_failed_lets_a_parked_group_go_on(app: Client) -> None:
    put(app, "A1 A2")
    settle(app, m.REJECT, get(app, 1))
    assert show(app)["state"] == "parked"
    row = alter(app, "skip")
    assert (row["state"], row["parked_number"], row["parked_code"]) == ("open", 0, 0)
    assert bodies(app.get("Q", 9)) == [b"A2"]


def test_skip_before_what_failed_leaves_it_parked(app: Client) -> None:
    put(app, "A1 A2 A3")
    settle(app, m.REJECT, get(app, 2))
    assert alter(app, "skip")["parked_number"] == 2
    assert app.get("Q", 9) == []


def test_skip_leaves_a_paused_group_paused(app: Client) -> None:
    put(app, "A2 A3")
    alter(app, "pause")
    assert alter(app, "skip")["state"] == "paused"
    assert app.get("Q", 9) == []


@pytest.mark.parametrize("is_get", [True, False])
def test_reader_in_a_group_that_is_closed_goes_on_to_others(app: Client, is_get: bool) -> None:
    def read() -> None:
        get = m.Get(app.next_id(), "Q", 9, 60_000, order=m.LOGICAL, reader=1)
        app.send(get if is_get else m.Consume(app.next_id(), "Q", 9, 1 << 20, order=m.LOGICAL))

    put(app, "A1")
    read()
    app.ack(*had(app))
    if is_get:
        read()
    alter(app, "close")
    put(app, "B1")
    assert [x.body for x in had(app)] == [b"B1"]


# -- reassign


def test_group_moves_to_another_consumer_after_its_leases_are_settled(app: Client) -> None:
    one, other = app.manager.connect("one"), app.manager.connect("other")
    put(app, "A1")
    consume(one)
    (held,) = had(one)
    consume(other)
    alter(app, "reassign")
    put(app, "A2")
    assert had(one) + had(other) == []
    one.ack(held)
    (found,) = had(other)
    assert (found.body, found.state & m.STATE_TAKEN_OVER) == (b"A2", m.STATE_TAKEN_OVER)
    assert had(one) == []


def test_group_moves_to_the_named_connection(app: Client) -> None:
    workers = [app.manager.connect(name) for name in ("one", "two", "three")]
    put(app, "A1")
    for worker in workers:
        consume(worker)
    (held,) = had(workers[0])
    alter(app, "reassign", connection=workers[2].peer.number)
    workers[0].ack(held)
    put(app, "A2")
    assert [bodies(had(worker)) for worker in workers] == [[], [], [b"A2"]]


def test_reassign_needs_another_consumer(app: Client) -> None:
    put(app, "A1")
    consume(app)
    assert len(had(app)) == 1
    for connection, why in ((0, "no other connection"), (99, "connection 99")):
        code, text = refusal(app, m.GroupAlter, "Q", A, "reassign", 0, connection)
        assert (code, why in text) == (ErrorCode.GROUP_NO_READER, True)
        assert "start a consumer" in text
    assert show(app)["holder"], "the group stays with its consumer"


# -- close


def test_highest_member_of_a_closed_group_is_its_last(store: AnyStore, app: Client) -> None:
    put(app, "A1 A2")
    row = alter(app, "close")
    assert (row["state"], row["last"], row["closed"]) == ("complete", 2, True)
    app.manager.crash()
    app = app.manager.connect()
    refused = app.put_records("Q", member("A3"))
    assert [one.code for one in refused] == [ErrorCode.GROUP_ENDED]
    app.ack(*app.get("Q", 9))
    refused = app.put_records("Q", member("A3"), member("A1"))
    assert [one.code for one in refused] == [ErrorCode.GROUP_ENDED, ErrorCode.GROUP_NUMBER_TAKEN]


@pytest.mark.parametrize("left", [[], [1], [3], [1, 3]])
def test_what_expired_is_not_waited_for_by_a_closed_group(app: Client, left: list[int]) -> None:
    put(app, "A1 A2 A3")
    app.put_records("Q", record(b"A4", group=(A, 4, False), expiry_ms=1_000))
    for number in left:
        app.ack(get(app, number))
    run_due_work(app.manager, 1_000)
    row = alter(app, "close")
    assert (row["last"], row["state"]) == (3, "complete")


def test_last_that_is_known_stays_the_last(app: Client) -> None:
    put(app, "A1 A4!")
    row = alter(app, "close")
    assert (row["last"], row["state"], row["closed"]) == (4, "gap", True)


@pytest.mark.parametrize("is_first", [True, False])
def test_closed_group_that_is_consumed_is_known_for_a_while(
    store: AnyStore, app: Client, is_first: bool
) -> None:
    """Otherwise, its producer would start the group again, and no consumer would receive it."""
    app.ask(m.QueueAlter, "Q", {"group_retention_ms": 5_000})
    put(app, "A1 A2")
    if is_first:
        alter(app, "close")
    app.ack(get(app, 1), get(app, 2))
    if not is_first:
        alter(app, "close")
    app.manager.crash()
    app = app.manager.connect()
    assert (show(app)["state"], show(app)["last"]) == ("complete", 2)
    refused = app.put_records("Q", member("A1"), member("A3"))
    assert [one.code for one in refused] == [ErrorCode.GROUP_NUMBER_TAKEN, ErrorCode.GROUP_ENDED]
    run_due_work(app.manager, 5_000)
    assert groups(app)["groups"] == []


@pytest.mark.parametrize(
    ("words", "number"),
    [("close", 3), ("skip number=4", 3), ("skip number=9", 3), ("skip number=3", 0)],
)
def test_skip_and_close_respect_numbers_held_by_a_unit(words: str, number: int) -> None:
    """Otherwise, the number would be after the end or below the due one, and never received."""
    player = GroupPlayer()
    player("put A1 A2")
    player("begin 1")
    player("unit 1 put A3 A5")
    said = player(f"alter A {words}")
    assert said.startswith("DUPLICATE_UNCOMMITTED") == bool(number)
    assert not number or f"unit of work puts number {number} of group A on queue Q" in said
    player("backout 1")
    assert "DUPLICATE" not in player("alter A close")
