"""A fuzzer that sends damaged, hostile and random input: `python -m tests.fuzz --count N`."""
