"""Checks a snapshot against its manifest: the manifest's checksum, the data file, and its content.

The code that wrote the manifest also reads the content again, so all fields are checked. Fields of
a later version are ignored.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.row import RowDamaged
from qmgrd.snapshot.facts import facts_in
from qmgrd.snapshot.manifest import CHECKSUM, MANIFEST, checksum
from qmgrd.verify.finding import Findings

PIECE_BYTES = 4 << 20
SHOWN_MAX = 200  # maximum length of a field's value in a message, in characters
# Fields that describe the manifest, not the store.
_ITSELF = {"format", CHECKSUM, "data_bytes", "data_sha256"}


def check_manifest(
    found: Findings, data: Path, advance: Callable[[int], object] = lambda more: None
) -> dict[str, Any] | None:
    """Checks *data* against the manifest next to it. Returns the manifest, or None if it is
    missing.

    Args:
        advance: A function that receives the number of further bytes read.
    """
    path = data.parent / MANIFEST
    try:
        manifest: Any = json.loads(path.read_bytes())
        stated, size, digest = manifest[CHECKSUM], manifest["data_bytes"], manifest["data_sha256"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        found.add("manifest", b"", f"{path} cannot be read: {type(error).__name__}: {error}")
        return None
    if stated != checksum(manifest):
        found.add("manifest", b"", f"{path}: its checksum does not match")
    elif (size_bytes := data.stat().st_size) != size:
        found.add("manifest", b"", f"{data} has {size_bytes} bytes, but its manifest states {size}")
    elif (found_digest := _sha256(data, advance)) != digest:
        found.add(
            "manifest", b"", f"{data} has SHA-256 {found_digest}, not {digest} as in its manifest"
        )
    else:
        return dict(manifest)
    return None


def _sha256(path: Path, advance: Callable[[int], object]) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            advance(len(piece))
    return digest.hexdigest()


def check_facts(found: Findings, tx: Transaction, manifest: dict[str, Any]) -> None:
    """Compares the numbers and positions in the store with those in a valid manifest."""
    try:
        facts = facts_in(tx)
    except (RowDamaged, ValueError, TypeError, KeyError):
        return  # The damage was already reported.
    for name in sorted(facts.keys() & manifest.keys() - _ITSELF):
        if facts[name] != manifest[name]:
            actual, stated = _difference(facts[name], manifest[name])
            text = (
                f"{name}: the store has {actual[:SHOWN_MAX]}, the manifest has {stated[:SHOWN_MAX]}"
            )
            found.add("manifest", b"", text)


def _difference(actual: Any, stated: Any) -> tuple[str, str]:
    """Returns the first difference between two values. For lists, compares element by element."""
    if isinstance(actual, list) and isinstance(stated, list) and len(actual) == len(stated):
        for one, other in zip(actual, stated, strict=True):
            if one != other:
                return str(one), str(other)
    return str(actual), str(stated)
