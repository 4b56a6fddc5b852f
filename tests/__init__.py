"""The tests of qmgrd. A package, so `python -m tests.sim.run` works from the root."""
