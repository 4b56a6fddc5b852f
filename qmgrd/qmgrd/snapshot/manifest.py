"""What makes a snapshot's manifest vouch for itself: a checksum over all else that it says."""

import hashlib
import json
from typing import Any

MANIFEST = "manifest.json"  # beside the data file of a snapshot
CHECKSUM = "manifest_sha256"


def checksum(manifest: dict[str, Any]) -> str:
    """Returns the SHA-256 of *manifest* without its checksum, however it is laid out as JSON."""
    facts = {key: value for key, value in manifest.items() if key != CHECKSUM}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
