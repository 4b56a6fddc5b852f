"""Limits of one turn: time, rows, bytes; and of the store."""
