"""Tests of the limit of unread bytes that all connections of a user share."""

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.limits.unread_replies import COUNT_ALL_MS, UnreadReplies
from qmgrd.core.limits.user_unread import COUNT_MS, UserUnread
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager

LIMIT = 64 * 1024
GREEDY, IDLE, OTHER = 1, 2, 9


@pytest.fixture
def unread() -> dict[int, int]:
    """The bytes that the peers of connections have not read."""
    return {}


@pytest.fixture
def replies(unread: dict[int, int]) -> UnreadReplies:
    """The limits of one user with two connections."""
    replies = UnreadReplies()
    replies.unsent_of = lambda connection: unread.get(connection, 0)
    user = UserUnread([GREEDY, IDLE])
    user.limit_bytes = LIMIT
    for connection in user.connections:
        replies.watch(connection, user)
    replies.count_users(0)
    return replies


def fill(replies: UnreadReplies, unread: dict[int, int], size_bytes: int) -> None:
    unread[GREEDY] = unread.get(GREEDY, 0) + size_bytes
    replies.wrote(GREEDY, size_bytes)


def test_all_connections_of_a_full_user_are_held_until_it_has_read(
    replies: UnreadReplies, unread: dict[int, int]
) -> None:
    fill(replies, unread, LIMIT)
    fill(replies, unread | {OTHER: 0}, 0)
    assert replies.count_users(0) == []
    assert replies.held == {GREEDY, IDLE}
    assert (replies.left(replies.end_turn()), replies.held) == ([], {GREEDY, IDLE})
    assert replies.next_count_ms(0) == COUNT_MS
    unread[GREEDY] = LIMIT - 1
    assert replies.count_users(COUNT_MS - 1) == []
    assert replies.count_users(COUNT_MS) == [GREEDY, IDLE]
    assert not replies.held
    assert replies.next_count_ms(COUNT_MS) is None


def test_user_that_reads_is_never_held(replies: UnreadReplies, unread: dict[int, int]) -> None:
    for _ in range(20):
        fill(replies, unread, LIMIT)
        unread.clear()
        assert replies.count_users(0) == []
        assert not replies.held


def test_turn_makes_at_most_the_limit_for_all_connections_of_a_user(replies: UnreadReplies) -> None:
    replies.count_made(GREEDY, LIMIT // 2)
    assert not replies.held
    replies.count_made(IDLE, LIMIT // 2)
    assert replies.held == {GREEDY, IDLE}
    assert sorted(replies.left(replies.end_turn())) == [GREEDY, IDLE]
    replies.count_made(GREEDY, LIMIT // 2)
    assert not replies.held


def test_connection_that_reads_stays_held_while_its_user_is_full(
    replies: UnreadReplies, unread: dict[int, int]
) -> None:
    fill(replies, unread, LIMIT)
    replies.block(IDLE)
    replies.count_users(0)
    replies.unblock(IDLE)
    assert replies.held == {GREEDY, IDLE}
    replies.block(IDLE)
    unread.clear()
    assert replies.count_users(COUNT_MS) == [GREEDY]
    assert replies.held == {IDLE}


def test_lost_connection_is_not_held(replies: UnreadReplies, unread: dict[int, int]) -> None:
    fill(replies, unread, LIMIT)
    replies.forget(IDLE)
    replies.count_users(0)
    assert replies.held == {GREEDY}


def test_short_replies_are_found_within_a_second(
    replies: UnreadReplies, unread: dict[int, int]
) -> None:
    unread[GREEDY] = LIMIT
    assert replies.count_users(COUNT_ALL_MS - 1) == []
    assert not replies.held
    replies.count_users(COUNT_ALL_MS)
    assert replies.held == {GREEDY, IDLE}


# -- with users


class Shop:
    """A user that does not read, with two connections, and another user."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.guarded = guarded = Guarded(manager)
        guarded.owner.ask(m.QueueCreate, "Q")
        for _ in range(8):
            guarded.owner.put("Q", bytes(LIMIT // 4))
        guarded.owner.hear()
        self.clients = [guarded.user("eve", roles=("consumer",))]
        self.clients.append(manager.connect("eve", user="eve"))
        self.other = guarded.user("bob", roles=("consumer",))
        manager.rest()
        guarded.owner.ask(m.UserAlter, "eve", {"unread_bytes_max": LIMIT})
        self.unread = dict.fromkeys([x.peer.number for x in self.clients], 0)
        manager.turns.broker.context.unread_replies.unsent_of = lambda x: self.unread.get(x, 0)

    def leave_unread(self, size_bytes: int) -> None:
        """Lets the first connection of the user leave these bytes unread."""
        first = self.clients[0].peer
        self.unread[first.number] += size_bytes
        first.wrote(size_bytes)
        self.manager.turn()

    def read(self) -> None:
        """Lets the user read all bytes."""
        self.unread = dict.fromkeys(self.unread, 0)
        self.manager.turn(COUNT_MS)
        self.manager.rest()


@pytest.fixture
def shop(manager: Manager) -> Shop:
    return Shop(manager)


def browse(client: Client, number: int = 1) -> None:
    client.send(m.Browse(number, "Q"))
    client.manager.turn()
    client.manager.rest()


def test_requests_of_a_user_that_does_not_read_wait_and_those_of_others_do_not(shop: Shop) -> None:
    shop.leave_unread(LIMIT)
    for client in (*shop.clients, shop.other):
        browse(client)
    assert [len(client.hear()) for client in (*shop.clients, shop.other)] == [0, 0, 1]
    shown = [x.peer.facts(0)["delayed_by"] for x in (*shop.clients, shop.other)]
    assert shown == ["unread", "unread", ""]
    due_ms = shop.manager.turns.next_timer_ms()
    assert due_ms is not None
    assert due_ms - shop.manager.now().ms <= COUNT_MS
    shop.read()
    assert [len(client.hear()) for client in shop.clients] == [1, 1]


def test_user_that_does_not_read_receives_no_messages(shop: Shop) -> None:
    for client in (*shop.clients, shop.other):
        client.send(m.Consume(1, "Q", 1, 1 << 20))
    shop.manager.rest()
    for client in (*shop.clients, shop.other):
        client.hear()
    shop.leave_unread(LIMIT)
    for client in (*shop.clients, shop.other):
        client.send(m.Credit(1, 2, 1 << 20))
    shop.manager.rest()
    assert [bool(x.hear()) for x in (*shop.clients, shop.other)] == [False, False, True]
    shop.read()
    assert any(client.hear() for client in shop.clients)


@pytest.mark.parametrize("changed", [{"unread_bytes_max": 0}, {"unread_bytes_max": 4 * LIMIT}])
def test_higher_limit_ends_the_delay(shop: Shop, changed: dict[str, int]) -> None:
    shop.leave_unread(2 * LIMIT)
    browse(shop.clients[1])
    assert not shop.clients[1].hear()
    shop.guarded.owner.ask(m.UserAlter, "eve", changed)
    shop.manager.turn(COUNT_MS)
    shop.manager.rest()
    assert shop.clients[1].hear()


def test_further_connection_of_a_full_user_is_held_and_a_lost_one_is_forgotten(shop: Shop) -> None:
    shop.leave_unread(LIMIT)
    late = shop.manager.connect("eve", user="eve")
    browse(late)
    assert not [x for x in late.hear() if isinstance(x, m.Ok)]
    for client in (late, *shop.clients):
        client.hang_up()
        shop.unread.pop(client.peer.number, None)
    shop.manager.turn(COUNT_MS)
    shop.manager.rest()
    replies = shop.manager.turns.broker.context.unread_replies
    assert (replies.held, replies.users) == (set(), {})
    assert shop.manager.turns.next_timer_ms() is None or replies.next_count_ms(0) is None


def test_present_use_is_shown(shop: Shop) -> None:
    shop.leave_unread(LIMIT // 2)
    row = shop.guarded.owner.ask(m.UserShow, "eve", False)
    assert row["use"]["unread_bytes"] == LIMIT // 2
    assert row["limits"]["unread_bytes_max"] == LIMIT
