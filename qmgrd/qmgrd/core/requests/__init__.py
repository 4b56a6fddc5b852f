"""Requests of administrators, and the table that leads each message to its handler."""
