"""Counts the records of TLS, so that records without data cannot hold the event loop.

OpenSSL processes a change of keys in 40 microseconds, and 27 bytes request one. It does not limit
their number. The length of each record is not encrypted, so this module can count the records, and
give OpenSSL only a few at a time.
"""

import struct
from collections.abc import Iterator

_HEADER = struct.Struct(">3xH")  # type, version, and the length of the rest
# Records of a handshake. A handshake needs about ten, or more if they are small (RFC 8449).
HANDSHAKE_RECORDS_MAX = 256
SLICE_RECORDS = 32  # records that are decrypted before their data is counted
# Records without data that a peer may send, in all, and further ones for each amount of data.
# A change of keys is due after terabytes.
EMPTY_MAX = 32
EMPTY_EVERY_BYTES = 1024 * 1024


class TlsRecords:
    """The records that a peer sends.

    Invariant: ``_left`` is the number of bytes up to the end of the present record, or 0 while its
        header, whose first bytes are ``_header``, is incomplete.
    """

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._handshake_records = 0  # complete records of the handshake
        self._records = 0  # complete records after the handshake
        self._with_data = 0  # of these, the records with data
        self._data_bytes = 0

    def skip(self, data: bytes) -> bool:
        """Follows the records of the handshake. Returns whether the peer keeps the limit.

        Above the limit, the rest of *data* is not examined: it may be full of empty records.
        """
        for _ in self.slices(data):
            self._handshake_records += self._records
            self._records = 0
            if self._handshake_records > HANDSHAKE_RECORDS_MAX:
                return False
        return True

    def slices(self, data: bytes) -> Iterator[bytes]:
        """Yields *data* in slices with the ends of at most SLICE_RECORDS records, at least once."""
        begin = at = found = 0
        while at < len(data):
            if not self._left:
                needed = _HEADER.size - len(self._header)
                self._header += data[at : at + needed]
                at += needed
                if len(self._header) < _HEADER.size:
                    break
                self._left = _HEADER.unpack(self._header)[0]
                self._header = b""
            step = min(self._left, len(data) - at)
            at += step
            self._left -= step
            if not self._left:
                self._records += 1
                found += 1
                if found == SLICE_RECORDS:
                    yield data[begin:at]
                    begin, found = at, 0
        if begin < len(data) or not data:
            yield data[begin:]

    def carried(self, records: int, size_bytes: int) -> bool:
        """Adds the *records* with data of a slice. Returns whether the peer keeps the limit."""
        self._with_data += records
        self._data_bytes += size_bytes
        empty = self._records - self._with_data
        return empty <= EMPTY_MAX + self._data_bytes // EMPTY_EVERY_BYTES
