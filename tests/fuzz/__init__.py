"""The fuzzer: damaged, hostile and random input, in process: `python -m tests.fuzz --count N`."""
