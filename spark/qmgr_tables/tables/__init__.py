"""The tables. Each table has a module."""
