"""Records of every kind for puts: plain records, records that need checks, and invalid ones."""

from hypothesis import strategies as st

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.layout import entry as entries
from tests.qmgrd.core.harness import WALL_US

PLAIN_MAX = entries.INLINE_MAX_BYTES - records.UID_MAX_BYTES - records.HEAD_BYTES


def flipped(record: bytes, at: int) -> bytes:
    at %= len(record)
    return record[:at] + bytes([record[at] ^ 0x10]) + record[at + 1 :]


plain_fields = st.builds(
    Fields,
    body=st.one_of(st.binary(max_size=40), st.integers(PLAIN_MAX - 2, PLAIN_MAX).map(bytes)),
    priority=st.integers(0, 9),
    correlation_id=st.binary(max_size=3),
    envelope=st.sampled_from([{}, {"h": 1}]),
    flags=st.sampled_from([0, records.FLAG_PRIORITY_OF_QUEUE]),
    uid=st.none(),
    group=st.none(),
    expiry_ms=st.just(0),
    delay_ms=st.just(0),
)
fields = st.builds(
    Fields,
    body=st.one_of(
        st.binary(max_size=40),
        st.integers(PLAIN_MAX - 2, PLAIN_MAX + 80).map(bytes),
        st.just(9_000).map(bytes),
    ),
    priority=st.integers(0, 9),
    correlation_id=st.binary(max_size=3),
    envelope=st.sampled_from([{}, {"h": 1}]),
    uid=st.one_of(
        st.none(), st.builds(Uid, st.sampled_from(["QM1", "B"]), st.sampled_from([5, WALL_US + 1]))
    ),
    group=st.one_of(st.none(), st.just((b"g" * 24, 1, False))),
    expiry_ms=st.sampled_from([0, 0, 1]),
    flags=st.sampled_from([0, 1, 2, 3, 4]),
    delay_ms=st.sampled_from([0, 0, 5]),
)
plain_record = plain_fields.map(records.encode)
any_record = st.builds(
    lambda record, at: record if at is None else flipped(record, at),
    st.one_of(plain_record, fields.map(records.encode)),
    st.one_of(st.none(), st.none(), st.none(), st.integers(0, 100)),
)
