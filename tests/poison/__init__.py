"""Stores with impossible rows, from each of which a queue manager starts and serves."""
