"""The tokens of an open connection: their end, and the answers to renewals."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.token_login import TokenLogin, remaining_time
from qmgrd.core.access.token_renewal import RENEWAL_ID, TokenRenewal

END_MS = 100_000
OLD, NEW = b"o.l.d", b"n.e.w"


@pytest.fixture
def reads() -> list[bytes]:
    """The tokens that were read from the source of the token."""
    return []


@pytest.fixture
def renewal(reads: list[bytes]) -> TokenRenewal:
    """The renewal of a link's token, in a source that has a new one."""

    def read() -> bytes:
        reads.append(NEW)
        return NEW

    own = TokenLogin(OLD, read)
    own.check(remaining_time(END_MS))
    own.welcomed(0)
    return TokenRenewal(None, own)


def test_only_the_shell_reads_the_source_of_the_token(
    renewal: TokenRenewal, reads: list[bytes]
) -> None:
    renewal.check(END_MS - 1)
    assert not renewal.takes(m.Ok(1, END_MS), END_MS - 1)
    assert renewal.takes(m.Error(RENEWAL_ID, ErrorCode.LOGIN_FAILED, 2), END_MS - 1)
    assert not reads
    assert renewal.own is not None
    assert renewal.own.renewal(END_MS * 4 // 5) == NEW
    assert reads == [NEW]


def test_answer_to_a_renewal_moves_the_next_one(renewal: TokenRenewal) -> None:
    assert renewal.own is not None
    assert renewal.own.renewal(80_000) == NEW
    assert renewal.takes(m.Ok(RENEWAL_ID, END_MS), 80_000)
    assert not renewal.own.renewal(80_000 + 79_999)


def test_connection_without_tokens_needs_no_check() -> None:
    renewal = TokenRenewal(None, None)
    assert (renewal.is_needed, renewal.end_ms) == (False, None)
    renewal.check(1 << 62)
    assert not renewal.takes(m.Ok(RENEWAL_ID, 1), 0)
    with pytest.raises(RequestError, match="this connection needs no token") as refused:
        renewal.renewed(NEW, "app", 0)
    assert refused.value.code == ErrorCode.LOGIN_REFUSED
