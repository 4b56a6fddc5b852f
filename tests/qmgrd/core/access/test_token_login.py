"""Logins by token, the end of their connections, and renewals. The clock is that of the test."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.frame import FRAME_MAX_BYTES_BEFORE_HELLO, encode
from qmgr_protocol.layout import to_array
from qmgr_protocol.limits import CLIENT_NAME_MAX
from qmgr_protocol.token_login import remaining_time
from qmgrd.core.access.login import EXPIRED_RETRY_MS, RENEWAL_PAUSE_MS, TokenEnded
from qmgrd.core.access.origin import Origin, Tls
from qmgrd.core.access.token import key_of
from qmgrd.core.access.user import User
from qmgrd.core.peer import HEARTBEATS_MAX
from tests.qmgrd.core.access.test_login import HELLO, HERE, LOCAL, REMOTE, Dialled, Door, Heard
from tests.tokens import HOUR_S, NOW_MS, NOW_S, claims, entry, private_key, signed

SKEW_MS = 30_000
HOUR_MS = HOUR_S * 1_000
PLAIN = Origin("10.0.0.1", False)
WRONG = (
    "the token is not valid for this queue manager, or its user does not exist, is disabled, or "
    "may not log in from here"
)


class TokenDoor(Door):
    """A queue manager that accepts tokens of one issuer."""

    def __init__(self, *users: User, is_open: bool = False, **auth: Any) -> None:
        super().__init__(*(users or [User("app")]), is_open=is_open, tokens=[entry()], **auth)
        self.logins.tokens.keys = [(key_of(private_key("p256").public_key()),)]
        self.logins.wall_ms = lambda: NOW_MS + self.now_ms

    def enter(self, token: bytes, origin: Origin = REMOTE) -> tuple[Dialled, Any]:
        dialled = self.dial(origin)
        return dialled, dialled.say(HELLO._replace(auth_method="token", auth_data=token))


def entered(door: TokenDoor | None = None, token: bytes = b"") -> tuple[TokenDoor, Dialled]:
    door = door or TokenDoor()
    dialled, welcome = door.enter(token or signed())
    assert type(welcome) is m.Welcome
    return door, dialled


def later(seconds: int, **others: Any) -> bytes:
    """Returns a token that was issued *seconds* after the usual one."""
    times = {"iat": NOW_S + seconds, "exp": NOW_S + seconds + HOUR_S}
    return signed(claims(**times | others))


def test_token_opens_the_connection_until_its_end() -> None:
    dialled, welcome = TokenDoor().enter(signed())
    assert welcome.auth_data == remaining_time(HOUR_MS + SKEW_MS)
    assert dialled.peer.is_open
    assert dialled.peer.has_token
    assert dialled.peer.facts(1_000)["token_ms"] == HOUR_MS + SKEW_MS - 1_000
    assert dialled.events == 1


def test_connection_ends_with_its_token() -> None:
    _, dialled = entered()
    dialled.peer.renewal.check(HOUR_MS + SKEW_MS - 1)
    with pytest.raises(TokenEnded) as caught:
        dialled.peer.renewal.check(HOUR_MS + SKEW_MS)
    assert caught.value.code == ErrorCode.TOKEN_EXPIRED


def test_change_of_the_wall_clock_does_not_move_the_end() -> None:
    door, dialled = entered()
    for wall_ms in (0, NOW_MS - HOUR_MS, NOW_MS + 10 * HOUR_MS):
        door.logins.wall_ms = partial(int, wall_ms)
        dialled.peer.renewal.check(HOUR_MS + SKEW_MS - 1)
        with pytest.raises(TokenEnded):
            dialled.peer.renewal.check(HOUR_MS + SKEW_MS)


@pytest.mark.parametrize(
    ("token", "users"),
    [
        (signed(), [User("other")]),
        (signed(), [User("app", is_enabled=False)]),
        (signed(claims(sub="a/b")), [User("app")]),
        (signed(key=private_key("p256", 1)), [User("app")]),
        (signed(claims(aud="other")), [User("app")]),
        (later(HOUR_S), [User("app")]),
        (b"", [User("app")]),
        (b"\xff" * 2_816, [User("app")]),
    ],
)
def test_all_refusals_have_the_same_words(token: bytes, users: list[User]) -> None:
    """A stranger cannot learn which users exist. The log has the reason."""
    dialled, answer = TokenDoor(*users).enter(token)
    assert answer == m.Goaway(ErrorCode.LOGIN_FAILED, WRONG)
    assert dialled.peer.refusal
    assert not dialled.peer.has_token
    assert dialled.events == 0


def test_expired_token_has_its_own_answer_for_any_user() -> None:
    """So a client waits for a new one. Only the issuer can make such a token."""
    token = later(-2 * HOUR_S)
    for user in ("app", "other"):
        _, answer = TokenDoor(User(user)).enter(token)
        assert answer == m.Goaway(
            ErrorCode.TOKEN_EXPIRED, "the token has expired", EXPIRED_RETRY_MS
        )
    forged = signed(claims(exp=1, iat=0), private_key("p256", 1))
    assert TokenDoor().enter(forged)[1].code == ErrorCode.LOGIN_FAILED


@pytest.mark.parametrize(
    ("origin", "rules", "code"),
    [
        (REMOTE, [], None),
        (LOCAL, [], None),
        (HERE, [], None),
        (PLAIN, [], ErrorCode.LOGIN_REFUSED),
        (PLAIN, [{"method": "token"}], ErrorCode.LOGIN_REFUSED),
        (REMOTE, [{"method": "token"}], None),
        (REMOTE, [{"method": "scram-sha-256"}], ErrorCode.LOGIN_REFUSED),
        (REMOTE, [{"from": "10.9.0.0/16", "method": "token"}], ErrorCode.LOGIN_REFUSED),
        (REMOTE, [{"user": "shop-*", "method": "token"}], ErrorCode.LOGIN_FAILED),
        (
            REMOTE,
            [{"user": "app", "method": "scram-sha-256"}, {"method": "token"}],
            ErrorCode.LOGIN_FAILED,
        ),
        (REMOTE, [{"tls": "certificate", "method": "token"}], ErrorCode.LOGIN_REFUSED),
    ],
)
def test_rules_decide_about_tokens(
    origin: Origin, rules: list[dict[str, Any]], code: ErrorCode | None
) -> None:
    _, answer = TokenDoor(access=rules).enter(signed(), origin)
    if code is None:
        assert type(answer) is m.Welcome
    else:
        assert answer.code == code


def test_wrong_token_is_refused_also_while_no_user_exists() -> None:
    _, answer = TokenDoor(is_open=True).enter(b"a.b.c", LOCAL)
    assert answer.code == ErrorCode.LOGIN_FAILED


def test_longest_token_fits_in_the_first_frame() -> None:
    hello = HELLO._replace(
        name="\U0001f40b" * CLIENT_NAME_MAX,
        software="qmgr_client/0.1.0",
        boot=(1 << 64) - 1,
        frame_max_bytes=(1 << 64) - 1,
        auth_method="token",
        auth_data=bytes(m.AUTH_DATA_MAX),
        session=bytes(64),
    )
    assert len(encode(to_array(hello))) <= FRAME_MAX_BYTES_BEFORE_HELLO
    too_long = HELLO._replace(auth_method="token", auth_data=bytes(m.AUTH_DATA_MAX + 1))
    answer = TokenDoor().dial().say(too_long)
    assert answer.code == ErrorCode.FIELD_INVALID
    assert "auth_data" in answer.text


def test_renewal_moves_the_end() -> None:
    door, dialled = entered()
    door.now_ms = HOUR_MS // 2
    answer = dialled.say(m.TokenRenew(7, later(HOUR_S // 2)))
    assert answer == m.Ok(7, HOUR_MS + SKEW_MS)
    dialled.peer.renewal.check(HOUR_MS + SKEW_MS)
    with pytest.raises(TokenEnded):
        dialled.peer.renewal.check(HOUR_MS // 2 + HOUR_MS + SKEW_MS)


def test_renewal_may_bring_the_end_forward() -> None:
    _, dialled = entered()
    answer = dialled.say(m.TokenRenew(7, signed(claims(exp=NOW_S + 60))))
    assert answer == m.Ok(7, 60_000 + SKEW_MS)
    with pytest.raises(TokenEnded):
        dialled.peer.renewal.check(60_000 + SKEW_MS)


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (later(60, sub="other"), ErrorCode.LOGIN_FAILED),
        (later(60, sub="nobody"), ErrorCode.LOGIN_FAILED),
        (later(60, aud="other"), ErrorCode.LOGIN_FAILED),
        (later(-2 * HOUR_S), ErrorCode.TOKEN_EXPIRED),
        (signed(claims(), private_key("p256", 1)), ErrorCode.LOGIN_FAILED),
        (b"", ErrorCode.LOGIN_FAILED),
    ],
)
def test_refused_renewal_keeps_the_end(token: bytes, code: ErrorCode) -> None:
    door, dialled = entered(TokenDoor(User("app"), User("other")))
    door.now_ms = 60_000
    answer = dialled.say(m.TokenRenew(7, token))
    assert (type(answer), answer.request_id, answer.code) == (m.Error, 7, code)
    assert "other" not in answer.text
    assert "the last renewal of the token failed" in dialled.peer.refusal
    dialled.peer.renewal.check(HOUR_MS + SKEW_MS - 1)
    with pytest.raises(TokenEnded):
        dialled.peer.renewal.check(HOUR_MS + SKEW_MS)


def test_user_that_was_disabled_or_refused_since_cannot_renew() -> None:
    door, dialled = entered()
    door.known.users["app"] = User("app", is_enabled=False)
    assert dialled.say(m.TokenRenew(7, later(1))).code == ErrorCode.LOGIN_FAILED


def test_refused_renewal_is_recorded() -> None:
    _, dialled = entered()
    dialled.say(m.TokenRenew(7, b"a.b.c"))
    heard: Any = Heard()
    for _, arrival in dialled._intake.take(10, 1 << 20):
        assert arrival.event is not None
        arrival.event(heard)
    ((identity, address, name, code, why),) = heard.refused
    assert (identity.user, identity.method) == ("app", "token")
    assert (address, name, code) == ("10.0.0.1", "orders", ErrorCode.LOGIN_FAILED)
    assert why.startswith("the last renewal of the token failed: ")


def test_renewals_are_limited() -> None:
    """Each of them costs the check of a signature."""
    door, dialled = entered()
    assert type(dialled.say(m.TokenRenew(1, later(1)))) is m.Ok
    for now_ms in (0, 1, RENEWAL_PAUSE_MS - 1):
        door.now_ms = now_ms
        answer = dialled.say(m.TokenRenew(2, later(2)))
        assert (answer.code, answer.retry_after_ms) == (ErrorCode.LOGINS_DELAYED, RENEWAL_PAUSE_MS)
    door.now_ms = RENEWAL_PAUSE_MS
    assert type(dialled.say(m.TokenRenew(3, later(3)))) is m.Ok


def test_flood_of_renewals_ends_the_connection() -> None:
    _, dialled = entered()
    flood = encode(to_array(m.TokenRenew(1, b""))) * (HEARTBEATS_MAX + 1)
    with pytest.raises(Exception, match="heartbeats"):
        dialled.peer.receive(flood, 0)


def test_connection_without_a_token_cannot_be_given_one() -> None:
    dialled = TokenDoor(is_open=True).dial(HERE)
    assert type(dialled.say(HELLO)) is m.Welcome
    answer = dialled.say(m.TokenRenew(7, signed()))
    assert answer.code == ErrorCode.LOGIN_REFUSED
    assert not dialled.peer.has_token


def test_renewal_before_the_login_is_refused() -> None:
    answer = TokenDoor().dial().peer
    data = encode(to_array(m.TokenRenew(7, signed())))
    with pytest.raises(Exception, match="TokenRenew"):
        answer.receive(data, 0)


@given(st.binary(max_size=100), st.sampled_from([REMOTE, LOCAL, PLAIN, HERE]))
def test_any_bytes_are_refused(data: bytes, origin: Origin) -> None:
    dialled, answer = TokenDoor().enter(data, origin)
    assert type(answer) is m.Goaway
    assert not dialled.peer.is_open


def test_tls_is_not_needed_on_this_machine_only() -> None:
    mapped = Origin("::1", True, tls=None)
    assert type(TokenDoor().enter(signed(), mapped)[1]) is m.Welcome
    far = Origin("10.0.0.1", False, tls=Tls())
    assert type(TokenDoor().enter(signed(), far)[1]) is m.Welcome
