"""The benchmark: one load engine, a module for each server, and ``qmctl bench``."""
