"""Snapshots: consistent copies of the store, made while the daemon runs."""
