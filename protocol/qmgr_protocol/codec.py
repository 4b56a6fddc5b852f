"""Values to msgpack bytes and back, with every limit of the decoder set.

The only module that imports msgpack. A record inside a frame stays an opaque byte string: nothing
here, nor in the daemon, unpacks msgpack per message.
"""

from typing import Any, NoReturn

import msgpack

from qmgr_protocol.errors import FrameMalformed

ARRAY_LENGTH_MAX = 20_000
MAP_LENGTH_MAX = 1_024

_packer = msgpack.Packer(use_bin_type=True, autoreset=True)
pack = _packer.pack


def _refuse_ext(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code} is not used")


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a map names a key twice")
    return found


def unpack(data: bytes | memoryview) -> Any:
    """Return the one value that *data* holds.

    Raises:
        FrameMalformed: not exactly one msgpack value, too many elements, an extension type, a map
            with a repeated key or a key that is neither text nor bytes, or text that is not UTF-8.
    """
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_array_len=ARRAY_LENGTH_MAX,
            max_map_len=MAP_LENGTH_MAX,
            ext_hook=_refuse_ext,
            object_pairs_hook=_unique,
        )
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise FrameMalformed(f"not a valid msgpack value: {error or type(error).__name__}") from error
