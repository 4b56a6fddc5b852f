from hypothesis import given
from hypothesis import strategies as st

from qmgrd.store.journal import EPOCH_BYTES
from qmgrd.store.log import LOG_ID_BYTES, epoch_of, log_and_epoch


@given(st.binary(min_size=LOG_ID_BYTES, max_size=LOG_ID_BYTES), st.integers(0, (1 << 63) - 1))
def test_epoch_of_a_checkpoint_has_the_log_and_its_epoch(log_id: bytes, epoch: int) -> None:
    packed = epoch_of(log_id, epoch)
    assert len(packed) == EPOCH_BYTES
    assert log_and_epoch(packed) == (log_id, epoch)
