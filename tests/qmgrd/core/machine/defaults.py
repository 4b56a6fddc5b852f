"""The default attributes of queues in the model."""

from typing import Any

DEFAULTS: dict[str, Any] = {
    "depth_max": 100_000_000,
    "lease_ms": 30_000,
    "message_max_bytes": 0,
    "put_inhibit": False,
    "get_inhibit": False,
    "priority_default": 4,
    "expiry_max_ms": 0,
    "expiry_action": "discard",
    "overflow": "refuse",
    "dedup_retention_ms": 0,
    "backout_threshold": 0,
    "delivery_limit": 20,
    "backout_queue": "",
    "retry_initial_ms": 0,
    "retry_factor": 2.0,
    "retry_max_ms": 3_600_000,
    "retry_jitter_percent": 10,
}
