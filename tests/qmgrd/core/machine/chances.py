"""Strategies for the arguments of rules: queues, messages, attributes."""

from typing import Any

from hypothesis import strategies as st

from qmgr_protocol import messages as m
from tests.qmgrd.core.machine.bench import ALL_QUEUES, SEATS
from tests.qmgrd.core.machine.message import CONDITIONS, Wish

NUMBERS = st.integers(0, 59)
SEAT_NUMBERS = st.integers(0, SEATS - 1)
# None stands for the seat that received the message.
SETTLERS = st.sampled_from([None, None, None, *range(SEATS)])
LATE = st.sampled_from([False, False, True])
QUEUE_NAMES = st.sampled_from(["Q", "Q", "Q", "Q", *ALL_QUEUES])
LEASES_MS = st.sampled_from([0, 500, 500, 2_000])
GROUPS = [b"g" * 24, b"h" * 24]
# The distance above the highest known number can give the next number, an existing one, or a gap.
AHEAD = [1, 1, 1, 1, 0, -1, 2]
GROUPED = [
    *((group_id, ahead, False) for group_id in GROUPS for ahead in AHEAD),
    *((group_id, ahead, True) for group_id in GROUPS for ahead in (1, 1, 0)),
]
WISHES = st.builds(
    Wish,
    body=st.just(b""),
    padding=st.sampled_from([0, 0, 0, 0, 5_000, 9_000]),
    uid=st.sampled_from([None, None, None, ("O", 0)]),
    priority=st.sampled_from([None, 0, 3, 4, 4, 4, 5, 9]),
    correlation_id=st.sampled_from([b"", b"", b"k1", b"k2"]),
    group=st.one_of(st.none(), st.sampled_from(GROUPED)),
    colour=st.sampled_from(["", "red", "blue"]),
    expiry_ms=st.sampled_from([0, 0, 0, 300, 1_500, 20_000]),
    delay_ms=st.sampled_from([0, 0, 0, 0, 250, 3_000]),
    volatile=st.sampled_from([False, False, False, True]),
)
DELAYS_MS = st.sampled_from([m.DELAY_OF_QUEUE, m.DELAY_OF_QUEUE, 0, 700, 10_000])
WORDS = st.sampled_from([("", ""), ("BAD_INPUT", "line 7")])
WHERES = st.sampled_from(["", "", *CONDITIONS])
VALUES: dict[str, list[Any]] = {
    "backout_threshold": [0, 1, 2, 3],
    "delivery_limit": [0, 0, 2, 3],
    "retry_initial_ms": [0, 0, 100, 1_000],
    "retry_factor": [1, 2.0, 3.5],
    "retry_max_ms": [1_500, 3_600_000],
    "retry_jitter_percent": [0, 10, 50],
    "expiry_max_ms": [0, 0, 1_000, 5_000],
    "expiry_action": ["discard", "dead-letter"],
    "depth_max": [1, 3, 6, 100_000_000],
    "dedup_retention_ms": [0, 400, 60_000],
    "overflow": ["refuse", "discard-oldest", "dead-letter-oldest"],
    "priority_default": [0, 4, 7],
    "message_max_bytes": [0, 4_000],
    "put_inhibit": [False, False, True],
    "get_inhibit": [False, False, True],
    "lease_ms": [800, 30_000],
}
ALTERATIONS = st.sampled_from([(name, value) for name in VALUES for value in VALUES[name]])
