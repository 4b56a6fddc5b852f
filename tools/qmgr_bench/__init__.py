"""The benchmark: one load engine, a driver for each server, and ``qmctl bench``."""
