"""Holds a snapshot against its manifest: what it says of itself, its data file, what lies in that.

The last is read anew by the same code that wrote the manifest, so all that this says is looked
at; a fact of a later version is nobody's here.
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
SHOWN_MAX = 200  # characters of a fact
_ITSELF = {"format", CHECKSUM, "data_bytes", "data_sha256"}  # of the manifest, not of the store


def check_manifest(
    found: Findings, data: Path, advance: Callable[[int], object] = lambda more: None
) -> dict[str, Any] | None:
    """Holds *data* against the manifest beside it; return that, or None where there is none.

    Args:
        advance: is told how many more bytes were read.
    """
    path = data.parent / MANIFEST
    try:
        manifest: Any = json.loads(path.read_bytes())
        said, size, digest = manifest[CHECKSUM], manifest["data_bytes"], manifest["data_sha256"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        found.add("manifest", b"", f"{path} cannot be read: {type(error).__name__}: {error}")
        return None
    if said != checksum(manifest):
        found.add("manifest", b"", f"{path}: its checksum is wrong")
    elif (there := data.stat().st_size) != size:
        found.add("manifest", b"", f"{data} has {there} bytes, its manifest says {size}")
    elif (is_there := _sha256(data, advance)) != digest:
        found.add("manifest", b"", f"{data} has SHA-256 {is_there}, its manifest says {digest}")
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
    """Holds what lies in the store against what a sound manifest says of it: counts, positions."""
    try:
        facts = facts_in(tx)
    except (RowDamaged, ValueError, TypeError, KeyError):
        return  # What is damaged was found already.
    for name in sorted(facts.keys() & manifest.keys() - _ITSELF):
        if facts[name] != manifest[name]:
            here, said = _difference(facts[name], manifest[name])
            text = f"{name}: there is {here[:SHOWN_MAX]}, its manifest says {said[:SHOWN_MAX]}"
            found.add("manifest", b"", text)


def _difference(here: Any, said: Any) -> tuple[str, str]:
    """Returns what differs first, of lists the first element."""
    if isinstance(here, list) and isinstance(said, list) and len(here) == len(said):
        for one, other in zip(here, said, strict=True):
            if one != other:
                return str(one), str(other)
    return str(here), str(said)
