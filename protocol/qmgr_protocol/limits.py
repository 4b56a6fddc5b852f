"""What a queue may be given: the least and the most of each of its limits, both included."""

from qmgr_protocol.messages import LEASE_MAX_MS

QUEUE_LIMITS = {
    "depth_max": (1, 2**40),  # messages
    "bytes_max": (1, 2**50),  # bytes of records
    "lease_ms": (100, LEASE_MAX_MS),
}
