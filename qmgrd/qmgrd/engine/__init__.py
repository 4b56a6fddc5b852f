"""The server that keeps the journals of queue managers: PostgreSQL, or one that acts like it.

Only this package knows SQL. It sees the contents of records and bases as bytes.
"""
