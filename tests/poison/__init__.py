"""Stores with impossible rows: a queue manager starts from each of them, and serves."""
