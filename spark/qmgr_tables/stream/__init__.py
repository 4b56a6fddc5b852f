"""Streams of rows from snapshots and from running queue managers."""
