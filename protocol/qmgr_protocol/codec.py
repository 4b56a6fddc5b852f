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

A queue manager reads frames of clients with lower limits, because a frame must not delay other
clients: the arrays and maps of a short frame are limited to REQUEST_BUILT_MAX_BYTES, and a long
frame must be flat. Only puts, acknowledgements and lists of names are long, and all are flat.
Frames of links are not flat, because a put may have properties for each of its records. They are
limited to LINK_BUILT_MAX_BYTES.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, NoReturn

import msgpack

from qmgr_protocol.errors import FrameMalformed

LENGTH_MAX = 20_000  # maximum number of elements of an array, or of entries of a map
SMALL_BYTES = 512
BUILT_MAX_BYTES = 6 * 1024 * 1024
# The same limit for a frame between two queue managers, which then takes about 20 ms. A put of
# 10,000 records, 2,000 of them with properties, needs 464,000 bytes.
LINK_BUILT_MAX_BYTES = 512 * 1024
CONTAINER_BYTES, ELEMENT_BYTES = 64, 8  # cost of an array or a map, and of each element
# The same values for a frame of a client. An array of a request costs time rather than memory.
REQUEST_BUILT_MAX_BYTES, REQUEST_CONTAINER_BYTES = 256 * 1024, 2 * 1024
FLAT_BYTES = 64 * 1024  # A longer frame of a client must be flat.
FLAT_ELEMENTS_MAX = LENGTH_MAX + 1_000  # maximum number of elements of a flat frame

_packer = msgpack.Packer(use_bin_type=True, autoreset=True)
pack = _packer.pack


def unpack(
    data: bytes | bytearray | memoryview, built_max_bytes: int = 0, *, is_request: bool = False
) -> Any:
    """Returns the only value in *data*.

    Args:
        data: The encoded value.
        built_max_bytes: The limit for arrays and maps in memory; 0 for BUILT_MAX_BYTES.
        is_request: Whether the value is a frame from a client, which has lower limits. Reading such
            a frame takes some milliseconds at most.

    Raises:
        FrameMalformed: *data* is not exactly one msgpack value or has too many elements. *data*
            contains an extension type, text that is not UTF-8, or a map with a repeated key or a
            key that is neither text nor bytes. A request of more than FLAT_BYTES has elements that
            are neither plain values nor arrays of plain values.
    """
    try:
        # The length of the data limits the size of arrays and maps.
        if len(data) <= SMALL_BYTES and not built_max_bytes:
            return msgpack.unpackb(
                data, max_ext_len=0, ext_hook=_refuse_ext, object_pairs_hook=_unique
            )
        if built_max_bytes or not is_request:
            return _unpack_long(data, built_max_bytes or BUILT_MAX_BYTES, CONTAINER_BYTES)
        if len(data) <= FLAT_BYTES:
            return _unpack_long(data, REQUEST_BUILT_MAX_BYTES, REQUEST_CONTAINER_BYTES)
        return _unpack_flat(data)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        why = str(error) or type(error).__name__
        if is_request and len(data) > FLAT_BYTES:
            why = f"a frame of more than {FLAT_BYTES} bytes has only arrays of plain values: {why}"
        raise FrameMalformed(f"not a valid msgpack value: {why}") from error


def _unpack_long(
    data: bytes | bytearray | memoryview, built_max_bytes: int, container_bytes: int
) -> Any:
    """Returns the value in *data*, whose arrays and maps may use *built_max_bytes*."""
    _walk(data)
    on_array, on_map = _budget(built_max_bytes, container_bytes)
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


def _unpack_flat(data: bytes | bytearray | memoryview) -> list[Any]:
    """Returns the array in *data*, whose elements are plain values, or arrays of plain values.

    Arrays grow with the elements that are found, so a wrong claim costs nothing.
    """
    unpacker = msgpack.Unpacker(
        max_buffer_size=len(data),
        max_array_len=0,  # read_array_header ignores this limit
        max_map_len=0,
        max_ext_len=0,
        ext_hook=_refuse_ext,
    )
    unpacker.feed(data)
    count = elements = unpacker.read_array_header()
    array: list[Any] = []
    while elements <= FLAT_ELEMENTS_MAX and len(array) < count:
        if (at := unpacker.tell()) == len(data):
            raise ValueError("the frame is shorter than its array")
        if data[at] & 0xF0 == 0x90 or data[at] in (0xDC, 0xDD):  # an array
            length = unpacker.read_array_header()
            array.append(found := list(islice(unpacker, min(length, LENGTH_MAX))))
            if len(found) < length:
                raise ValueError(f"an array is incomplete, or longer than {LENGTH_MAX}")
            elements += length
        else:
            array.append(unpacker.unpack())
    if elements > FLAT_ELEMENTS_MAX:
        raise ValueError(f"it has {elements} elements (the limit is {FLAT_ELEMENTS_MAX})")
    if unpacker.tell() != len(data):
        raise ValueError("bytes follow the array")
    return array


def _walk(data: bytes | bytearray | memoryview) -> None:
    """Raises OutOfData, FormatError or StackError unless *data* starts with a complete value."""
    walker = msgpack.Unpacker(max_buffer_size=len(data), read_size=1)
    walker.feed(data)
    walker.skip()


def _budget(
    built_max_bytes: int, container_bytes: int
) -> tuple[Callable[[list[Any]], list[Any]], Callable[[list[Any]], dict[Any, Any]]]:
    """Returns hooks that raise an error once arrays and maps use more than *built_max_bytes*."""
    left_bytes = built_max_bytes

    def spend(elements: int) -> None:
        nonlocal left_bytes
        left_bytes -= container_bytes + ELEMENT_BYTES * elements
        if left_bytes < 0:
            raise ValueError(f"arrays and maps use more than {built_max_bytes} bytes")

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
