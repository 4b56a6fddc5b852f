"""Stores whose rows say what cannot be: a queue manager starts from each of them, and serves."""
