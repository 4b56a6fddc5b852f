"""Verifies a store: finds every row that contradicts another row."""
