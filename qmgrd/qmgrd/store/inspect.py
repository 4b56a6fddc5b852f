"""Reads a data file directly, to find information that LMDB does not report.

The module is used before LMDB maps the file, because a truncated file would kill the process with
SIGBUS. It is also used while LMDB is running, to count recently freed pages. LMDB cannot use these
pages again while a reader holds an older turn.

    meta page, LMDB format 1, 64 bit      page head    0  page number u64, pad u16, flags u16, ...
    (pages 0 and 1; the one of the                16  magic u32, version u32, address, map size
     higher transaction id counts)                40  free database:  48 bytes
                                                  88  main database:  48 bytes
                                                 136  last page u64, transaction id u64

    database   page size u32 (free database only), flags u16, depth u16, three counts u64, entries
               u64, root page u64

A file may end before its last page and still be complete: pages that were allocated and freed again
in one transaction are never written. Then each page beyond the end must be in the free database.
The keys of that database are the transactions that freed pages. Its values are a count and the page
numbers. Only files that end early are checked for this.

    lock file   magic u32 ...; from 128, every 64 bytes, a reader: transaction u64, process u32
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_MAGIC = 0xBEEFC0DE
_FORMAT = 1
_PAGE_SIZES = {1 << bits for bits in range(9, 16)}
_META_BYTES = 152
_HEAD_BYTES = 16
_MAGIC_AT_IN_FORMAT_3 = 24  # the format; page heads of format 3 are longer
_WORDS = struct.Struct("<II")
_PAGE_HEAD = struct.Struct("<QHHHH")  # page number, padding, flags, lower bound, upper bound
_TAIL = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")  # size or page number in two halves, flags, key size
_NUMBER = struct.Struct("<Q")
_BRANCH, _LEAF, _META = 1, 2, 8  # page flags
_BIG = 1  # node flag: the value is on separate pages
_NO_PAGE = _NO_READ = 2**64 - 1
_READERS_AT = 128
_READER = struct.Struct("<QI52x")  # transaction id and process id


class StoreUnreadable(Exception):
    """The store is foreign, newer or damaged. The store was not changed."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}; nothing was changed")


class Unsound(Exception):
    """A file is damaged or foreign. The message describes the error."""


class _MetaPage(NamedTuple):
    page_bytes: int
    map_bytes: int
    free_root: int
    last_page: int
    transaction: int


def check_data_file(path: Path) -> None:
    """Checks that LMDB can safely map *path*, which no process has open.

    Raises:
        StoreUnreadable: The file is missing, not an LMDB file, of another format, or truncated.
    """
    try:
        with path.open("rb") as file:
            _check(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise StoreUnreadable(path, error.strerror or str(error)) from error
    except Unsound as error:
        raise StoreUnreadable(path, str(error)) from None


def map_bytes(path: Path) -> int:
    """Returns the size of the map at the last write of *path*."""
    with path.open("rb") as file:
        return _newest_meta(file, os.fstat(file.fileno()).st_size).map_bytes


def readers(lock: Path) -> list[tuple[int, int]]:
    """Returns the process and transaction ids of the readers in the lock file *lock*, if it exists.

    In a store at rest, these readers are processes that were killed. LMDB removes their entries
    when it opens the store.
    """
    try:
        data = lock.read_bytes()
    except FileNotFoundError:
        return []
    if len(data) < _READERS_AT or _WORDS.unpack_from(data)[0] != _MAGIC:
        return []
    slots = (_READER.unpack_from(data, at) for at in range(_READERS_AT, len(data), _READER.size))
    return [(process, number) for number, process in slots if process and number != _NO_READ]


def freed_since(file: BinaryIO, transaction: int) -> tuple[int, int]:
    """Returns the number of pages freed in or after *transaction*, and the last transaction's id.

    *file* must be unbuffered, and no transaction may commit to it during the call.
    """
    size = os.fstat(file.fileno()).st_size
    meta = _newest_meta(file, size)
    freed = 0
    for freed_in, pages in _free_rows(file, meta, size // meta.page_bytes):
        if freed_in < transaction:
            break
        freed += len(pages)
    return freed, meta.transaction


def _check(file: BinaryIO, size: int) -> None:
    meta = _newest_meta(file, size)
    pages = size // meta.page_bytes
    missing = meta.last_page + 1 - pages
    if missing > 0 and _free_behind(file, meta, pages) < missing:
        raise Unsound(
            f"damaged: {size} bytes, but its pages extend to "
            f"{(meta.last_page + 1) * meta.page_bytes}; restore it from a snapshot"
        )


def _newest_meta(file: BinaryIO, size: int) -> _MetaPage:
    if size == 0:
        raise Unsound("damaged: the file is empty; restore it from a snapshot")
    first = _meta(file, 0, 0)
    second = _meta(file, 1, first.page_bytes)
    if first.page_bytes != second.page_bytes:
        raise Unsound(
            f"damaged: its page sizes differ ({first.page_bytes} and {second.page_bytes})"
        )
    return max(first, second, key=lambda meta: meta.transaction)


def _meta(file: BinaryIO, number: int, offset: int) -> _MetaPage:
    file.seek(offset)
    data = file.read(_META_BYTES)
    if len(data) < _META_BYTES:
        raise Unsound(f"damaged: the file ends in meta page {number}; restore it from a snapshot")
    magic, version = _WORDS.unpack_from(data, _HEAD_BYTES)
    if magic != _MAGIC:
        magic, version = _WORDS.unpack_from(data, _MAGIC_AT_IN_FORMAT_3)
        if magic != _MAGIC:
            why = (
                f"damaged: meta page {number} is not a meta page" if number else "not a qmgrd store"
            )
            raise Unsound(f"{why}: it contains no LMDB magic number")
    if version != _FORMAT:
        raise Unsound(f"LMDB format {version}, but this qmgrd reads {_FORMAT}")
    _, _, flags, _, _ = _PAGE_HEAD.unpack_from(data)
    (page_bytes, _) = _WORDS.unpack_from(data, 40)
    last_page, transaction = _TAIL.unpack_from(data, 136)
    if not flags & _META or page_bytes not in _PAGE_SIZES or last_page < 1:
        raise Unsound(
            f"damaged: meta page {number} has flags {flags:#x}, page size {page_bytes}, "
            f"last page {last_page}"
        )
    (map_size,), (free_root,) = _NUMBER.unpack_from(data, 32), _NUMBER.unpack_from(data, 80)
    return _MetaPage(page_bytes, map_size, free_root, last_page, transaction)


def _free_behind(file: BinaryIO, meta: _MetaPage, pages: int) -> int:
    """Returns the number of free pages beyond the end of the file."""
    rows = _free_rows(file, meta, pages)
    return sum(page >= pages for _, numbers in rows for page in numbers)


def _free_rows(
    file: BinaryIO, meta: _MetaPage, pages: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields the rows of the free database, latest transaction first.

    The pages of the free database itself must be within the file.
    """
    todo = [] if meta.free_root == _NO_PAGE else [meta.free_root]
    seen = 0
    while todo:
        data = _page(file, meta, pages, todo.pop())
        seen += 1
        _, _, flags, lower, _ = _PAGE_HEAD.unpack_from(data)
        is_list = flags & (_BRANCH | _LEAF) and _HEAD_BYTES <= lower <= meta.page_bytes
        if seen > pages or not is_list:
            raise Unsound("the list of free pages is damaged; restore it from a snapshot")
        nodes = struct.unpack_from(f"<{(lower - _HEAD_BYTES) // 2}H", data, _HEAD_BYTES)
        # The size includes the key.
        node_bytes = _NODE.size if flags & _BRANCH else _NODE.size + _NUMBER.size
        for at in nodes if flags & _BRANCH else reversed(nodes):  # The last branch is popped first.
            if at + node_bytes > meta.page_bytes:
                raise Unsound("the list of free pages is damaged; restore it from a snapshot")
            low, high, node_flags, key_bytes = _NODE.unpack_from(data, at)
            if flags & _BRANCH:
                todo.append(low | high << 16 | node_flags << 32)
                continue
            key_at = at + _NODE.size
            value_at = key_at + key_bytes
            value = data[value_at : value_at + (low | high << 16)]
            if node_flags & _BIG:
                value = _big_value(file, meta, pages, value, low | high << 16)
            yield _NUMBER.unpack_from(data, key_at)[0], _numbers(value)


def _page(file: BinaryIO, meta: _MetaPage, pages: int, number: int) -> bytes:
    if number >= pages:
        raise Unsound(
            f"damaged: the file ends before page {number}, which is in use; restore it from a "
            "snapshot"
        )
    file.seek(number * meta.page_bytes)
    return file.read(meta.page_bytes)


def _big_value(file: BinaryIO, meta: _MetaPage, pages: int, node: bytes, size: int) -> bytes:
    (number,) = _NUMBER.unpack_from(node.ljust(_NUMBER.size, b"\xff"))
    _page(file, meta, pages, number + (_HEAD_BYTES + size - 1) // meta.page_bytes)
    file.seek(number * meta.page_bytes + _HEAD_BYTES)
    return file.read(size)


def _numbers(value: bytes) -> tuple[int, ...]:
    count = _NUMBER.unpack_from(value)[0] if len(value) >= _NUMBER.size else 0
    if len(value) != (count + 1) * _NUMBER.size:
        raise Unsound("the list of free pages is damaged; restore it from a snapshot")
    return struct.unpack_from(f"<{count}Q", value, _NUMBER.size)
