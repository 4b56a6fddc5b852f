"""The rows without peers: each measures next to its own reference, in turns."""
