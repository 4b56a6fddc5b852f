"""The checksum of records and rows: CRC-32 as of zlib, by whichever library here is the fastest.

ISA-L takes 0.06 microseconds for 280 bytes and 1.8 for 100,000, zlib 0.17 and 23.
"""

try:
    from isal.isal_zlib import crc32
except ImportError:  # No wheel for this platform: the same sums, only later.
    from zlib import crc32

__all__ = ["crc32"]
