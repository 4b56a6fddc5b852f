"""A simulated remote file system in memory, far:///place, which can fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem


class Far(MemoryFileSystem):  # type: ignore[misc]
    """The files of the simulated file system.

    Invariant: at most ``left_bytes`` more bytes can be written. None means no limit.
    """

    protocol = "far"
    store: dict[str, Any] = {}  # noqa: RUF012 - as fsspec has it: of the class
    pseudo_dirs = [""]  # noqa: RUF012
    left_bytes: int | None = None
    cuts_short = False  # whether bytes beyond the limit are discarded silently
    reads = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("far://").strip("/") if path.strip("/") else ""

    def unstrip_protocol(self, name: str) -> str:
        return f"far://{self._strip_protocol(name)}"

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        Far.reads += mode == "rb"
        file = super()._open(path, mode, **more)
        return _Failing(self, path, file) if mode == "wb" else file


class _Failing:
    """A file that accepts writes until the network fails."""

    def __init__(self, fs: Far, path: str, file: MemoryFile) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        if Far.left_bytes is not None:
            if len(data) > Far.left_bytes:
                if not Far.cuts_short:
                    raise ConnectionResetError("the line is dead")
                data = data[: Far.left_bytes]
            Far.left_bytes -= len(data)
        return int(self._file.write(data))

    def __enter__(self) -> "_Failing":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@contextmanager
def far() -> Iterator[type[Far]]:
    """Yields the empty file system."""
    fsspec.register_implementation("far", Far, clobber=True)
    Far.store, Far.pseudo_dirs = {}, [""]
    Far.left_bytes, Far.cuts_short, Far.reads = None, False, 0
    yield Far
    Far.store, Far.pseudo_dirs = {}, [""]
