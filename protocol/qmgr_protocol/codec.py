"""Converts values to msgpack bytes and back, with every limit of the decoder set.

No other module imports msgpack. A record inside a frame stays an opaque byte string: neither this
module nor the daemon unpacks msgpack for each message.

Hostile bytes could attack the decoder in two ways:

1. An array may claim more elements than follow, and the decoder reserves memory for the claim. A
   thousand nested claims fit into 3 KB, reserve 160 MB and cost 60 ms. Therefore, the module first
   walks through a value without building anything, and decodes only a complete value. Data of up to
   SMALL_BYTES skips the walk (0.7 microseconds), because its claims are too small to do harm.
2. A complete value of 8 MB may hold eight million empty arrays, which take 540 MB and 2.3 s.
   Therefore, the decoder adds up the memory of arrays and maps, and fails beyond BUILT_MAX_BYTES.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import msgpack

from qmgr_protocol.errors import FrameMalformed

LENGTH_MAX = 20_000  # maximum number of elements of an array, or of entries of a map
SMALL_BYTES = 512
BUILT_MAX_BYTES = 6 * 1024 * 1024
CONTAINER_BYTES, ELEMENT_BYTES = 64, 8  # cost of an array or a map, and of each element

_packer = msgpack.Packer(use_bin_type=True, autoreset=True)
pack = _packer.pack


def unpack(data: bytes | bytearray | memoryview, built_max_bytes: int = 0) -> Any:
    """Returns the only value in *data*.

    Args:
        data: The encoded value.
        built_max_bytes: The limit for arrays and maps in memory; 0 for BUILT_MAX_BYTES.

    Raises:
        FrameMalformed: *data* is not exactly one msgpack value or has too many elements. *data*
            contains an extension type, text that is not UTF-8, or a map with a repeated key or a
            key that is neither text nor bytes.
    """
    try:
        # The length of the data limits the size of arrays and maps.
        if len(data) <= SMALL_BYTES and not built_max_bytes:
            return msgpack.unpackb(
                data, max_ext_len=0, ext_hook=_refuse_ext, object_pairs_hook=_unique
            )
        _walk(data)
        on_array, on_map = _budget(built_max_bytes or BUILT_MAX_BYTES)
        return msgpack.unpackb(
            data,
            strict_map_key=True,
            max_array_len=LENGTH_MAX,
            max_map_len=LENGTH_MAX,
            max_ext_len=0,
            ext_hook=_refuse_ext,
            list_hook=on_array,
            object_pairs_hook=on_map,
        )
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        why = str(error) or type(error).__name__
        raise FrameMalformed(f"not a valid msgpack value: {why}") from error


def _walk(data: bytes | bytearray | memoryview) -> None:
    """Raises OutOfData, FormatError or StackError unless *data* starts with a complete value."""
    walker = msgpack.Unpacker(max_buffer_size=len(data), read_size=1)
    walker.feed(data)
    walker.skip()


def _budget(
    max_bytes: int,
) -> tuple[Callable[[list[Any]], list[Any]], Callable[[list[Any]], dict[Any, Any]]]:
    """Returns hooks that raise an error once arrays and maps use more than *max_bytes*."""
    left_bytes = max_bytes

    def spend(elements: int) -> None:
        nonlocal left_bytes
        left_bytes -= CONTAINER_BYTES + ELEMENT_BYTES * elements
        if left_bytes < 0:
            raise ValueError(f"arrays and maps use more than {max_bytes} bytes")

    def on_array(found: list[Any]) -> list[Any]:
        spend(len(found))
        return found

    def on_map(pairs: list[Any]) -> dict[Any, Any]:
        spend(2 * len(pairs))
        return _unique(pairs)

    return on_array, on_map


def _refuse_ext(code: int, data: bytes) -> NoReturn:
    del data
    raise ValueError(f"extension type {code} is not supported")


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a map contains a key twice")
    return found


_TEXT_HEADS = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])  # first bytes of encoded texts


def text_under(data: bytes, key: str) -> str | None:
    """Returns the first text under *key* in the map *data*, without building any other value.

    The remaining values are not checked. Returns None for a map without such a text.

    Raises:
        FrameMalformed: *data* is not a complete map with at most LENGTH_MAX entries.
    """
    ending = key.encode()
    try:
        walker = msgpack.Unpacker(max_buffer_size=len(data), read_size=1)
        walker.feed(data)
        entries = walker.read_map_header()
        if entries > LENGTH_MAX:
            raise ValueError(f"{entries} entries exceed the limit of {LENGTH_MAX}")
        for _ in range(entries):
            key_at = walker.tell()
            walker.skip()
            value_at = walker.tell()
            walker.skip()
            if data[key_at] in _TEXT_HEADS and data.endswith(ending, key_at, value_at):
                value = data[value_at : walker.tell()]
                # The key may only end like *key*, with its length before.
                if unpack(data[key_at:value_at]) == key and value[0] in _TEXT_HEADS:
                    return str(unpack(value))
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        why = str(error) or type(error).__name__
        raise FrameMalformed(f"not a valid map: {why}") from error
    return None
