"""The client without I/O: takes bytes and calls, returns bytes and events."""
