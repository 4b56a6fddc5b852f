import pytest

from qmgr_client.errors import UnknownOutcome
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli.failure import (
    MEANINGS,
    Exit,
    Failure,
    NotListening,
    connection_refused,
    exit_codes_text,
    exit_of,
    one_line,
    refused,
    similar_queue,
    usage,
)


def test_failure_says_what_why_and_what_to_try() -> None:
    failure = Failure(Exit.FAILED, "cannot read x", "no such file", "give another")
    assert str(failure) == "cannot read x -- no such file -- give another"


def test_failure_without_a_remedy_has_two_parts() -> None:
    assert str(Failure(Exit.FAILED, "cannot read x", "no such file")) == (
        "cannot read x -- no such file"
    )


def test_failure_on_a_terminal_has_paragraphs_that_fit() -> None:
    failure = Failure(Exit.FAILED, "cannot read x", "there is no such file", "give another")
    assert failure.paragraphs(80) == (
        "error: cannot read x\n  there is no such file\n  give another"
    )
    assert failure.paragraphs(20).splitlines() == [
        "error: cannot read x",
        "  there is no such",
        "  file",
        "  give another",
    ]


@pytest.mark.parametrize(
    ("queue", "remedy"),
    [("order", "did you mean ORDERS? see: qmctl queue ls"), ("elsewhere", "see: qmctl queue ls")],
)
def test_queue_is_looked_for_among_those_that_are(queue: str, remedy: str) -> None:
    assert similar_queue(queue, ["ORDERS", "FLIGHTS@NYC"]) == remedy


def test_remedy_of_the_daemon_stands_behind_the_semicolon() -> None:
    error = RequestError(ErrorCode.QUEUE_UNKNOWN, "queue Q does not exist here; create it")
    failure = refused("put on Q", error)
    assert str(failure) == (
        "cannot put on Q -- queue Q does not exist here (QUEUE_UNKNOWN) -- "
        "create it with: qmctl queue create Q"
    )
    assert failure.exit_code is Exit.NOT_FOUND


def test_remedy_is_ours_where_the_daemon_has_none() -> None:
    failure = refused("put on Q", RequestError(ErrorCode.QUEUE_FULL, "queue Q holds 5, at most 5"))
    assert str(failure) == (
        "cannot put on Q -- queue Q holds 5, at most 5 (QUEUE_FULL) -- get or purge "
        "messages, or wait and put again"
    )
    assert failure.exit_code is Exit.REFUSED


@pytest.mark.parametrize(
    ("code", "exit_code", "remedy"),
    [
        (ErrorCode.FRAME_TOO_LARGE, Exit.UNAVAILABLE, "check that a qmgrd of this version"),
        (ErrorCode.VERSION_UNSUPPORTED, Exit.UNAVAILABLE, "check that a qmgrd of this version"),
        (ErrorCode.NOT_AUTHORIZED, Exit.NOT_ALLOWED, "see: qmctl auth explain"),
    ],
)
def test_client_that_is_not_wanted_is_told_where(
    code: ErrorCode, exit_code: Exit, remedy: str
) -> None:
    failure = connection_refused("browse Q", "h:1", RequestError(code, "no"))
    assert failure.exit_code is exit_code
    assert str(failure).startswith(
        f"cannot browse Q -- cannot connect to h:1: no ({code.name}) -- {remedy}"
    )


def test_code_of_a_newer_daemon_is_shown_by_its_number() -> None:
    failure = refused("put", RequestError(4711, "what"))
    assert str(failure) == "cannot put -- what (ERROR_4711)"
    assert failure.exit_code is Exit.FAILED


def test_unknown_outcome_is_said_to_be_one() -> None:
    failure = refused("put on Q", UnknownOutcome(ErrorCode.PRODUCER_UNKNOWN, "another store"))
    assert failure.exit_code is Exit.UNAVAILABLE
    assert str(failure) == (
        "the outcome is unknown: put on Q -- another store (PRODUCER_UNKNOWN) "
        "-- check whether it took effect before you repeat it"
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NAME_INVALID, Exit.USAGE),
        (ErrorCode.VALUE_INVALID, Exit.USAGE),
        (ErrorCode.QUEUE_UNKNOWN, Exit.NOT_FOUND),
        (ErrorCode.LINK_UNKNOWN, Exit.NOT_FOUND),
        (ErrorCode.NOT_AUTHORIZED, Exit.NOT_ALLOWED),
        (ErrorCode.SHUTTING_DOWN, Exit.UNAVAILABLE),
        (ErrorCode.NOT_ACTIVE, Exit.UNAVAILABLE),
        (ErrorCode.JOURNAL_AWAY, Exit.UNAVAILABLE),
        (ErrorCode.NO_STANDBY, Exit.REFUSED),
        (ErrorCode.QUEUE_EXISTS, Exit.REFUSED),
        (ErrorCode.QUEUE_NOT_EMPTY, Exit.REFUSED),
        (ErrorCode.QUEUE_FULL, Exit.REFUSED),
        (ErrorCode.STORE_FULL, Exit.REFUSED),
        (ErrorCode.DUPLICATE_MESSAGE, Exit.REFUSED),
        (ErrorCode.LINK_EXISTS, Exit.REFUSED),
        (ErrorCode.INTERNAL_ERROR, Exit.FAILED),
        (ErrorCode.SNAPSHOT_FAILED, Exit.FAILED),
    ],
)
def test_error_code_has_its_exit_code(code: ErrorCode, expected: Exit) -> None:
    assert exit_of(code) is expected


@pytest.mark.parametrize("code", ErrorCode)
def test_no_error_code_looks_like_success(code: ErrorCode) -> None:
    assert exit_of(code) not in (Exit.OK, Exit.EMPTY)


def test_each_exit_code_is_explained() -> None:
    assert list(MEANINGS) == list(Exit)
    lines = exit_codes_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == [code.value for code in Exit]
    assert all(len(line) <= 80 for line in lines)


def test_wrong_usage_points_at_the_help() -> None:
    assert str(usage("a", "b")) == "a -- b -- see the command's --help"
    assert usage("a", "b").exit_code is Exit.USAGE


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain %s ü", "plain %s ü"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("nul\0", "nul\\x00"),
    ],
)
def test_control_characters_reach_no_terminal(text: str, line: str) -> None:
    assert one_line(text) == line


def test_too_long_text_loses_its_middle() -> None:
    failure = Failure(Exit.USAGE, "x" * 100_000, f"{'y' * 100_000} is not a valid name")
    assert [len(part) < 700 for part in failure.parts] == [True, True]
    assert failure.parts[1].endswith("yy is not a valid name")


def test_name_that_is_none_is_explained_once() -> None:
    error = RequestError(ErrorCode.NAME_INVALID, "'a b' is not a valid name: use 1 to 64 of A-Z")
    assert str(refused("create queue a b", error)) == (
        "cannot create queue a b -- 'a b' is not a valid name: use 1 to 64 of A-Z (NAME_INVALID)"
    )


def test_standby_may_soon_be_active() -> None:
    error = RequestError(ErrorCode.NOT_ACTIVE, "NYC is active at h:2")
    failure = connection_refused("look", "h:1", error)
    assert isinstance(failure, NotListening)
    assert failure.parts[1] == "cannot connect to h:1: NYC is active at h:2 (NOT_ACTIVE)"
    assert (failure.exit_code, failure.code) == (Exit.UNAVAILABLE, ErrorCode.NOT_ACTIVE)
