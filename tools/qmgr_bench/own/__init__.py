"""The rows that no peer is asked for: each measures beside its own reference, in turns."""
