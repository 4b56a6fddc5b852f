"""A disk with a volatile cache, rebuilt from a log: what a power cut may leave of it.

    durable   each file and directory as of its last completed flush
    pending   the later changes, in pieces; a power cut keeps any subset of them

A write has a piece for each sector of 512 bytes that it changes, and one for the size of the file.
A sector is written from the cache. So a piece contains the sector as it was in the cache after the
write, and a later piece of a sector replaces an earlier one. So any subset of pieces, applied in
order, is the result of any subset of writes in any order, torn at any sector.

A new, changed or removed name is durable only after a flush of its directory. A flush of the file
is not enough. A rename in one directory is one piece.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.process.powercut.recorder import Entry

SECTOR_BYTES = 512


@dataclass(eq=False, slots=True)
class File:
    """A file. ``cache`` is what a reader sees."""

    durable: bytearray = field(default_factory=bytearray)
    cache: bytearray = field(default_factory=bytearray)
    pending: list["Change"] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Folder:
    """A directory. ``cache`` is what a reader sees."""

    durable: dict[str, "File | Folder"] = field(default_factory=dict)
    cache: dict[str, "File | Folder"] = field(default_factory=dict)
    pending: list["Change"] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Piece:
    """A part of a change that a power cut keeps or loses as a whole.

    It replaces a sector, sets the size of a file, or sets names (None: no such name).
    """

    of: File | Folder
    sector: int = -1
    data: bytes = b""
    size: int = -1
    names: dict[str, File | Folder | None] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Change:
    """A change that is not durable yet."""

    position: int  # in the log
    pieces: list[Piece]


Tree = dict[str, "bytes | Tree"]  # the contents of a directory


class Disk:
    """The disk below one directory. Invariant: durable and all pending pieces are the cache."""

    def __init__(self, directory: Path, initial: Tree, inodes: dict[str, int]) -> None:
        """A disk that durably contains *initial* in *directory*, with *inodes* of paths in it."""
        self._root_path = str(directory)
        self.root = _folder(initial)
        self._nodes: dict[int, File | Folder] = {}
        self._last_write = -1  # its position in the log
        self._link(self.root, ".", inodes)

    def _link(self, folder: Folder, path: str, inodes: dict[str, int]) -> None:
        self._nodes[inodes[path]] = folder
        for name, node in folder.cache.items():
            if isinstance(node, Folder):
                self._link(node, f"{path}/{name}", inodes)
            else:
                self._nodes[inodes[f"{path}/{name}"]] = node

    def flushes(self, entry: Entry) -> bool:
        """Returns whether *entry* makes pending changes durable."""
        return entry.kind in "AF" and bool(self._covered(entry))

    def apply(self, entry: Entry) -> None:
        """Applies a call.

        Raises:
            NotImplementedError: The call cannot be replayed.
        """
        match entry.kind:
            case "W":
                self._write(entry)
            case "T":
                file = self._file(entry.inode)
                _resize(file.cache, entry.offset)
                file.pending.append(Change(entry.position, [Piece(file, size=entry.offset)]))
            case "A" | "F":
                self._flush(entry)
            case "C" | "D":
                node = self._nodes[entry.inode] = File() if entry.kind == "C" else Folder()
                folder, name = self._place(entry.path)
                self._rename(entry, folder, {name: node})
            case "U":
                folder, name = self._place(entry.path)
                self._rename(entry, folder, {name: None})
            case "R" | "L":
                self._move(entry)
            case "M":
                pass
            case _:
                raise NotImplementedError(f"{entry.data.decode()} is not modelled")

    def pending(self) -> list[Change]:
        """Returns the changes that a power cut may lose, in order."""
        nodes = {id(node): node for node in self._nodes.values()}.values()
        found = [change for node in nodes for change in node.pending]
        return sorted(found, key=lambda change: change.position)

    def after(self, kept: Sequence[Piece]) -> Tree:
        """Returns the contents after a power cut that keeps the pieces *kept*, in their order."""
        of: dict[int, list[Piece]] = {}
        for piece in kept:
            of.setdefault(id(piece.of), []).append(piece)
        return _tree(self.root, of)

    # -- calls

    def _file(self, inode: int) -> File:
        found = self._nodes[inode]
        assert isinstance(found, File)
        return found

    def _write(self, entry: Entry) -> None:
        self._last_write = entry.position
        file, at, end = self._file(entry.inode), entry.offset, entry.offset + len(entry.data)
        first = at // SECTOR_BYTES * SECTOR_BYTES
        cache, pieces = file.cache, []
        sectors = range(first, end, SECTOR_BYTES)
        before = [bytes(cache[sector : sector + SECTOR_BYTES]) for sector in sectors]
        if end > len(cache):
            _resize(cache, end)
            pieces.append(Piece(file, size=end))
        cache[at:end] = entry.data
        for sector, old in zip(sectors, before, strict=True):
            new = bytes(cache[sector : sector + SECTOR_BYTES])
            if new != old:
                pieces.append(Piece(file, sector=sector, data=new))
        if pieces:
            file.pending.append(Change(entry.position, pieces))

    def _covered(self, entry: Entry) -> list[Change]:
        node = self._nodes.get(entry.inode)
        if node is None:
            return []
        if entry.kind == "F":
            return node.pending
        # The write is the entry before this one; it may have changed nothing.
        position = node.pending[-1].position if node.pending else -1
        return node.pending[-1:] if position == self._last_write else []

    def _flush(self, entry: Entry) -> None:
        node = self._nodes.get(entry.inode)
        covered = self._covered(entry)
        if node is None or not covered:
            return
        pieces = [piece for change in covered for piece in change.pieces]
        if isinstance(node, Folder):
            _set_names(node.durable, pieces)
        else:
            _set_data(node.durable, pieces)
        node.pending = [change for change in node.pending if change not in covered]
        sectors = {piece.sector for piece in pieces if piece.sector >= 0}
        for change in node.pending:  # The cache has only the latest version of a sector.
            if change.position < covered[-1].position:
                change.pieces = [piece for piece in change.pieces if piece.sector not in sectors]

    def _place(self, path: str) -> tuple[Folder, str]:
        *above, name = path.removeprefix(self._root_path).strip("/").split("/")
        folder = self.root
        for each in above:
            found = folder.cache[each]
            assert isinstance(found, Folder)
            folder = found
        return folder, name

    def _rename(self, entry: Entry, folder: Folder, names: dict[str, File | Folder | None]) -> None:
        piece = Piece(folder, names=names)
        _set_names(folder.cache, [piece])
        folder.pending.append(Change(entry.position, [piece]))

    def _move(self, entry: Entry) -> None:
        to, _, old = entry.path.partition("\0")
        (from_folder, from_name), (to_folder, to_name) = self._place(old), self._place(to)
        node = from_folder.cache[from_name]
        if entry.kind == "L":
            self._rename(entry, to_folder, {to_name: node})
        elif from_folder is to_folder:
            self._rename(entry, to_folder, {from_name: None, to_name: node})
        else:
            self._rename(entry, to_folder, {to_name: node})
            self._rename(entry, from_folder, {from_name: None})


def digest(tree: Tree) -> int:
    """Returns a number of 64 bits for the contents of a directory, valid in this process."""
    nodes = sorted(tree.items())
    return hash(
        tuple((name, digest(node) if isinstance(node, dict) else node) for name, node in nodes)
    )


def inodes_of(directory: Path) -> dict[str, int]:
    """Returns the inodes of *directory*, "." and of all paths in it."""
    found = {".": directory.stat().st_ino}
    for path in directory.rglob("*"):
        found[f"./{path.relative_to(directory)}"] = path.lstat().st_ino
    return found


def build(tree: Tree, directory: Path) -> None:
    """Writes the contents of a directory, which must be empty."""
    _build(tree, str(directory))


def _build(tree: Tree, directory: str) -> None:
    for name, node in tree.items():
        path = f"{directory}/{name}"
        if isinstance(node, dict):
            os.mkdir(path, 0o700)
            _build(node, path)
        else:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(fd, node)
            os.close(fd)


def _folder(tree: Tree) -> Folder:
    nodes: dict[str, File | Folder] = {}
    for name, node in tree.items():
        if isinstance(node, dict):
            nodes[name] = _folder(node)
        else:
            nodes[name] = File(bytearray(node), bytearray(node))
    return Folder(nodes, dict(nodes))


def _tree(folder: Folder, kept: dict[int, list[Piece]]) -> Tree:
    names = dict(folder.durable)
    _set_names(names, kept.get(id(folder), ()))
    found: Tree = {}
    for name, node in names.items():
        if isinstance(node, Folder):
            found[name] = _tree(node, kept)
        elif pieces := kept.get(id(node)):
            data = bytearray(node.durable)
            _set_data(data, pieces)
            found[name] = bytes(data)
        else:
            found[name] = bytes(node.durable)
    return found


def _set_names(names: dict[str, File | Folder], pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        for name, node in piece.names.items():
            if node is None:
                names.pop(name, None)
            else:
                names[name] = node


def _set_data(data: bytearray, pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        if piece.sector < 0:
            _resize(data, piece.size)
        else:
            if len(data) < piece.sector:
                _resize(data, piece.sector)
            data[piece.sector : piece.sector + len(piece.data)] = piece.data


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))
