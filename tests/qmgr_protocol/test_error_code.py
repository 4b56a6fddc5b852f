"""Tests that the catalogue is complete, and contains every code in the sources."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_config.model import Config
from qmgr_protocol.error_code import ErrorClass, ErrorCode

ROOTS = ("protocol", "qmgrd")
REPO = Path(__file__).parents[2]
NOUNS = {
    1: "the connection",
    2: "any request",
    3: "queues",
    4: "messages",
    5: "consumers",
    6: "streams",
    7: "links",
    8: "snapshots",
    9: "units of work",
    10: "jobs",
    11: "message groups",
    12: "topics and subscriptions",
    13: "history",
    14: "items set aside",
    15: "users and roles",
    16: "members",
}
# Reason codes of MQ that several of our codes share
SHARED = {
    "2045 MQRC_OPTION_NOT_VALID_FOR_TYPE": {
        "QUEUE_IS_REMOTE",
        "QUEUE_IS_TRANSMISSION",
        "QUEUE_IS_SUBSCRIPTION",
    },
    "2035 MQRC_NOT_AUTHORIZED": {
        "NOT_AUTHORIZED",
        "LOGIN_REQUIRED",
        "LOGIN_FAILED",
        "LOGIN_REFUSED",
        "USER_UNKNOWN",
        "SENDER_NOT_AUTHORIZED",
    },
    "2017 MQRC_HANDLE_NOT_AVAILABLE": {"CONSUMERS_EXHAUSTED", "USER_CONSUMERS_EXHAUSTED"},
    "2025 MQRC_MAX_CONNS_LIMIT_REACHED": {"CONNECTIONS_EXHAUSTED", "USER_CONNECTIONS_EXHAUSTED"},
    "2056 MQRC_Q_SPACE_NOT_AVAILABLE": {"QUEUE_BYTES_FULL", "USER_BYTES_EXHAUSTED"},
    "2085 MQRC_UNKNOWN_OBJECT_NAME": {"QUEUE_UNKNOWN", "TOPIC_UNKNOWN"},
    "2362 MQRC_BACKOUT_THRESHOLD_REACHED": {
        "BACKOUT_THRESHOLD_REACHED",
        "REDELIVERY_LIMIT_EXCEEDED",
    },
    "AMQ9526": {"RESTORED", "PEER_RESTORED"},
}
# Codes that peers may send, although this version never sends them
NEVER_SENT = {"FEATURE_UNSUPPORTED", "CONSUMER_UNKNOWN", "LEASES_EXHAUSTED"}


@pytest.mark.parametrize("code", ErrorCode)
def test_code_lies_in_the_range_of_a_noun(code: ErrorCode) -> None:
    assert code // 100 in NOUNS


def test_codes_are_in_the_order_of_their_numbers() -> None:
    assert list(ErrorCode) == sorted(ErrorCode)


@pytest.mark.parametrize("code", ErrorCode)
def test_texts_are_sentences(code: ErrorCode) -> None:
    assert re.fullmatch(r"[A-Z].*[a-z)_]\.", code.means), code.means
    assert re.fullmatch(r"[A-Z].*[^. ]\.", code.remedy), code.remedy
    assert "|" not in code.means  # The text is one cell of a table.


@pytest.mark.parametrize("code", ErrorCode)
def test_meaning_of_a_code_fits_a_line(code: ErrorCode) -> None:
    assert len(code.means) <= 80


def test_reasons_of_mq_have_number_and_name_and_stand_for_one_thing() -> None:
    by_reason: dict[str, set[str]] = {}
    for code in ErrorCode:
        if code.mq:
            assert re.fullmatch(r"2\d{3} MQRC_[A-Z_]+|AMQ\d{4}", code.mq), code.mq
            by_reason.setdefault(code.mq, set()).add(code.name)
    assert {reason: names for reason, names in by_reason.items() if len(names) > 1} == SHARED
    assert len({reason.split()[0] for reason in by_reason}) == len(by_reason)


def test_class_has_a_word_and_a_sentence() -> None:
    assert [error_class.word for error_class in ErrorClass] == ["later", "never", "unknown"]
    assert all(error_class.means.endswith(".") for error_class in ErrorClass)


@pytest.mark.parametrize("code", ErrorCode)
def test_options_that_are_to_be_raised_exist(code: ErrorCode) -> None:
    for section, option in re.findall(r"\b(?:raise|than) ([a-z]+)\.([a-z_]+)", code.remedy):
        assert option in type(getattr(Config(), section)).model_fields


def test_number_alone_finds_the_code() -> None:
    assert ErrorCode(303) is ErrorCode.QUEUE_FULL
    assert ErrorClass(1) is ErrorClass.RETRY_LATER


def named() -> Iterator[str]:
    """Yields the codes in the sources, except those in the catalogue itself."""
    for path in (path for root in ROOTS for path in (REPO / root).glob("*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="ErrorCode"), attr=name) if name.isupper():
                    yield name


def test_each_code_that_the_sources_name_is_in_the_catalogue_and_the_other_way_round() -> None:
    found = set(named())
    assert found <= set(ErrorCode.__members__)
    assert set(ErrorCode.__members__) - found == NEVER_SENT
