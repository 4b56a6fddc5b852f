"""Each request with and without each right that it needs, through a real connection.

The cases follow from the declarations in qmgr_protocol.messages. A request is sent to copies of one
store. Its result with the rights must be the result of the daemon's owner, who may do everything.
Without one of the rights, it must be refused, and the store must stay the same.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, GRANTED_KINDS, Kind, Need, Right
from qmgr_protocol.operation import Role
from qmgr_protocol.record import Uid, encode_uid
from qmgrd.core.access import rights as access_rights
from qmgrd.core.access.access import Access
from qmgrd.core.access.grant import Grant
from qmgrd.core.layout import keys
from qmgrd.core.requests import rights
from qmgrd.core.requests.rights import Guard
from qmgrd.core.sessions.request_part import SettlePart
from tests.growing import GROUP_ID, grouped
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, Manager, record

PRODUCER = b"p" * 16
STORE_ID = b"F" * 16
STREAM_ID = STORE_ID + bytes(8)
VERIFIER = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$" + ":".join(["A" * 43 + "="] * 2)
REQUESTS: dict[type[Any], tuple[Need, ...]] = {
    found.kind: found.request.needs for found in OPERATIONS.values() if found.request is not None
}
DIALLER = {found.kind: found.dialler for found in OPERATIONS.values()}
REFUSALS = {
    ErrorCode.NOT_AUTHORIZED,
    ErrorCode.QUEUE_UNKNOWN,
    ErrorCode.SUBSCRIPTION_UNKNOWN,
    ErrorCode.LINK_UNKNOWN,
    ErrorCode.TEMPLATE_UNKNOWN,
}
Result = tuple[Any, ...]
UNRECORDED = {"record": "never"}  # so that a refusal leaves the store as it is

# -- the world: an object of each kind that requests name


def make_world() -> Manager:
    manager = Manager(audit=UNRECORDED)
    owner = manager.connect("owner")
    owner.ask(m.UserCreate, "admin", {"verifier": VERIFIER, "roles": ["administrator"]})
    for name in ("app", "other"):
        owner.ask(m.UserCreate, name, {})
    for name in ("held", "unused"):
        owner.ask(m.RoleCreate, name)
    owner.ask(m.UserAlter, "app", {"roles": ["held"]})
    for name in ("Q", "GROUPED", "EMPTY", "TARGET", "BACK", "OTHER"):
        owner.ask(m.QueueCreate, name)
    owner.ask(m.QueueCreate, "ALIAS", {"alias_of": "Q"})
    owner.ask(m.QueueCreate, "TOTARGET", {"alias_of": "TARGET"})
    owner.ask(m.QueueCreate, "TOBACK", {"alias_of": "BACK"})
    owner.ask(m.QueueCreate, "TOGROUPED", {"alias_of": "GROUPED"})
    owner.ask(m.TemplateSet, "T.*", {"depth_max": 5})
    owner.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    owner.ask(m.LinkCreate, "FAR", {"addresses": []})
    owner.ask(m.LinkAllow, "BOS")
    owner.ask(m.TopicSet, "news/set", {"redelivery_limit": 1})
    owner.ask(m.Subscribe, "news/#", "C:s")
    owner.ask(m.CursorCommit, "LAKE", 0)
    owner.put("Q", b"one", b"two")
    owner.put_records("GROUPED", grouped(1), grouped(2))
    owner.put_records("/news/today", record(b"news", uid=("QM9", 7)))
    manager.restart()
    return manager


class Sample(NamedTuple):
    """A valid request, and the requests that must precede it."""

    message: Any
    before: tuple[Any, ...] = ()


def _samples() -> Iterator[Sample]:
    opened = m.ProducerOpen(1, PRODUCER)
    begun = m.UnitBegin(1, 1)
    linked = m.LinkOpen(1, STREAM_ID, 1, 1)
    uid = encode_uid(Uid("QM9", 7))
    attributes = {"backout_queue": "BACK", "depth_max": 9}
    yield Sample(opened)
    yield Sample(m.Put(1, 1, 0, "Q", [record(b"three")]), (opened,))
    yield Sample(begun)
    yield Sample(m.UnitPut(2, 1, "Q", [record(b"three")]), (begun,))
    yield Sample(m.UnitCommit(1, 1, 0, 1, 0, 0), (opened, m.UnitBegin(2, 1)))
    yield Sample(m.UnitBackout(2, 1), (begun,))
    yield Sample(m.Cancel(9))
    yield Sample(m.Get(2, "Q"))
    yield Sample(m.Consume(2, "Q", 1, 1_000))
    yield Sample(m.Credit(9, 1, 1))
    yield Sample(m.Settle(2, m.ACK, 1, bytes(m.HANDLE.size)))
    yield Sample(m.Browse(2, "Q"))
    yield Sample(m.ReaderClose(2, 1))
    yield Sample(m.QueueCreate(2, "NEW", attributes))
    yield Sample(m.QueueCreate(2, "NEW", {"alias_of": "TARGET"}))
    yield Sample(m.QueueDelete(2, "Q", True))
    yield Sample(m.QueueShow(2, "Q"))
    yield Sample(m.QueuePurge(2, "Q"))
    yield Sample(m.QueueAlter(2, "Q", attributes))
    yield Sample(m.QueueAlter(2, "ALIAS", {"alias_of": "TARGET"}))
    yield Sample(m.QueueMove(2, "Q", "TARGET"))
    yield Sample(m.QueueMove(2, "Q", ""))
    yield Sample(m.TemplateSet(2, "NEW.*", attributes))
    yield Sample(m.TemplateDelete(2, "T.*"))
    yield Sample(linked)
    yield Sample(m.CommitAsk(1), (linked,))
    yield Sample(m.LinkFetch(2, 0, 65_536, 65_536, 1, 65_536))
    yield Sample(
        m.LinkCreate(2, "NEW", {"addresses": ["new:1"], "stopped": True, "routes": ["ROM"]})
    )
    yield Sample(m.LinkDelete(2, "NYC", True))
    yield Sample(m.LinkShow(2, "NYC"))
    yield Sample(m.LinkStart(2, "NYC"))
    yield Sample(m.LinkStop(2, "NYC"))
    yield Sample(m.LinkAlter(2, "NYC", {"addresses": ["nyc:2"], "routes": ["ROM"]}))
    yield Sample(m.LinkAllow(2, "FRA"))
    yield Sample(m.LinkDisallow(2, "BOS"))
    yield Sample(m.Status(2))
    yield Sample(m.Snapshot(2, "/tmp/snapshot"))
    yield Sample(m.ConnectionList(2))
    yield Sample(m.ConnectionClose(2, 1))
    yield Sample(m.AsideList(2))
    yield Sample(m.AsideRetry(2, 1))
    yield Sample(m.AsideDrop(2, 1))
    yield Sample(m.SwitchOver(2, "nyc2"))
    yield Sample(m.JobList(2))
    yield Sample(m.JobShow(2, 1))
    yield Sample(m.JobCancel(2, 1))
    yield Sample(m.UserCreate(2, "new", {}))
    yield Sample(m.UserAlter(2, "other", {"roles": ["monitor"]}))
    yield Sample(m.UserDelete(2, "other"))
    yield Sample(m.UserShow(2, "other", True))
    yield Sample(m.RoleCreate(2, "new"))
    yield Sample(m.RoleDelete(2, "unused"))
    yield Sample(m.RoleShow(2, "unused"))
    yield Sample(m.GrantCreate(2, "other", "", ["put"], "queue", "Q"))
    yield Sample(m.GrantCreate(2, "", "unused", ["put"], "queue", "Q"))
    yield Sample(m.GrantDelete(2, "other", "", ["put"], "queue", "Q"))
    yield Sample(m.GrantDelete(2, "", "unused", ["put"], "queue", "Q"))
    yield Sample(m.AccessExplain(2, "other", "Put", {"queue": "Q"}))
    yield Sample(m.AccessRules(2))
    yield Sample(m.AccessTest(2, "unix", "other", "scram-sha-256"))
    yield Sample(m.GroupNew(2))
    yield Sample(m.GroupList(2, "GROUPED"))
    yield Sample(m.GroupShow(2, "GROUPED", GROUP_ID))
    yield Sample(m.GroupAlter(2, "GROUPED", GROUP_ID, "pause"))
    yield Sample(m.Subscribe(2, "news/+", "C:new"))
    yield Sample(m.Unsubscribe(2, "C:s"))
    yield Sample(m.SubscriptionHealthy(2, "C:s"))
    yield Sample(m.TopicSet(2, "news/new", {"redelivery_limit": 1}))
    yield Sample(m.TopicDelete(2, "news/set"))
    yield Sample(m.TopicShow(2, "news/today"))
    yield Sample(m.Republish(2, True, b"", "", ["C:s"]))
    yield Sample(m.Republish(2, True))
    yield Sample(m.HistoryRead(2))
    yield Sample(m.HistoryShow(2))
    yield Sample(m.CursorCommit(2, "NEW", 0))
    yield Sample(m.CursorDelete(2, "LAKE"))
    # Names that are of another kind by their form
    yield Sample(m.Put(1, 1, 0, "/news/now", [record(b"news")]), (opened,))
    yield Sample(m.UnitPut(2, 1, "/news/now", [record(b"news")]), (begun,))
    yield Sample(m.Get(2, "C:s"))
    yield Sample(m.Consume(2, "C:s", 1, 1_000))
    yield Sample(m.Browse(2, "C:s"))
    yield Sample(m.QueueShow(2, "C:s"))
    yield Sample(m.QueuePurge(2, "C:s"))
    yield Sample(m.QueueAlter(2, "C:s", {"depth_max": 9}))
    # Lists, which each user may ask for
    yield Sample(m.QueueList(2))
    yield Sample(m.TemplateList(2))
    yield Sample(m.LinkList(2))
    yield Sample(m.UserList(2))
    yield Sample(m.RoleList(2))
    yield Sample(m.SubscriptionList(2))
    yield Sample(m.TopicList(2))
    yield Sample(m.TopicLacks(2, uid))
    yield Sample(m.RepublishList(2))


SAMPLES = list(_samples())
ALIASES = {"Q": "ALIAS", "TARGET": "TOTARGET", "BACK": "TOBACK", "GROUPED": "TOGROUPED"}


class Case(NamedTuple):
    """A request with one of the rights that it needs."""

    sample: Sample
    need: Need
    grant: tuple[str, str, str]  # right, kind and name

    def __str__(self) -> str:
        return f"{type(self.sample.message).__name__}-{'-'.join(filter(None, self.grant))}"


def peer_of(kind: type[Any]) -> str:
    """Returns the name of the other end. Only FAR may fetch, because it has a link."""
    return "FAR" if kind is m.LinkFetch else "PEER"


def _values(need: Need, message: Any) -> list[str]:
    """Returns the names of the objects for which *message* has this need."""
    if need.right is Right.CONNECT or (need.when and not getattr(message, need.when)):
        return []
    if need.kind is Kind.MANAGER:
        return [""]
    if need.kind is Kind.PEER:
        return [peer_of(type(message))]
    if need.field == EACH:
        return []
    field, _, attribute = need.field.partition(".")
    value = getattr(message, field)
    if attribute:
        value = value.get(attribute, "")
    names = value if type(value) is list else [value] if value else []
    return names or (["*"] if need.or_all else [])


def _grant(need: Need, name: str) -> tuple[str, str, str]:
    if need.kind is Kind.DESTINATION and name[:1] == "/":
        return "publish", "topic", name[1:]
    if need.kind is Kind.SOURCE and ":" in name:
        return need.right.value, "subscription", name
    kind = "queue" if need.kind in (Kind.DESTINATION, Kind.SOURCE) else need.kind.value
    return need.right.value, kind, name


def cases_of(sample: Sample) -> list[Case]:
    message = sample.message
    return [
        Case(sample, need, _grant(need, name))
        for need in REQUESTS[type(message)]
        for name in _values(need, message)
    ]


CASES = [case for sample in SAMPLES for case in cases_of(sample)]
# Rights on users and roles cannot be granted: only administrators have them.
GRANTABLE = [case for case in CASES if case.grant[1] in GRANTED_KINDS]
EACH_SAMPLE = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{type(x.message).__name__}{i}" for i, x in enumerate(SAMPLES)]
)
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=str)
EACH_GRANTABLE = pytest.mark.parametrize("case", GRANTABLE, ids=str)

# -- a copy of the world


@pytest.fixture(scope="module")
def world() -> dict[bytes, bytes]:
    return dict(make_world().store.rows)


class Copy:
    """A copy of the world, with a connection of the user app, or of another identity."""

    def __init__(self, world: dict[bytes, bytes], **sections: Any) -> None:
        store = MemoryStore()
        store.rows.update(world)
        self.manager = Manager(store, **({"audit": UNRECORDED} | sections))
        self.owner = self.manager.connect("owner")
        self.client: Client

    def grant(self, grants: list[tuple[str, str, str]], *, role: str = "") -> "Copy":
        for right, kind, name in grants:
            user = "" if role else "app"
            if kind in GRANTED_KINDS:
                self.owner.ask(m.GrantCreate, user, role, [right], kind, name)
        if not all(kind in GRANTED_KINDS for _, kind, _ in grants):
            # Such rights cannot be granted. They show that each need is checked by itself.
            found = [Grant(Right(right), Kind(kind), name) for right, kind, name in grants]
            access = self.manager.turns.broker.users.accesses["app"]
            access.grant(found, is_administrator=False)
        return self

    def revoke(self, right: str, kind: str, name: str) -> None:
        self.owner.ask(m.GrantDelete, "app", "", [right], kind, name)

    def connect(self, sample: Sample, user: str = "app") -> "Copy":
        """Connects as *user* and sends the requests before the request of *sample*."""
        kind = type(sample.message)
        is_peer = DIALLER[kind] is Role.QUEUE_MANAGER
        role = ("queue-manager", STORE_ID) if is_peer else ("client", b"")
        self.client = self.manager.connect(peer_of(kind), *role, user=user)
        for message in sample.before:
            self.client.say(message)
        self.manager.rest()
        self.client.hear()
        return self

    def send(self, message: Any) -> Result:
        """Sends a request. Returns its answers, effects and the end of the connection, if any."""
        heard = self.client.say(message)
        effects = [type(effect).__name__ for effect in self.manager.last.effects]
        self.manager.rest()
        goaway = self.client.goaway
        ended = () if goaway is None else (("Goaway", goaway.code),)
        return (*map(_essence, heard + self.client.hear()), *effects, *ended)

    def dump(self) -> dict[bytes, bytes]:
        """Returns the store, without the clock and the refused puts that producers remember."""
        return {
            key: value
            for key, value in self.manager.store.rows.items()
            if key[:1] != keys.SPACE_PRODUCER and key != keys.CLOCK
        }


def _essence(message: Any) -> Any:
    """Returns the part of an answer that does not depend on names and times."""
    kind = type(message)
    if kind in (m.Error, m.Ended):
        return kind.__name__, message.code
    if kind is m.Committed:
        return kind.__name__, tuple(code for _, code, _ in message.refused)
    return kind.__name__


def is_refused(result: Result) -> bool:
    """Returns whether the only answer is that the right is lacking."""
    if len(result) != 1 or type(result[0]) is str:
        return False
    name, code = result[0]
    return (code[0] if name == "Committed" and code else code) in REFUSALS


def others(case: Case) -> list[tuple[str, str, str]]:
    """Returns the other rights that the request of *case* needs."""
    return sorted({x.grant for x in cases_of(case.sample)} - {case.grant})


def check_refused(copy: Copy, message: Any) -> None:
    """Asserts that *message* is refused and changes nothing."""
    before = copy.dump()
    result = copy.send(message)
    assert is_refused(result), result
    assert copy.dump() == before


def as_owner(world: dict[bytes, bytes], sample: Sample) -> Result:
    return Copy(world).connect(sample, user="").send(sample.message)


# -- the matrix


def test_each_request_and_each_need_is_covered() -> None:
    """A new request must be added to the samples, with values for all of its needs."""
    assert {type(sample.message) for sample in SAMPLES} == set(REQUESTS)
    assert set(rights.NEEDS) == {*REQUESTS, SettlePart}
    covered = {(type(case.sample.message), case.need) for case in CASES}
    needed = {(kind, need) for kind, needs in REQUESTS.items() for need in needs}
    lists = {x for x in needed if x[1].field == EACH}  # covered by test_visible_names.py
    free = {x for x in needed if x[1] == Need(Right.CONNECT)}
    assert covered == needed - lists - free
    assert len(covered) >= 70


def test_results_of_the_owner_are_worth_comparing(world: dict[bytes, bytes]) -> None:
    """Few samples are answered by an error, and none by a refusal."""
    results = {i: as_owner(world, sample) for i, sample in enumerate(SAMPLES)}
    assert not [SAMPLES[i].message for i, found in results.items() if is_refused(found)]
    errors = {
        type(SAMPLES[i].message)
        for i, found in results.items()
        if any(type(x) is tuple and x[0] in ("Error", "Goaway") for x in found)
    }
    assert errors == {m.AsideRetry, m.AsideDrop, m.JobShow, m.JobCancel, m.GrantDelete}


@EACH_SAMPLE
def test_user_with_the_rights_may_do_what_the_owner_may(
    world: dict[bytes, bytes], sample: Sample
) -> None:
    grants = [case.grant for case in cases_of(sample)]
    if type(sample.message) is m.TopicLacks:  # Otherwise no publication exists for the user.
        grants = [("show", "subscription", "C:s")]
    expected = as_owner(world, sample)
    administrator = Copy(world).connect(sample, user="admin")
    if DIALLER[type(sample.message)] is not Role.QUEUE_MANAGER:
        assert administrator.send(sample.message) == expected
    if all(kind in GRANTED_KINDS for _, kind, _ in grants):
        assert Copy(world).grant(grants).connect(sample).send(sample.message) == expected
        through_role = Copy(world).grant(grants, role="held").connect(sample)
        assert through_role.send(sample.message) == expected


@EACH_CASE
def test_request_without_a_right_is_refused_and_changes_nothing(
    world: dict[bytes, bytes], case: Case
) -> None:
    check_refused(Copy(world).grant(others(case)).connect(case.sample), case.sample.message)


@EACH_GRANTABLE
def test_right_on_another_object_is_not_enough(world: dict[bytes, bytes], case: Case) -> None:
    right, kind, _ = case.grant
    if kind == "manager":
        return  # There is only one.
    elsewhere = {"topic": "elsewhere", "subscription": "D:elsewhere"}.get(kind, "ELSEWHERE")
    grants = [*others(case), (right, kind, elsewhere)]
    check_refused(Copy(world).grant(grants).connect(case.sample), case.sample.message)


@EACH_GRANTABLE
def test_other_rights_on_the_same_object_are_not_enough(
    world: dict[bytes, bytes], case: Case
) -> None:
    right, kind, name = case.grant
    same = [(x.value, kind, name) for x in GRANTED_KINDS[kind] if x.value != right]
    same = [x for x in same if x not in {found.grant for found in cases_of(case.sample)}]
    copy = Copy(world).grant([*others(case), *same]).connect(case.sample)
    check_refused(copy, case.sample.message)


@EACH_GRANTABLE
def test_right_that_is_revoked_is_lacking_on_the_open_connection(
    world: dict[bytes, bytes], case: Case
) -> None:
    copy = Copy(world).grant([*others(case), case.grant]).connect(case.sample)
    copy.revoke(*case.grant)
    if copy.client.goaway is not None:  # The links of a peer end with its right.
        assert copy.client.goaway.code == ErrorCode.NOT_AUTHORIZED
        return
    check_refused(copy, case.sample.message)


def through_alias(case: Case) -> Any | None:
    """Returns the request of *case* with an alias instead of the queue, or None."""
    right, kind, name = case.grant
    reaches = right in ("put", "get", "browse", "purge", "move") or case.need.through
    if kind != "queue" or name not in ALIASES or not reaches:
        return None
    message, alias = case.sample.message, ALIASES[name]
    field, _, attribute = case.need.field.partition(".")
    if type(message) is m.QueueDelete or attribute == "alias_of":
        return None  # The request is about the alias itself.
    if attribute:
        changed = {**message.attributes, attribute: alias}
        return message._replace(attributes=changed)
    return message._replace(**{field: alias})


ALIASED = [case for case in CASES if through_alias(case) is not None]


@pytest.mark.parametrize("case", ALIASED, ids=str)
def test_alias_counts_as_its_queue(world: dict[bytes, bytes], case: Case) -> None:
    message, (right, kind, name) = through_alias(case), case.grant
    sample = case.sample._replace(message=message)
    expected = as_owner(world, sample)
    granted = Copy(world).grant([*others(case), case.grant]).connect(sample)
    assert granted.send(message) == expected
    on_alias = [*others(case), (right, kind, ALIASES[name])]
    check_refused(Copy(world).grant(on_alias).connect(sample), message)


# An empty field stands for a new name, for all objects, or for each message's own queue.
MEANT_EMPTY = {
    (m.Subscribe, "subscription"),
    (m.Republish, "subscriptions"),
    (m.QueueMove, "target"),
}


@EACH_CASE
def test_empty_name_is_no_way_around_a_right(world: dict[bytes, bytes], case: Case) -> None:
    """An empty field needs no right, so the request must not do anything either."""
    field, _, attribute = case.need.field.partition(".")
    message = case.sample.message
    if not field or attribute or (type(message), field) in MEANT_EMPTY:
        return
    empty: Any = [] if type(getattr(message, field)) is list else ""
    copy = Copy(world).grant(others(case)).connect(case.sample)
    before = copy.dump()
    copy.send(message._replace(**{field: empty}))
    assert copy.dump() == before


def test_rights_that_are_only_reported_refuse_nothing(world: dict[bytes, bytes]) -> None:
    for sample in SAMPLES:
        if DIALLER[type(sample.message)] is Role.QUEUE_MANAGER:
            continue
        copy = Copy(world, auth={"mode": "report"}).connect(sample)
        assert copy.send(sample.message) == as_owner(world, sample)


# -- the matrix finds each check that is left out


def caught(check: Callable[[], None]) -> bool:
    try:
        check()
    except AssertionError:
        return True
    return False


@EACH_CASE
def test_check_that_is_left_out_is_found(
    world: dict[bytes, bytes], case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(case.sample.message)
    left = tuple(need for need in rights.CHECKED[kind] if need != case.need)
    assert len(left) < len(rights.CHECKED[kind])
    monkeypatch.setitem(rights.CHECKED, kind, left)
    copy = Copy(world).grant(others(case)).connect(case.sample)
    assert caught(lambda: check_refused(copy, case.sample.message))


@pytest.mark.parametrize("case", ALIASED, ids=str)
def test_alias_that_is_not_followed_is_found(
    world: dict[bytes, bytes], case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_rights, "Alias", ())
    assert caught(lambda: test_alias_counts_as_its_queue(world, case))


def test_decision_that_outlives_its_grant_is_found(
    world: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Any, bool] = {}
    may = Access.may

    def planted(self: Access, right: Right, kind: Kind, name: str = "") -> bool:
        return kept.setdefault((right, kind, name), may(self, right, kind, name))

    monkeypatch.setattr(Access, "may", planted)
    case = next(x for x in GRANTABLE if type(x.sample.message) is m.QueuePurge)

    def check() -> None:
        kept.clear()
        copy = Copy(world).grant([case.grant]).connect(case.sample)
        assert "Ok" in copy.send(case.sample.message)
        copy.revoke(*case.grant)
        check_refused(copy, case.sample.message)

    assert caught(check)


# -- ways around the checks


def test_client_that_claims_to_be_a_queue_manager_needs_the_right_to_put(
    world: dict[bytes, bytes],
) -> None:
    """Only puts over a link's stream are checked later, one by one."""
    copy = Copy(world)
    copy.client = copy.manager.connect("PEER", "queue-manager", STORE_ID, user="app")
    copy.client.say(m.ProducerOpen(1, PRODUCER))
    check_refused(copy, m.Put(1, 1, 0, "Q", [record(b"three")]))


def test_put_without_a_right_on_an_unknown_stream_ends_only_its_connection(
    world: dict[bytes, bytes],
) -> None:
    copy = Copy(world)
    copy.client = copy.manager.connect("PEER", user="app")
    assert copy.send(m.Put(9, 1, 0, "Q", [])) == (("Goaway", ErrorCode.STREAM_UNKNOWN),)
    assert copy.owner.ask(m.QueueShow, "Q")


def test_puts_over_a_link_are_refused_one_by_one(world: dict[bytes, bytes]) -> None:
    linked = m.LinkOpen(1, STREAM_ID, 1, 1)
    for grants, depth in (([], 2), ([("put", "queue", "Q")], 3)):
        copy = Copy(world).grant([("link", "peer", "PEER"), *grants])
        copy.connect(Sample(m.CommitAsk(1), (linked,)))
        copy.send(m.Put(1, 1, 0, "Q", [record(b"three", uid=("PEER", 7))]))
        assert copy.owner.ask(m.QueueShow, "Q")["depth"] == depth


def test_guard_without_any_check_is_found(
    world: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guard, "check", lambda self, session, message: None)

    def check(case: Case) -> None:
        check_refused(Copy(world).connect(case.sample), case.sample.message)

    assert all(caught(partial(check, case)) for case in CASES)
