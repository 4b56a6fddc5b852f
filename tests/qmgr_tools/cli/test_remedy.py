"""The remedies that qmctl adds to the daemon's errors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol import scram
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind, Right
from qmgr_protocol.scram import ClientLogin
from qmgr_tools.cli import remedy
from qmgrd.core.access import rights, user_limits
from qmgrd.core.access.access import Access
from qmgrd.core.access.login import Login, Logins
from qmgrd.core.access.origin import Origin
from qmgrd.core.access.rights import Needed
from qmgrd.core.access.user import GRANTS_MAX
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue import attributes, missing, system
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.jobs import RUNNING_MAX
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Now
from qmgrd.core.limits.work import WorkId
from qmgrd.core.queue.group import intervention_errors
from qmgrd.core.queue.group.admission import number_taken_error
from qmgrd.core.queue.group.held_groups import Member
from tests.group_player import group_id, member
from tests.memory_store import MemoryStore
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.link.test_link import Nyc

VERIFIER = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$" + ":".join(["A" * 43 + "="] * 2)
ADMIN = {"verifier": VERIFIER, "roles": ["administrator"]}
LINK = {"addresses": ["h:1"]}


def from_peers(name: str, *, is_known: bool, has_link: bool = False) -> RequestError:
    """Returns the error for a queue manager that is not allowed or has another store."""
    context = Context(Config(), "HUB", b"S" * 16, 1)
    context.tx, context.now = MemoryStore(), Now(0, 0)
    if is_known:
        context.peers.allow(name, b"\x0a" * 16)
    with pytest.raises(RequestError) as caught:
        context.peers.admit(name, b"\x0b" * 16, has_link=has_link)
    return caught.value


def impostor(app: Client) -> RequestError:
    """Returns the error for a user that acts as another queue manager than its own."""
    app.ask(m.UserCreate, "admin", ADMIN)
    app.ask(m.UserCreate, "EWR", {"verifier": VERIFIER, "queue_manager": "EWR"})
    error = app.manager.turns.broker.users.bindings.impostor("EWR", "LAX")
    assert error is not None
    return error


def undeletable(name: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        system.check_deletable(name)
    return caught.value


def refusal(app: Client, kind: Callable[..., Any], *fields: Any) -> RequestError:
    """Returns the error that answers a request."""
    with pytest.raises(RequestError) as caught:
        app.ask(kind, *fields)
    return caught.value


def put_refusal(app: Client, queue: str, record: bytes) -> RequestError:
    """Returns the error for a put of *record*."""
    (refused,) = app.put_records(queue, record)
    return RequestError(refused.code, refused.text)


def arrival_refusal(app: Client, queue: str) -> RequestError:
    """Returns the error for a put to *queue* by another queue manager."""
    far = Far(app.manager)
    far.open()
    (blocked,) = [x for x in far.send(1, message(1), queue=queue) if type(x) is m.Blocked]
    return RequestError(blocked.code, blocked.text)


def full_of_jobs(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q")
    jobs = app.manager.turns.broker.jobs
    jobs.requested[""] = RUNNING_MAX
    with pytest.raises(RequestError) as caught:
        jobs.check_room("")
    return caught.value


def put_to_inhibited_topic(app: Client) -> RequestError:
    app.ask(m.TopicSet, "a b", {"put_inhibit": True})
    return put_refusal(app, "/a b/c", member("m1"))


def too_large(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q", {"message_max_bytes": 100})
    return put_refusal(app, "Q", record(bytes(200)))


def not_transferred(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q", {"transfer_in": False})
    return arrival_refusal(app, "Q")


def not_forwarded(app: Client) -> RequestError:
    create_link(app)
    return arrival_refusal(app, "Q@NYC")


def unknown_group(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q")
    return refusal(app, m.GroupShow, "Q", group_id("A"))


def ended_group(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q")
    assert app.put_records("Q", member("A1!")) == []
    return put_refusal(app, "Q", member("A2"))


def leased_member(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q")
    assert app.put_records("Q", member("A1"), member("A2")) == []
    assert len(app.get("Q")) == 1
    return refusal(app, m.GroupAlter, "Q", group_id("A"), "skip", 2)


def create_link(app: Client) -> None:
    app.send(m.LinkCreate(1_000, "NYC", LINK))
    app.manager.turn()
    app.hear()


def subscription(app: Client) -> RequestError:
    app.ask(m.Subscribe, "a", "app:s")
    return refusal(app, m.QueueDelete, "app:s")


def transmission_queue(app: Client) -> RequestError:
    create_link(app)
    return refusal(app, m.QueueDelete, "@NYC")


def existing_link(app: Client, attributes: dict[str, Any]) -> RequestError:
    create_link(app)
    return refusal(app, m.LinkCreate, "NYC", attributes)


def answered_by(app: Client, name: str, store_id: bytes) -> RequestError:
    """Returns the reason for which a link refuses the queue manager that answers."""
    create_link(app)
    link = app.manager.turns.broker.catalogue.links["NYC"]
    Nyc(app.manager).answer(name, store_id)
    code, _, text = link.error.partition(": ")
    return RequestError(ErrorCode[code], text)


def not_acceptable(app: Client, name: str, *, invalid: bool = False) -> RequestError:
    """Returns the error for accepting the peer of a link that refused the peer."""
    create_link(app)
    nyc = Nyc(app.manager)
    (*_, opening) = [None, *nyc.answer(name)]
    if invalid:
        nyc.say(m.Ok(opening.request_id, "invalid"))
    return refusal(app, m.LinkStart, "NYC", True)


def too_many_peers() -> RequestError:
    app = Manager(link={"inbound": "defined", "peers_max": 1}).connect()
    app.ask(m.LinkAllow, "A")
    return refusal(app, m.LinkAllow, "B")


def set_aside(app: Client, kind: str, key: Any, request: Callable[..., Any]) -> RequestError:
    """Returns the error for a request about the work that is set aside."""
    manager = app.manager
    manager.turns.set_aside(WorkId(kind, key), "a test", manager.now(), is_mark=False)
    return refusal(app, request, 1)


def damaged_message(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"body")
    key = keys.message(app.manager.queue("Q").id, keys.LANE_READY, 4, 1)
    return set_aside(app, "message", key, m.AsideRetry)


def replaced_row(app: Client) -> RequestError:
    key = keys.SPACE_QUEUE + b"Q"
    context = app.manager.turns.broker.context

    def move(broker: Broker) -> None:
        rows.put(context.tx, key, b"old")
        context.aside.move(context, "row", key, "a test")
        rows.put(context.tx, key, b"new")

    app.manager.turns.intake.event(0, move)
    app.manager.turn()
    return refusal(app, m.AsideRetry, 1)


def needed_job(app: Client) -> RequestError:
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"body"] * 5_000)
    app.send(m.QueueDelete(1_000, "Q", True))
    app.manager.turn()
    (job_id,) = app.manager.turns.broker.jobs.running
    return set_aside(app, "job", job_id, m.AsideDrop)


def lacking(right: Right, kind: Kind, name: str) -> RequestError:
    """Returns the error for a user that lacks a right."""
    return rights.not_authorized(Access("bob"), Needed(right, kind, name))


def administered(app: Client, kind: Callable[..., Any], *fields: Any) -> RequestError:
    """Returns the error that answers a request after users and roles were created."""
    app.ask(m.UserCreate, "admin", ADMIN)
    app.ask(m.RoleCreate, "gates")
    app.ask(m.UserCreate, "bob", {"roles": ["gates"]})
    return refusal(app, kind, *fields)


def too_many_grants(app: Client) -> RequestError:
    app.ask(m.UserCreate, "admin", ADMIN)
    for number in range(GRANTS_MAX):
        app.ask(m.GrantCreate, "admin", "", ["put"], "queue", f"Q{number}")
    return refusal(app, m.GrantCreate, "admin", "", ["put"], "queue", "LAST")


def reached(name: str) -> RequestError:
    """Returns the error for a user that has reached a limit."""
    return user_limits.reached_error("bob", name, 3, 3)


def stored_bytes_reached(app: Client) -> RequestError:
    app.ask(m.UserCreate, "admin", ADMIN | {"stored_bytes_max": 100})
    admin = app.manager.connect(user="admin")
    admin.ask(m.QueueCreate, "Q")
    (refused,) = admin.put_records("Q", record(bytes(1_000)))
    return RequestError(refused.code, refused.text)


def login_refused(app: Client, hello: m.Hello) -> RequestError:
    """Returns the reason for which a connection of another machine is closed."""
    app.ask(m.UserCreate, "admin", ADMIN)
    users = app.manager.turns.broker.users
    login = Login(Logins(lambda: users, b"secret"), Origin("10.0.0.1"), "nonce")
    decision = login.begin(hello, 0)
    if isinstance(decision, m.AuthChallenge):
        client = ClientLogin("bob", "guess", "nonce")
        client.first()
        decision = login.answer(m.AuthAnswer(client.answer(decision.data)), 0)
    assert isinstance(decision, m.Goaway)
    return RequestError(decision.code, decision.text)


def hello(**fields: Any) -> m.Hello:
    return m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", "app")._replace(**fields)


class Case(NamedTuple):
    """An error of the daemon, and the remedy that qmctl shows for the error."""

    error: RequestError | Callable[[Client], RequestError]
    remedy: str

    def made(self) -> RequestError:
        if isinstance(self.error, RequestError):
            return self.error
        return self.error(Manager().connect("app"))


# At least one case for each entry of the table. The daemon's own code writes each text.
CASES = [
    Case(
        missing.unknown_queue_error("FIGS", ["ORDERS"]), "create it with: qmctl queue create FIGS"
    ),
    Case(
        missing.unknown_queue_error("ORDER", ["ORDERS"]),
        "did you mean ORDERS? if not, create it with: qmctl queue create ORDER",
    ),
    Case(
        missing.unknown_queue_error("@EWR", []), "create it with: qmctl link create EWR HOST:PORT"
    ),
    Case(
        missing.unknown_target_error("A", "B"),
        "create it with: qmctl queue create B; or name another target with: qmctl queue alter "
        "A --alias-of QUEUE",
    ),
    Case(lambda app: refusal(app, m.ConnectionClose, 99), "see: qmctl connection ls"),
    Case(lambda app: refusal(app, m.CursorDelete, "lake"), "see: qmctl history show"),
    Case(lambda app: refusal(app, m.AsideRetry, 1), "see: qmctl aside ls"),
    Case(lambda app: refusal(app, m.JobCancel, 1), "see: qmctl job ls"),
    Case(full_of_jobs, "wait for one to end, or cancel one: qmctl job cancel"),
    Case(
        lambda app: login_refused(app, hello()),
        "give --user NAME and --password-file FILE, or store them in a context: qmctl context "
        "create NAME ADDRESS, then qmctl login --context NAME",
    ),
    Case(
        lambda app: login_refused(
            app,
            hello(auth_method=scram.METHOD, auth_data=ClientLogin("bob", "guess", "nonce").first()),
        ),
        "check the user and the password; an administrator can set a new one with: qmctl user "
        "alter bob --password",
    ),
    Case(
        lacking(Right.SHOW, Kind.MANAGER, ""),
        "an administrator can grant it with: qmctl grant create --user bob show manager",
    ),
    Case(
        lacking(Right.ADMIN, Kind.USER, "eve"),
        "ask an administrator: only the role administrator has this right",
    ),
    Case(
        lacking(Right.PUT, Kind.QUEUE, "*"),
        "an administrator can grant it with: qmctl grant create --user bob put queue '*'",
    ),
    Case(
        lacking(Right.PUBLISH, Kind.TOPIC, "a/#"),
        "an administrator can grant it with: qmctl grant create --user bob publish topic 'a/#'",
    ),
    Case(lambda app: administered(app, m.UserShow, "eve"), "see: qmctl user ls"),
    Case(
        lambda app: administered(app, m.UserCreate, "bob", {}),
        "alter it with: qmctl user alter bob",
    ),
    Case(
        reached("connections_max"),
        "an administrator can raise the limit with: qmctl user alter bob --connections-max N",
    ),
    Case(
        reached("streams_max"),
        "an administrator can raise the limit with: qmctl user alter bob --streams-max N",
    ),
    Case(
        reached("producers_max"),
        "an administrator can raise the limit with: qmctl user alter bob --producers-max N",
    ),
    Case(
        reached("consumers_max"),
        "an administrator can raise the limit with: qmctl user alter bob --consumers-max N",
    ),
    Case(
        reached("queues_max"),
        "an administrator can raise the limit with: qmctl user alter bob --queues-max N",
    ),
    Case(
        reached("subscriptions_max"),
        "an administrator can raise the limit with: qmctl user alter bob --subscriptions-max N",
    ),
    Case(
        stored_bytes_reached,
        "an administrator can raise the limit with: qmctl user alter admin --stored-bytes-max SIZE",
    ),
    Case(too_many_grants, "grant rights to a role: qmctl role create ROLE"),
    Case(
        lambda app: administered(app, m.RoleShow, "pilots"),
        "see: qmctl role ls; or create it with: qmctl role create pilots",
    ),
    Case(
        lambda app: administered(app, m.RoleDelete, "monitor"),
        "create another role with: qmctl role create ROLE",
    ),
    Case(lambda app: administered(app, m.RoleCreate, "gates"), "see: qmctl role show gates"),
    Case(
        lambda app: administered(app, m.RoleDelete, "gates"),
        "see: qmctl user ls --where 'roles=*gates*'",
    ),
    Case(
        lambda app: administered(app, m.GrantDelete, "bob", "", ["put"], "queue", "Q"),
        "see: qmctl grant ls",
    ),
    Case(
        lambda app: refusal(app, m.UserCreate, "bob", {}),
        "add --role administrator: qmctl user create bob --role administrator",
    ),
    Case(
        lambda app: administered(app, m.UserDelete, "admin"),
        "make another user an administrator first: qmctl user alter USER --role administrator",
    ),
    Case(subscription, "delete it with: qmctl sub delete app:s"),
    Case(transmission_queue, "delete the link with: qmctl link delete NYC"),
    Case(
        lambda app: refusal(app, m.QueueCreate, "@NYC"),
        "create the link with: qmctl link create NYC HOST:PORT",
    ),
    Case(
        undeletable("SYSTEM.DEAD.LETTERS"), "empty it with: qmctl queue purge SYSTEM.DEAD.LETTERS"
    ),
    Case(
        undeletable("SYSTEM.PUBLICATIONS"), "each publication is deleted after its last subscriber"
    ),
    Case(not_forwarded, "to forward them: qmctl link alter NYC --transit"),
    Case(
        attributes.put_inhibited_error("Q"), "allow them with: qmctl queue alter Q --no-put-inhibit"
    ),
    Case(put_to_inhibited_topic, "see: qmctl topic show 'a b/c'"),
    Case(
        attributes.get_inhibited_error("Q"), "allow them with: qmctl queue alter Q --no-get-inhibit"
    ),
    Case(too_large, "split it, or raise the limit with: qmctl queue alter Q --message-max SIZE"),
    Case(not_transferred, "to accept them: qmctl queue alter Q --transfer-in"),
    Case(unknown_group, "see: qmctl group ls Q"),
    Case(
        number_taken_error("Q", Member(b"a group", 1), "exists"),
        "check whether it was put before: qmctl group show Q 'a group'",
    ),
    Case(ended_group, "begin another group; see: qmctl group show Q A"),
    Case(
        leased_member,
        "skip it after the lease ends: pause the group until then (qmctl group pause Q A), or "
        "close the connection of a client that hangs (qmctl connection ls)",
    ),
    Case(
        intervention_errors.no_reader_error("Q", 4),
        "start a consumer of groups; see: qmctl connection ls",
    ),
    Case(missing.unknown_subscription_error("A:a", ["A.a"]), "see: qmctl sub ls"),
    Case(missing.unknown_subscription_error("A:s", ["B:s"]), "did you mean B:s? see: qmctl sub ls"),
    Case(lambda app: refusal(app, m.TopicDelete, "a"), "see: qmctl topic ls"),
    Case(missing.unknown_template_error("APP", []), "see: qmctl template ls"),
    Case(missing.unknown_link_error("NYC"), "create it with: qmctl link create NYC HOST:PORT"),
    Case(
        missing.unknown_link_error("NYC", leads_here=True),
        "to end these links: qmctl link disallow NYC",
    ),
    Case(lambda app: refusal(app, m.LinkDisallow, "NYC"), "see: qmctl link ls"),
    Case(
        lambda app: not_acceptable(app, "BOS"),
        "correct the address with: qmctl link alter NYC HOST:PORT",
    ),
    Case(
        lambda app: not_acceptable(app, "NYC", invalid=True),
        "see: qmctl link show NYC; fix that, then start it: qmctl link start NYC",
    ),
    Case(damaged_message, "delete the item: qmctl aside delete 1"),
    Case(replaced_row, "delete what exists, or the item: qmctl aside delete 1"),
    Case(
        lambda app: set_aside(app, "history", 0, m.AsideDrop),
        "leave it set aside, or retry it: qmctl aside retry 1",
    ),
    Case(needed_job, "retry its item; see: qmctl aside ls"),
    Case(
        lambda app: existing_link(app, {"addresses": ["h:2"]}),
        "alter it with: qmctl link alter NYC h:2",
    ),
    Case(
        lambda app: existing_link(app, LINK | {"transit": True}),
        "alter it with: qmctl link alter NYC",
    ),
    Case(lambda _: too_many_peers(), "disallow some with: qmctl link disallow MANAGER"),
    Case(
        lambda app: answered_by(app, "BOS", b"B" * 16),
        "correct the address with: qmctl link alter NYC HOST:PORT",
    ),
    Case(from_peers("EWR", is_known=False), "qmctl link allow EWR"),
    Case(from_peers("EWR", is_known=True), f"qmctl link allow EWR --store-id {'0b' * 16}"),
    Case(from_peers("EWR", is_known=True, has_link=True), "qmctl link start EWR --accept"),
    Case(impostor, "if it was renamed: qmctl user alter EWR --queue-manager LAX"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.remedy)
def test_error_of_the_daemon_has_a_command(case: Case) -> None:
    error = case.made()
    assert "qmctl" not in error.text
    assert remedy.of(error) == case.remedy


def test_each_remedy_has_a_case() -> None:
    used = set[tuple[ErrorCode, str]]()
    for error in [case.made() for case in CASES]:
        entries = remedy.TABLE.get(ErrorCode(error.code), ())
        matching = [entry for entry in entries if entry.pattern.match(error.text)]
        used |= {(ErrorCode(error.code), entry.pattern.pattern) for entry in matching[:1]}
    all_ = {(code, x.pattern.pattern) for code, entries in remedy.TABLE.items() for x in entries}
    assert all_ - used == set()


def test_hint_of_the_daemon_comes_before_the_catalogue() -> None:
    full = RequestError(ErrorCode.QUEUE_FULL, "queue Q is full; consume some")
    assert remedy.of(full) == "consume some"
    assert remedy.of(RequestError(ErrorCode.QUEUE_FULL, "full")) == (
        "get or purge messages, or wait and put again"
    )


def test_invalid_name_has_no_other_remedy() -> None:
    assert remedy.of(RequestError(ErrorCode.NAME_INVALID, "a/b has a /")) == ""
    assert remedy.general(ErrorCode.NAME_INVALID).startswith(
        "use 1 to 64 of A-Z a-z 0-9 . _ -, or "
    )


def test_names_are_quoted_for_the_shell() -> None:
    ended = RequestError(ErrorCode.GROUP_ENDED, "group a;b on queue Q ends with number 2")
    assert remedy.of(ended).endswith("see: qmctl group show Q 'a;b'")
