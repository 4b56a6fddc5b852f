"""Contexts: named addresses of queue managers."""
