"""Puts of clients and publications, on their way to the queues."""
