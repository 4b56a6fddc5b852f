"""The checksum of a snapshot's manifest, over all its other content."""

import hashlib
import json
from typing import Any

MANIFEST = "manifest.json"  # name of the file next to the data file of a snapshot
CHECKSUM = "manifest_sha256"


def checksum(manifest: dict[str, Any]) -> str:
    """Returns the SHA-256 of *manifest* without its checksum, independent of the JSON layout."""
    facts = {key: value for key, value in manifest.items() if key != CHECKSUM}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
