"""The tests of qmgrd. A package, so that `python -m tests.sim.run` finds it from the root."""
