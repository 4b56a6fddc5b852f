"""The tests of qmgrd. They are a package, so that `python -m tests.sim.run` works from the root."""
