import pytest

from qmgr_protocol.error_code import ErrorCode
from qmgr_protocol.errors import RequestError
from qmgr_tools.cli.failure import Exit, Failure, refused
from qmgr_tools.manager.explain import find, names, row_of
from tests.qmgr_tools.conftest import OnTerminal, Qmctl


@pytest.mark.parametrize(
    "said",
    [
        "303",
        "QUEUE_FULL",
        "queue-full",
        "Queue Full",
        "2053",
        "MQRC_Q_FULL",
        "mqrc-q-full",
        "2053 mqrc_q_full",
    ],
)
def test_code_goes_by_number_name_and_what_mq_calls_it(said: str) -> None:
    assert find(said) == [ErrorCode.QUEUE_FULL]


@pytest.mark.parametrize("code", ErrorCode)
def test_each_code_is_found_by_all_its_names(code: ErrorCode) -> None:
    for said in (str(code.value), code.name, *code.mq.split()):
        assert code in find(said)


def test_reason_of_mq_may_stand_for_two() -> None:
    assert find("AMQ9526") == [ErrorCode.RESTORED, ErrorCode.PEER_RESTORED]


@pytest.mark.parametrize(
    ("said", "better"),
    [
        ("QUEUE_FUL", "did you mean QUEUE_FULL or "),
        ("unknown-queue", "did you mean QUEUE_UNKNOWN"),
        (
            "duplicate",
            "did you mean DUPLICATE_MESSAGE or DUPLICATE_UNCOMMITTED? see: qmctl explain",
        ),
        ("MQRC_Q_FUL", "did you mean QUEUE_FULL"),
        ("4711", "the code does not exist -- see: qmctl explain"),
        ("", "the code does not exist -- see: qmctl explain"),
        ("2033", "2033 MQRC_NO_MSG_AVAILABLE is not an error of qmgrd -- if"),
        ("MQRC_NO_MSG_AVAILABLE", "is not an error"),
    ],
)
def test_unknown_code_gets_suggestions(said: str, better: str) -> None:
    with pytest.raises(Failure) as failure:
        find(said)
    assert better in str(failure.value)
    assert failure.value.exit_code is Exit.USAGE


def test_shell_completes_names() -> None:
    assert names("QUEUE_I") == [
        "QUEUE_IS_REMOTE",
        "QUEUE_IS_TRANSMISSION",
        "QUEUE_IN_USE",
        "QUEUE_IS_SYSTEM",
        "QUEUE_IS_SUBSCRIPTION",
    ]
    assert names("queue_f") == ["queue_full"]  # A completion must keep the user's spelling.
    assert names("queue-f") == ["queue-full"]
    assert names("4") == []
    assert names("") == list(ErrorCode.__members__)


def test_people_are_told_all(qmctl: Qmctl) -> None:
    facts = dict(line.split("\t") for line in qmctl("explain", "2053").out.splitlines())
    assert facts.pop("what to do").startswith("Get or purge messages, or wait and put again. ")
    assert facts == {
        "code": "303",
        "name": "QUEUE_FULL",
        "class": "later: The same request may succeed later.",
        "meaning": "The queue holds depth_max messages.",
        "mq": "2053 MQRC_Q_FULL",
        "exit code": "6",
    }


def test_without_a_code_all_are_listed(qmctl: Qmctl) -> None:
    head, *lines = qmctl("explain").out.splitlines()
    assert head.split("\t") == ["CODE", "NAME", "CLASS", "MQ", "MEANING"]
    assert [int(line.split("\t")[0]) for line in lines] == list(ErrorCode)


def test_json_has_the_documented_keys(qmctl: Qmctl) -> None:
    rows = qmctl("explain", "-o", "json").json
    assert rows == [row_of(code) for code in ErrorCode]
    said = qmctl("explain", "--help").out
    assert [key for key in rows[0] if key not in said] == []


def test_unknown_name_has_its_exit_code(qmctl: Qmctl) -> None:
    ended = qmctl("explain", "NONSENSE")
    assert ended.code == Exit.USAGE
    assert ended.err.startswith("error: cannot explain NONSENSE -- the code does not exist")


@pytest.mark.process
def test_error_on_a_terminal_says_where_more_is_told(on_terminal: OnTerminal) -> None:
    ended = on_terminal("get", "NO_SUCH_QUEUE")
    assert ended.out.endswith("\n  see: qmctl explain QUEUE_UNKNOWN\n")
    code, explained = ended.code, on_terminal("explain", "QUEUE_UNKNOWN")
    assert code == Exit.NOT_FOUND
    assert "The queue does not exist." in explained.out


def test_code_of_a_newer_daemon_is_not_explained() -> None:
    shown = refused("put", RequestError(4711, "what")).paragraphs(80)
    assert shown == "error: cannot put\n  what (ERROR_4711)"
