"""Looks at a data file before LMDB maps it: a truncated file would kill the process by SIGBUS."""

import struct
from pathlib import Path

# MDB_meta of format 1 on 64-bit machines, behind a page head of 16 bytes: magic, version, address,
# map size, two databases of 48 bytes, last page, transaction id. The page size is the first
# database's pad field.
_HEAD = struct.Struct("<IIQQI")
_TAIL = struct.Struct("<QQ")
_MAGIC = 0xBEEFC0DE
_FORMAT = 1
_PAGE_HEAD = 16
_TAIL_AT = _PAGE_HEAD + 24 + 96


class StoreUnreadable(Exception):
    """A store that is foreign, newer or damaged. It was not touched."""


def check_data_file(path: Path) -> None:
    """Return if LMDB may map *path*.

    Raises:
        StoreUnreadable: it is missing, no LMDB file, of another format, or cut short.
    """
    try:
        with path.open("rb") as file:
            first = file.read(4096)
            size = file.seek(0, 2)
            page, last_page = _meta(path, first)
            file.seek(page)
            second = file.read(4096)
    except OSError as error:
        raise StoreUnreadable(f"{path}: {error.strerror}") from error
    if len(second) >= _TAIL_AT + 16:
        page, last_page_second = _meta(path, second)
        newest = max((_tail(first), _tail(second)), key=lambda tail: tail[1])
        last_page = newest[0] if newest[1] else max(last_page, last_page_second)
    if (last_page + 1) * page > size:
        raise StoreUnreadable(
            f"{path}: damaged: {size} bytes, but its pages reach to {(last_page + 1) * page}; "
            "restore it from a snapshot, the file was not touched"
        )


def _meta(path: Path, data: bytes) -> tuple[int, int]:
    if len(data) < _TAIL_AT + 16:
        raise StoreUnreadable(f"{path}: damaged: only {len(data)} bytes; it was not touched")
    magic, version, _, _, page = _HEAD.unpack_from(data, _PAGE_HEAD)
    if magic != _MAGIC:
        raise StoreUnreadable(f"{path}: not a qmgrd store: no LMDB file; it was not touched")
    if version != _FORMAT:
        raise StoreUnreadable(
            f"{path}: LMDB format {version}, only {_FORMAT} is read here; it was not touched"
        )
    if page not in (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536):
        raise StoreUnreadable(f"{path}: damaged: a page size of {page}; it was not touched")
    return page, _tail(data)[0]


def _tail(data: bytes) -> tuple[int, int]:
    last_page, transaction = _TAIL.unpack_from(data, _TAIL_AT)
    return last_page, transaction
