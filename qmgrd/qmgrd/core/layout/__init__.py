"""Rows of the store: keys, values, checksums, counters, clocks."""
