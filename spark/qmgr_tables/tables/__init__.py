"""The tables: one module for each."""
