"""Commands that put, get and browse messages."""
