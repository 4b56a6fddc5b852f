"""Names that a user may not see: neither lists nor errors contain them.

The world has objects whose names contain SEEN, and others whose names contain HIDDEN. The user may
show only the former.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import EACH
from qmgr_protocol.record import Uid, encode_uid
from qmgrd.core.requests.rights import NEEDS
from qmgrd.core.sessions.session import Session
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.pubsub import Hub
from tests.qmgrd.core.requests.test_rights_matrix import (
    ALIASED,
    CASES,
    VERIFIER,
    Case,
    Copy,
    make_world,
    others,
    peer_of,
    through_alias,
)

SHOWS = (
    ("queue", "*SEEN*"),
    ("subscription", "SEEN:*"),
    ("topic", "SEEN/#"),
    ("template", "SEEN*"),
    ("link", "SEEN*"),
)
SEEN_UID, HIDDEN_UID = Uid("FAR", 1), Uid("FAR", 2)


def _world() -> Manager:
    """Names with HIDDEN come before, between and after those with SEEN."""
    hub = Hub()
    manager, owner = hub.manager, hub.app
    owner.ask(m.UserCreate, "admin", {"verifier": VERIFIER, "roles": ["administrator"]})
    for name in ("AHIDDEN", "SEEN", "SEEN2HIDDEN", "ZHIDDEN"):
        seen = name.replace("SEEN2HIDDEN", "ZZHIDDEN")
        owner.ask(m.UserCreate, seen, {})
        owner.ask(m.RoleCreate, seen)
        for number in range(2):
            owner.ask(m.QueueCreate, f"{seen}{number}")
            owner.ask(m.TemplateSet, f"{seen}{number}.*", {"depth_max": 5})
            owner.ask(m.TopicSet, f"{seen}/{number}", {"redelivery_limit": 1})
            owner.ask(m.LinkCreate, f"{seen}{number}", {"addresses": ["a:1"], "stopped": True})
            owner.ask(m.LinkAllow, f"{seen}{number}PEER")
            hub.subscribe(f"{seen}/#", f"{seen}:{number}", redelivery_limit=0)
        owner.ask(m.QueueCreate, f"Q@{seen}0")
    owner.ask(m.Subscribe, "SEEN/#", "ALSOHIDDEN:s", "", {"redelivery_limit": 0})
    owner.put_records("/SEEN/1", record(b"", uid=SEEN_UID))
    owner.put_records("/AHIDDEN/1", record(b"", uid=HIDDEN_UID))
    hub.park("SEEN:0", "AHIDDEN:0", "ALSOHIDDEN:s")
    return manager


@pytest.fixture
def user() -> Client:
    manager = _world()
    owner = manager.connect("owner")
    owner.ask(m.UserCreate, "app", {})
    for kind, pattern in SHOWS:
        owner.ask(m.GrantCreate, "app", "", ["show"], kind, pattern)
    return manager.connect("app", user="app")


LISTS: dict[type[Any], tuple[Any, ...]] = {
    m.QueueList: ("", 1000),
    m.TemplateList: (),
    m.LinkList: (),
    m.UserList: ("", 1000),
    m.RoleList: (),
    m.SubscriptionList: ("", 1000),
    m.TopicList: ("", 1000),
    m.TopicLacks: (encode_uid(SEEN_UID),),
    m.RepublishList: (None, 1000),
}
ADMINISTRATORS = {m.UserList, m.RoleList}


def pages(client: Client, kind: type[Any]) -> Iterator[dict[str, Any]]:
    """Yields the answers to a list, page by page, for each size of a page."""
    fields = LISTS[kind]
    yield client.ask(kind, *fields)
    if len(fields) != 2:
        return
    for limit in (1, 2, 3):
        after: Any = fields[0]
        while after is not None:
            value = client.ask(kind, after, limit)
            yield value
            after = value["next"]


def test_each_list_is_looked_at() -> None:
    lists = {kind for kind, needs in NEEDS.items() if any(need.field == EACH for need in needs)}
    assert lists == set(LISTS)


@pytest.mark.parametrize("kind", LISTS)
def test_list_has_only_names_that_the_user_may_see(user: Client, kind: type[Any]) -> None:
    answers = list(pages(user, kind))
    assert "HIDDEN" not in str(answers)
    assert ("SEEN" in str(answers)) == (kind not in ADMINISTRATORS)


@pytest.mark.parametrize("kind", LISTS)
def test_pages_of_a_user_are_full_and_have_everything(user: Client, kind: type[Any]) -> None:
    """A page that is empty because all its names are hidden would show that names are hidden."""
    whole, *parts = pages(user, kind)
    (field,) = {"queues", "users", "subscriptions", "topics", "parked"} & set(whole) or {""}
    if len(LISTS[kind]) != 2 or kind is m.RepublishList:
        return
    one_by_one = parts[: max(len(whole[field]), 1)]
    assert [row for part in one_by_one for row in part[field]] == whole[field]
    assert whole["next"] is None


@pytest.mark.parametrize("kind", LISTS)
def test_owner_and_administrator_see_everything(user: Client, kind: type[Any]) -> None:
    manager = user.manager
    for client in (manager.connect("owner"), manager.connect("admin", user="admin")):
        answers = list(pages(client, kind))
        assert "HIDDEN" in str(answers)
        assert "SEEN" in str(answers)


@pytest.mark.parametrize("kind", [x for x in LISTS if x not in (m.TopicLacks, *ADMINISTRATORS)])
def test_user_without_rights_sees_nothing(user: Client, kind: type[Any]) -> None:
    owner = user.manager.connect("owner")
    owner.ask(m.UserCreate, "nobody", {})
    nobody = user.manager.connect("nobody", user="nobody")
    for value in pages(nobody, kind):
        assert not any(x for x in value.values() if x is not None)


def test_publication_on_a_topic_that_the_user_may_not_see_does_not_exist(user: Client) -> None:
    texts = []
    for uid in (HIDDEN_UID, Uid("FAR", 3)):
        with pytest.raises(RequestError) as caught:
            user.ask(m.TopicLacks, encode_uid(uid))
        assert caught.value.code == ErrorCode.PUBLICATION_UNKNOWN
        texts.append(caught.value.text.replace(str(uid), ""))
    assert texts[0] == texts[1]


def test_subscription_that_the_user_may_not_see_has_no_list(user: Client) -> None:
    texts = []
    for name in ("AHIDDEN:0", "AHIDDEN:9"):
        with pytest.raises(RequestError) as caught:
            user.ask(m.RepublishList, None, 1000, "", b"", name)
        texts.append(caught.value.text.replace(name, ""))
    assert texts[0] == texts[1]
    assert user.ask(m.RepublishList, None, 1000, "", b"", "SEEN:0")["parked"]


def test_topic_shows_only_the_subscriptions_that_the_user_may_see(user: Client) -> None:
    row = user.ask(m.TopicShow, "SEEN/1")
    assert row["first_subscriptions"] == ["SEEN:0", "SEEN:1"]
    assert row["subscriptions"] == 2
    assert user.manager.connect("owner").ask(m.TopicShow, "SEEN/1")["subscriptions"] == 3


def test_subscriptions_of_a_topic_are_only_those_that_the_user_may_see(user: Client) -> None:
    value = user.ask(m.SubscriptionList, "", 1000, "SEEN/1")
    assert [row["subscription"] for row in value["subscriptions"]] == ["SEEN:0", "SEEN:1"]


def test_link_in_use_does_not_name_hidden_queues(user: Client) -> None:
    owner = user.manager.connect("owner")
    owner.ask(m.GrantCreate, "app", "", ["delete"], "link", "AHIDDEN0")
    for is_shown in (False, True):
        if is_shown:
            owner.ask(m.GrantCreate, "app", "", ["show"], "queue", "Q@*")
        with pytest.raises(RequestError) as caught:
            user.ask(m.LinkDelete, "AHIDDEN0")
        assert caught.value.code == ErrorCode.QUEUE_IN_USE
        assert ("Q@AHIDDEN0" in caught.value.text) == is_shown


def test_errors_suggest_no_names_to_a_user(user: Client) -> None:
    owner = user.manager.connect("owner")
    owner.ask(m.GrantCreate, "app", "", ["get", "delete"], "queue", "AHIDDEX*")
    owner.ask(m.GrantCreate, "app", "", ["delete"], "template", "AHIDDEX*")
    owner.ask(m.GrantCreate, "app", "", ["delete"], "subscription", "AHIDDEX:*")
    for kind, name in (
        (m.Get, "AHIDDEX0"),
        (m.QueueDelete, "AHIDDEX0"),
        (m.TemplateDelete, "AHIDDEX0.*"),
        (m.Unsubscribe, "AHIDDEX:0"),
    ):
        texts = []
        for client in (user, owner):
            with pytest.raises(RequestError) as caught:
                client.ask(kind, name)
            texts.append("HIDDEN" in caught.value.text)
        assert texts == [False, True], kind


# -- the errors of all requests of the matrix


@pytest.fixture(scope="module")
def matrix() -> dict[bytes, bytes]:
    return dict(make_world().store.rows)


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z0-9._:@~/+#*-]+", text))


NAMES = {
    *("Q", "GROUPED", "EMPTY", "TARGET", "BACK", "OTHER", "ALIAS", "TOTARGET", "TOBACK"),
    *("TOGROUPED", "T.*", "NYC", "FAR", "BOS", "C:s", "LAKE", "news/set", "news/today"),
}


def _error_text(copy: Copy, message: Any) -> str:
    heard = copy.client.say(message)
    return " ".join(x.text if type(x) is m.Error else str(getattr(x, "refused", "")) for x in heard)


@pytest.mark.parametrize("case", [*CASES, *(x for x in ALIASED)], ids=str)
def test_refusal_contains_no_name_but_those_of_the_request(
    matrix: dict[bytes, bytes], case: Case
) -> None:
    for grants in ([], others(case)):
        for message in (case.sample.message, through_alias(case)):
            if message is None:
                continue
            copy = Copy(matrix).grant(grants).connect(case.sample)
            granted = {name for _, _, name in grants}
            known = words(str(message)) | granted | {peer_of(type(message))}
            leaked = words(_error_text(copy, message)) & NAMES - known
            assert not leaked


def test_refusal_through_an_alias_names_the_alias(matrix: dict[bytes, bytes]) -> None:
    copy = Copy(matrix)
    client = copy.manager.connect("app", user="app")
    for grants, code in (
        ([], ErrorCode.QUEUE_UNKNOWN),
        ([("show", "queue", "ALIAS")], ErrorCode.NOT_AUTHORIZED),
    ):
        copy.grant(grants)
        with pytest.raises(RequestError) as caught:
            client.ask(m.QueuePurge, "ALIAS")
        assert caught.value.code == code
        assert "ALIAS" in caught.value.text


# -- planted bugs


@pytest.mark.parametrize("kind", [x for x in LISTS if x is not m.TopicLacks])
def test_list_that_shows_everything_is_found(
    user: Client, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "shown", lambda self, kind: None)
    assert any("HIDDEN" in str(value) for value in pages(user, kind))
