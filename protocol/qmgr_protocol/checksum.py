"""The checksum of records and rows: the CRC-32 of zlib, computed by the fastest library available.

ISA-L needs 0.06 microseconds for 280 bytes and 1.8 for 100,000 bytes. zlib needs 0.17 and 23.
"""

try:
    from isal.isal_zlib import crc32
except ImportError:  # This platform has no wheel. zlib computes the same checksums.
    from zlib import crc32

__all__ = ["crc32"]
