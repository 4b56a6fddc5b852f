"""Limits of what people say: each the least and the most, both included, or the most alone."""

from qmgr_protocol.messages import LEASE_MAX_MS

CLIENT_NAME_MAX = 255  # characters: operators read them in lists
# Also of the defaults that are configured (queue_defaults).
QUEUE_LIMITS = {
    "depth_max": (1, 10**12),  # messages
    "bytes_max": (2**10, 2**44),  # bytes of records
    "lease_ms": (100, LEASE_MAX_MS),
}
