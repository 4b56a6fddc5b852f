"""The tests of qmgrd, as a package, so `python -m tests.sim.run` works from the root."""
