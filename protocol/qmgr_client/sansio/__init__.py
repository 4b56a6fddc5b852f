"""The client without I/O: it accepts bytes and calls, and returns bytes and events."""
