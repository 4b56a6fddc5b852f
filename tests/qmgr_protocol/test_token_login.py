"""The login by token of a dialling end: when it renews its token, and with which."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.token_login import RETRY_MIN_MS, TokenLogin, encoded_token, remaining_time

OLD, NEW = b"old.to.ken", b"new.to.ken"


class Source:
    """The source of a token, such as a file."""

    def __init__(self) -> None:
        self.token = OLD
        self.reads = 0
        self.is_broken = False

    def read(self) -> bytes:
        self.reads += 1
        if self.is_broken:
            raise ValueError("cannot read")
        return self.token


def welcomed(remaining_ms: int = 100_000, now_ms: int = 0) -> tuple[TokenLogin, Source]:
    source = Source()
    login = TokenLogin(source.read(), source.read)
    login.check(remaining_time(remaining_ms))
    login.welcomed(now_ms)
    return login, source


def test_token_is_renewed_after_four_fifths_of_its_time() -> None:
    login, source = welcomed(100_000, 1_000)
    source.token = NEW
    assert login.renewal(80_999) == b""
    assert source.reads == 1
    assert login.renewal(81_000) == NEW
    login.renewed(50_000, 81_100)
    source.token = OLD
    assert login.renewal(81_100 + 39_999) == b""
    assert login.renewal(81_100 + 40_000) == OLD


def test_old_token_is_not_sent_again_but_its_source_is_read_again() -> None:
    login, source = welcomed()
    times = [now_ms for now_ms in range(0, 100_001, 100) if not before(login, source, now_ms)]
    assert times[0] == 80_000
    assert 8 < len(times) < 20
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) >= RETRY_MIN_MS
    source.token = NEW
    assert login.renewal(times[-1] + RETRY_MIN_MS) == NEW


def before(login: TokenLogin, source: Source, now_ms: int) -> bool:
    """Returns whether the source is not read at this time."""
    reads = source.reads
    assert login.renewal(now_ms) == b""
    return source.reads == reads


def test_unreadable_source_is_read_again() -> None:
    login, source = welcomed()
    source.is_broken = True
    assert login.renewal(80_000) == b""
    source.is_broken, source.token = False, NEW
    assert login.renewal(80_001) == b""
    assert login.renewal(84_000) == NEW


def test_unanswered_or_refused_renewal_is_repeated() -> None:
    login, source = welcomed()
    source.token = NEW
    assert login.renewal(80_000) == NEW
    assert login.renewal(80_001) == b""
    assert login.renewal(84_000) == NEW


@pytest.mark.parametrize("value", [None, -1, "1", 1.5, [1], True])
def test_invalid_answer_changes_nothing(value: object) -> None:
    login, source = welcomed()
    login.renewed(1_000_000, 0)  # No renewal was sent.
    source.token = NEW
    assert login.renewal(80_000) == NEW
    login.renewed(value, 80_000)
    assert login.renewal(84_000) == NEW


def test_token_without_a_source_is_not_renewed() -> None:
    login = TokenLogin(OLD)
    login.check(remaining_time(5))
    login.welcomed(0)
    assert not login.is_renewable
    assert login.renewal(1 << 60) == b""
    assert (login.method, login.first()) == ("token", OLD)


def test_short_token_is_not_renewed_in_a_tight_loop() -> None:
    login, source = welcomed(0)
    source.token = NEW
    assert login.renewal(RETRY_MIN_MS - 1) == b""
    assert login.renewal(RETRY_MIN_MS) == NEW


@given(st.binary(max_size=20).filter(lambda proof: len(proof) != 8))
def test_welcome_without_the_remaining_time_is_refused(proof: bytes) -> None:
    with pytest.raises(ValueError, match="remaining time"):
        TokenLogin(OLD).check(proof)


def test_challenge_is_refused() -> None:
    with pytest.raises(ValueError, match="by a token"):
        TokenLogin(OLD).answer(b"r=1,s=AA==,i=4096")


@pytest.mark.parametrize("data", [b"a.b.c", b" a.b.c\r\n", b"a.b." + b"c" * (m.AUTH_DATA_MAX - 4)])
def test_token_may_have_white_space_at_its_ends(data: bytes) -> None:
    assert encoded_token(data, "the file") == data.strip()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file does not contain a token"),
        (b"secret", "does not contain"),
        (b"a.b", "does not contain"),
        (b"a.b.", "does not contain"),
        (b"a.b.c.d.e", "does not contain"),
        (b"a.b.c\nsecret", "does not contain"),
        (b"Bearer a.b.c", "does not contain"),
        (b"a.b." + b"c" * (m.AUTH_DATA_MAX - 3), "2817 bytes; the limit is 2816"),
    ],
)
def test_other_text_is_refused_and_not_shown(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        encoded_token(data, "the file")
    assert "secret" not in str(caught.value)
